package runner

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/wire"
	"legwork/internal/work"
)

func TestJob(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	start(t, cfg)
	spec := scriptSpec(`echo "run $LEGWORK_JOB_ID $LEGWORK_ATTEMPT $LEGWORK_MODULE $color"; echo "secret: $token"; cat data.txt; echo "$TMPDIR"; touch "$TMPDIR/left"; env | grep -ic client_secret || true; echo bad >&2`, false)
	spec.Inputs = []work.InputValue{{Name: "color", Kind: catalog.Env, Value: []byte(`"blue"`)}, {Name: "token", Kind: catalog.Env, Value: []byte(`"hush-hush"`), Sensitive: true}}
	spec.Hooks = []catalog.Hook{
		{Task: "run", Phase: catalog.Before, Script: "echo before one"}, {Task: "run", Phase: catalog.Before, Script: "echo before two", Shell: "sh"},
		{Task: "run", Phase: catalog.After, Script: "echo after"}, {Task: "apply", Phase: catalog.Before, Script: "echo never"},
	}
	job := ref("job-1", 1)
	s.begin(job, spec, 1)
	if got := s.result(job, 1); got.Status != work.StepSucceeded || got.StartedAt.IsZero() || got.FinishedAt.Before(got.StartedAt) {
		t.Fatalf("got %+v, %+v\n%s", got, got.Failure, s.text(job, 1))
	}
	temp := filepath.Join(cfg.TempDirectory, "1")
	want := "before one\nbefore two\nrun job-1 1 prod/network/vpc blue\nsecret: ***\ndata\n" + temp + "\n0\nafter\n"
	if got := s.text(job, 1, work.Stdout); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := s.text(job, 1, work.Stderr); got != "bad\n" {
		t.Errorf("got %q", got)
	}
	if n := count[*wire.StepStarted](s); n != 2 {
		t.Errorf("%d Steps started", n)
	}
	s.wait("a heartbeat that names the Job", func() bool {
		return len(s.beats) > 0 && reflect.DeepEqual(s.beats[len(s.beats)-1].Working, []wire.Ref{job})
	})
	noSecret(t, cfg.WorkingDirectory, "hush-hush")
	s.send(&wire.Drop{Ref: job})
	eventually(t, "the folders of the Job are removed", func() bool {
		return !exists(filepath.Join(cfg.WorkingDirectory, "jobs", "job-1.1")) && !exists(filepath.Join(temp, "left"))
	})
}

