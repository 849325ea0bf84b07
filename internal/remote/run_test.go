package remote

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/fault"
)

func TestRunGivesExitCodesAndOutput(t *testing.T) {
	s := startSSHD(t)
	p := s.pool()
	for _, want := range []bool{false, true} {
		c := script("echo out; echo err >&2; exit 7")
		c.WantOutput = want
		r := must(t, p, s.target(), c)
		if r.ExitCode != 7 || r.Signal != "" || r.out != "out\n" || r.err != "err\n" || !r.Began || r.Canceled || r.RemotePid == 0 {
			t.Fatalf("output wanted %v: %+v", want, r)
		}
	}
	if n := strings.Count(s.log.String(), "Accepted publickey"); n != 1 {
		t.Fatalf("there were %d logins for two commands", n)
	}
}

func TestRunTellsSignals(t *testing.T) {
	s := startSSHD(t)
	p := s.pool()
	for _, want := range []bool{false, true} {
		c := script("kill -TERM $$; sleep 100")
		c.WantOutput = want
		if r := must(t, p, s.target(), c); r.ExitCode != 143 || r.Signal != "TERM" || r.Canceled {
			t.Fatalf("output wanted %v: %+v", want, r)
		}
	}
}

func TestStandardInputIsEmpty(t *testing.T) {
	s := startSSHD(t)
	p := s.pool()
	for _, want := range []bool{false, true} {
		c := script("cat; echo end")
		c.WantOutput = want
		if r := must(t, p, s.target(), c); r.out != "end\n" {
			t.Fatalf("output wanted %v: %+v", want, r)
		}
	}
}

