package boot

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"legwork/internal/cli"
)

// TestBackupOntoAFullDiskLeavesNoFile writes a backup through a link to /dev/full, which has no space, and then where there is some.
func TestBackupOntoAFullDiskLeavesNoFile(t *testing.T) {
	source := serverSettings(t)
	firstStart(t, source)
	b := cli.BackupOptions{File: filepath.Join(t.TempDir(), "backup")}
	if err := os.Symlink("/dev/full", b.File+".partial"); err != nil {
		t.Fatal(err)
	}
	if err := backUp(t.Context(), dataFlags(source.Data), b, &bytes.Buffer{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: got %v, want no space left", err)
	}
	for _, path := range []string{b.File, b.File + ".partial"} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("file %s: got %v, want none", path, err)
		}
	}
	if err := backUp(t.Context(), dataFlags(source.Data), b, &bytes.Buffer{}); err != nil {
		t.Errorf("with space: got %v, want a backup", err)
	}
}
