package runner

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/engine/nodes"
	"legwork/internal/node"
	"legwork/internal/runbook"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// nodeCommand is an Item that runs a text on every Node.
func nodeCommand(name, text string) runbook.Item {
	return runbook.Item{Name: name, Kind: runbook.CommandItem, Step: catalog.RunbookStep{Name: name, Each: catalog.EachNode, Command: text}}
}

// partSpec is a Part with n Nodes that are this host, and a Round for every Item.
func partSpec(n int, items ...runbook.Item) *work.Spec {
	spec := &work.Spec{Module: "prod/deploy", StackName: "prod", Number: 42, Engine: "runbook", Run: &work.RunSpec{
		Parent: "job-parent", Part: 1, Items: items, Scopes: []runbook.Scope{{Values: map[string]any{}}}, Nodes: map[int]node.Node{},
		Strategy: catalog.NodeFirst, Concurrency: 2, OnFailure: catalog.StopOnFailure,
	}}
	for i := range n {
		spec.Run.Nodes[i] = node.Node{Name: "node-" + strconv.Itoa(i), Connection: node.Local}
	}
	for _, item := range items {
		spec.Steps, spec.Changing = append(spec.Steps, work.StepRound), append(spec.Changing, !item.Step.Repeatable)
	}
	return spec
}

// round sends a Part's Step.
func (s *fakeServer) round(ref wire.Ref, spec *work.Spec, index int) {
	s.t.Helper()
	m := &wire.RunStep{Ref: ref, Step: index, Watch: true, Round: &work.Round{Index: index, First: index, End: index + 1}}
	for n := range len(spec.Run.Nodes) {
		m.Round.Nodes = append(m.Round.Nodes, n)
	}
	if index == 0 {
		s.know(ref, spec)
		m.Spec = spec
	}
	s.send(m)
}

// events are the last NodeEvents of a Step.
func (s *fakeServer) events(ref wire.Ref, step int) map[int]work.NodeEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := map[int]work.NodeEvent{}
	for _, r := range s.jobs[ref].logs[step] {
		var e work.NodeEvent
		if r.Stream == work.Progress && json.Unmarshal(r.Data, &e) == nil {
			events[e.Node] = e
		}
	}
	return events
}

func (s *fakeServer) through(t *testing.T, ref wire.Ref, step, nodes int) work.StepResult {
	t.Helper()
	got := s.result(ref, step)
	if got.Status != work.StepSucceeded || got.Round == nil || got.Round.Succeeded != nodes || len(got.Round.Bad) > 0 {
		t.Fatalf("got %+v %+v %+v\n%s", got, got.Failure, got.Round, s.text(ref, step))
	}
	return got
}

func TestPart(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	start(t, cfg)
	first := nodeCommand("first", `echo "hello from $NODE_NAME"; echo "$NODE_NAME" > "$LEGWORK_JOB_DIR/$NODE_NAME"; echo "id=7$NODE_NAME" > "$LEGWORK_OUTPUT"; echo "it is ${secret.token}"`)
	second := nodeCommand("second", `cat "$LEGWORK_JOB_DIR/$NODE_NAME"; echo ${step.first.id}; echo "leaks=$(env | grep -c LEGWORK_SECRET)"`)
	file := runbook.Item{Name: "file", Kind: runbook.ScriptItem, Step: catalog.RunbookStep{Name: "file", Each: catalog.EachRunner, Script: &catalog.StepScript{File: "hi.sh", Args: []string{"a b"}}}}
	spec := partSpec(3, first, second, file)
	spec.Source = catalog.Source{Type: catalog.Inline, Files: map[string]string{"hi.sh": "echo \"file says $1\"\n"}}
	spec.Inputs = []work.InputValue{{Name: "token", Kind: catalog.Env, Value: []byte(`"hush-hush"`), Sensitive: true}}
	job := ref("job-1", 1)
	for i := range 3 {
		s.round(job, spec, i)
		if i == 2 {
			s.wait("the last Round", func() bool { return s.jobs[job].times[2] > 0 })
			break
		}
		s.through(t, job, i, 3)
	}
	if got := s.text(job, 0, work.Stdout); strings.Count(got, "it is ***") != 3 || strings.Contains(got, "hush") {
		t.Errorf("the log says %q", got)
	}
	if got := s.text(job, 1, work.Stdout); !strings.Contains(got, "node-2\n") || !strings.Contains(got, "7node-2\n") || strings.Count(got, "leaks=0\n") != 3 {
		t.Errorf("the log says %q", got)
	}
	if got := s.text(job, 2, work.Stdout); got != "file says a b\n" {
		t.Errorf("the log says %q: %+v", got, s.result(job, 2))
	}
	if e := s.events(job, 0)[2]; e.Status != work.NodeSucceeded || e.Values["id"] != "7node-2" || e.Item != 0 {
		t.Errorf("got %+v", e)
	}
	if hello := s.hellos[0]; hello.Engines["runbook"] != "1" {
		t.Errorf("hello says %v", hello.Engines)
	}
	noSecret(t, cfg.WorkingDirectory, "hush-hush")
	s.send(&wire.Drop{Ref: job})
	eventually(t, "the folder of the Part is removed", func() bool { return !exists(filepath.Join(cfg.WorkingDirectory, "jobs", "job-1.1")) })
}

