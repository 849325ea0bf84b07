package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"legwork/internal/fault"
)

// HostKeyMode tells which host keys are trusted.
type HostKeyMode string

// The ways to trust host keys. The empty one is Strict.
const (
	Strict    HostKeyMode = "strict"     // those that are known, alone
	AcceptNew HostKeyMode = "accept-new" // also the first key of a host that is not known: it is kept, another one is refused later
)

// maxKnownHosts bounds each known_hosts file.
const maxKnownHosts = 16 << 20

// HostKeyPolicy tells which host keys are trusted.
type HostKeyPolicy struct {
	Mode  HostKeyMode
	Files []string // known_hosts files; those that do not exist are left out
	Lines string   // further lines of the same form
	Keep  string   // AcceptNew: file where new keys are kept; made when missing, shared with other processes by a lock
}

// trust decides about host keys. It is safe for concurrent use.
type trust struct {
	mode  HostKeyMode
	keep  string
	mu    sync.Mutex
	known hostKeys
	seen  os.FileInfo // the kept file that was read
	read  int64       // how far
}

func newTrust(policy HostKeyPolicy) (*trust, error) {
	t := &trust{mode: policy.Mode, keep: policy.Keep}
	switch policy.Mode {
	case "", Strict:
		t.mode = Strict
	case AcceptNew:
		if policy.Keep == "" {
			return nil, fault.New(fault.Invalid, "known_hosts_unreadable", "no file is named to keep new host keys in")
		}
	default:
		return nil, fault.New(fault.Invalid, "known_hosts_unreadable", "%q is no way to trust host keys", string(policy.Mode)).WithHint("use strict or accept-new")
	}
	for _, name := range policy.Files {
		text, err := readBounded(name, maxKnownHosts)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, keepFault(name, err)
		}
		t.known.add(text)
	}
	t.known.add([]byte(policy.Lines))
	if t.keep != "" {
		if file, err := os.Open(t.keep); err == nil {
			defer file.Close()
			if err := errors.Join(lock(file), t.catchUp(file)); err != nil { // without the lock half a line could be read
				return nil, keepFault(t.keep, err)
			}
		}
	}
	return t, nil
}

func keepFault(name string, err error) error {
	return fault.New(fault.Failed, "known_hosts_unreadable", "the known_hosts file %s cannot be used: %s", name, reason(err)).
		WithHint("check its owner and mode on the host of the Runner").WithCause(err)
}

func (t *trust) algorithms(address string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known.algorithms(address)
}

// check is asked by a handshake with target, whose key was proven to be the server's.
func (t *trust) check(target Target, key ssh.PublicKey) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	verdict := t.verdict(target, key)
	if fault.Code(verdict) != "host_key_unknown" || t.mode != AcceptNew {
		return verdict
	}
	return t.accept(target, key)
}

// verdict compares a key with what is known. The lock is held.
func (t *trust) verdict(target Target, key ssh.PublicKey) error {
	address := target.address()
	if t.known.isRevoked(key) {
		return fault.New(fault.Failed, "host_key_revoked", "the host key %s of %s is revoked", describe(key), target.label()).
			WithHint("give the host a new key, or take the @revoked line out of known_hosts")
	}
	plain, authorities := t.known.keys(address)
	if certificate, ok := key.(*ssh.Certificate); ok {
		if slices.ContainsFunc(authorities, func(k ssh.PublicKey) bool { return same(k, certificate.SignatureKey) }) {
			return checkCertificate(target, certificate)
		}
		key = certificate.Key // a certificate of a stranger is worth as much as the key within
	}
	if slices.ContainsFunc(plain, func(k ssh.PublicKey) bool { return same(k, key) }) {
		return nil
	}
	if len(plain) > 0 {
		return t.changedFault(target, plain, key)
	}
	return fault.New(fault.Failed, "host_key_unknown", "the host key of %s is not known: %s", target.label(), describe(key)).
		WithHint("if it is the right one, add this line on the host of the Runner to ~/.ssh/known_hosts of its user or to /etc/ssh/ssh_known_hosts, or have first keys trusted (`host_keys: accept-new`, --host-keys accept-new): %s",
			knownhosts.Line([]string{address}, key))
}