// noSecret looks for a secret in every file below dir.
func noSecret(t *testing.T, dir, secret string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // what went away meanwhile holds nothing
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), secret) {
			t.Errorf("the secret is in %s", path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFailures(t *testing.T) {
	s := newServer(t)
	start(t, testConfig(t, s))
	for i, c := range []struct {
		name   string
		change func(*work.Spec)
		step   int
		code   string
		log    string
	}{
		{"exit status", func(sp *work.Spec) { sp.Script.Run = "exit 3" }, 1, "script_failed", "run failed: "},
		{"signal", func(sp *work.Spec) { sp.Script.Run = "kill -9 $$" }, 1, "died_by_signal", "SIGKILL"},
		{"hook before", func(sp *work.Spec) { sp.Hooks[0].Script = "exit 9" }, 1, "hook_failed", "Hook before run"},
		{"hook after", func(sp *work.Spec) { sp.Hooks[1].Script = "exit 9" }, 1, "hook_failed", "Hook after run"},
		{"no such file", func(sp *work.Spec) { sp.Script = &catalog.ScriptSpec{File: "missing.sh"} }, 1, "script_file", "missing.sh"},
		{"stall", func(sp *work.Spec) { sp.Script.Run, sp.Stall = "sleep 60", 300*time.Millisecond }, 1, "step_stalled", "printed nothing"},
		{"bad source", func(sp *work.Spec) { sp.Source.Files = nil }, 0, "bad_source", "fetch failed: "},
		{"unknown engine", func(sp *work.Spec) { sp.Engine = "cobol" }, 1, "engine_missing", "cobol"},
		{"huge input", func(sp *work.Spec) {
			sp.Inputs = []work.InputValue{{Name: "x", Value: []byte(`"` + strings.Repeat("y", 200<<10) + `"`)}}
		}, 1, "bad_input", "at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := scriptSpec("true", false)
			spec.Hooks = []catalog.Hook{{Task: "run", Phase: catalog.Before, Script: "true"}, {Task: "run", Phase: catalog.After, Script: "true"}}
			c.change(spec)
			job := ref(fmt.Sprintf("job-%d", i), 1)
			s.begin(job, spec, c.step)
			got := s.result(job, c.step)
			if got.Status != work.StepFailed || got.Failure == nil || got.Failure.Code != c.code {
				t.Fatalf("got %+v %+v", got, got.Failure)
			}
			if got := s.text(job, c.step, work.System); !strings.Contains(got, c.log) {
				t.Errorf("log says %q", got)
			}
		})
	}
}

// TestFailureQuotesTheLog quotes the lines that a script printed last, masked like the log, and where they are in it. What
// a hook before it printed is not its cause.
func TestFailureQuotesTheLog(t *testing.T) {
	s := newServer(t)
	start(t, testConfig(t, s))
	spec := scriptSpec("exec >&2; echo one; echo boom: cannot reach db as $token; exit 42", false)
	spec.Hooks = []catalog.Hook{{Task: "run", Phase: catalog.Before, Script: "echo said by the hook"}}
	spec.Inputs = []work.InputValue{{Name: "token", Kind: catalog.Env, Value: []byte(`"hunter2-hunter2"`), Sensitive: true}}
	job := ref("job-1", 1)
	s.begin(job, spec, 1)
	got := s.result(job, 1)
	if got.Failure == nil || got.Failure.Excerpt == nil {
		t.Fatalf("got %+v, want a failure with an excerpt", got.Failure)
	}
	x := got.Failure.Excerpt
	if x.Attempt != 1 || x.Step != 1 || x.Seq != 2 || x.Summary != "" {
		t.Errorf("got %+v, want the second record of attempt 1 and step 1", x)
	}
	text := strings.Join(x.Lines, "\n")
	if !strings.HasPrefix(text, "one\nboom: cannot reach db as ") || strings.Contains(text, "hunter2") {
		t.Errorf("got the lines %q", text)
	}
	if want := "the script failed (exit status 42)"; got.Failure.Message != want {
		t.Errorf("got %q, want %q", got.Failure.Message, want)
	}
}

// TestStepTimeout: the timeout is each Step's own. It is given after the fetch, which may take its time here.
func TestStepTimeout(t *testing.T) {
	s := newServer(t)
	start(t, testConfig(t, s))
	job, spec := ref("job-1", 1), scriptSpec("sleep 60", false)
	s.begin(job, spec, 0)
	if got := s.result(job, 0); got.Status != work.StepSucceeded {
		t.Fatalf("fetch: %+v %+v", got, got.Failure)
	}
	timed := *spec
	timed.StepTimeout = 300 * time.Millisecond
	s.send(&wire.RunStep{Ref: job, Step: 1, Spec: &timed, Watch: true})
	got := s.result(job, 1)
	if got.Status != work.StepFailed || got.Failure == nil || got.Failure.Code != "step_timeout" {
		t.Fatalf("got %+v %+v", got, got.Failure)
	}
	if got := s.text(job, 1, work.System); !strings.Contains(got, "timeout") {
		t.Errorf("log says %q", got)
	}
}

func TestCancel(t *testing.T) {
	s := newServer(t)
	start(t, testConfig(t, s))
	const patient = `trap 'echo wrapping up; exit 0' INT; echo ready; while true; do sleep 0.05; done`
	for _, c := range []struct {
		name, script string
		mode         work.CancelMode
		want         work.StepStatus
	}{
		{"graceful", "echo ready; sleep 60", work.Graceful, work.StepCanceled},
		{"graceful, ends well", patient, work.Graceful, work.StepSucceeded},
		{"kill", patient, work.Kill, work.StepCanceled},
		{"after current", "echo ready; sleep 0.3", work.AfterCurrent, work.StepSucceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := ref(strings.NewReplacer(" ", "-", ",", "").Replace(c.name), 1)
			s.begin(job, scriptSpec(c.script, false), 1)
			s.sees(job, 1, "ready")
			s.send(&wire.Cancel{Ref: job, Mode: c.mode})
			if got := s.result(job, 1); got.Status != c.want {
				t.Fatalf("got %+v %+v", got, got.Failure)
			}
		})
	}
	t.Run("a Step that comes after a cancel does not begin", func(t *testing.T) {
		job := ref("late", 1)
		s.begin(job, scriptSpec("echo never", false), 0)
		s.result(job, 0)
		s.send(&wire.Cancel{Ref: job, Mode: work.Graceful})
		s.send(&wire.RunStep{Ref: job, Step: 1})
		if got := s.result(job, 1); got.Status != work.StepCanceled || strings.Contains(s.text(job, 1), "never") {
			t.Fatalf("got %+v", got)
		}
	})
	t.Run("in a Hook", func(t *testing.T) {
		job, spec := ref("hook", 1), scriptSpec("echo never", false)
		spec.Hooks = []catalog.Hook{{Task: "run", Phase: catalog.Before, Script: "echo ready; sleep 60"}}
		s.begin(job, spec, 1)
		s.sees(job, 1, "ready")
		s.send(&wire.Cancel{Ref: job, Mode: work.Graceful})
		if got := s.result(job, 1); got.Status != work.StepCanceled || strings.Contains(s.text(job, 1), "never") {
			t.Fatalf("got %+v", got)
		}
	})
}

