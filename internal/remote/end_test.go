package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh/knownhosts"

	"legwork/internal/fault"
)

// firstWrite is a writer that says when something was written.
type firstWrite struct {
	lockedBuffer
	once chan struct{}
}

func newFirstWrite() *firstWrite { return &firstWrite{once: make(chan struct{}, 100)} }

func (f *firstWrite) Write(data []byte) (int, error) {
	n, err := f.lockedBuffer.Write(data)
	select {
	case f.once <- struct{}{}:
	default:
	}
	return n, err
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil && !zombie(pid) }

func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(text), ") Z ")
}

func TestCancelEndsTheWholeGroup(t *testing.T) {
	temp := t.TempDir()
	s := startSSHD(t, "SetEnv SHLVL=5 TMPDIR="+temp)
	p := s.pool()
	for name, c := range map[string]struct {
		text, signal string
		ladder       Graces
	}{
		"by INT":  {`sh -c 'sleep 300 & echo $!; wait' & sh -c 'sleep 300 & echo $!; wait; true'; wait`, "INT", Graces{patience, patience}},
		"by TERM": {`trap '' INT; sh -c 'sleep 300 & echo $!; sleep 300' & sh -c 'sleep 300 & echo $!; sleep 300'`, "TERM", Graces{10 * time.Millisecond, patience}},
		"by KILL": {`trap '' INT TERM; sh -c 'sleep 300 & echo $!; sleep 300' & sh -c 'sleep 300 & echo $!; sleep 300'`, "KILL", Graces{10 * time.Millisecond, 10 * time.Millisecond}},
	} {
		for _, want := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, output wanted %v", name, want), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				out := newFirstWrite()
				go func() {
					eventually(t, "both say their pid", func() bool { return strings.Count(out.String(), "\n") == 2 })
					cancel()
				}()
				r, err := p.Run(ctx, s.target(), Command{Script: []byte(c.text), WantOutput: want, Stdout: out, Graces: c.ladder})
				if err != nil || !r.Canceled || r.Signal != c.signal {
					t.Fatalf("%v %+v", err, r)
				}
				var one, two int
				_, _ = fmt.Sscan(out.String(), &one, &two)
				// A shell lets its background children ignore SIGINT.
				eventually(t, "the children of children are gone", func() bool { return !alive(one) && !alive(two) })
				eventually(t, "the folder is gone", func() bool {
					left, _ := filepath.Glob(filepath.Join(temp, "legwork-*"))
					return len(left) == 0
				})
			})
		}
	}
}

func TestACommandMayEndWellDespiteACancel(t *testing.T) {
	s := startSSHD(t, "MaxSessions 1") // so that the signal goes through a connection of its own
	p := s.pool()
	ctx, cancel := context.WithCancel(t.Context())
	out := newFirstWrite()
	go func() { <-out.once; cancel() }()
	r, err := p.Run(ctx, s.target(), Command{Script: []byte("trap 'echo cleaned; exit 5' INT; echo up; while :; do sleep 0.05; done"), Stdout: out, Graces: Graces{patience, patience}})
	if err != nil || !r.Canceled || r.ExitCode != 5 || out.String() != "up\ncleaned\n" {
		t.Fatalf("%v %+v %q", err, r, out.String())
	}
}

