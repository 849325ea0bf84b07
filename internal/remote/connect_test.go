package remote

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"legwork/internal/fault"
	"legwork/internal/harness/ports"
)

func (s *sshd) letIn(key []byte, passphrase string) {
	s.t.Helper()
	write(s.t, filepath.Join(s.folder, "authorized_keys"), publicLine(key, passphrase), 0o600)
}

func TestKeys(t *testing.T) {
	s := startSSHD(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]struct {
		pem        []byte
		passphrase string
	}{
		"rsa with a passphrase":     {marshalKey(rsaKey, "open sesame"), "open sesame"},
		"ecdsa":                     {marshalKey(ecKey, ""), ""},
		"ed25519 with a passphrase": {newKey("x y"), "x y"},
	} {
		t.Run(name, func(t *testing.T) {
			s.letIn(key.pem, key.passphrase)
			file := filepath.Join(t.TempDir(), "key")
			write(t, file, strings.ReplaceAll(string(key.pem), "\n", "\r\n"), 0o600)
			for _, auth := range []Auth{{Key: key.pem, Passphrase: []byte(key.passphrase)}, {KeyFile: file, Passphrase: []byte(key.passphrase)}} {
				config := s.config()
				config.Auth = auth
				if r := must(t, newPool(t, config), s.target(), script("echo in")); r.out != "in\n" {
					t.Fatalf("%+v", r)
				}
			}
			if key.passphrase == "" {
				return
			}
			for _, wrong := range []string{"", "wrong"} {
				if _, err := NewPool(Config{Auth: Auth{Key: key.pem, Passphrase: []byte(wrong)}}); fault.Code(err) != "key_unreadable" || strings.Contains(err.Error(), "sesame") {
					t.Errorf("passphrase %q: %v", wrong, err)
				}
			}
		})
	}
}

// Keys that a user has by default serve where they can; one that is locked, and one that is not there, are passed over.
func TestDefaultKeys(t *testing.T) {
	s := startSSHD(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "locked"), string(newKey("secret")), 0o600)
	write(t, filepath.Join(dir, "good"), string(clientKey()), 0o600)
	paths := []string{filepath.Join(dir, "none"), filepath.Join(dir, "locked"), filepath.Join(dir, "good")}
	must(t, s.pool(func(c *Config) { c.Auth = Auth{Identities: paths} }), s.target(), script("true"))
	_, err := s.pool(func(c *Config) { c.Auth = Auth{Identities: paths[:2]} }).Run(t.Context(), s.target(), script("true"))
	if fault.Code(err) != "auth_failed" {
		t.Fatalf("without a key: %v", err)
	}
}

// Nodes of several names at one address share its connection: what is said of that names none of them.
func TestSharedConnectionNamesTheAddress(t *testing.T) {
	s := startSSHD(t)
	p := s.pool(func(c *Config) { c.Auth = Auth{} })
	for _, name := range []string{"web-1", "web-2"} {
		target := s.target()
		target.Name = name
		if _, err := p.Run(t.Context(), target, script("true")); fault.Code(err) != "auth_failed" || strings.Contains(err.Error(), "web-") {
			t.Fatalf("%v", err)
		}
	}
}

func TestKeysOfAnAgent(t *testing.T) {
	s := startSSHD(t)
	raw, err := ssh.ParseRawPrivateKey(clientKey())
	if err != nil {
		t.Fatal(err)
	}
	keyring := agent.NewKeyring()
	if err := keyring.Add(agent.AddedKey{PrivateKey: raw}); err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("", "agent") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	listener, err := net.Listen("unix", filepath.Join(folder, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(keyring, connection) }()
		}
	}()
	p := s.pool(func(c *Config) { c.Auth = Auth{AgentSocket: filepath.Join(folder, "a")} })
	if r := must(t, p, s.target(), script("echo in")); r.out != "in\n" {
		t.Fatalf("%+v", r)
	}
	p = s.pool(func(c *Config) { c.Auth = Auth{AgentSocket: filepath.Join(folder, "none"), Key: clientKey()} })
	must(t, p, s.target(), script("true"))
}

