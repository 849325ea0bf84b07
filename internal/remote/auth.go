package remote

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"legwork/internal/fault"
)

// maxKeyFile bounds what is read as a private key.
const maxKeyFile = 64 << 10

// Auth is what to log in with. All that is given is tried: keys first (Key, KeyFile, Identities, those of the agent), then the password.
type Auth struct {
	Key        []byte // a private key in PEM or OpenSSH form
	KeyFile    string // path of one; a certificate beside it (PATH-cert.pub) is used with it
	Passphrase []byte // of both
	// Identities are paths of keys that are used where they are there and need no passphrase: those that a user has by default.
	Identities  []string
	AgentSocket string // of an ssh-agent
	Password    string // also the answer to a keyboard-interactive question
}

// login is an Auth that was read: what a handshake needs, and what messages say of it.
type login struct {
	signers  []ssh.Signer
	agent    string
	password string
	tried    []string // for messages: "key SHA256:...", "agent", "password"
}

func newLogin(a Auth) (*login, error) {
	l := &login{agent: a.AgentSocket, password: a.Password}
	if len(a.Key) > 0 {
		if err := l.addKey(a.Key, a.Passphrase, "the private key"); err != nil {
			return nil, err
		}
	}
	if a.KeyFile != "" {
		if err := l.addKeyFile(a.KeyFile, a.Passphrase); err != nil {
			return nil, err
		}
	}
	for _, path := range a.Identities {
		_ = l.addKeyFile(path, nil) // one that cannot be used is as good as none
	}
	if l.agent != "" {
		l.tried = append(l.tried, "keys of the agent")
	}
	if l.password != "" {
		l.tried = append(l.tried, "password")
	}
	return l, nil
}

func (l *login) addKey(pem, passphrase []byte, what string) error {
	key, err := ReadKey(pem, passphrase, what)
	if err != nil {
		return err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return keyFault(what, passphrase, err)
	}
	l.signers = append(l.signers, signer)
	l.tried = append(l.tried, "key "+ssh.FingerprintSHA256(signer.PublicKey()))
	return nil
}

func (l *login) addKeyFile(path string, passphrase []byte) error {
	pem, err := readBounded(path, maxKeyFile)
	if err != nil {
		return fault.New(fault.Failed, "key_unreadable", "the private key file %s cannot be read: %s", path, reason(err)).
			WithHint("check that it exists on the host of the Runner and that its user may read it").WithCause(err)
	}
	if err := l.addKey(pem, passphrase, "the private key file "+path); err != nil {
		return err
	}
	text, err := readBounded(path+"-cert.pub", maxKeyFile)
	if err != nil {
		return nil // most keys have no certificate
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(text)
	certificate, ok := public.(*ssh.Certificate)
	if err != nil || !ok {
		return nil
	}
	last := len(l.signers) - 1
	if signer, err := ssh.NewCertSigner(certificate, l.signers[last]); err == nil {
		l.signers = append(l.signers[:last], signer, l.signers[last])
		l.tried = append(l.tried, "its certificate")
	}
	return nil
}

// ReadKey reads a private key in PEM or OpenSSH form. Lines may end as on Windows, and a passphrase that is not needed does no harm. what names the key in
// the fault, which is key_unreadable.
func ReadKey(pem, passphrase []byte, what string) (crypto.PrivateKey, error) {
	pem = append(bytes.TrimSpace(bytes.ReplaceAll(pem, []byte("\r\n"), []byte("\n"))), '\n')
	key, err := ssh.ParseRawPrivateKey(pem)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) && len(passphrase) > 0 {
		key, err = ssh.ParseRawPrivateKeyWithPassphrase(pem, passphrase)
	}
	if err != nil {
		return nil, keyFault(what, passphrase, err)
	}
	return key, nil
}

func keyFault(what string, passphrase []byte, err error) error {
	var locked *ssh.PassphraseMissingError
	f := fault.New(fault.Failed, "key_unreadable", "cannot read the private key %s", what).
		WithHint("give a private key in OpenSSH or PEM form, as ssh-keygen writes it")
	switch {
	case errors.As(err, &locked):
		f = fault.New(fault.Failed, "key_unreadable", "%s is locked by a passphrase, and none was given", what).WithHint("name the Secret that holds its passphrase")
	case len(passphrase) > 0 && errors.Is(err, x509.IncorrectPasswordError):
		f = fault.New(fault.Failed, "key_unreadable", "the passphrase of %s is wrong", what).WithHint("check the Secret that holds it")
	}
	return f.WithCause(err)
}

// methods gives the ways to log in, for one handshake. done is to be called after it.
func (l *login) methods() (methods []ssh.AuthMethod, done func()) {
	var connection net.Conn
	if len(l.signers) > 0 || l.agent != "" {
		methods = append(methods, ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			signers := append([]ssh.Signer(nil), l.signers...)
			if l.agent == "" {
				return signers, nil
			}
			var err error
			if connection, err = net.Dial("unix", l.agent); err != nil {
				return l.orOwn(signers, err)
			}
			more, err := agent.NewClient(connection).Signers()
			if err != nil {
				return l.orOwn(signers, err)
			}
			return append(signers, more...), nil
		}))
	}
	if l.password != "" {
		methods = append(methods, ssh.Password(l.password), ssh.KeyboardInteractive(l.answer()))
	}
	return methods, func() {
		if connection != nil {
			_ = connection.Close()
		}
	}
}

// orOwn goes on without an agent that does not answer when there are other keys.
func (l *login) orOwn(signers []ssh.Signer, err error) ([]ssh.Signer, error) {
	if len(signers) > 0 {
		return signers, nil
	}
	return nil, fmt.Errorf("asking the ssh-agent: %w", err)
}

// answer gives the password to the first hidden question and to no other.
func (l *login) answer() ssh.KeyboardInteractiveChallenge {
	asked := false
	return func(_, _ string, questions []string, echos []bool) ([]string, error) {
		answers := make([]string, len(questions))
		for i := range questions {
			if echos[i] || asked {
				return nil, errors.New("the server asks for more than the password")
			}
			answers[i], asked = l.password, true
		}
		return answers, nil
	}
}

// fault tells that t does not let us in.
func (l *login) fault(t Target, err error) error {
	tried := strings.Join(l.tried, ", ")
	if tried == "" {
		tried = "nothing, since no key, agent or password is given"
	}
	return fault.New(fault.Failed, "auth_failed", "%s does not let user %q in (tried: %s)", t.label(), t.User, tried).
		WithHint("check the user, and that the key is in its authorized_keys or the password is right").WithCause(err)
}

func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("it is no file of at most %d bytes", limit)
	}
	return os.ReadFile(path)
}
