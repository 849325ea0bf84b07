package ansible

import (
	"bytes"
	"crypto/ed25519"
	"encoding/pem"
	"net"
	"os"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// TestKeysAreReadAsForCommands: the same Secrets do for a playbook as for a command over SSH.
func TestKeysAreReadAsForCommands(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	plain, err := ssh.MarshalPrivateKey(key, "")
	must(t, err)
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte("open"))
	must(t, err)
	text := func(b *pem.Block) string { return string(pem.EncodeToMemory(b)) }
	windows := string(bytes.ReplaceAll(pem.EncodeToMemory(plain), []byte("\n"), []byte("\r\n")))
	for name, c := range map[string]struct {
		key, passphrase string
		readable        bool
	}{
		"plain": {text(plain), "", true}, "a passphrase that is not needed": {text(plain), "open", true}, "locked": {text(locked), "open", true},
		"lines of Windows": {windows, "", true}, "a wrong passphrase": {text(locked), "shut", false}, "no passphrase": {text(locked), "", false}, "no key": {"x", "", false},
	} {
		socket, stop, err := serveKey(catalog.ConnectionSpec{KeySecret: "key", KeyPassphrase: "word"}, map[string]string{"key": c.key, "word": c.passphrase})
		if !c.readable {
			if fault.Code(err) != "key_unreadable" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		conn, err := net.Dial("unix", socket)
		must(t, err)
		if keys, err := agent.NewClient(conn).List(); err != nil || len(keys) != 1 {
			t.Errorf("%s: the agent has %v %v", name, keys, err)
		}
		must(t, conn.Close())
		stop()
		if _, err := os.Stat(socket); err == nil {
			t.Errorf("%s: the socket is left", name)
		}
	}
}