// counting prints numbered lines for a while.
const counting = `for i in $(seq 1 400); do echo "line $i"; sleep 0.005; done`

func wantCounting(t *testing.T, s *fakeServer, job wire.Ref) {
	t.Helper()
	var want strings.Builder
	for i := range 400 {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	if got := s.text(job, 1, work.Stdout); got != want.String() {
		t.Errorf("the log is not what was printed: %d bytes, want %d", len(got), want.Len())
	}
}

func TestDisconnectLosesNothing(t *testing.T) {
	s := newServer(t)
	start(t, testConfig(t, s))
	job := ref("job-1", 1)
	gate := filepath.Join(t.TempDir(), "gate")
	s.begin(job, scriptSpec(counting+"; "+until(gate), false), 1)
	for i := range 3 {
		s.sees(job, 1, fmt.Sprintf("line %d\n", 50+100*i))
		sessions := s.sessions()
		s.cut()
		s.wait("the Runner comes back", func() bool { return len(s.hellos) > sessions })
	}
	touch(t, gate)
	if got := s.result(job, 1); got.Status != work.StepSucceeded {
		t.Fatalf("got %+v", got)
	}
	wantCounting(t, s, job)
	if hello := s.hellos[1]; len(hello.Journal) != 1 || hello.Journal[0] != (wire.Held{Ref: job, Step: 1, Running: true}) {
		t.Errorf("journal says %+v", hello.Journal)
	}
}

func TestResultIsSentUntilItIsAcked(t *testing.T) {
	s := newServer(t)
	r := start(t, testConfig(t, s))
	job := ref("job-1", 1)
	gate := filepath.Join(t.TempDir(), "gate")
	s.begin(job, scriptSpec("echo ready; "+until(gate), false), 1)
	s.sees(job, 1, "ready")
	s.mu.Lock()
	s.mute, s.holdAcks = true, true
	s.mu.Unlock()
	touch(t, gate)
	eventually(t, "the Step is over", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.jobs[job].steps[1].result != nil
	})
	s.mu.Lock()
	s.mute, s.holdAcks = false, false
	s.mu.Unlock()
	s.cut()
	if got := s.result(job, 1); got.Status != work.StepSucceeded {
		t.Fatalf("got %+v", got)
	}
	if n := s.jobs[job].times[1]; n != 1 {
		t.Errorf("%d results", n)
	}
}

func TestStepToldTwiceRunsOnce(t *testing.T) {
	s := newServer(t)
	start(t, testConfig(t, s))
	gate := filepath.Join(t.TempDir(), "gate")
	job, spec := ref("job-1", 1), scriptSpec("echo once; "+until(gate), false)
	s.begin(job, spec, 1)
	s.send(&wire.RunStep{Ref: job, Step: 1})
	s.send(&wire.RunStep{Ref: job, Step: 1, Spec: spec})
	s.send(&wire.Offer{Ref: ref("job-2", 1), Engine: "cobol"}) // whose answer says that the Runner has read what came before
	s.wait("all of it is read", func() bool { return tallied[*wire.Refuse](s) == 1 })
	touch(t, gate)
	s.result(job, 1)
	s.send(&wire.RunStep{Ref: job, Step: 1})
	s.wait("the result comes again", func() bool { return s.jobs[job].times[1] == 2 })
	if got := s.text(job, 1); got != "once\n" {
		t.Errorf("got %q", got)
	}
}

