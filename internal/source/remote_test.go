package source_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/harness/ports"
	"legwork/internal/source"
)

// gitServer serves the folder of repositories over smart http. The paths below /private/ ask for a password.
type gitServer struct {
	*httptest.Server
	fetches atomic.Int64
	broken  atomic.Bool // answers 503
}

const password = "p@ss/word%20"

func serveGit(t *testing.T, dir string, start func(*httptest.Server)) *gitServer {
	t.Helper()
	program, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(program)), "git-http-backend"),
		Stderr: io.Discard,
		Env:    []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	s := &gitServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, pass, _ := r.BasicAuth()
		switch {
		case s.broken.Load():
			http.Error(w, "down", http.StatusServiceUnavailable)
		case strings.HasPrefix(r.URL.Path, "/forbidden/"):
			http.Error(w, "no", http.StatusForbidden)
		case strings.HasPrefix(r.URL.Path, "/redirect/"):
			http.Redirect(w, r, "http://example.invalid/x.git/info/refs", http.StatusFound)
		case strings.HasPrefix(r.URL.Path, "/private/") && (user != "robot" || pass != password):
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who?", http.StatusUnauthorized)
		default:
			if strings.HasSuffix(r.URL.Path, "/git-upload-pack") {
				s.fetches.Add(1)
			}
			r.URL.Path = strings.TrimPrefix(r.URL.Path, "/private")
			backend.ServeHTTP(w, r)
		}
	}))
	s.Config.ErrorLog = nil
	start(s.Server)
	t.Cleanup(s.Close)
	return s
}

func TestHTTPS(t *testing.T) {
	r := newRepository(t)
	want := r.commit(map[string]string{"f": "over https"})
	s := serveGit(t, filepath.Dir(r.dir), (*httptest.Server).StartTLS)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(r.dir) + "/.git"
	h := newHost(t, source.Config{Env: []string{"GIT_SSL_CAINFO=" + ca}})
	if got := h.must(gitSource(s.URL+"/"+name, "main")).Commit; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	h.holds(map[string]string{"f": "over https"})
	before := s.fetches.Load()
	h.must(gitSource(s.URL+"/"+name, "main"))
	if n := s.fetches.Load() - before; n > 1 { // the list of names is one, too
		t.Errorf("what is there was fetched again: %d requests", n)
	}

	withPassword := strings.Replace(s.URL, "https://", "https://robot:p%40ss%2Fword%2520@", 1) + "/private/" + name
	if got := h.must(gitSource(withPassword, "main")).Commit; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	h.refused("source_auth", gitSource(s.URL+"/private/"+name, ""))
	h.refused("source_auth", gitSource(strings.Replace(withPassword, "ss", "SS", 1), ""))
	h.refused("source_auth", gitSource(strings.Replace(s.URL, "https://", "https://robot@", 1)+"/private/"+name, ""))
	h.refused("source_auth", gitSource(s.URL+"/forbidden/"+name, ""))
	h.refused("source_not_found", gitSource(s.URL+"/nothing/here.git", ""))
	h.refused("bad_url", gitSource(s.URL+"/redirect/"+name, ""))
	hush(t, h, "p@ss", "p%40ss", "word%20", "p@SS")

	s.broken.Store(true)
	h.refused("source_unreachable", gitSource(s.URL+"/"+name, ""))
	s.broken.Store(false)
	newHost(t, source.Config{Env: []string{"GIT_SSL_CAINFO=" + otherAuthority(t)}}).refused("source_unreachable", gitSource(s.URL+"/"+name, ""))
}

// hush fails when a secret stands in the log or in a file that lasts.
func hush(t *testing.T, h host, secrets ...string) {
	t.Helper()
	texts := map[string]string{"the log": h.log.String()}
	for _, dir := range []string{h.MirrorsDir, h.module} {
		err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			texts[path] = path + string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for where, text := range texts {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%q stands in %s", secret, where)
			}
		}
	}
}

