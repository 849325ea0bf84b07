package harness_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/harness/ports"
)

// execWorld is a Runner with four Nodes that are well, and some, with the tag bad, that are not.
func execWorld(t *testing.T) *nodeWorld {
	t.Helper()
	nodes := harness.StartNodeNames(t, 4)
	stranger := harness.StartNodeNames(t, 1)
	w := newNodeWorld(t, nodes, 1)
	port := nodes.List[0].Port
	bad := func(name string, port int, user string) string {
		return fmt.Sprintf("---\nkind: Node\nstack: s\nname: %s\naddress: 127.0.0.1\nport: %d\nuser: %s\ntags: [web, bad]\n", name, port, user)
	}
	known := nodes.KnownHosts() + fmt.Sprintf("[127.*]:%d %s", stranger.List[0].Port, strings.SplitN(nodes.KnownHosts(), " ", 2)[1])
	w.Apply("kind: Stack\nname: s\n" + bad("gone", ports.Free(t), nodes.User) + bad("stranger", stranger.List[0].Port, nodes.User) + bad("nobody", port, "no-such-user"))
	ssh := filepath.Join(w.Home, ".ssh")
	if err := os.MkdirAll(ssh, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(ssh, "known_hosts"), []byte(known), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// exec is the command line with what it needs to log in.
func (w *nodeWorld) exec(filter string, args ...string) harness.Result {
	w.t.Helper()
	return w.Try(append([]string{"exec", "--stack", "s", "--nodes", filter, "--user", w.nodes.User, "--key-file", w.nodes.Key}, args...)...)
}

// TestExec runs commands on Nodes by the command line.
func TestExec(t *testing.T) {
	t.Parallel()
	w := execWorld(t)
	t.Run("output", func(t *testing.T) { t.Parallel(); execOutput(t, w) })
	t.Run("a failing node", func(t *testing.T) { t.Parallel(); execFailing(t, w) })
	t.Run("bad nodes", func(t *testing.T) { t.Parallel(); execBad(t, w) })
	t.Run("refused", func(t *testing.T) { t.Parallel(); execRefused(t, w) })
	t.Run("hostile", func(t *testing.T) { t.Parallel(); execHostile(t, w) })
}

func execOutput(t *testing.T, w *nodeWorld) {
	dir := filepath.Join(t.TempDir(), "out")
	r := w.exec("tags: web !tags: bad", "--output-dir", dir, "--shell", "--", "echo of $NODE_NAME; echo wrong of $NODE_NAME >&2")
	if r.Status != 0 {
		t.Fatalf("%d: %s\n%s", r.Status, r.Out, r.Err)
	}
	for _, n := range w.nodes.List {
		if !strings.Contains(r.Out, "of "+n.Name) {
			t.Errorf("nothing of %s is shown:\n%s", n.Name, r.Out)
		}
		files, _ := filepath.Glob(filepath.Join(dir, n.Name+"*"))
		all := ""
		for _, file := range files {
			b, _ := os.ReadFile(file)
			all += string(b)
		}
		if !strings.Contains(all, "of "+n.Name+"\n") || !strings.Contains(all, "wrong of "+n.Name+"\n") {
			t.Errorf("%s: %q holds %q", n.Name, files, all)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil || !json.Valid(b) || strings.Count(string(b), "succeeded") < 4 {
		t.Errorf("%v: %s", err, b)
	}
}

func execFailing(t *testing.T, w *nodeWorld) {
	r := w.exec("tags: web !tags: bad", "--shell", "--", "[ $NODE_NAME != node-02 ] || exit 7; echo well")
	if r.Status == 0 || strings.Count(r.Out, "well") != 3 {
		t.Errorf("%d: %s\n%s", r.Status, r.Out, r.Err)
	}
	if all := r.Out + r.Err; !strings.Contains(all, "7") || !strings.Contains(all, "node-02") {
		t.Errorf("nothing says what failed:\n%s", all)
	}
	if r = w.exec("node-01", "--script", "testdata/nowhere", "--"); r.Status == 0 {
		t.Error("a script that is not there")
	}
}

// codes runs a command on Nodes and gives the code of the failure of each, by its name.
func codes(t *testing.T, w *nodeWorld, filter string, args ...string) map[string]string {
	t.Helper()
	r := w.exec(filter, append([]string{"--no-follow"}, args...)...)
	id := ""
	for word := range strings.FieldsSeq(r.Out + r.Err) {
		if strings.HasPrefix(word, "#") {
			id = strings.TrimRight(word, ".,:;")
			break
		}
	}
	if id == "" {
		t.Fatalf("%d: %s\n%s", r.Status, r.Out, r.Err)
	}
	harness.Eventually(t, "the job is over", func() bool { return w.Job(id).Status.Terminal() })
	found := map[string]string{}
	for _, r := range w.results(id) {
		found[r.Node] = string(r.Status)
		if r.Failure != nil {
			found[r.Node] = r.Failure.Code
		}
	}
	return found
}

func execBad(t *testing.T, w *nodeWorld) {
	want := map[string]string{"gone": "host_unreachable", "stranger": "host_key_changed", "nobody": "auth_failed", "node-01": "succeeded", "node-02": "succeeded", "node-03": "succeeded", "node-04": "succeeded"}
	found := codes(t, w, "tags: web", "--", "true")
	for name, code := range want {
		if found[name] != code {
			t.Errorf("%s: %q, want %q", name, found[name], code)
		}
	}
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("#!/usr/bin/no-such-interpreter\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := codes(t, w, "node-01", "--script", path); found["node-01"] != "interpreter_missing" {
		t.Errorf("an interpreter that is not there: %v", found)
	}
}

func execRefused(t *testing.T, w *nodeWorld) {
	for filter, says := range map[string]string{"tags: nothing": "no Node", "tag: web": "column 1", "": "--nodes"} {
		if r := w.exec(filter, "--", "true"); r.Status == 0 || !strings.Contains(r.Err, says) {
			t.Errorf("the filter %q: %d %s", filter, r.Status, r.Err)
		}
	}
	w.runbook("options", "nodes: node-01\noptions: [{name: version, required: true, pattern: 'v\\d+'}]\nsteps:\n- {name: x, command: 'true'}\n")
	for _, value := range []string{"7", "v7 ", "$(rm -rf /)", ""} {
		r := w.Try("runbook", "run", "s/options", "--option", "version="+value)
		if r.Status == 0 || !strings.Contains(r.Err, "version") {
			t.Errorf("version %q: %d %s", value, r.Status, r.Err)
		}
	}
	if r := w.Try("runbook", "run", "s/options"); r.Status == 0 || !strings.Contains(r.Err, "version") {
		t.Errorf("no version: %d %s", r.Status, r.Err)
	}
	w.Do("runbook", "run", "s/options", "--option", "version=v7", "--follow")
	if status, err := w.api.call(http.MethodPost, "/api/v1/runbooks/s/nowhere/run", map[string]any{}, nil); err != nil || status != http.StatusNotFound {
		t.Errorf("a Runbook that is not there: %d %v", status, err)
	}
}

// execHostile hands values on that no shell may evaluate: by an argument, and by an option in every place of a shell's text.
func execHostile(t *testing.T, w *nodeWorld) {
	dir := t.TempDir()
	value := fmt.Sprintf("$(touch %[1]s/x) `touch %[1]s/x` ';touch %[1]s/x;' \";touch %[1]s/x;\" ${IFS} \\", dir)
	if r := w.exec("node-01", "--", "printf", "%s|", value, "a b"); r.Status != 0 || !strings.Contains(r.Out, value+"|a b|") {
		t.Errorf("%d: %s\n%s", r.Status, r.Out, r.Err)
	}
	w.runbook("quote", fmt.Sprintf(`
nodes: node-01
options: [{name: v}]
env: {FROM_ENV: '${option.v}'}
steps:
- name: places
  command: |
    cd %[1]s
    printf %%s ${option.v} > plain
    printf %%s "${option.v}" > double
    printf %%s '${option.v}' > single
    cat > here <<END
    ${option.v}
    END
    printf %%s "$FROM_ENV" > env
- name: args
  script: {run: 'printf %%s "$1" > %[1]s/args', args: ['${option.v}']}
- name: others
  script: {interpreter: [python3], run: 'import os; open("%[1]s/python", "w").write(os.environ["OPTION_v"])'}
`, dir))
	if out := w.Do("runbook", "run", "s/quote", "--option", "v="+value, "--follow"); strings.Contains(out, "Error") {
		t.Error(out)
	}
	for _, name := range []string{"plain", "double", "single", "here", "env", "args", "python"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || strings.TrimSuffix(string(b), "\n") != value {
			t.Errorf("%s: %v %q, want %q", name, err, b, value)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
		t.Error("a value was evaluated")
	}
}
