package engine_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"legwork/internal/engine"
	"legwork/internal/fault"
)

func TestReadJobFile(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := engine.ReadJobFile(file, 5); err != nil || string(text) != "hello" {
		t.Errorf("a file of the limit: got %q, %v", text, err)
	}
	if _, err := engine.ReadJobFile(file, 4); !fault.Is(err, fault.TooLarge) {
		t.Errorf("a file over the limit: got %v, want a fault.TooLarge", err)
	}
	for _, path := range []string{pipe, dir, os.DevNull} {
		if _, err := engine.ReadJobFile(path, 5); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v, want a fault.Invalid", path, err)
		}
	}
	if _, err := engine.ReadJobFile(filepath.Join(dir, "missing"), 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: got %v", err)
	}
}
