package harness_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/harness/ports"
)

// change sets one value of a Runner's settings, by its path.
func change(value any, path ...string) harness.RunnerSettings {
	return func(m map[string]any) {
		for _, key := range path[:len(path)-1] {
			m = m[key].(map[string]any)
		}
		m[path[len(path)-1]] = value
	}
}

// capacity gives a Runner so many places.
func capacity(n int) harness.RunnerSettings { return change(n, "Runner", "Capacity") }

// TestRunnersThatAreRefused starts Runners that can never connect: each ends by itself with one sentence.
func TestRunnersThatAreRefused(t *testing.T) {
	s := harness.StartServer(t)
	html := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<html><h1>It works!</h1></html>")
	}))
	defer html.Close()
	const other = "0190a3c0-0000-7000-8000-000000000000"
	for name, c := range map[string]struct {
		change harness.RunnerSettings
		says   string
	}{
		"secret":       {change("wrong", "Runner", "Credentials", "ClientSecret"), "secret"},
		"organization": {change(other, "Runner", "OrganizationId"), ""},
		"unknown id":   {change(other, "Runner", "Id"), other},
		"not legwork":  {change(html.URL, "Server", "Url"), "not a Legwork Server"},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.NewRunner("r-"+strings.ReplaceAll(name, " ", "-"), c.change)
			r.Start()
			if status := r.Wait(); status == 0 {
				t.Fatalf("status 0: %s", r.Output())
			}
			out := r.Output()
			if !strings.Contains(out, c.says) || strings.Contains(out, "goroutine ") {
				t.Fatalf("it says %q", out)
			}
		})
	}
}

func TestSecondProcessWithTheSameInstanceName(t *testing.T) {
	s := harness.StartServer(t)
	first := s.StartRunner("edge-1")
	b, err := os.ReadFile(first.Config)
	if err != nil {
		t.Fatal(err)
	}
	var settings map[string]any
	if err := json.Unmarshal(b, &settings); err != nil {
		t.Fatal(err)
	}
	settings["WorkingDirectory"] = map[string]any{"WorkingDirectory": filepath.Join(t.TempDir(), "other")}
	b, _ = json.Marshal(settings)
	second := *first
	second.Dir = settings["WorkingDirectory"].(map[string]any)["WorkingDirectory"].(string)
	second.Config = filepath.Join(t.TempDir(), "second.json")
	if err := os.WriteFile(second.Config, b, 0o600); err != nil {
		t.Fatal(err)
	}
	second.Start()
	harness.Eventually(t, "the second process is told why it is refused", func() bool {
		return strings.Contains(second.Output(), "edge-1-a")
	})
	if first.Ended() {
		t.Fatalf("the first one ended: %s", first.Output())
	}
}

func TestRunnerWaitsForAServerThatIsNotThereYet(t *testing.T) {
	s := harness.StartServer(t)
	r := s.NewRunner("edge-1")
	s.Kill()
	r.Start()
	harness.Eventually(t, "the runner says that it cannot reach the server", func() bool {
		return strings.Contains(r.Output(), s.URL)
	})
	if r.Ended() {
		t.Fatalf("it gave up: %s", r.Output())
	}
	s.Start()
	r.Online()
}

func TestDisabledRunnerTakesNoJob(t *testing.T) {
	s := harness.StartServer(t)
	s.StartRunner("edge-1")
	s.Do("runner", "disable", "edge-1")
	declare(s, "m", script("echo hello"))
	id := s.Submit("run", "s/n/m")
	harness.Eventually(t, "the job waits for the runner", func() bool {
		return s.Job(id).Wait.Code == "runner_disabled"
	})
	s.Do("runner", "enable", "edge-1")
	s.Ends(id, "succeeded")
}

