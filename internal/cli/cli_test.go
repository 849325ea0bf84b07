package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/cli"
	"legwork/internal/fault"
	"legwork/internal/leaktest"
	"legwork/internal/work"
)

func TestMain(m *testing.M) {
	leaktest.Main(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// shell runs command lines.
type shell struct {
	t        *testing.T
	env      map[string]string
	in       string
	programs cli.Programs
	said     func(errs string) // nil, or what hears all of standard error at each word on it
}

func shellFor(w *apitest.World) *shell {
	return &shell{t: w.T, env: map[string]string{"LEGWORK_SERVER": w.URL, "LEGWORK_TOKEN": w.Token}, programs: cli.Programs{Version: "test"}}
}

type result struct {
	status   int
	out, err string
}

func (s *shell) runIn(ctx context.Context, args ...string) result {
	var out lockedBuffer
	errs := lockedBuffer{wrote: s.said}
	status := cli.Run(ctx, cli.IO{In: strings.NewReader(s.in), Out: &out, Err: &errs, Env: func(key string) string { return s.env[key] }}, s.programs, args)
	return result{status, out.String(), errs.String()}
}

func (s *shell) run(args ...string) result {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), apitest.Patience)
	defer cancel()
	return s.runIn(ctx, args...)
}

// ok runs what must succeed.
func (s *shell) ok(args ...string) result {
	s.t.Helper()
	r := s.run(args...)
	if r.status != 0 {
		s.t.Fatalf("legwork %s: status %d\n%s%s", strings.Join(args, " "), r.status, r.out, r.err)
	}
	return r
}

type lockedBuffer struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wrote func(all string) // nil, or what is called after each Write
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.b.Write(p)
	if l.wrote != nil {
		l.wrote(l.b.String())
	}
	return n, err
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestExitStatusAndErrors makes every kind of mistake. Each is a sentence with a hint on standard error alone.
func TestExitStatusAndErrors(t *testing.T) {
	w := apitest.Start(t)
	viewer := w.TokenFor("default", catalog.RoleViewer)
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hello") }))
	defer foreign.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	broken := write("broken.yaml", "kind: Stack\nname: a/b\n")
	large := write("large.yaml", strings.Repeat("# 50 megabytes of comment lines\n", 50<<20/32))
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   string
		env    string // KEY=value
		status int
		say    string
	}{
		{"", "", 2, "command is missing"},
		{"modul list", "", 2, "did you mean module"},
		{"module", "", 2, "command is missing"},
		{"module aply x", "", 2, "did you mean apply"},
		{"module apply", "", 2, "MODULE is missing"},
		{"module apply a b", "", 2, "too many"},
		{"module list --foo", "", 2, "unknown flag"},
		{"module list -o xml", "", 2, "want table, json or yaml"},
		{"job cancel 1 --mode gently", "", 2, "way to cancel"},
		{"job decline 1", "", 2, "--reason is missing"},
		{"job list --limit -1", "", 2, "negative"},
		{"job list --status sleeping", "", 2, "not a state"},
		{"schema everything", "", 2, "no schema"},
		{"module list --server nonsense", "", 2, "not the address of a Server"},
		{"module list --token-file " + dir + "/none", "", 2, "cannot be read"},
		{"module list", "LEGWORK_TOKEN=two\nlines", 2, "one line"},
		{"manifest apply", "", 2, "PATH is missing"},
		{"manifest apply " + dir + "/none.yaml", "", 2, "is not there"},
		{"manifest apply " + broken, "", 2, broken + ":2: name"},
		{"manifest apply " + large, "", 2, "larger than"},
		{"manifest apply " + empty, "", 2, "nothing is declared there"},
		{"server --set nonsense", "", 2, "key=value"},
		{"module list", "LEGWORK_TOKEN=", 3, "needs a token"},
		{"module list", "LEGWORK_TOKEN=lw_wrong", 3, "not one that this Server knows"},
		{"runner create x", "LEGWORK_TOKEN=" + viewer, 3, "administer"},
		{"module show a/b/c", "", 4, "a/b/c"},
		{"module apply a/b/c", "", 4, "a/b/c"},
		{"job show 7", "", 4, "7"},
		{"job logs #7", "", 4, "7"},
		{"output a/b/c", "", 4, "a/b/c"},
		{"runner show x", "", 4, "x"},
		{"module list", "LEGWORK_SERVER=http://127.0.0.1:1", 5, "cannot reach the Server"},
		{"module apply a/b/c", "LEGWORK_SERVER=http://127.0.0.1:1", 5, "cannot reach the Server"},
		{"module list", "LEGWORK_SERVER=" + foreign.URL, 1, "not a Legwork Server"},
		{"version", "", 0, ""},
		{"help", "", 0, ""},
		{"module apply --help", "", 0, ""},
		{"completion bash", "", 0, ""},
	} {
		t.Run(c.args+" "+c.env, func(t *testing.T) {
			s := shellFor(w)
			s.t = t
			if key, value, ok := strings.Cut(c.env, "="); ok {
				s.env[key] = value
			}
			r := s.run(strings.Fields(c.args)...)
			if r.status != c.status || !strings.Contains(r.err, c.say) {
				t.Errorf("status %d, want %d\n%s", r.status, c.status, r.err)
			}
			if c.status == 0 {
				return
			}
			if !strings.HasPrefix(r.err[strings.Index(r.err, "Error: "):], "Error: ") || strings.Contains(r.err, "..\n") || strings.Contains(r.err, viewer) {
				t.Errorf("%q", r.err)
			}
			if c.say != "command is missing" && r.out != "" {
				t.Errorf("on standard output: %q", r.out)
			}
		})
	}
}

