package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/work"
)

// webs starts a Server with three Nodes that the Runner edge takes, and one that nobody takes.
func webs(t *testing.T, do apitest.Doing) *shell {
	t.Helper()
	w := apitest.Start(t)
	w.Runner("edge", apitest.OnNodes(do))
	w.Apply(apitest.Webs)
	return shellFor(w)
}

func TestNodesOnTheCommandLine(t *testing.T) {
	s := webs(t, func(*work.RunSpec, int, string) ([]string, int) { return nil, 0 })
	if got := s.ok("node", "list", "--stack", "prod", "--filter", "tags: web").out; strings.Count(got, "prod/web-") != 3 || strings.Contains(got, "db-1") || !strings.Contains(got, "edge") {
		t.Error(got)
	}
	got := s.ok("node", "preview", "--stack", "prod", "name: .*-1 tags: web,db")
	if !strings.HasPrefix(got.out, "2 of 5 Nodes match, 1 at edge\n") || !strings.Contains(got.err, "no Runner covers 1 of them: prod/db-1") {
		t.Errorf("%s%s", got.out, got.err)
	}
	if got := s.run("node", "preview", "--stack", "prod", "os: linux tagz: web"); got.status != 2 || !strings.Contains(got.err, "column 11") || !strings.Contains(got.err, "\n  os: linux tagz: web\n            ^\n") {
		t.Errorf("%d %s", got.status, got.err)
	}
	s.ok("node", "set", "prod/web-9", "--address", "10.0.0.7", "--tags", "web,eu", "--attribute", "rack=r1", "--attribute", "row=2")
	s.ok("node", "set", "prod/web-9", "--user", "deploy", "--attribute", "row=")
	var n api.NodeView
	if err := json.Unmarshal([]byte(s.ok("node", "show", "prod/web-9", "-o", "json").out), &n); err != nil {
		t.Fatal(err)
	}
	if n.Address != "10.0.0.7" || n.User != "deploy" || !slices.Equal(n.Tags, []string{"web", "eu"}) || len(n.Attributes) != 1 || n.Attributes["rack"] != "r1" || n.Runner != "edge" {
		t.Errorf("%+v", n)
	}
	if got := s.ok("node", "show", "prod/web-9").out; !strings.Contains(got, "rack = r1") || !strings.Contains(got, "deploy@10.0.0.7") {
		t.Error(got)
	}
	s.ok("node", "delete", "prod/web-9", "--yes")
	if got := s.run("node", "show", "prod/web-9"); got.status != 4 {
		t.Errorf("%d %s", got.status, got.err)
	}
	if got := s.run("node", "show", "web-9"); got.status != 4 || !strings.Contains(got.err, `there is no node "web-9"`) {
		t.Errorf("a name without a stack: got %d %s, want 4 and the name", got.status, got.err)
	}
	for line, want := range map[string]string{"node show": "prod/web-1", "node list --stack": "prod", "exec --runner": "edge"} {
		if got := s.ok(append([]string{"__complete"}, append(strings.Fields(line), "")...)...).out; !strings.Contains(got, want+"\n") {
			t.Errorf("%s: %s", line, got)
		}
	}
}

// TestExecShowsEachNode runs a command that fails on one Node of three.
func TestExecShowsEachNode(t *testing.T) {
	var mu sync.Mutex
	var command string
	s := webs(t, func(spec *work.RunSpec, _ int, name string) ([]string, int) {
		mu.Lock()
		defer mu.Unlock()
		command = spec.Items[0].Step.Command
		if name == "web-2" {
			return []string{"no \x1b]0;title\x07idea"}, 3
		}
		return []string{"up", "and running"}, 0
	})
	dir := filepath.Join(t.TempDir(), "out")
	got := s.run("exec", "--stack", "prod", "--nodes", "tags: web", "--output-dir", dir, "--", "uptime", "$(rm -rf /)", "-p")
	if got.status != 1 {
		t.Fatalf("%d %s%s", got.status, got.out, got.err)
	}
	mu.Lock()
	if command != "uptime '$(rm -rf /)' -p" {
		t.Errorf("the command is %s", command)
	}
	mu.Unlock()
	for _, line := range []string{"web-1 @i-1                   | up\n", "web-3 @i-1                   | and running\n", "web-2 @i-1                   | no idea\n"} {
		if !strings.Contains(got.out, line) {
			t.Errorf("no %q in %s", line, got.out)
		}
	}
	for _, part := range []string{"Summary of job #1, 3 Nodes:\n", "2 ok, 1 failed\n", "web-2: it did not like it\n", "Error: job #1 failed"} {
		if !strings.Contains(got.err, part) {
			t.Errorf("no %q in %s", part, got.err)
		}
	}
	checkOutput(t, dir)
	if got := s.ok("exec", "--stack", "prod", "--nodes", "name: web-1", "uptime", "--pretty"); !strings.Contains(got.err, "succeeded") || strings.Count(got.out, "web-1 ") != 2 {
		t.Errorf("%s%s", got.out, got.err)
	}
	if got := s.ok("exec", "--stack", "prod", "--nodes", "name: web-1", "--no-follow", "--", "true"); got.out != "#3\n" {
		t.Error(got.out)
	}
}