func TestRunStepOfUnknownJobIsRefused(t *testing.T) {
	s := newServer(t)
	start(t, testConfig(t, s))
	s.send(&wire.RunStep{Ref: ref("nobody", 1), Step: 0})
	s.wait("a refusal", func() bool {
		return len(s.got) > 0 && s.got[0].(*wire.Refuse).Code == refusedNoSpec
	})
}

func TestOffers(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	cfg.Capacity = 2
	r := start(t, cfg)
	answer := func(job, engine string) wire.Message {
		t.Helper()
		s.mu.Lock()
		n := len(s.got)
		s.mu.Unlock()
		s.send(&wire.Offer{Ref: ref(job, 1), Engine: engine})
		s.wait("an answer", func() bool { return len(s.got) > n })
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.got[n]
	}
	code := func(m wire.Message) string {
		if refused, ok := m.(*wire.Refuse); ok {
			return refused.Code
		}
		return ""
	}
	if got := code(answer("a", "script")); got != "" {
		t.Errorf("first: %s", got)
	}
	if got := code(answer("b", "script")); got != "" {
		t.Errorf("second: %s", got)
	}
	if got := code(answer("c", "script")); got != refusedBusy {
		t.Errorf("third: %q", got)
	}
	s.send(&wire.Withdrawn{Ref: ref("b", 1)})
	if got := code(answer("d", "script")); got != "" {
		t.Errorf("after one was withdrawn: %s", got)
	}
	if got := code(answer("e", "terraform")); got != refusedEngine {
		t.Errorf("missing engine: %q", got)
	}
	s.send(&wire.Withdrawn{Ref: ref("d", 1)})
	s.send(&wire.Drain{})
	if got := code(answer("f", "script")); got != refusedDraining {
		t.Errorf("resting: %q", got)
	}
	s.send(&wire.Drain{Resume: true})
	if got := code(answer("g", "script")); got != "" {
		t.Errorf("resumed: %q", got)
	}
	_ = r
}

func TestDrain(t *testing.T) {
	s := newServer(t)
	r := start(t, testConfig(t, s))
	job := ref("job-1", 1)
	gate := filepath.Join(t.TempDir(), "gate")
	s.begin(job, scriptSpec("echo ready; "+until(gate)+"; echo done", false), 1)
	s.sees(job, 1, "ready")
	r.Drain()
	s.send(&wire.Offer{Ref: ref("other", 1), Engine: "script"})
	s.wait("the Offer is refused", func() bool { return tallied[*wire.Refuse](s) == 1 })
	touch(t, gate)
	if err := <-r.done; err != nil {
		t.Fatal(err)
	}
	r.done <- nil
	if got := s.result(job, 1); got.Status != work.StepSucceeded || !strings.Contains(s.text(job, 1), "done") {
		t.Errorf("got %+v", got)
	}
	if count[*wire.Draining](s) != 1 || count[*wire.Accept](s) != 0 {
		t.Errorf("got %s", s.summary())
	}
}

func TestCancelAll(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	cfg.Grace.Interrupt = time.Hour // the kill alone ends it
	r := start(t, cfg)
	job := ref("job-1", 1)
	s.begin(job, scriptSpec("trap '' INT TERM; echo ready; sleep 60; sleep 60", false), 1)
	s.sees(job, 1, "ready")
	r.CancelAll(work.Graceful)
	beats := 0
	s.wait("the Runner stays while the command is being ended", func() bool {
		if beats == 0 {
			beats = len(s.beats)
		}
		return len(s.beats) > beats+5
	})
	if len(r.done) > 0 || s.has(job, 1) {
		t.Fatal("the Runner left before the command had ended")
	}
	r.CancelAll(work.Kill)
	if err := <-r.done; err != nil {
		t.Fatal(err)
	}
	r.done <- nil
	got := s.result(job, 1)
	if f := got.Failure; got.Status != work.StepCanceled || f.Code != "runner_stopped" || f.Message != "the Runner was stopped while run ran" || !strings.Contains(f.Hint, "what the script has done") {
		t.Errorf("got %+v %+v", got, got.Failure)
	}
	if log := s.text(job, 1, work.System); !strings.Contains(log, "the Runner was stopped") {
		t.Errorf("the log says %q", log)
	}
}

