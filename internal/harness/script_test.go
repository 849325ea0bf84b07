package harness_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"legwork/internal/harness"
)

// TestScripts runs the command line as a user types it, against one Server and one Runner that all scripts
// share; each uses a Stack of its own name.
func TestScripts(t *testing.T) {
	s := harness.StartServer(t)
	s.StartRunner("edge-1")
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			dir := filepath.Join(e.WorkDir, ".bin")
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			if err := os.Symlink(bin, filepath.Join(dir, "legwork")); err != nil {
				return err
			}
			e.Setenv("PATH", dir+":"+e.Getenv("PATH"))
			e.Setenv("LEGWORK_SERVER", s.URL)
			e.Setenv("LEGWORK_TOKEN", s.Token())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status},
	})
}

// status runs a command that must end with the given status: `status 4 legwork job show 99`.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command...")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		got = err.Error()
	}
	want := args[0]
	if want != "0" {
		want = "exit status " + want
	}
	if got != want {
		ts.Fatalf("%q: %s, want %s", args[1:], got, want)
	}
}