// TestPartTellsItsCommit: what is fetched for a Part is told before anything of it is over, and again by the next process of its Runner.
func TestPartTellsItsCommit(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	repository, gate := t.TempDir(), filepath.Join(t.TempDir(), "gate")
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Dir = repository
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v", out, err)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main")
	git("commit", "-q", "--allow-empty", "-m", "one")
	want := git("rev-parse", "HEAD")
	spec, job := partSpec(1, nodeCommand("one", "echo began; until test -e "+gate+"; do sleep 0.05; done"), nodeCommand("two", "true")), ref("job-1", 1)
	spec.Source = catalog.Source{Type: catalog.Git, URL: "file://" + repository}
	told := func(since int) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.got[since:], func(m wire.Message) bool {
			e, is := m.(*wire.StepStarted)
			return is && e.Commit == want && e.Step == 0 && !e.At.IsZero()
		})
	}
	runner := startProcess(t, cfg)
	s.round(job, spec, 0)
	s.sees(job, 0, "began")
	if !told(0) {
		t.Error("the commit was not told before the Round")
	}
	git("commit", "-q", "--allow-empty", "-m", "two")
	kill(runner)
	s.mu.Lock()
	before := len(s.got)
	s.mu.Unlock()
	startProcess(t, cfg)
	eventually(t, "the commit is told again", func() bool { return told(before) })
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := s.through(t, job, 0, 1); got.Commit != want {
		t.Errorf("the Round took %q", got.Commit)
	}
	s.round(job, spec, 1)
	if got := s.through(t, job, 1, 1); got.Commit != "" {
		t.Errorf("the second Round fetched %q", got.Commit)
	}
}

// TestPartGoesOnAfterItsRunner kills the Runner in both Rounds: every pair is done once.
func TestPartGoesOnAfterItsRunner(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	marks := filepath.Join(t.TempDir(), "marks")
	text := func(round int) string {
		return fmt.Sprintf(`echo "%d $NODE_NAME" >> %s; echo "began $NODE_NAME"; sleep 0.5; echo "ended $NODE_NAME"`, round, marks)
	}
	spec, job := partSpec(4, nodeCommand("one", text(1)), nodeCommand("two", text(2))), ref("job-1", 1)
	runner := startProcess(t, cfg)
	for i := range 2 {
		s.round(job, spec, i)
		s.sees(job, i, "began")
		kill(runner)
		runner = startProcess(t, cfg)
		s.through(t, job, i, 4)
		if got := s.text(job, i, work.Stdout); strings.Count(got, "ended") != 4 {
			t.Errorf("the log says %q", got)
		}
	}
	data, err := os.ReadFile(marks)
	if lines := strings.Fields(strings.ReplaceAll(string(data), " ", "-")); err != nil || len(lines) != 8 {
		t.Errorf("got %q %v", data, err)
	}
}