// TestNotice puts into the log what the Server says there is to know.
func TestNotice(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	var log syncBuffer
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	start(t, cfg)
	s.send(&wire.Notice{Text: "runner edge is disabled", Trouble: true})
	s.send(&wire.Notice{Text: "runner edge is enabled"})
	eventually(t, "both are in the log", func() bool {
		return strings.Contains(log.String(), `level=WARN msg="runner edge is disabled"`) && strings.Contains(log.String(), `level=INFO msg="runner edge is enabled"`)
	})
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestLeaveAndComeBack(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	job := ref("job-1", 1)
	r := start(t, cfg)
	s.begin(job, scriptSpec(counting, false), 1)
	s.sees(job, 1, "line 50\n")
	r.leave(t)
	start(t, cfg)
	if got := s.result(job, 1); got.Status != work.StepSucceeded {
		t.Fatalf("got %+v", got)
	}
	wantCounting(t, s, job)
}

func TestPreapproval(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	cfg.Approval = Approval{Enabled: true, Dir: t.TempDir()}
	start(t, cfg)
	spec := scriptSpec("echo approved", false)
	spec.Hooks = []catalog.Hook{{Task: "run", Phase: catalog.Before, Script: "echo hook"}}
	approve := func(name, text string) {
		if err := os.WriteFile(filepath.Join(cfg.Approval.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	try := func(job string) work.StepResult {
		s.begin(ref(job, 1), spec, 1)
		return s.result(ref(job, 1), 1)
	}
	if got := try("none"); got.Status != work.StepFailed || got.Failure.Code != "script_not_approved" || s.text(ref("none", 1), 1, work.Stdout) != "" {
		t.Errorf("nothing approved: %+v", got)
	}
	approve("a", "echo approved")
	if got := try("hook"); got.Status != work.StepFailed || !strings.Contains(got.Failure.Message, "Hook before run") {
		t.Errorf("Hook not approved: %+v", got)
	}
	approve("b", "echo hook")
	if got := try("both"); got.Status != work.StepSucceeded {
		t.Errorf("both approved: %+v %+v", got, got.Failure)
	}
	approve("b", "echo hooK")
	if got := try("changed"); got.Status != work.StepFailed {
		t.Errorf("changed: %+v", got)
	}
}

func TestOneProcessPerWorkingDirectory(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	start(t, cfg)
	s.wait("connected", func() bool { return s.conn != nil })
	err := New(cfg).Run(t.Context())
	if f := faultOf(err); f.Code != "working_directory_in_use" || f.Hint == "" {
		t.Errorf("got %v", err)
	}
}

// TestFlood prints 100,000 lines while the acks are held back at first: the window bounds what is sent.
func TestFlood(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	start(t, cfg)
	job := ref("job-1", 1)
	s.mu.Lock()
	s.holdAcks = true
	s.mu.Unlock()
	s.begin(job, scriptSpec("head -c 6000000 /dev/urandom | base64 -w 79", false), 1)
	s.wait("some of it", func() bool { return len(s.jobs[job].logs[1]) > 1000 })
	exit := filepath.Join(cfg.WorkingDirectory, "jobs", "job-1.1", "01-run.main.exit")
	eventually(t, "all is printed", func() bool { return exists(exit) }) // so that how many batches there are does not depend on how fast that was
	s.mu.Lock()
	held := 0
	for _, r := range s.jobs[job].logs[1] {
		held += len(r.Data)
	}
	s.holdAcks = false
	have := uint64(len(s.jobs[job].logs[1]))
	s.mu.Unlock()
	if held > windowBytes+3*floodBytes {
		t.Errorf("%d bytes were sent without an ack", held)
	}
	s.send(&wire.LogAck{Ref: job, Step: 1, Next: have + 1})
	if got := s.result(job, 1); got.Status != work.StepSucceeded {
		t.Fatalf("got %+v", got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.jobs[job].logs[1]); n < 100_000 || s.batches > n/500 {
		t.Errorf("%d records in %d batches", n, s.batches)
	}
}