const twoModules = `
kind: Stack
name: prod
---
kind: Namespace
stack: prod
name: net
defaults: {engine: script, runner: edge}
---
{kind: Module, stack: prod, namespace: net, name: a, script: {run: 'true', repeatable: true}}
---
{kind: Module, stack: prod, namespace: net, name: b, script: {run: 'false', repeatable: true}}
`

// world has two Modules and a Runner: a succeeds, b fails.
func world(t *testing.T) (*apitest.World, *shell) {
	w := apitest.Start(t)
	w.Runner("edge", func(s *apitest.StepRun) work.StepResult {
		if s.Kind != work.StepRun {
			return work.StepResult{}
		}
		s.Print("hello from "+s.Spec.Name, "\x1b[31mred\x1b[0m \x1b]0;title\x07text")
		if s.Spec.Name == "b" {
			return work.StepResult{Status: work.StepFailed, ExitCode: 1, Failure: &work.Failure{Code: "exit", Message: "the script ended with status 1", Hint: "read its log"}}
		}
		return work.StepResult{}
	})
	s := shellFor(w)
	s.in = twoModules
	r := s.ok("manifest", "apply", "-")
	if !strings.Contains(r.out, "4 created, 0 updated, 0 unchanged") {
		t.Fatal(r.out)
	}
	return w, s
}

func TestRunAndFollow(t *testing.T) {
	_, s := world(t)
	r := s.ok("module", "run", "prod/net/a")
	if r.out != "==> run\nhello from a\nred text\n" {
		t.Errorf("%q", r.out)
	}
	if !strings.Contains(r.err, "Job #1: run prod/net/a") || !strings.Contains(r.err, "succeeded") {
		t.Errorf("%q", r.err)
	}
	r = s.run("module", "run", "prod/net/b")
	if r.status != 1 || !strings.Contains(r.err, "job #2 failed") || !strings.Contains(r.err, "status 1") || !strings.Contains(r.err, "Hint: read its log") {
		t.Errorf("status %d %q", r.status, r.err)
	}
	r = s.ok("job", "logs", "#1", "--raw")
	if r.out != "hello from a\n\x1b[31mred\x1b[0m \x1b]0;title\x07text\n" {
		t.Errorf("raw %q", r.out)
	}
	if again := s.run("job", "logs", "-f", "2"); again.status != 1 || !strings.Contains(again.out, "hello from b") {
		t.Errorf("following a Job that is over: %+v", again)
	}
	if r = s.run("job", "cancel", "1"); r.status != 1 || !strings.Contains(r.err, "Error: ") {
		t.Errorf("canceling a Job that is over: %+v", r)
	}
}

func TestNoFollowPrintsTheNumber(t *testing.T) {
	_, s := world(t)
	r := s.ok("module", "run", "prod/net/a", "--no-follow")
	if r.out != "#1\n" || r.err != "" {
		t.Errorf("%+v", r)
	}
	s.ok("job", "logs", "-f", strings.TrimSpace(r.out))
	if r := s.ok("job", "show", "#1"); !strings.Contains(r.out, "succeeded") {
		t.Errorf("%+v", r)
	}
}