// checkOutput looks into the folder that exec wrote.
func checkOutput(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "web-1.log"))
	if err != nil || string(text) != "up\nand running\n" {
		t.Errorf("%q %v", text, err)
	}
	text, err = os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var summary struct {
		Status string
		Counts map[string]int
		Nodes  []struct {
			Node, Status, File string
			ExitCode           int `json:"exit_code"`
		}
	}
	if err := json.Unmarshal(text, &summary); err != nil {
		t.Fatal(err)
	}
	if summary.Status != "failed" || summary.Counts["succeeded"] != 2 || len(summary.Nodes) != 3 || summary.Nodes[1].ExitCode != 3 || summary.Nodes[1].File != "web-2.log" {
		t.Errorf("%s", text)
	}
}

const greeting = `
kind: Runbook
stack: prod
name: greet
options:
  - {name: who, required: true, pattern: '[^0-9]*'}
  - {name: token, type: secret, required: true}
nodes: "tags: web"
on_failure: continue
steps:
  - {name: hello, command: 'echo hello ${option.who}'}
  - {name: odd, command: 'test ${node.name} != web-2'}
schedules:
  - {name: nightly, cron: "0 3 * * *", options: {who: me}, disabled: true}
`

// TestRunbooksOnTheCommandLine runs one with a hostile value and a secret, and again where it failed.
func TestRunbooksOnTheCommandLine(t *testing.T) {
	hostile := "$(rm -rf /); `id` ${secret.x}"
	var mu sync.Mutex
	done := map[string]int{}
	s := webs(t, func(spec *work.RunSpec, item int, name string) ([]string, int) {
		mu.Lock()
		defer mu.Unlock()
		done[name]++
		if spec.Scopes[0].Values["who"] != hostile || strings.Contains(spec.Items[0].Step.Command, "rm -rf") {
			t.Errorf("%q %q", spec.Scopes[0].Values, spec.Items[0].Step.Command)
		}
		if item == 1 && name == "web-2" {
			return nil, 1
		}
		return []string{"done"}, 0
	})
	manifest := filepath.Join(t.TempDir(), "greet.yaml")
	if err := os.WriteFile(manifest, []byte(strings.ReplaceAll(greeting, "options: {who: me}, disabled: true", "options: {who: me}")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := s.run("manifest", "apply", manifest); got.status != 2 || !strings.Contains(got.err, "token") { // a Schedule cannot give a secret
		t.Errorf("%d %s", got.status, got.err)
	}
	if err := os.WriteFile(manifest, []byte(greeting[:strings.Index(greeting, "schedules:")]), 0o600); err != nil {
		t.Fatal(err)
	}
	s.ok("manifest", "apply", manifest)
	if got := s.ok("runbook", "show", "prod/greet").out; !strings.Contains(got, "who (string), required, matches") || !strings.Contains(got, "odd: command") {
		t.Error(got)
	}
	s.ok("runbook", "list")
	s.ok("runbook", "next", "prod/greet")
	s.in = "hush\n"
	got := s.run("runbook", "run", "prod/greet", "--option", "who="+hostile, "--option-stdin", "token")
	if got.status != 1 || !strings.Contains(got.err, "  hello  3 ok\n") || !strings.Contains(got.err, "  odd    2 ok, 1 failed\n") || !strings.Contains(got.err, "web-2: odd: it did not like it") {
		t.Fatalf("%d %s%s", got.status, got.out, got.err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--option", "who=x", "--option", "token=hush"}, "seen by every user"},
		{[]string{"--option", "who=x"}, "no terminal"},
		{[]string{"--option", "who=7", "--option-stdin", "token"}, "does not match"},
		{[]string{"--option", "whom=x", "--option-stdin", "token"}, "did you mean"},
		{[]string{"--option", "who=x", "--option-stdin", "token", "--nodes", "tags: none"}, "matches no Node"},
	} {
		if got := s.run(append([]string{"runbook", "run", "prod/greet"}, c.args...)...); got.status != 2 || !strings.Contains(got.err, c.says) || strings.Contains(got.err, "hush") {
			t.Errorf("%v: %d %s", c.args, got.status, got.err)
		}
	}
	table := s.ok("job", "nodes", "1").out
	if strings.Count(table, "\n") != 7 || !strings.Contains(table, "it did not like it") {
		t.Error(table)
	}
	mu.Lock()
	clear(done)
	mu.Unlock()
	if got := s.run("job", "retry", "1", "--failed", "--follow", "--option-stdin", "token"); got.status != 1 || !strings.Contains(got.err, "1 Node") {
		t.Errorf("%d %s", got.status, got.err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(done) != 1 || done["web-2"] != 2 {
		t.Errorf("run again: %v", done)
	}
	if got := s.ok("job", "list").out; !strings.Contains(got, "prod/greet") || !strings.Contains(got, "runbook") {
		t.Error(got)
	}
	s.ok("runbook", "delete", "prod/greet", "--yes")
}

func TestExecThatIsWrong(t *testing.T) {
	s := &shell{t: t, env: map[string]string{"LEGWORK_SERVER": "http://127.0.0.1:1"}}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for line, says := range map[string]string{
		"--nodes|*|--|true":                                   "--stack is missing",
		"--stack|prod|--|true":                                "--nodes is missing",
		"--stack|prod|--nodes|*":                              "the command is missing",
		"--stack|prod|--nodes|*|--script|/none/x":             "is not there",
		"--stack|prod|--nodes|*|--script|x|--shell|--|true":   "do not go together",
		"--stack|prod|--nodes|*|--priority|first|--|true":     "is not a priority",
		"--stack|prod|--nodes|*|--output-dir|" + full + "|ls": "is not empty",
	} {
		if got := s.run(append([]string{"exec"}, strings.Split(line, "|")...)...); got.status != 2 || !strings.Contains(got.err, says) {
			t.Errorf("%s: %d %s", line, got.status, got.err)
		}
	}
}
