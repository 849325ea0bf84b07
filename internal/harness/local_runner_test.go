package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// localRunner starts a Server with a Local Runner that is assigned to the Stack s, and gives a script that says in a file
// that it ran, begins by making the file begun, and waits for the file open.
func localRunner(t *testing.T, set string) (s *harness.Server, dir string) {
	t.Helper()
	s = harness.StartServer(t, "--set", set)
	t.Cleanup(func() { harness.EndKeepers(filepath.Join(s.Data, "local-runner")) })
	dir = t.TempDir()
	s.Apply("kind: Stack\nname: s\n---\nkind: Namespace\nstack: s\nname: n\n---\nkind: Module\nstack: s\nnamespace: n\nname: m\n" + script(fmt.Sprintf("touch %[1]s/begun; until [ -e %[1]s/open ]; do sleep 0.05; done; echo done >> %[1]s/ran", dir)))
	harness.Eventually(t, "the local runner is connected", connected(s))
	return s, dir
}

// connected tells whether the Local Runner has a Session.
func connected(s *harness.Server) func() bool {
	return func() bool {
		return strings.Contains(s.Try("runner", "show", "local", "-o", "json").Out, `"connected": true`)
	}
}

func exists(path string) func() bool {
	return func() bool { _, err := os.Stat(path); return err == nil }
}

// TestLocalRunner kills the Server, and its own Runner with it, while that executes a Job. The next start goes on with it.
func TestLocalRunner(t *testing.T) {
	t.Parallel()
	s, dir := localRunner(t, "local_runner=true")
	if refused := s.Try("module", "run", "s/n/m", "--no-follow"); !strings.Contains(refused.Err, "none is assigned") {
		t.Fatalf("what nobody assigned to it: %+v", refused)
	}
	s.Do("assignment", "create", "local", "s")
	id := s.Submit("run", "s/n/m")
	harness.Eventually(t, "the script has begun", exists(filepath.Join(dir, "begun")))
	s.Kill()
	s.Start()
	if err := os.WriteFile(filepath.Join(dir, "open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if j := s.Ends(id, work.Succeeded); j.Attempt != 1 || j.Binding.Runner != "local" {
		t.Errorf("attempt %d at %s", j.Attempt, j.Binding.Runner)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "ran")); string(b) != "done\n" {
		t.Errorf("it ran %d times", strings.Count(string(b), "done"))
	}
}

// TestLocalRunnerByItsOtherName turns it on by the setting that says the opposite.
func TestLocalRunnerByItsOtherName(t *testing.T) {
	t.Parallel()
	s, _ := localRunner(t, "use_remote_runner=false")
	s.Do("runner", "delete", "local", "--yes")
	harness.Eventually(t, "it is made anew", connected(s))
}
