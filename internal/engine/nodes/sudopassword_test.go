package nodes

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPasswordIsNoCommand has a sudo that asks for a password for every program but the shell. The password must not
// become a line of what the shell executes.
func TestPasswordIsNoCommand(t *testing.T) {
	dir := t.TempDir()
	sudo := `#!/bin/sh
for a; do
  shift
  if [ "$a" = -- ]; then break; fi
done
if [ "$1" != /bin/sh ]; then exit 1; fi
exec "$@"
`
	if err := os.WriteFile(filepath.Join(dir, "sudo"), []byte(sudo), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	leak := filepath.Join(dir, "leak")
	h := &host{dir: dir, environ: os.Environ(), sudoer: sudoer{user: "deploy", password: "touch " + leak}}
	out, err := h.asUser("echo done\n").Output()
	if got, want := string(out), "done\n"; err != nil || got != want {
		t.Errorf("output: got %q, %v, want %q", got, err, want)
	}
	if _, err := os.Stat(leak); err == nil {
		t.Error("the password was executed")
	}
}
