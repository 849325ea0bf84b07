package remote

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"legwork/internal/fault"
)

func publicKey(t testing.TB) ssh.PublicKey {
	t.Helper()
	signer, err := ssh.ParsePrivateKey(newKey(""))
	if err != nil {
		t.Fatal(err)
	}
	return signer.PublicKey()
}

func TestStrictHostKeys(t *testing.T) {
	s := startSSHD(t)
	address := s.target().address()
	other := publicKey(t)
	known := knownhosts.Line([]string{address}, s.hostKey)
	hashed := knownhosts.HashHostname(knownhosts.Normalize(address)) + " " + string(ssh.MarshalAuthorizedKey(s.hostKey))
	file := filepath.Join(t.TempDir(), "known_hosts")
	write(t, file, "# a comment\nbroken line here\n"+known+"\n", 0o600)
	for name, c := range map[string]struct {
		policy HostKeyPolicy
		code   string
	}{
		"known by a line":      {HostKeyPolicy{Lines: known}, ""},
		"known by a file":      {HostKeyPolicy{Files: []string{"/no/such/file", file}}, ""},
		"hashed":               {HostKeyPolicy{Lines: hashed}, ""},
		"unknown":              {HostKeyPolicy{}, "host_key_unknown"},
		"known at another":     {HostKeyPolicy{Lines: knownhosts.Line([]string{"127.0.0.1:22"}, s.hostKey)}, "host_key_unknown"},
		"changed":              {HostKeyPolicy{Lines: knownhosts.Line([]string{address}, other)}, "host_key_changed"},
		"changed, known twice": {HostKeyPolicy{Lines: knownhosts.Line([]string{address}, other) + "\n" + knownhosts.Line([]string{address}, other)}, "host_key_changed"},
		"two are known":        {HostKeyPolicy{Lines: knownhosts.Line([]string{address}, other) + "\n" + known}, ""},
		"left out by negation": {HostKeyPolicy{Lines: "!" + known[:strings.Index(known, " ")] + ",* " + string(ssh.MarshalAuthorizedKey(s.hostKey))}, "host_key_unknown"},
		"revoked":              {HostKeyPolicy{Lines: known + "\n@revoked * " + string(ssh.MarshalAuthorizedKey(s.hostKey))}, "host_key_revoked"},
	} {
		r, err := do(t, s.pool(func(c2 *Config) { c2.HostKeys = c.policy }), s.target(), script("true"))
		if fault.Code(err) != c.code || err != nil && r.Began {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f := fault.Of(err)
		if c.code == "host_key_unknown" && (!strings.Contains(f.Message, ssh.FingerprintSHA256(s.hostKey)) || !strings.Contains(f.Hint, known)) {
			t.Errorf("%s: %s; %s", name, f.Message, f.Hint)
		}
		if c.code == "host_key_changed" && (!strings.Contains(f.Message, ssh.FingerprintSHA256(s.hostKey)) || !strings.Contains(f.Message, ssh.FingerprintSHA256(other))) {
			t.Errorf("%s: %s", name, f.Message)
		}
		if c.code == "host_key_changed" && strings.Count(f.Message, ssh.FingerprintSHA256(other)) != 1 {
			t.Errorf("%s: got %q, want the known key once", name, f.Message)
		}
	}
}

func TestTheKnownKindOfHostKeyIsAskedFor(t *testing.T) {
	folder := t.TempDir()
	rsaFile := filepath.Join(folder, "rsa")
	write(t, rsaFile, string(rsaHostKey(t)), 0o600)
	s := startSSHD(t, "HostKey "+rsaFile)
	pem, _ := os.ReadFile(rsaFile)
	signer, _ := ssh.ParsePrivateKey(pem)
	for _, key := range []ssh.PublicKey{signer.PublicKey(), s.hostKey} {
		p := s.pool(func(c *Config) { c.HostKeys.Lines = knownhosts.Line([]string{s.target().address()}, key) })
		must(t, p, s.target(), script("true"))
	}
}

func TestHostCertificates(t *testing.T) {
	authority, err := ssh.ParsePrivateKey(newKey(""))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	hostKey := newKey("")
	host, _ := ssh.ParsePrivateKey(hostKey)
	write(t, filepath.Join(folder, "host"), string(hostKey), 0o600)
	sign := func(principal string, until time.Time) *sshd {
		certificate := &ssh.Certificate{Key: host.PublicKey(), CertType: ssh.HostCert, KeyId: "host", ValidPrincipals: []string{principal},
			ValidAfter: uint64(time.Now().Add(-time.Hour).Unix()), ValidBefore: uint64(until.Unix())}
		if err := certificate.SignCert(rand.Reader, authority); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "cert")
		write(t, file, string(ssh.MarshalAuthorizedKey(certificate)), 0o600)
		return startSSHD(t, "HostKey "+filepath.Join(folder, "host"), "HostCertificate "+file)
	}
	line := "@cert-authority [127.0.0.*]:* " + string(ssh.MarshalAuthorizedKey(authority.PublicKey()))
	later := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		principal, lines string
		until            time.Time
		code             string
	}{
		"signed":               {"127.0.0.1", line, later, ""},
		"of another name":      {"127.0.0.2", line, later, "host_key_unknown"},
		"expired":              {"127.0.0.1", line, time.Now().Add(-time.Minute), "host_key_unknown"},
		"of another authority": {"127.0.0.1", "@cert-authority * " + string(ssh.MarshalAuthorizedKey(publicKey(t))), later, "host_key_unknown"},
		"of another host":      {"127.0.0.1", "@cert-authority 10.* " + string(ssh.MarshalAuthorizedKey(authority.PublicKey())), later, "host_key_unknown"},
		"no authority":         {"127.0.0.1", string("* ") + string(ssh.MarshalAuthorizedKey(host.PublicKey())), later, ""},
		"authority revoked":    {"127.0.0.1", line + "@revoked * " + string(ssh.MarshalAuthorizedKey(authority.PublicKey())), later, "host_key_revoked"},
	} {
		s := sign(c.principal, c.until)
		if _, err := do(t, s.pool(func(config *Config) { config.HostKeys.Lines = c.lines }), s.target(), script("true")); fault.Code(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAcceptNewKeepsTheFirstKey(t *testing.T) {
	s := startSSHD(t)
	keep := filepath.Join(t.TempDir(), "state", "known_hosts")
	accept := func(c *Config) { c.HostKeys = HostKeyPolicy{Mode: AcceptNew, Keep: keep} }
	for range 2 {
		must(t, s.pool(accept), s.target(), script("true"))
	}
	text, err := os.ReadFile(keep)
	if err != nil || string(text) != knownhosts.Line([]string{s.target().address()}, s.hostKey)+"\n" {
		t.Fatalf("%q %v", text, err)
	}
	if info, _ := os.Stat(keep); info.Mode().Perm() != 0o600 {
		t.Fatalf("%v", info.Mode())
	}
	other := publicKey(t)
	write(t, keep, knownhosts.Line([]string{s.target().address()}, other), 0o600) // without an end of line
	if _, err := do(t, s.pool(accept), s.target(), script("true")); fault.Code(err) != "host_key_changed" {
		t.Fatalf("%v", err)
	}
	target := s.target()
	target.Host = "127.0.0.2"
	must(t, s.pool(accept), target, script("true"))
	text, _ = os.ReadFile(keep)
	if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); len(lines) != 2 || !strings.HasPrefix(lines[1], "[127.0.0.2]:") {
		t.Fatalf("%q", text)
	}
}

func TestAcceptNewIsSharedBetweenProcesses(t *testing.T) {
	keep := filepath.Join(t.TempDir(), "known_hosts")
	var pools []*trust
	for range 4 {
		tr, err := newTrust(HostKeyPolicy{Mode: AcceptNew, Keep: keep})
		if err != nil {
			t.Fatal(err)
		}
		pools = append(pools, tr)
	}
	var group sync.WaitGroup
	accepted := make(chan bool, 1000)
	for host := range 20 {
		for _, tr := range pools {
			key := publicKey(t)
			group.Go(func() {
				err := tr.check(Target{Host: fmt.Sprintf("host-%d", host)}, key)
				if err != nil && fault.Code(err) != "host_key_changed" {
					t.Error(err)
				}
				accepted <- err == nil
			})
		}
	}
	group.Wait()
	close(accepted)
	n := 0
	for ok := range accepted {
		if ok {
			n++
		}
	}
	text, _ := os.ReadFile(keep)
	if lines := strings.Count(string(text), "\n"); n != 20 || lines != 20 {
		t.Fatalf("%d keys were accepted and %d kept for 20 hosts", n, lines)
	}
}

func TestPoliciesThatCannotWork(t *testing.T) {
	for _, policy := range []HostKeyPolicy{{Mode: AcceptNew}, {Mode: "off"}, {Files: []string{t.TempDir()}}} {
		if _, err := NewPool(Config{HostKeys: policy}); fault.Code(err) != "known_hosts_unreadable" {
			t.Errorf("%+v: %v", policy, err)
		}
	}
}

func TestWildcards(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true}, {"*", "x", true}, {"a*c", "abbc", true}, {"a*c", "abcd", false}, {"?", "", false}, {"a?c", "abc", true},
		{"*.example.com", "www.example.com", true}, {"*.example.com", "example.com", false}, {"[127.*]:*", "[127.0.0.1]:2222", true},
		{strings.Repeat("*a", 50), strings.Repeat("a", 5000) + "b", false},
	} {
		if got := wildcardMatches(c.pattern, c.name); got != c.want {
			t.Errorf("%.20q %.20q: %v", c.pattern, c.name, got)
		}
	}
}

func FuzzKnownHosts(f *testing.F) {
	f.Add("@cert-authority * ssh-ed25519 AAAA\n|1|a|b ssh-rsa x", "host")
	f.Fuzz(func(_ *testing.T, text, host string) {
		var h hostKeys
		h.add([]byte(text))
		h.algorithms(host)
	})
}