// TestInterruptLeavesTheJob ends the following of a Job that waits for a Runner.
func TestInterruptLeavesTheJob(t *testing.T) {
	w := apitest.Start(t)
	s := shellFor(w)
	made := s.ok("runner", "create", "edge", "--all-modules", "-o", "json")
	var runner struct {
		ID             string `json:"id"`
		OrganizationID string `json:"organization_id"`
		ClientID       string `json:"client_id"`
		ClientSecret   string `json:"client_secret"`
	}
	if err := json.Unmarshal([]byte(made.out), &runner); err != nil || runner.ID == "" || runner.OrganizationID == "" || runner.ClientID == "" || runner.ClientSecret == "" {
		t.Fatalf("%v %s", err, made.out)
	}
	w.Apply(apitest.Scripts)
	ctx, interrupt := context.WithTimeout(context.Background(), apitest.Patience)
	defer interrupt()
	s.said = func(errs string) {
		if strings.Contains(errs, "waiting: ") {
			interrupt()
		}
	}
	r := s.runIn(ctx, "module", "run", "prod/net/a")
	s.said = nil
	if r.status != 130 || !strings.Contains(r.err, "goes on") || !strings.Contains(r.err, "legwork job cancel 1") || !strings.Contains(r.err, "waiting: ") {
		t.Errorf("%+v", r)
	}
	if r := s.ok("job", "cancel", "1", "--reason", "no longer wanted"); !strings.HasPrefix(r.out, "#1 cancel") {
		t.Errorf("%+v", r)
	}
	if r := s.run("job", "logs", "-f", "1"); r.status != 1 || !strings.Contains(r.err, "was canceled: by admin (no longer wanted)") {
		t.Errorf("%+v", r)
	}
}

// TestListingsInEveryFormat reads what every listing and show prints as JSON and as YAML.
func TestListingsInEveryFormat(t *testing.T) {
	_, s := world(t)
	s.run("module", "run", "prod/net/b")
	s.ok("assignment", "create", "edge", "prod/net")
	for _, c := range []struct{ args, table string }{
		{"stack list", "prod"}, {"namespace list", "prod/net"}, {"namespace list --stack prod", "prod/net"},
		{"module list", "prod/net/a"}, {"module list --stack prod", "prod/net/a"}, {"module show prod/net/a", "script"},
		{"runner list", "online"}, {"runner show edge", "i-1: online"}, {"assignment list", "prod/net"}, {"assignment list --runner edge", "prod/net"},
		{"job list", "#1"}, {"job list --module prod/net/b --status failed,canceled", "#1"}, {"job list -n 0", "#1"}, {"job show 1", "status 1"}, {"version", "legwork test"},
	} {
		args := strings.Fields(c.args)
		if r := s.ok(args...); !strings.Contains(r.out, c.table) {
			t.Errorf("%s: %s", c.args, r.out)
		}
		var a, b any
		if err := json.Unmarshal([]byte(s.ok(append(args, "-o", "json")...).out), &a); err != nil {
			t.Errorf("%s as JSON: %v", c.args, err)
		}
		if err := yaml.Unmarshal([]byte(s.ok(append(args, "-o", "yaml")...).out), &b); err != nil {
			t.Errorf("%s as YAML: %v", c.args, err)
		}
		if fmt.Sprintf("%T", a) == "<nil>" || a == nil || b == nil {
			t.Errorf("%s: %v %v", c.args, a, b)
		}
	}
}

func TestManifestFoldersDiffAndExport(t *testing.T) {
	w := apitest.Start(t)
	s := shellFor(w)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"stack.yaml": "kind: Stack\nname: prod\n", "more/runner.yml": "kind: Runner\nname: edge\nis_assigned_to_all_modules: true\n",
		"more/namespace.json": `{"kind": "Namespace", "stack": "prod", "name": "net"}`, ".git/config.yaml": "nonsense: [", "README.md": "hello",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if r := s.ok("manifest", "diff", dir); !strings.Contains(r.out, "create     Stack prod") || !strings.Contains(r.out, "3 to create, 0 to update, 0 unchanged") {
		t.Errorf("%s", r.out)
	}
	if r := s.ok("manifest", "apply", dir, filepath.Join(dir, "stack.yaml")); !strings.Contains(r.out, "3 created") {
		t.Errorf("%s", r.out)
	}
	s.in = "kind: Stack\nname: prod\ndescription: \"the\\e[2J real one\"\n"
	if r := s.ok("manifest", "apply", "-"); !strings.Contains(r.out, "updated    Stack prod\n             description: (none) -> the[2J real one\n") {
		t.Errorf("%q", r.out)
	}
	s.in = s.ok("manifest", "export").out
	r := s.ok("manifest", "apply", "-", "-o", "json")
	var result struct{ Created, Updated, Unchanged int }
	if err := json.Unmarshal([]byte(r.out), &result); err != nil || result.Created+result.Updated != 0 || result.Unchanged != 3 {
		t.Errorf("%v %s", err, r.out)
	}
}