func TestWhoIsNotLetIn(t *testing.T) {
	s := startSSHD(t)
	other := newKey("")
	p := s.pool(func(c *Config) { c.Auth = Auth{Key: other, Password: "hunter2"} })
	_, err := do(t, p, s.target(), script("true"))
	signer, _ := ssh.ParsePrivateKey(other)
	f := fault.Of(err)
	if f.Code != "auth_failed" || !strings.Contains(f.Message, s.user) || !strings.Contains(f.Message, ssh.FingerprintSHA256(signer.PublicKey())) || strings.Contains(f.Message+f.Hint, "hunter2") {
		t.Fatalf("%s %v", f.Code, err)
	}
	p = s.pool(func(c *Config) { c.Auth = Auth{} })
	if r, err := do(t, p, s.target(), script("true")); fault.Code(err) != "auth_failed" || r.Began {
		t.Fatalf("%v", err)
	}
	target := s.target()
	target.User = "nobody-of-that-name"
	if _, err := do(t, s.pool(), target, script("true")); fault.Code(err) != "auth_failed" || !strings.Contains(err.Error(), target.User) {
		t.Fatalf("%v", err)
	}
}

// passwordServer is an SSH server that asks for a password, one way or the other, and executes nothing: its answer to a
// command is an exit code.
func passwordServer(t *testing.T, interactive bool) (Target, string) {
	t.Helper()
	signer, err := ssh.ParsePrivateKey(newKey(""))
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{BannerCallback: func(ssh.ConnMetadata) string { return "AUTHORIZED\r\nUSERS ONLY\r\n" }}
	if interactive {
		config.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			if answers, err := ask("", "", []string{"Password: "}, []bool{false}); err != nil || len(answers) != 1 || answers[0] != "hunter2" {
				return nil, errors.New("no")
			}
			_, err := ask("", "", nil, nil) // as PAM does
			return nil, err
		}
	} else {
		config.PasswordCallback = func(_ ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			if string(password) != "hunter2" {
				return nil, errors.New("no")
			}
			return nil, nil
		}
	}
	config.AddHostKey(signer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go serveExit42(connection, config)
		}
	}()
	address := listener.Addr().(*net.TCPAddr)
	return Target{Host: "127.0.0.1", Port: address.Port, User: "me"}, knownhosts.Line([]string{address.String()}, signer.PublicKey())
}

func serveExit42(connection net.Conn, config *ssh.ServerConfig) {
	defer connection.Close()
	_, channels, requests, err := ssh.NewServerConn(connection, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for newChannel := range channels {
		channel, requests, err := newChannel.Accept()
		if err != nil {
			return
		}
		go func() {
			for request := range requests {
				_ = request.Reply(request.Type == "exec", nil)
			}
		}()
		var program bytes.Buffer
		_, _ = program.ReadFrom(channel)
		nonce := strings.Split(program.String(), "'")[1]
		fmt.Fprintf(channel, "\x1e%s begin\n", nonce)
		fmt.Fprintf(channel.Stderr(), "\x1e%s pid 1\n", nonce)
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{42}))
		_ = channel.Close()
	}
}

func TestPasswords(t *testing.T) {
	for _, interactive := range []bool{false, true} {
		target, line := passwordServer(t, interactive)
		config := Config{HostKeys: HostKeyPolicy{Lines: line}, Auth: Auth{Password: "hunter2", Key: clientKey()}, ConnectTimeout: patience}
		if r := must(t, newPool(t, config), target, script("true")); r.ExitCode != 42 {
			t.Fatalf("interactive %v: %+v", interactive, r)
		}
		config.Auth.Password = "wrong"
		if _, err := do(t, newPool(t, config), target, script("true")); fault.Code(err) != "auth_failed" {
			t.Fatalf("interactive %v: %v", interactive, err)
		}
	}
}

func TestHostsThatCannotBeReached(t *testing.T) {
	closed := ports.Free(t)
	p := newPool(t, Config{Auth: Auth{Key: clientKey()}})
	if r, err := do(t, p, Target{Name: "gone", Host: "127.0.0.1", Port: closed}, script("true")); fault.Code(err) != "host_unreachable" || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "gone") || r.Began {
		t.Fatalf("%v", err)
	}
	if _, err := do(t, p, Target{Host: "no-such-name.invalid"}, script("true")); fault.Code(err) != "host_unreachable" {
		t.Fatalf("%v", err)
	}
}

func TestAHostThatSaysNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	p := newPool(t, Config{Auth: Auth{Key: clientKey()}, ConnectTimeout: 50 * time.Millisecond})
	if _, err := do(t, p, Target{Host: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port}, script("true")); fault.Code(err) != "connect_timeout" {
		t.Fatalf("%v", err)
	}
}

