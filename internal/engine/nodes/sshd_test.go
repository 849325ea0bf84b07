package nodes

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"legwork/internal/catalog"
	"legwork/internal/harness/ports"
	"legwork/internal/work"
)

// sshd is a real SSH server on a loopback port.
type sshd struct {
	port int
	key  string // that it lets in, in PEM form
	line string // of known_hosts
	cmd  *exec.Cmd
}

func newKey(t *testing.T) (text []byte, public ssh.PublicKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "test")
	if err != nil {
		t.Fatal(err)
	}
	text = pem.EncodeToMemory(block)
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return text, signer.PublicKey()
}

func startSSHD(t *testing.T) *sshd {
	t.Helper()
	program, err := exec.LookPath("sshd")
	if err != nil {
		program = "/usr/sbin/sshd"
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("there is no sshd on this machine")
	}
	_ = os.MkdirAll("/run/sshd", 0o755) // as root, sshd wants it
	dir := t.TempDir()
	hostKey, hostPublic := newKey(t)
	userKey, userPublic := newKey(t)
	s := &sshd{port: ports.Free(t), key: string(userKey)}
	s.line = fmt.Sprintf("[127.0.0.1]:%d %s", s.port, ssh.MarshalAuthorizedKey(hostPublic))
	config := fmt.Sprintf("ListenAddress 127.0.0.1:%d\nHostKey %s/host\nAuthorizedKeysFile %s/keys\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nMaxStartups 200\nSubsystem sftp internal-sftp\nUseDNS no\n", s.port, dir, dir)
	for name, text := range map[string][]byte{"host": hostKey, "keys": ssh.MarshalAuthorizedKey(userPublic), "config": []byte(config)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	s.cmd = exec.Command(program, "-D", "-e", "-f", filepath.Join(dir, "config"))
	s.cmd.Stderr = &log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	for deadline := time.Now().Add(time.Minute); ; {
		conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", s.port))
		if err == nil {
			_ = conn.Close()
			return s
		}
		if time.Now().After(deadline) {
			t.Fatal("sshd does not answer")
		}
		<-time.After(20 * time.Millisecond)
	}
}

// TestOverSSH has Nodes behind a real sshd, one of them nowhere, and one Node that is canceled.
func TestOverSSH(t *testing.T) {
	s := startSSHD(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	one, two := command("one"), command("two")
	one.Step.Command = `echo "$NODE_NAME takes ${option.word}"; cat "$OPTION_list"; echo "v=1$NODE_NAME" > "$LEGWORK_OUTPUT"; echo "$SECRET_key" | head -c 10 >&2`
	two.Step.Command = `echo "got '${step.one.v}'"; exit 3`
	f := file(t, 5, one, two)
	f.Run.OnFailure = catalog.ContinueOnFailure
	f.Run.Scopes[0].Values, f.Run.Scopes[0].Files = map[string]any{"word": `"quotes" $(rm -rf /)`, "list": "first line\n"}, []string{"list"}
	f.Run.Connection = catalog.ConnectionSpec{User: me.Username, KeySecret: "key", KnownHosts: s.line}
	for i, n := range f.Run.Nodes {
		n.Address, n.Port = "127.0.0.1", s.port
		if i == 4 {
			n.Port = 1 // nobody listens there
		}
		f.Run.Nodes[i] = n
	}
	path := filepath.Join(t.TempDir(), "round")
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := (Executor{}).run(t.Context(), path, append(os.Environ(), SecretPrefix+"key="+s.key), &out, nil); code != 0 {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	d := readFrames(t, out.Bytes())
	for i := range 4 {
		text := d.text(work.Stdout)
		if !strings.Contains(text, fmt.Sprintf("web-%d takes \"quotes\" $(rm -rf /)\n", i)) || !strings.Contains(text, fmt.Sprintf("got '1web-%d'", i)) {
			t.Errorf("the log says %q", text)
		}
		if d.status(i, 0) != work.NodeSucceeded || d.status(i, 1) != work.NodeFailed {
			t.Errorf("got %+v %+v", d.events[pairKey{i, 0}], d.events[pairKey{i, 1}])
		}
	}
	if e := d.events[pairKey{4, 0}]; e[len(e)-1].Failure == nil || e[len(e)-1].Failure.Code != "host_unreachable" || !strings.Contains(d.text(work.System), "web-4: one: ") {
		t.Errorf("got %+v, log %q", e, d.text(work.System))
	}
	left, _ := filepath.Glob("/tmp/legwork-list-*")
	if len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

// TestCancelOverSSH ends what runs on the Node.
func TestCancelOverSSH(t *testing.T) {
	s := startSSHD(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	pids := filepath.Join(t.TempDir(), "pid")
	one := command("one")
	one.Step.Command = fmt.Sprintf(`sleep 300 & echo $! > %s.new; mv %s.new %s; wait`, pids, pids, pids)
	f := file(t, 1, one)
	f.Run.Connection = catalog.ConnectionSpec{User: me.Username, KeySecret: "key", KnownHosts: s.line}
	n := f.Run.Nodes[0]
	n.Address, n.Port = "127.0.0.1", s.port
	f.Run.Nodes[0] = n
	path := filepath.Join(t.TempDir(), "round")
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	go func() {
		for !exists(pids) {
			<-time.After(20 * time.Millisecond)
		}
		_ = os.WriteFile(KillPath(path), nil, 0o600)
	}()
	var out bytes.Buffer
	if code := (Executor{}).run(t.Context(), path, append(os.Environ(), SecretPrefix+"key="+s.key), &out, nil); code != 0 {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	if d := readFrames(t, out.Bytes()); d.status(0, 0) != work.NodeCanceled {
		t.Errorf("got %+v", d.events)
	}
	pid, _ := os.ReadFile(pids)
	gone := func() bool { return exec.Command("kill", "-0", strings.TrimSpace(string(pid))).Run() != nil }
	for deadline := time.Now().Add(time.Minute); !gone(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the command's child lives on")
		}
	}
}