func TestDatabasesThatAreRefused(t *testing.T) {
	s := harness.StartServer(t)
	s.Kill()
	files, err := filepath.Glob(filepath.Join(s.Data, "*.db"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	for _, extra := range []string{"-wal", "-shm"} {
		os.Remove(files[0] + extra)
	}
	if err := os.WriteFile(files[0], []byte(strings.Repeat("this is no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := s.Run("server", "--data", s.Data, "--listen", "127.0.0.1:0")
	if r.Status == 0 || !strings.Contains(r.Err, files[0]) || strings.Contains(r.Err, "goroutine ") {
		t.Fatalf("status %d: %s", r.Status, r.Err)
	}
}

func TestCommandLineStatuses(t *testing.T) {
	s := harness.StartServer(t)
	for _, c := range []struct {
		want int
		args []string
	}{
		{0, []string{"module", "list"}},
		{2, []string{"module", "apply"}},
		{2, []string{"nonsense"}},
		{2, []string{"module", "list", "--nonsense"}},
		{4, []string{"job", "show", "#99"}},
		{4, []string{"module", "apply", "no/such/module"}},
	} {
		if r := s.Try(c.args...); r.Status != c.want || (c.want != 0 && r.Err == "") {
			t.Errorf("%v: status %d, want %d: %s", c.args, r.Status, c.want, r.Err)
		}
	}
	if r := s.RunWith([]string{"LEGWORK_SERVER=" + s.URL, "LEGWORK_TOKEN=wrong"}, "module", "list"); r.Status != 3 {
		t.Errorf("wrong token: %d %s", r.Status, r.Err)
	}
	if r := s.RunWith([]string{fmt.Sprintf("LEGWORK_SERVER=http://127.0.0.1:%d", ports.Free(t)), "LEGWORK_TOKEN=x"}, "module", "list"); r.Status != 5 {
		t.Errorf("unreachable: %d %s", r.Status, r.Err)
	}
}

// TestManifestsThatAreRefused checks that every problem is named with file, line and field, and nothing is applied.
func TestManifestsThatAreRefused(t *testing.T) {
	s := harness.StartServer(t)
	const good = "kind: Stack\nname: ok\n---\n"
	for name, c := range map[string]struct{ text, says string }{
		"unknown key":    {"kind: Stack\nname: a\ncolour: red\n", ":6"},
		"wrong type":     {"kind: Namespace\nstack: ok\nname: [1]\n", "name"},
		"unknown engine": {"kind: Module\nstack: ok\nnamespace: n\nname: m\nengine: cobol\n", "cobol"},
		"missing stack":  {"kind: Namespace\nstack: nowhere\nname: n\n", "nowhere"},
		"slash":          {"kind: Stack\nname: a/b\n", "a/b"},
		"cycle": {"kind: Namespace\nstack: ok\nname: n\n---\n" +
			"kind: Module\nstack: ok\nnamespace: n\nname: a\nengine: script\nscript: {run: ':'}\nsource: {type: inline, files: {x: ''}}\ninputs: [{name: i, from: output, module: n/b, output: o}]\n---\n" +
			"kind: Module\nstack: ok\nnamespace: n\nname: b\nengine: script\nscript: {run: ':'}\nsource: {type: inline, files: {x: ''}}\ninputs: [{name: i, from: output, module: n/a, output: o}]\n", "ok/n/a"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bad.yaml")
			if err := os.WriteFile(path, []byte(good+c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			r := s.Try("manifest", "apply", path)
			if r.Status != 2 || !strings.Contains(r.Err, c.says) || !strings.Contains(r.Err, "bad.yaml:") {
				t.Fatalf("status %d: %s", r.Status, r.Err)
			}
			if out := s.Do("stack", "list"); strings.Contains(out, "ok") {
				t.Fatalf("a part of it was applied:\n%s", out)
			}
		})
	}
	t.Run("50 MB", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "big.yaml")
		if err := os.WriteFile(path, []byte(strings.Repeat("# nothing but comments\n", 50<<20/23)), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := s.Try("manifest", "apply", path); r.Status != 2 || !strings.Contains(r.Err, "big.yaml") {
			t.Fatalf("status %d: %s", r.Status, r.Err)
		}
	})
}
