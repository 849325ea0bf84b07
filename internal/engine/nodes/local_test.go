package nodes

import (
	"bytes"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

// reach makes the Nodes of a Round this host, or this host behind a real sshd.
func reach(t *testing.T, f *File, ssh bool) (*File, []string) {
	t.Helper()
	if !ssh {
		return locally(f), nil
	}
	s := startSSHD(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	f.Run.Connection.User, f.Run.Connection.KeySecret, f.Run.Connection.KnownHosts = me.Username, "key", s.line
	for i, n := range f.Run.Nodes {
		n.Address, n.Port = "127.0.0.1", s.port
		f.Run.Nodes[i] = n
	}
	return f, []string{SecretPrefix + "key=" + s.key}
}

func performReally(t *testing.T, f *File, env []string) done {
	t.Helper()
	path := filepath.Join(t.TempDir(), "round")
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := (Executor{}).run(t.Context(), path, append(os.Environ(), env...), &out, nil); code != 0 {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	return readFrames(t, out.Bytes())
}

// TestOutputIsTheSameEverywhere: what a step may write to $LEGWORK_OUTPUT does not depend on where it runs.
func TestOutputIsTheSameEverywhere(t *testing.T) {
	for _, ssh := range []bool{false, true} {
		t.Run("ssh "+strconv.FormatBool(ssh), func(t *testing.T) {
			one, two := command("one"), command("two")
			one.Step.Command = `printf 'a.b=1\n1a=2\nwin=dows\r\n\nmany<<END\nx=1\ny\nEND\n' > "$LEGWORK_OUTPUT"`
			two.Step.Command = `echo "no value" > "$LEGWORK_OUTPUT"`
			f, env := reach(t, file(t, 1, one, two), ssh)
			d := performReally(t, f, env)
			events := d.events[pairKey{0, 0}]
			got := events[len(events)-1].Values
			if len(got) != 4 || got["a.b"] != "1" || got["1a"] != "2" || got["win"] != "dows" || got["many"] != "x=1\ny" {
				t.Errorf("got %q %+v", got, events[len(events)-1].Failure)
			}
			events = d.events[pairKey{0, 1}]
			if e := events[len(events)-1]; e.Failure == nil || e.Failure.Code != "output_invalid" {
				t.Errorf("got %+v", e)
			}
		})
	}
}

// TestOutputThatIsNoFile has a step replace its $LEGWORK_OUTPUT by a pipe that has no writer.
func TestOutputThatIsNoFile(t *testing.T) {
	c := command("pipe")
	c.Step.Command = `rm "$LEGWORK_OUTPUT" && mkfifo "$LEGWORK_OUTPUT"`
	d := performReally(t, locally(file(t, 1, c)), nil)
	events := d.events[pairKey{0, 0}]
	if e := events[len(events)-1]; e.Failure == nil || e.Failure.Code != "output_invalid" {
		t.Errorf("got %+v, want the failure output_invalid", e)
	}
}

// needsSudo skips a test where commands cannot become the user nobody.
func needsSudo(t *testing.T) {
	t.Helper()
	if exec.Command("sudo", "-n", "-u", "nobody", "--", "/bin/true").Run() != nil {
		t.Skip("no sudo to nobody without a password on this machine")
	}
}

// TestSudoToAnotherUser has steps become a user who can read nothing of the login user's: scripts, file options and
// $LEGWORK_OUTPUT work all the same, and nothing is left.
func TestSudoToAnotherUser(t *testing.T) {
	needsSudo(t)
	yes := true
	for _, ssh := range []bool{false, true} {
		t.Run("ssh "+strconv.FormatBool(ssh), func(t *testing.T) {
			one, two := command("one"), command("two")
			one.Step.Sudo, two.Step.Sudo = &yes, &yes
			one.Step.Command = `echo "I am $(id -un)"; cat "$OPTION_list"; ls -l "$OPTION_list" | cut -c1-10; echo "v=it's '$NODE_NAME' \$HOME" > "$LEGWORK_OUTPUT"`
			two.Step.Command, two.Step.Script = "", &catalog.StepScript{Run: "echo \"it's $1 and $V\"\ntest -r \"${LEGWORK_JOB_DIR:-/none}\" || echo closed\nexit 3\n", Args: []string{`a 'b'`, "$(id)"}}
			two.Step.Env = map[string]string{"V": "${step.one.v}"}
			f := file(t, 1, one, two)
			f.Run.Scopes[0].Values, f.Run.Scopes[0].Files = map[string]any{"list": "first 'line'\n$(id)\n"}, []string{"list"}
			f.Run.Connection.SudoUser = "nobody"
			f, env := reach(t, f, ssh)
			d := performReally(t, f, env)
			text := d.text(work.Stdout)
			for _, want := range []string{"I am nobody\n", "first 'line'\n$(id)\n", "-rw-------\n", "it's a 'b' and it's 'web-0' $HOME\n", "closed\n"} {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing", want)
				}
			}
			last := d.events[pairKey{0, 1}]
			if d.status(0, 0) != work.NodeSucceeded || len(last) == 0 || last[len(last)-1].ExitCode != 3 || t.Failed() {
				t.Errorf("got %+v %+v\n%s%s%s", d.events[pairKey{0, 0}], last, text, d.text(work.Stderr), d.text(work.System))
			}
			left, _ := filepath.Glob("/tmp/legwork-list-*")
			steps, _ := filepath.Glob("/tmp/legwork-step-*")
			if len(left)+len(steps) > 0 {
				t.Errorf("left: %v %v", left, steps)
			}
		})
	}
}