// TestExecutorIsStartedAgain kills the executor: what it had begun is done again where that is allowed.
func TestExecutorIsStartedAgain(t *testing.T) {
	for _, repeatable := range []bool{true, false} {
		t.Run(fmt.Sprint("repeatable ", repeatable), func(t *testing.T) {
			s := newServer(t)
			cfg := testConfig(t, s)
			r := start(t, cfg)
			mark := filepath.Join(t.TempDir(), "mark")
			item := nodeCommand("one", fmt.Sprintf(`echo "began $NODE_NAME"; test "$NODE_NAME" != node-1 || test -e %[1]s || { touch %[1]s; sleep 60; }`, mark))
			item.Step.Repeatable = repeatable
			spec, job := partSpec(3, item), ref("job-1", 1)
			spec.Run.OnFailure = catalog.ContinueOnFailure
			s.round(job, spec, 0)
			eventually(t, "the others are over, and one hangs", func() bool {
				e := s.events(job, 0)
				return e[0].Status == work.NodeSucceeded && e[2].Status == work.NodeSucceeded && exists(mark)
			})
			kept, err := r.Runner.keeper.List(t.Context())
			if err != nil || len(kept) != 1 {
				t.Fatalf("kept %+v %v", kept, err)
			}
			if err := syscall.Kill(kept[0].Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			got := s.result(job, 0)
			if got.Status != work.StepSucceeded || got.Round == nil {
				t.Fatalf("got %+v %+v\n%s", got, got.Failure, s.text(job, 0))
			}
			if !strings.Contains(s.text(job, 0, work.System), "another one goes on") {
				t.Errorf("the log says %q", s.text(job, 0))
			}
			want := work.NodeUnknown
			if repeatable {
				want = work.NodeSucceeded
			}
			if e := s.events(job, 0); e[0].Status != work.NodeSucceeded || e[1].Status != want || e[2].Status != work.NodeSucceeded {
				t.Errorf("got %+v", e)
			}
			if n := strings.Count(s.text(job, 0, work.Stdout), "began node-0"); n != 1 {
				t.Errorf("node-0 was done %d times", n)
			}
		})
	}
}

func TestPartIsCanceled(t *testing.T) {
	for _, c := range []struct {
		mode   work.CancelMode
		status work.StepStatus
		first  work.NodeStatus
	}{
		{work.Graceful, work.StepCanceled, work.NodeCanceled},
		{work.Kill, work.StepCanceled, work.NodeCanceled},
		{work.AfterCurrent, work.StepCanceled, work.NodeSucceeded},
	} {
		t.Run(string(c.mode), func(t *testing.T) {
			s := newServer(t)
			cfg := testConfig(t, s)
			start(t, cfg)
			gate := filepath.Join(t.TempDir(), "gate")
			spec, job := partSpec(3, nodeCommand("one", fmt.Sprintf(`echo "began $NODE_NAME"; while ! test -e %s; do sleep 0.05; done`, gate))), ref("job-1", 1)
			spec.Run.Concurrency = 1
			s.round(job, spec, 0)
			s.sees(job, 0, "began node-0")
			s.send(&wire.Cancel{Ref: job, Mode: c.mode})
			if c.mode == work.AfterCurrent {
				round := filepath.Join(cfg.WorkingDirectory, "jobs", "job-1.1", "00-round.json")
				eventually(t, "the executor is asked to stop", func() bool { return exists(nodes.StopPath(round)) })
				if err := os.WriteFile(gate, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := s.result(job, 0)
			if got.Status != c.status || got.Round == nil || got.Round.NotRun != 2 {
				t.Fatalf("got %+v %+v\n%s", got, got.Round, s.text(job, 0))
			}
			if e := s.events(job, 0); e[0].Status != c.first || e[2].Status != work.NodeNotRun {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestPolicyOfParts(t *testing.T) {
	command, ansible := nodeCommand("one", "true"), nodeCommand("play", "")
	ansible.Kind, ansible.Step.Ansible = runbook.AnsibleItem, &catalog.AnsibleStep{Playbook: "site.yml"}
	script := nodeCommand("script", "")
	script.Kind, script.Step.Script = runbook.ScriptItem, &catalog.StepScript{File: "a.py", Interpreter: []string{"python3"}}
	handled := script
	handled.Step.OnError = &catalog.ErrorHandler{Command: "rm -rf /"}
	copied, copiedText := nodeCommand("file", ""), nodeCommand("text", "")
	copied.Kind, copied.Step.Copy = runbook.CopyItem, &catalog.CopyStep{Src: "a", Dest: "/a"}
	copiedText.Kind, copiedText.Step.Copy = runbook.CopyItem, &catalog.CopyStep{Content: new(string), Dest: "/a"}
	for _, c := range []struct {
		name   string
		policy Policy
		item   runbook.Item
		rule   string // "" lets it through
	}{
		{"all", Policy{}, command, ""},
		{"no runbooks", Policy{Engines: []catalog.Engine{catalog.Script, ansibleEngine}}, command, "AllowedEngines"},
		{"ansible alone", Policy{Engines: []catalog.Engine{ansibleEngine}}, ansible, ""},
		{"no ansible", Policy{Engines: []catalog.Engine{runbookEngine}}, ansible, "AllowedEngines"},
		{"no commands", Policy{NoInlineScripts: true}, command, "NoInlineScripts"},
		{"a file", Policy{NoInlineScripts: true}, script, ""},
		{"a handler", Policy{NoInlineScripts: true}, handled, "NoInlineScripts"},
		{"a copied file", Policy{NoInlineScripts: true}, copied, ""},
		{"a copied text", Policy{NoInlineScripts: true}, copiedText, "NoInlineScripts"},
		{"sh", Policy{Shells: []string{"sh"}}, command, ""},
		{"python", Policy{Shells: []string{"sh"}}, script, "AllowedShells"},
	} {
		err := c.policy.check(work.StepRound, partSpec(1, c.item))
		if (err == nil) != (c.rule == "") || err != nil && !strings.Contains(err.Error(), "Policy."+c.rule) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}