func hostile() map[string]string {
	var all strings.Builder
	for b := 1; b < 256; b++ {
		all.WriteByte(byte(b))
	}
	return map[string]string{
		"V_ALL":     all.String(),
		"V_COMMAND": "$(rm -rf /tmp/legwork-test-must-stay)`id`${HOME}; exit 3 #",
		"V_QUOTES":  `'"'"' \' \\ "`,
		"V_LINES":   "one\ntwo\n\n'\nlw_main\nexit 9\n",
		"V_EMPTY":   "",
		"V_LONG":    strings.Repeat("x'", 40<<10),
		"V_BACK":    `\`,
		"V_UTF8":    "añ→𝄞",
		"V_DASH":    "-n -e",
	}
}

func TestEnvironmentArrivesAsItIs(t *testing.T) {
	s := startSSHD(t)
	p := s.pool()
	for _, want := range []bool{false, true} {
		c := script(`for n in V_ALL V_COMMAND V_QUOTES V_LINES V_EMPTY V_LONG V_BACK V_UTF8 V_DASH; do sh -c 'printf "%s" "$'$n'"'; printf '\000'; done`)
		c.Env, c.WantOutput = hostile(), want
		r := must(t, p, s.target(), c)
		values := strings.Split(r.out, "\x00")
		if len(values) != 10 {
			t.Fatalf("%d values came back: %q", len(values), r.err)
		}
		for i, name := range []string{"V_ALL", "V_COMMAND", "V_QUOTES", "V_LINES", "V_EMPTY", "V_LONG", "V_BACK", "V_UTF8", "V_DASH"} {
			if values[i] != hostile()[name] {
				t.Errorf("output wanted %v, %s: %.300q", want, name, values[i])
			}
		}
	}
}

func TestScriptAndArgumentsArriveAsTheyAre(t *testing.T) {
	s := startSSHD(t)
	p := s.pool()
	h := hostile()
	c := Command{Script: []byte("for a; do printf '%s\\000' \"$a\"; done"), Args: []string{h["V_ALL"], h["V_COMMAND"], "", h["V_LINES"], "-x"}}
	r := must(t, p, s.target(), c)
	if got := strings.Split(strings.TrimSuffix(r.out, "\x00"), "\x00"); strings.Join(got, "\x00") != strings.Join(c.Args, "\x00") {
		t.Fatalf("%q %s", got, r.err)
	}
	text := "cat <<'END'\n" + h["V_ALL"] + "\nEND\n"
	for _, interpreter := range [][]string{nil, {"bash"}} {
		c := script(text)
		c.Interpreter = interpreter
		if r := must(t, p, s.target(), c); r.out != h["V_ALL"]+"\n" {
			t.Errorf("%v: %q %q", interpreter, r.out, r.err)
		}
	}
}

func TestNothingDeclaredStandsInACommandLine(t *testing.T) {
	s := startSSHD(t)
	p := s.pool()
	for _, want := range []bool{false, true} {
		c := script("marker_of_the_script=1; tr '\\000' ' ' </proc/$$/cmdline; tr '\\000' ' ' </proc/$PPID/cmdline; grep -al value-of-the-secret /proc/[0-9]*/cmdline 2>/dev/null | grep -v self; ls -d \"${TMPDIR:-/tmp}\"/legwork-*/* 2>/dev/null | xargs -r grep -l value-of-the-\\secret; true")
		c.Env, c.WantOutput = map[string]string{"SECRET_X": "value-of-the-secret"}, want
		r := must(t, p, s.target(), c)
		if strings.Contains(r.out, "marker_of") || strings.Contains(r.out, "value-of") {
			t.Errorf("a command line shows it: %s", r.out)
		}
		if strings.Contains(r.out, "/environ") || strings.Contains(r.out, "legwork-") && strings.Contains(r.out, "output\n") {
			t.Errorf("a file holds it: %s", r.out)
		}
	}
}

func TestOutputValuesComeBack(t *testing.T) {
	s := startSSHD(t)
	p := s.pool()
	c := script("printf 'plain=a b=c\\nempty=\\nmany<<END\\none\\n  two\\nEND\\nno.newline=x' >>\"$LEGWORK_OUTPUT\"; echo seen; echo \"$LEGWORK_OUTPUT\"; exit 4")
	c.WantOutput = true
	r := must(t, p, s.target(), c)
	want := map[string]string{"plain": "a b=c", "empty": "", "many": "one\n  two", "no.newline": "x"}
	if !maps.Equal(r.Output, want) || r.ExitCode != 4 || r.err != "" {
		t.Fatalf("%+v", r)
	}
	folder := filepath.Dir(strings.Split(r.out, "\n")[1])
	if _, err := os.Stat(folder); !strings.Contains(folder, "legwork-") || !os.IsNotExist(err) {
		t.Fatalf("the folder %q is still there: %v", folder, err)
	}
}

func TestTooMuchOutputIsAFault(t *testing.T) {
	s := startSSHD(t)
	p := s.pool()
	for text, code := range map[string]string{
		"i=0; while [ $i -lt 700 ]; do echo v$i=0123456789012345678901234567890123456789012345678901; i=$((i+1)); done": "output_invalid",
		"head -c 50000 /dev/zero | tr '\\000' x":              "output_invalid",
		"echo no value":                                       "output_invalid",
		"printf 'v='; head -c 30000 /dev/zero | tr '\\000' x": "",
	} {
		c := script("{ " + text + "; } >\"$LEGWORK_OUTPUT\"; exit 3")
		c.WantOutput = true
		r, err := do(t, p, s.target(), c)
		if fault.Code(err) != code || r.ExitCode != 3 || !r.Began || code == "" && len(r.Output["v"]) != 30000 {
			t.Errorf("%s: %v %+v", text, err, r.Result)
		}
	}
}

func TestAMebibyteOnOneLine(t *testing.T) {
	s := startSSHD(t)
	p := s.pool()
	for _, want := range []bool{false, true} {
		c := script("head -c 1048576 /dev/zero | tr '\\000' x; head -c 1048576 /dev/zero | tr '\\000' '\\036' >&2")
		c.WantOutput = want
		r := must(t, p, s.target(), c)
		if len(r.out) != 1<<20 || len(r.err) != 1<<20 || strings.Trim(r.out, "x") != "" || strings.Trim(r.err, "\x1e") != "" {
			t.Fatalf("%d and %d bytes came", len(r.out), len(r.err))
		}
	}
}

func TestInterpreters(t *testing.T) {
	s := startSSHD(t)
	p := s.pool()
	python := Command{Script: []byte("import os, sys\nprint(sys.argv[1:], os.environ['A'])\nopen(os.environ['LEGWORK_OUTPUT'],'w').write('k=v')\nsys.exit(5)\n"),
		Interpreter: []string{"python3", "-u"}, Args: []string{"x y"}, Env: map[string]string{"A": "b'c"}, WantOutput: true}
	r := must(t, p, s.target(), python)
	if r.out != "['x y'] b'c\n" || r.ExitCode != 5 || r.Output["k"] != "v" {
		t.Fatalf("%+v", r)
	}
	bash := Command{Script: []byte("set -euo pipefail; a=(1 2 3); echo ${#a[@]}"), Interpreter: []string{"bash"}}
	if r := must(t, p, s.target(), bash); r.out != "3\n" {
		t.Fatalf("%+v", r)
	}
	got, err := do(t, p, s.target(), Command{Script: []byte("x"), Interpreter: []string{"no-such-thing"}})
	if fault.Code(err) != "interpreter_missing" || got.Began {
		t.Fatalf("%v %+v", err, got)
	}
}

func TestFolders(t *testing.T) {
	s := startSSHD(t)
	p := s.pool()
	folder := filepath.Join(t.TempDir(), "a 'b' $(c)")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	home, _ := os.UserHomeDir()
	for _, want := range []bool{false, true} {
		for dir, expect := range map[string]string{folder: folder, "": home, "~/": home, "~": home} {
			c := script("pwd -P; umask")
			c.Dir, c.WantOutput = dir, want
			if r := must(t, p, s.target(), c); !strings.HasPrefix(r.out, expect) || strings.Contains(r.out, "0077") {
				t.Errorf("%q: %+v", dir, r)
			}
		}
		for _, dir := range []string{"/no/such/folder", "-"} {
			c := script("pwd")
			c.Dir, c.WantOutput = dir, want
			if r, err := do(t, p, s.target(), c); fault.Code(err) != "dir_missing" || r.Began || r.out != "" {
				t.Errorf("%q: %v %+v", dir, err, r)
			}
		}
	}
}

func TestWhatNoShellTakesIsRefused(t *testing.T) {
	p := newPool(t, Config{})
	for name, c := range map[string]Command{
		"a bad name":        {Env: map[string]string{"A B": ""}},
		"a held name":       {Env: map[string]string{"UID": "1"}},
		"a NUL":             {Env: map[string]string{"A": "\x00"}},
		"a large value":     {Env: map[string]string{"A": strings.Repeat("x", maxValue+1)}},
		"a NUL in a script": {Script: []byte{0}},
		"a large script":    {Script: make([]byte, maxScript+1)},
		"a hostile user":    {Sudo: true, SudoUser: "-s"},
		"no interpreter":    {Interpreter: []string{""}},
	} {
		if _, err := do(t, p, Target{Host: "127.0.0.1", Port: 1}, c); fault.Code(err) != "command_invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoiseOfLoginShellsIsNoOutput(t *testing.T) {
	shell := filepath.Join(t.TempDir(), "noisy")
	write(t, shell, "#!/bin/sh\necho Welcome; echo noise >&2\nexec sh -c \"$SSH_ORIGINAL_COMMAND\"\n", 0o755)
	s := startSSHD(t, "ForceCommand "+shell)
	r := must(t, s.pool(), s.target(), script("echo out; echo err >&2"))
	if r.out != "out\n" || r.err != "err\n" {
		t.Fatalf("%+v", r)
	}
}

func TestAShellThatDoesNotStart(t *testing.T) {
	s := startSSHD(t, "ForceCommand echo This account is closed; exit 1")
	r, err := do(t, s.pool(), s.target(), script("echo out"))
	if fault.Code(err) != "shell_failed" || !strings.Contains(err.Error(), "This account is closed") || r.Began {
		t.Fatalf("%v %+v", err, r)
	}
}

func TestProcessesLeftBehindAreNotWaitedFor(t *testing.T) {
	s := startSSHD(t)
	p := s.pool()
	for _, want := range []bool{false, true} {
		c := script("sleep 300 & echo pid=$!; echo done")
		c.WantOutput = want
		r := must(t, p, s.target(), c)
		if !strings.HasSuffix(r.out, "done\n") || r.ExitCode != 0 {
			t.Fatalf("%+v", r)
		}
		var pid int
		if _, err := fmt.Sscanf(r.out, "pid=%d", &pid); err != nil {
			t.Fatal(err)
		}
		if process, err := os.FindProcess(pid); err == nil {
			_ = process.Kill()
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	s := startSSHD(t, "MaxStartups 10:30:100")
	p := s.pool()
	failures := make(chan error, 50)
	for i := range 50 {
		go func() {
			target := s.target()
			target.Host = fmt.Sprintf("127.0.0.%d", i+1)
			r, err := do(t, p, target, script(fmt.Sprintf("echo %d", i)))
			if err == nil && r.out != fmt.Sprintf("%d\n", i) {
				err = fmt.Errorf("%d: %+v", i, r)
			}
			failures <- err
		}()
	}
	for range 50 {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
}

func TestSessionsOfOneConnection(t *testing.T) {
	for _, most := range []int{1, 3} {
		s := startSSHD(t, fmt.Sprintf("MaxSessions %d", most))
		p := s.pool()
		failures := make(chan error, 20)
		for i := range 20 {
			go func() {
				r, err := do(t, p, s.target(), script(fmt.Sprintf("echo %d", i)))
				if err == nil && r.out != fmt.Sprintf("%d\n", i) {
					err = fmt.Errorf("%d: %+v", i, r)
				}
				failures <- err
			}()
		}
		for range 20 {
			if err := <-failures; err != nil {
				t.Error(err)
			}
		}
		if n := strings.Count(s.log.String(), "Accepted publickey"); n != 1 {
			t.Errorf("there were %d logins", n)
		}
	}
}

func TestConnectionsMakeRoom(t *testing.T) {
	s := startSSHD(t)
	p := s.pool(func(c *Config) { c.MaxConnections = 2 })
	failures := make(chan error, 12)
	for i := range 12 {
		go func() {
			target := s.target()
			target.Host = fmt.Sprintf("127.0.0.%d", i%6+1)
			_, err := do(t, p, target, script("true"))
			failures <- err
		}()
	}
	for range 12 {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.conns) > 2 {
		t.Fatalf("%d connections are open", len(p.conns))
	}
}