// TestPasswordStaysOutOfArguments watches what a git with a password is started with: not that password, and
// none of the Runner's own secrets.
func TestPasswordStaysOutOfArguments(t *testing.T) {
	seen := filepath.Join(t.TempDir(), "seen")
	spy := filepath.Join(t.TempDir(), "git")
	t.Setenv("Runner__Credentials__ClientSecret", "c1ient")
	t.Setenv("LEGWORK_TOKEN", "t0ken")
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >> %s\nenv | grep -v LEGWORK_GIT >> %s\nexec git \"$@\"\n", seen, seen)
	if err := os.WriteFile(spy, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRepository(t)
	r.commit(map[string]string{"f": "1"})
	s := serveGit(t, filepath.Dir(r.dir), (*httptest.Server).Start)
	url := strings.Replace(s.URL, "http://", "http://robot:p%40ss%2Fword%2520@", 1) + "/private/" + filepath.Base(r.dir) + "/.git"
	h := newHost(t, source.Config{Git: spy, Env: []string{"GIT_CURL_VERBOSE=1", "GIT_TRACE=1"}})
	h.must(gitSource(url, "main"))
	text, err := os.ReadFile(seen)
	if err != nil || !strings.Contains(string(text), "ls-remote") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, secret := range []string{"p@ss", "p%40ss", "c1ient", "t0ken"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("git is started with %q", secret)
		}
	}
	hush(t, h, "p@ss", "p%40ss")
}

func otherAuthority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "another"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "other.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sshServer is a real sshd that lets one key in.
type sshServer struct {
	address string // 127.0.0.1:port
	key     string // the file of the private key that is let in
	known   string // a known_hosts file with the host's key
}

func serveSSH(t *testing.T) sshServer {
	t.Helper()
	sshd := "/usr/sbin/sshd"
	if _, err := os.Stat(sshd); err != nil {
		t.Fatal("there is no sshd: run `make test`, which installs openssh-server")
	}
	dir := t.TempDir()
	// sshd refuses a key below a folder that others may write to, which the system's temporary one is.
	must := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	s := sshServer{key: filepath.Join(dir, "user"), known: filepath.Join(dir, "known_hosts")}
	must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.key)
	must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, "host"))
	if os.Getuid() == 0 {
		_ = os.MkdirAll("/run/sshd", 0o755)
	}
	port := ports.Free(t)
	s.address = fmt.Sprintf("127.0.0.1:%d", port)
	config := fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s/user.pub\nStrictModes no\nPidFile none\n"+
		"UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n", port, dir, dir)
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	hostKey, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.known, fmt.Appendf(nil, "[127.0.0.1]:%d %s", port, hostKey), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(sshd, "-D", "-e", "-f", filepath.Join(dir, "config"))
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("sshd says:\n%s", log.String())
		}
	})
	answers(t, s.address)
	return s
}

// answers waits until something speaks ssh at the address.
func answers(t *testing.T, address string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = conn.SetDeadline(time.Now().Add(time.Second))
			greeting := make([]byte, 4)
			_, err = io.ReadFull(conn, greeting)
			_ = conn.Close()
			if err == nil && string(greeting) == "SSH-" {
				return
			}
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatalf("nothing answers at %s", address)
}

func (s sshServer) env(key, known string) source.Config {
	return source.Config{Env: []string{"GIT_SSH_COMMAND=ssh -F /dev/null -o BatchMode=yes -o IdentitiesOnly=yes -i " + key + " -o UserKnownHostsFile=" + known + " -o GlobalKnownHostsFile=/dev/null"}}
}

func TestSSH(t *testing.T) {
	s := serveSSH(t)
	r := newRepository(t)
	want := r.commit(map[string]string{"f": "over ssh"})
	user := strings.TrimSpace(output(t, "id", "-un"))
	url := "ssh://" + user + "@" + s.address + r.dir
	h := newHost(t, s.env(s.key, s.known))
	if got := h.must(gitSource(url, "main")).Commit; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	h.holds(map[string]string{"f": "over ssh"})
	r.commit(map[string]string{"f": "again"})
	h.must(gitSource(url, "main"))
	h.holds(map[string]string{"f": "again"})
	h.refused("source_not_found", gitSource(url+"/missing", ""))
	h.refused("revision_not_found", gitSource(url, "missing"))

	stranger := filepath.Join(t.TempDir(), "stranger")
	output(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", stranger)
	newHost(t, s.env(stranger, s.known)).refused("source_auth", gitSource(url, ""))
	newHost(t, s.env(s.key, "/dev/null")).refused("source_auth", gitSource(url, ""))
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