func TestRunnerLifeOnTheCommandLine(t *testing.T) {
	w := apitest.Start(t)
	s := shellFor(w)
	file := filepath.Join(t.TempDir(), "runner.json")
	s.ok("runner", "create", "edge", "--label", "site=home", "--write-config", file)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	text, _ := os.ReadFile(file)
	var settings struct {
		Server struct{ URL string }
		Runner struct {
			ID, OrganizationID string
			Credentials        struct{ ClientID, ClientSecret string }
		}
	}
	if err := json.Unmarshal(text, &settings); err != nil || !strings.Contains(string(text), `"ClientSecret"`) || settings.Server.URL != w.URL || settings.Runner.ID == "" || settings.Runner.Credentials.ClientSecret == "" {
		t.Errorf("%v %s", err, text)
	}
	if r := s.run("runner", "create", "edge-2", "--write-config", file); r.status != 1 || !strings.Contains(r.err, "there already") {
		t.Errorf("%+v", r)
	}
	if r := s.run("runner", "show", "edge-2"); r.status != 4 {
		t.Errorf("a Runner was made whose secret nobody has: %+v", r)
	}
	other := filepath.Join(t.TempDir(), "other.json")
	if r := s.run("runner", "create", "edge", "--write-config", other); r.status == 0 {
		t.Errorf("the same name twice: %+v", r)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("a settings file without settings stayed")
	}
	s.ok("runner", "disable", "edge")
	if r := s.ok("runner", "list"); !strings.Contains(r.out, "disabled") {
		t.Errorf("%s", r.out)
	}
	s.ok("runner", "enable", "edge")
	if r := s.ok("runner", "show", "edge"); !strings.Contains(r.out, "offline") || !strings.Contains(r.out, "site=home") {
		t.Errorf("%s", r.out)
	}
	if r := s.ok("runner", "credential", "edge", "-o", "json"); !strings.Contains(r.out, `"client_secret": "lws_`) || strings.Contains(r.out, settings.Runner.Credentials.ClientSecret) {
		t.Errorf("%s", r.out)
	}
	s.ok("runner", "delete", "edge", "--yes")
}

func TestProgramsGetTheirSettings(t *testing.T) {
	var got cli.StartOptions
	start := func(_ context.Context, o cli.StartOptions, _ io.Writer) error {
		got = o
		return fault.New(fault.Invalid, "settings_invalid", "the settings have 2 problems").WithDetails(fault.Problem{File: "a.json", Line: 3, Message: "x"}, fault.Problem{Field: "y", Message: "z"})
	}
	s := &shell{t: t, programs: cli.Programs{Server: start, Runner: start, Schema: func(name string) ([]byte, error) { return []byte(name), nil }}}
	r := s.run("server", "--config", "a.json", "--data", "./d", "--listen", ":1", "--set", "lease=90s", "--set", "a=b=c")
	if r.status != 2 || !strings.Contains(r.err, "a.json:3: x") || !strings.Contains(r.err, "y: z") {
		t.Errorf("%+v", r)
	}
	if fmt.Sprint(got) != "{a.json map[a:b=c data:./d lease:90s listen::1] map[data:--data listen:--listen] false}" {
		t.Errorf("%v", got)
	}
	s.run("runner", "start", "--config", "r.json", "--capacity", "3")
	if fmt.Sprint(got) != "{r.json map[Runner.Capacity:3] map[Runner.Capacity:--capacity] false}" {
		t.Errorf("%v", got)
	}
	if r := s.ok("schema", "manifest"); r.out != "manifest" {
		t.Errorf("%+v", r)
	}
}

func TestCompletionAsksTheServer(t *testing.T) {
	_, s := world(t)
	s.ok("module", "run", "prod/net/a")
	for args, want := range map[string]string{
		"module apply ": "prod/net/b", "runner show ": "edge", "job logs ": "1\trun prod/net/a, succeeded", "job cancel ": ":4", "module list -o ": "yaml",
	} {
		r := s.ok(append([]string{"__complete"}, strings.Split(args, " ")...)...)
		if !strings.Contains(r.out, want) {
			t.Errorf("%s: %q", args, r.out)
		}
	}
	s.env["LEGWORK_SERVER"] = "http://127.0.0.1:1"
	if r := s.ok("__complete", "module", "apply", ""); strings.Contains(r.out, "prod") {
		t.Errorf("%q", r.out)
	}
}