func TestAPortThatSpeaksSomethingElse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Write([]byte(strings.Repeat("HTTP/1.1 400 Bad Request", 20)))
			go func() { _, _ = connection.Read(make([]byte, 1000)); _ = connection.Close() }()
		}
	}()
	p := newPool(t, Config{Auth: Auth{Key: clientKey()}, ConnectTimeout: patience})
	_, err = do(t, p, Target{Host: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port}, script("true"))
	if code := fault.Code(err); code != "handshake_failed" {
		t.Fatalf("%s %v", code, err)
	}
}

func TestALoginThatIsCutOffIsTriedAgain(t *testing.T) {
	s := startSSHD(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	cut := make(chan struct{}, 10)
	go func() {
		for i := 0; ; i++ {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			if i < 2 {
				_ = connection.(*net.TCPConn).SetLinger(0)
				_ = connection.Close()
				cut <- struct{}{}
				continue
			}
			go forward(connection, s.port)
		}
	}()
	target := s.target()
	target.Port = listener.Addr().(*net.TCPAddr).Port
	p := s.pool(func(c *Config) {
		c.HostKeys.Lines = knownhosts.Line([]string{target.address()}, s.hostKey)
	})
	must(t, p, target, script("true"))
	if len(cut) != 2 {
		t.Fatalf("%d were cut off", len(cut))
	}
}

func TestJumpHosts(t *testing.T) {
	first, second, last := startSSHD(t), startSSHD(t), startSSHD(t)
	config := last.config()
	config.HostKeys.Lines = first.line() + second.line() + last.line()
	config.Jump = []Target{first.target(), second.target()}
	config.MaxConnections = 1
	p := newPool(t, config)
	for i := range 3 {
		target := last.target()
		target.Host = fmt.Sprintf("127.0.0.%d", i+1)
		r := must(t, p, target, script("echo $SSH_CONNECTION"))
		if !strings.HasSuffix(r.out, fmt.Sprintf(" %d\n", last.port)) {
			t.Fatalf("%+v", r)
		}
	}
	if a, b := strings.Count(first.log.String(), "Accepted publickey"), strings.Count(second.log.String(), "Accepted publickey"); a != 1 || b != 1 {
		t.Fatalf("%d and %d logins at the jump hosts", a, b)
	}
	second.down()
	config.Jump[1].Name = "second-hop"
	_, err := do(t, newPool(t, config), last.target(), script("true"))
	if f := fault.Of(err); f.Code != "jump_failed" || !strings.Contains(f.Message, "second-hop") || !strings.Contains(f.Message, "2") {
		t.Fatalf("%v", err)
	}
	target := last.target()
	target.Port = second.port
	if _, err := do(t, first.pool(func(c *Config) { c.Jump = []Target{first.target()} }), target, script("true")); fault.Code(err) != "host_unreachable" {
		t.Fatalf("%v", err)
	}
}

func TestAConnectionThatDiedWhileIdleIsMadeAnew(t *testing.T) {
	s := startSSHD(t)
	p := s.pool()
	r := must(t, p, s.target(), script("echo $PPID"))
	var pid int
	_, _ = fmt.Sscan(r.out, &pid)
	process, _ := os.FindProcess(pid)
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		must(t, p, s.target(), script("true"))
	}
}

func TestAClosedPool(t *testing.T) {
	s := startSSHD(t)
	p := s.pool()
	must(t, p, s.target(), script("true"))
	for range 2 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := do(t, p, s.target(), script("true")); fault.Code(err) != "pool_closed" {
		t.Fatalf("%v", err)
	}
}

func TestACancelBeforeAnythingBegan(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	p := newPool(t, Config{Auth: Auth{Key: clientKey()}, ConnectTimeout: patience})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("because")
	go func() {
		_, _ = listener.Accept()
		cancel(why)
	}()
	r, err := doIn(ctx, p, Target{Host: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port}, script("true"))
	if !errors.Is(err, why) || r.Began {
		t.Fatalf("%v %+v", err, r)
	}
}

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]Target{
		"a":                  {Host: "a"},
		"me@a":               {Host: "a", User: "me"},
		"me@b@a:2222":        {Host: "a", User: "me@b", Port: 2222},
		"[::1]:22":           {Host: "::1", Port: 22},
		"me@[::1]":           {Host: "::1", User: "me"},
		"fe80::1":            {Host: "fe80::1"},
		"admin@10.0.0.1:022": {Host: "10.0.0.1", User: "admin", Port: 22},
	} {
		if got, err := ParseTarget(text); err != nil || got != want {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "@a", "a:0", "a:x", "a b", "me@", "[]:22", "a:99999"} {
		if got, err := ParseTarget(text); fault.Code(err) != "target_invalid" {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
}