func checkCertificate(target Target, certificate *ssh.Certificate) error {
	checker := ssh.CertChecker{IsHostAuthority: func(ssh.PublicKey, string) bool { return true }}
	address := net.JoinHostPort(strings.ToLower(target.Host), "22") // names of certificates bear no port
	if err := checker.CheckHostKey(address, nil, certificate); err != nil {
		return fault.New(fault.Failed, "host_key_unknown", "the host certificate of %s is not valid: %s", target.label(), printable(strings.TrimPrefix(err.Error(), "ssh: "))).
			WithHint("sign the host's key anew, for the name by which the Node is addressed").WithCause(err)
	}
	return nil
}

func (t *trust) changedFault(target Target, known []ssh.PublicKey, key ssh.PublicKey) error {
	var before []string
	for _, k := range known {
		if text := describe(k); !slices.Contains(before, text) { // several files may have the same key
			before = append(before, text)
		}
	}
	where := "the known_hosts file of the runner's host"
	if t.keep != "" {
		where = t.keep + " on the runner's host, and from its other known_hosts files. Each instance has a file of its own"
	}
	return fault.New(fault.Failed, "host_key_changed", "the host key of %s has changed: known is %s, it shows %s", target.label(), strings.Join(before, " or "), describe(key)).
		WithHint("someone may be listening in; if the host was reinstalled, remove its old line from %s", where)
}

func same(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

func describe(key ssh.PublicKey) string { return key.Type() + " " + ssh.FingerprintSHA256(key) }

// accept keeps the first key of a host, unless another process kept one meanwhile. The lock is held.
func (t *trust) accept(target Target, key ssh.PublicKey) error {
	if certificate, ok := key.(*ssh.Certificate); ok {
		key = certificate.Key
	}
	if err := os.MkdirAll(filepath.Dir(t.keep), 0o700); err != nil {
		return keepFault(t.keep, err)
	}
	file, err := os.OpenFile(t.keep, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return keepFault(t.keep, err)
	}
	defer file.Close()
	if err := lock(file); err != nil {
		return keepFault(t.keep, err)
	}
	if err := t.catchUp(file); err != nil {
		return keepFault(t.keep, err)
	}
	if verdict := t.verdict(target, key); fault.Code(verdict) != "host_key_unknown" {
		return verdict
	}
	if err := t.append(file, knownhosts.Line([]string{target.address()}, key)+"\n"); err != nil {
		return keepFault(t.keep, err)
	}
	return nil
}

// append writes a line durably and takes it in.
func (t *trust) append(file *os.File, line string) error {
	if t.read > 0 { // a line that was cut short by a crash must not swallow this one
		last := make([]byte, 1)
		if _, err := file.ReadAt(last, t.read-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			line = "\n" + line
		}
	}
	if _, err := file.WriteString(line); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if t.read == 0 {
		if folder, err := os.Open(filepath.Dir(t.keep)); err == nil {
			_ = folder.Sync()
			_ = folder.Close()
		}
	}
	return t.catchUp(file)
}

// catchUp reads what was added to the kept file since it was read last, by whomever.
func (t *trust) catchUp(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > maxKnownHosts {
		return fmt.Errorf("it has more than %d bytes", maxKnownHosts)
	}
	if t.seen == nil || !os.SameFile(t.seen, info) || info.Size() < t.read {
		t.read = 0 // another file: what is known stays known
	}
	more, err := io.ReadAll(io.NewSectionReader(file, t.read, info.Size()-t.read))
	if err != nil {
		return err
	}
	t.known.add(more)
	t.seen, t.read = info, info.Size()
	return nil
}