func TestALostConnectionLeavesTheOutcomeUnknown(t *testing.T) {
	temp := t.TempDir()
	s := startSSHD(t, "SetEnv SHLVL=5 TMPDIR="+temp)
	for _, want := range []bool{false, true} {
		p := s.pool()
		gate := filepath.Join(t.TempDir(), "gate")
		c := Command{Script: []byte(`cat /proc/$PPID/stat >/dev/null; p=$PPID; while [ "$(tr '\000' ' ' </proc/$p/cmdline | cut -c1-5)" != "sshd:" ]; do p=$(cut -d' ' -f4 </proc/$p/stat); done; echo $p; while [ ! -e "$GATE" ]; do sleep 0.05; done`),
			WantOutput: want, Env: map[string]string{"GATE": gate}}
		out := newFirstWrite()
		c.Stdout = out
		go func() {
			<-out.once
			var pid int
			_, _ = fmt.Sscan(out.String(), &pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		r, err := p.Run(ctx, s.target(), c)
		cancel()
		if fault.Code(err) != "connection_lost" || !r.Began || !strings.Contains(err.Error(), "unknown") {
			t.Fatalf("%v %+v", err, r)
		}
		write(t, gate, "", 0o600)
		eventually(t, "the folder is gone", func() bool {
			left, _ := filepath.Glob(filepath.Join(temp, "legwork-*"))
			return len(left) == 0
		})
	}
}

// stallingProxy passes bytes on until it is told to stall: then it keeps the connections open and passes nothing.
func stallingProxy(t *testing.T, port int) (int, *atomic.Bool) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stalled := &atomic.Bool{}
	over := make(chan struct{})
	t.Cleanup(func() { close(over); _ = listener.Close() })
	pass := func(to, from net.Conn) {
		defer to.Close()
		buffer := make([]byte, 4096)
		for {
			n, err := from.Read(buffer)
			if stalled.Load() {
				<-over
			}
			if _, writeErr := to.Write(buffer[:n]); err != nil || writeErr != nil {
				return
			}
		}
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				_ = connection.Close()
				continue
			}
			go pass(server, connection)
			go pass(connection, server)
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port, stalled
}

func TestKeepAliveNoticesADeadPeer(t *testing.T) {
	s := startSSHD(t)
	port, stalled := stallingProxy(t, s.port)
	target := s.target()
	target.Port = port
	p := s.pool(func(c *Config) {
		c.HostKeys.Lines = knownhosts.Line([]string{target.address()}, s.hostKey)
		c.KeepAlive = 5 * time.Second
	})
	out := newFirstWrite()
	go func() { <-out.once; stalled.Store(true) }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := p.Run(ctx, target, Command{Script: []byte("echo up; exec sleep 300"), Stdout: out})
	if fault.Code(err) != "connection_lost" || !r.Began || r.Canceled || !strings.Contains(err.Error(), "sign of life") {
		t.Fatalf("%v %+v", err, r)
	}
}

func TestSilence(t *testing.T) {
	s := startSSHD(t)
	p := s.pool()
	r, err := do(t, p, s.target(), Command{Script: []byte("echo up; exec sleep 300"), SilenceTimeout: 3 * time.Second})
	if fault.Code(err) != "silence_timeout" || !r.Began || r.Signal != "INT" || r.out != "up\n" {
		t.Fatalf("%v %+v", err, r)
	}
	must(t, p, s.target(), Command{Script: []byte("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.5; done"), SilenceTimeout: 3500 * time.Millisecond})
}

func TestSudo(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "sudo"), fakeSudo, 0o755)
	s := startSSHD(t, "SetEnv PATH="+folder+":/usr/local/bin:/usr/bin:/bin FAKE_SUDO=yes")
	p := s.pool()
	for _, want := range []bool{false, true} {
		c := Command{Script: []byte("echo as $AS; exit 6"), Sudo: true, SudoUser: "app", SudoPassword: "pass 'word", WantOutput: want}
		if r := must(t, p, s.target(), c); r.out != "as app\n" || r.ExitCode != 6 || r.err != "" {
			t.Fatalf("%+v", r)
		}
		c.SudoPassword = "wrong"
		if r, err := do(t, p, s.target(), c); fault.Code(err) != "sudo_failed" || r.Began || strings.Contains(err.Error(), "wrong\"") {
			t.Fatalf("%v %+v", err, r)
		}
		c.SudoPassword = ""
		if r, err := do(t, p, s.target(), c); fault.Code(err) != "sudo_failed" || !strings.Contains(err.Error(), "a password is required") || r.Began {
			t.Fatalf("%v %+v", err, r)
		}
		c.SudoUser, c.SudoPassword = "free", "is not asked for" // and must not be read as a program
		if r := must(t, p, s.target(), c); r.out != "as free\n" || r.err != "" {
			t.Fatalf("%+v", r)
		}
	}
}

const fakeSudo = `#!/bin/bash
prompt= ask=
while [ $# -gt 0 ]; do
  case $1 in
  -n) ask=never; shift ;;
  -S) ask=stdin; shift ;;
  -p) prompt=$2; shift 2 ;;
  -u) user=$2; shift 2 ;;
  --) shift; break ;;
  esac
done
echo "We trust you have received the usual lecture." >&2
if [ "$user" != free ]; then
  [ $ask = stdin ] || { echo "sudo: a password is required" >&2; exit 1; }
  for try in 1 2 3; do
    printf %s "$prompt" >&2
    IFS= read -r password || exit 1
    [ "$password" = "pass 'word" ] && break
    echo "Sorry, try again." >&2
    [ $try = 3 ] && exit 1
  done
fi
AS=$user exec "$@"
`

