package remote

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"legwork/internal/harness/ports"
)

// patience is how long a test waits for what must come, on a loaded machine.
const patience = 60 * time.Second

// sshd is a real SSH server of a test on a loopback port.
type sshd struct {
	t       *testing.T
	port    int
	folder  string
	user    string
	hostKey ssh.PublicKey // ed25519
	log     *lockedBuffer
	process *exec.Cmd
	down    func()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(data)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// clientKey is a key that every server of the tests lets in.
var clientKey = sync.OnceValue(func() []byte { return newKey("") })

func newKey(passphrase string) []byte {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return marshalKey(private, passphrase)
}

func marshalKey(private any, passphrase string) []byte {
	var block *pem.Block
	var err error
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(private, "test")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "test", []byte(passphrase))
	}
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(block)
}

func publicLine(key []byte, passphrase string) string {
	var signer ssh.Signer
	var err error
	if passphrase == "" {
		signer, err = ssh.ParsePrivateKey(key)
	} else {
		signer, err = ssh.ParsePrivateKeyWithPassphrase(key, []byte(passphrase))
	}
	if err != nil {
		panic(err)
	}
	return string(ssh.MarshalAuthorizedKey(signer.PublicKey()))
}

func sshdBinary(t testing.TB) string {
	t.Helper()
	if name, err := exec.LookPath("sshd"); err == nil {
		return name
	}
	if _, err := os.Stat("/usr/sbin/sshd"); err == nil {
		return "/usr/sbin/sshd"
	}
	t.Skip("there is no sshd on this machine")
	return ""
}

// startSSHD starts a server. Lines of config come before those of the test's own, and sshd takes the first of a kind.
func startSSHD(t *testing.T, config ...string) *sshd { return startServer(t, t, config...) }

func startServer(t *testing.T, tb testing.TB, config ...string) *sshd {
	tb.Helper()
	binary := sshdBinary(tb)
	me, err := user.Current()
	if err != nil {
		tb.Fatal(err)
	}
	if me.Uid == "0" {
		_ = os.MkdirAll("/run/sshd", 0o755)
	}
	s := &sshd{t: t, folder: tb.TempDir(), user: me.Username, log: &lockedBuffer{}}
	hostKey := newKey("")
	write(tb, filepath.Join(s.folder, "host"), string(hostKey), 0o600)
	signer, _ := ssh.ParsePrivateKey(hostKey)
	s.hostKey = signer.PublicKey()
	write(tb, filepath.Join(s.folder, "authorized_keys"), publicLine(clientKey(), ""), 0o600)
	for range 20 {
		if s.begin(tb, binary, config) {
			tb.Cleanup(s.down)
			return s
		}
	}
	tb.Fatalf("sshd does not start: %s", s.log)
	return nil
}

// begin starts sshd on a free port. Another program may take the port before it does: then it tells false.
func (s *sshd) begin(tb testing.TB, binary string, config []string) bool {
	s.port = ports.Free(tb)
	lines := append(append([]string(nil), config...),
		"ListenAddress 0.0.0.0:"+strconv.Itoa(s.port), "HostKey "+filepath.Join(s.folder, "host"), "AuthorizedKeysFile "+filepath.Join(s.folder, "authorized_keys"),
		"PidFile none", "StrictModes no", "UsePAM no", "PermitRootLogin yes", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
		"MaxStartups 200", "LogLevel VERBOSE", "Subsystem sftp internal-sftp", "PrintMotd no", "UseDNS no",
		"SetEnv SHLVL=5") // bash reads no .bashrc then, which may take long
	write(tb, filepath.Join(s.folder, "sshd_config"), strings.Join(lines, "\n")+"\n", 0o600)
	s.process = exec.Command(binary, "-D", "-e", "-f", filepath.Join(s.folder, "sshd_config"))
	s.process.Stderr = s.log
	s.process.WaitDelay = time.Second // processes of its sessions hold the pipe
	s.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.process.Start(); err != nil {
		tb.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = s.process.Wait(); close(exited) }()
	s.down = sync.OnceFunc(func() {
		_ = s.process.Process.Kill()
		<-exited
	})
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		select {
		case <-exited:
			return false
		default:
		}
		if strings.Contains(s.log.String(), "Server listening on 0.0.0.0 port "+strconv.Itoa(s.port)) {
			return true
		}
	}
	s.down()
	return false
}

func write(tb testing.TB, name, text string, mode os.FileMode) {
	tb.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		tb.Fatal(err)
	}
}

func (s *sshd) target() Target {
	return Target{Name: "web-1", Host: "127.0.0.1", Port: s.port, User: s.user}
}

// line is what known_hosts holds of the server, whatever address of the loopback net is used.
func (s *sshd) line() string {
	return fmt.Sprintf("[127.*]:%d,[localhost]:%d %s", s.port, s.port, ssh.MarshalAuthorizedKey(s.hostKey))
}

// config is one that lets a Pool in.
func (s *sshd) config() Config {
	return Config{Auth: Auth{Key: clientKey()}, HostKeys: HostKeyPolicy{Lines: s.line()}, ConnectTimeout: patience}
}

func (s *sshd) pool(change ...func(*Config)) *Pool {
	s.t.Helper()
	config := s.config()
	for _, f := range change {
		f(&config)
	}
	return newPool(s.t, config)
}

func newPool(t testing.TB, config Config) *Pool {
	t.Helper()
	p, err := NewPool(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// printed is a command's result with what it printed.
type printed struct {
	Result
	out, err string
}

// do runs a command; give up after patience.
func do(t testing.TB, p *Pool, target Target, command Command) (printed, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return doIn(ctx, p, target, command)
}

func doIn(ctx context.Context, p *Pool, target Target, command Command) (printed, error) {
	var out, err lockedBuffer
	command.Stdout, command.Stderr = &out, &err
	result, failure := p.Run(ctx, target, command)
	return printed{Result: result, out: out.String(), err: err.String()}, failure
}

func must(t testing.TB, p *Pool, target Target, command Command) printed {
	t.Helper()
	r, err := do(t, p, target, command)
	if err != nil {
		t.Fatalf("%v (%v)\nstdout: %s\nstderr: %s", err, r.Result, r.out, r.err)
	}
	return r
}

func script(text string) Command { return Command{Script: []byte(text)} }

// eventually waits for a condition.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("it never happened: %s", what)
}

func rsaHostKey(t testing.TB) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return marshalKey(key, "")
}

// forward passes bytes between a connection and a server's port.
func forward(connection net.Conn, port int) {
	server, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		_ = connection.Close()
		return
	}
	go func() { _, _ = io.Copy(server, connection); _ = server.Close() }()
	_, _ = io.Copy(connection, server)
	_ = connection.Close()
}
