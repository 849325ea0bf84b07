//go:build linux || darwin

package process

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"legwork/internal/engine"
)

// TestHandVersionsTrustsNoJob prepares a unit of a runner whose jobs replaced the file of versions of another unit.
func TestHandVersionsTrustsNoJob(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "master.key")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	const good = `{"/bin/tool": {"version": "1.2.3"}}`
	for name, c := range map[string]struct {
		replace func(path string) error
		want    bool
	}{
		"good":    {func(path string) error { return os.WriteFile(path, []byte(good), 0o600) }, true},
		"link":    {func(path string) error { return os.Symlink(secret, path) }, false},
		"no JSON": {func(path string) error { return os.Link(secret, path) }, false},
		"very large": {func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			u := &unit{dir: filepath.Join(folder, "new")}
			other := filepath.Join(folder, "old", workFolder)
			err := errors.Join(os.MkdirAll(filepath.Join(u.dir, workFolder), 0o700), os.MkdirAll(other, 0o700))
			if err := errors.Join(err, c.replace(filepath.Join(other, engine.VersionsFile))); err != nil {
				t.Fatal(err)
			}
			(&Launcher{}).handVersions(u)
			text, err := os.ReadFile(filepath.Join(u.dir, workFolder, engine.HandedVersions))
			if got := err == nil; got != c.want {
				t.Errorf("got the file %q, %v, want one: %t", text, err, c.want)
			}
		})
	}
}
