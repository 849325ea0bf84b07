package harness_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"legwork/internal/harness"
)

// TestScripts runs the command line as a user types it, against one Server and one Runner that all scripts
// share; each uses a Stack of its own name.
func TestScripts(t *testing.T) {
	s := harness.StartServer(t, "--set", "runner_registration_token="+serversToken)
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
			e.Setenv("SERVERS_TOKEN", serversToken)
			e.Defer(func() { endKeepers(e.WorkDir) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "take": take, "number": number, "server": server, "answers": answers,
			"online": func(ts *testscript.TestScript, _ bool, args []string) {
				harness.Eventually(t, args[0]+" is online", func() bool {
					return ts.Exec("legwork", "runner", "show", args[0], "-o", "json") == nil && strings.Contains(ts.ReadFile("stdout"), `"state": "online"`)
				})
			},
		},
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

const serversToken = "the registration token of the Server"

// take puts a value of the JSON that the last command printed into a variable: `take TOKEN token`.
func take(ts *testscript.TestScript, _ bool, args []string) {
	var printed map[string]any
	if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &printed); err != nil || len(args) != 2 {
		ts.Fatalf("usage: take VARIABLE key, after a command with -o json: %v", err)
	}
	text, _ := printed[args[1]].(string)
	if text == "" {
		ts.Fatalf("there is no %s", args[1])
	}
	ts.Setenv(args[0], text)
}

// number puts the number of the Job that the last command printed, "#42", into a variable, as 42: `number VARIABLE`. What number a Job
// gets depends on the other scripts.
func number(ts *testscript.TestScript, _ bool, args []string) {
	digits, is := strings.CutPrefix(strings.TrimSpace(ts.ReadFile("stdout")), "#")
	if _, err := strconv.Atoi(digits); !is || err != nil || len(args) != 1 {
		ts.Fatalf("usage: number VARIABLE, after a command that prints the number of a Job")
	}
	ts.Setenv(args[0], digits)
}

// server writes the URL of the Server into a file in place of SERVER.
func server(ts *testscript.TestScript, _ bool, args []string) {
	text := strings.ReplaceAll(ts.ReadFile(args[0]), "SERVER", ts.Getenv("LEGWORK_SERVER"))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// answers writes what is typed at `legwork runner setup` into answers.txt: the argument is the registration token.
func answers(ts *testscript.TestScript, _ bool, args []string) {
	typed := []string{"", "no", "set-edge", "", "set-a", "3", ts.MkAbs("set-work"), ts.MkAbs("set-token.json"), "yes", args[0], "no"}
	ts.Check(os.WriteFile(ts.MkAbs("answers.txt"), []byte(strings.Join(typed, "\n")+"\n"), 0o600))
}

// endKeepers ends the keepers of the Runners that a script started.
func endKeepers(dir string) {
	for _, work := range []string{"work", "container", "set-work"} {
		harness.EndKeepers(filepath.Join(dir, work))
	}
}