func TestRealSudo(t *testing.T) {
	if err := exec.Command("sudo", "-n", "-u", "nobody", "--", "true").Run(); err != nil {
		t.Skip("sudo to nobody is not possible here: ", err)
	}
	s := startSSHD(t)
	p := s.pool()
	c := Command{Script: []byte("id -un; echo \"$A\"; echo k=v >>\"$LEGWORK_OUTPUT\""), Sudo: true, SudoUser: "nobody", Env: map[string]string{"A": "it's"}, Dir: "/", WantOutput: true}
	if r := must(t, p, s.target(), c); r.out != "nobody\nit's\n" || r.Output["k"] != "v" {
		t.Fatalf("%+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out := newFirstWrite()
	go func() { <-out.once; cancel() }()
	r, err := p.Run(ctx, s.target(), Command{Script: []byte("echo up; sleep 300; echo not"), Sudo: true, SudoUser: "nobody", Dir: "/", Stdout: out, Graces: Graces{patience, patience}})
	if err != nil || !r.Canceled || r.ExitCode != 130 || out.String() != "up\n" {
		t.Fatalf("%v %+v %s", err, r, out.String())
	}
}

func TestUpload(t *testing.T) {
	s := startSSHD(t)
	p := s.pool()
	folder := t.TempDir()
	name := filepath.Join(folder, "a file")
	content := bytes.Repeat([]byte("0123456789"), 100_000)
	for range 2 {
		if err := p.Upload(t.Context(), s.target(), name, 0o640, bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(got, content) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		content = content[:1000]
	}
	if info, _ := os.Stat(name); info.Mode().Perm() != 0o640 {
		t.Fatal(info.Mode())
	}
	broken := errors.New("it broke")
	if err := p.Upload(t.Context(), s.target(), name, 0o600, readerFunc(func([]byte) (int, error) { return 0, broken })); !errors.Is(err, broken) || fault.Code(err) != "upload_failed" {
		t.Fatal(err)
	}
	if err := p.Upload(t.Context(), s.target(), filepath.Join(folder, "no", "file"), 0o600, strings.NewReader("")); fault.Code(err) != "upload_failed" || !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(folder); len(left) != 1 {
		t.Fatalf("%v", left)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(data []byte) (int, error) { return f(data) }

// The program under other shells, and without setsid.
func TestTheProgramInOtherShells(t *testing.T) {
	bin := t.TempDir()
	for _, tool := range []string{"sh", "bash", "dash", "mkdir", "rm", "dd", "cat", "sleep", "ps"} {
		if name, err := exec.LookPath(tool); err == nil {
			_ = os.Symlink(name, filepath.Join(bin, tool))
		}
	}
	for _, shell := range []string{"dash", "bash"} {
		for _, path := range []string{os.Getenv("PATH"), bin} {
			for _, leads := range []bool{true, false} {
				name, err := exec.LookPath(shell)
				if err != nil {
					continue
				}
				t.Run(fmt.Sprintf("%s, setsid %v, leads %v", shell, path != bin, leads), func(t *testing.T) {
					c := Command{Script: []byte("echo \"$A\"; echo k=v >\"$LEGWORK_OUTPUT\"; exit 9"), Env: map[string]string{"A": hostile()["V_ALL"]}, WantOutput: true}
					process := exec.Command(name)
					process.Env = []string{"PATH=" + path}
					process.Stdin = bytes.NewReader(c.program("nonce", randomName()))
					process.SysProcAttr = &syscall.SysProcAttr{Setpgid: leads}
					var out, stderr bytes.Buffer
					process.Stdout, process.Stderr = &out, &stderr
					_ = process.Run()
					said := stderr.String()
					if process.ProcessState.ExitCode() != 9 || out.String() != "\x1enonce begin\n"+c.Env["A"]+"\n" ||
						!strings.Contains(said, "\x1enonce pid ") || !strings.Contains(said, "\x1enonce out k=v\n") || !strings.HasSuffix(said, "\x1enonce exit 9\n") {
						t.Fatalf("%d\n%q\n%q", process.ProcessState.ExitCode(), out.String(), said)
					}
				})
			}
		}
	}
}

// Whatever part of the program arrives, nothing is done unless all of it does.
func TestHalfAProgramDoesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "done")
	c := Command{Script: []byte("echo >" + quote(file) + "\n"), Env: map[string]string{"A": "x; echo >" + file + "\n"}}
	program := c.program("nonce", randomName())
	for cut := 0; cut < len(program)-4; cut += 53 {
		process := exec.Command("/bin/sh")
		process.Stdin = bytes.NewReader(program[:cut])
		_ = process.Run()
		if _, err := os.Stat(file); err == nil {
			t.Fatalf("%d of %d bytes did it", cut, len(program))
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("noise\x1en begin\nout\x1en pid 3\nmore\x1e\x1en"), 3)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		whole, parts := framed(data, len(data)+1), framed(data, max(1, size%64))
		if whole != parts {
			t.Fatalf("%q\n%q", whole, parts)
		}
	})
}

func framed(data []byte, size int) string {
	var out, reports bytes.Buffer
	fr := newFrames("n", &out, func(text string) { reports.WriteString(text + ";") })
	for len(data) > 0 {
		n := min(size, len(data))
		fr.write(append([]byte(nil), data[:n]...))
		data = data[n:]
	}
	fr.end()
	return out.String() + "|" + reports.String() + "|" + fr.preamble()
}

func FuzzParseOutput(f *testing.F) {
	f.Add("a=b\nc<<E\nx\nE\n")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = ParseOutput(text) })
}
