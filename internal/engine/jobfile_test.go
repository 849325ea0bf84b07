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
	if text, err := engine.ReadJobFile(dir, "file", 5); err != nil || string(text) != "hello" {
		t.Errorf("a file of the limit: got %q, %v", text, err)
	}
	if _, err := engine.ReadJobFile(dir, file, 4); !fault.Is(err, fault.TooLarge) {
		t.Errorf("a file over the limit: got %v, want a fault.TooLarge", err)
	}
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir, os.DevNull, outside, "../" + filepath.Base(dir) + "/file"} {
		if _, err := engine.ReadJobFile(dir, path, 5); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v, want a fault.Invalid", path, err)
		}
	}
	if _, err := engine.ReadJobFile(dir, "missing", 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: got %v", err)
	}
	for link, target := range map[string]string{"link": outside, "folder": filepath.Dir(outside)} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"link", "folder/secret"} {
		if text, err := engine.ReadJobFile(dir, path, 5); err == nil {
			t.Errorf("%s, which leads out: got %q, want an error", path, text)
		}
	}
}

// TestWriteJobFileReplacesLinks writes where a job has left a link and a pipe.
func TestWriteJobFileReplacesLinks(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "key")
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	err := errors.Join(os.WriteFile(outside, []byte("key"), 0o600), os.Symlink(outside, link), syscall.Mkfifo(pipe, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, pipe} {
		if err := engine.WriteJobFile(path, []byte("new")); err != nil {
			t.Fatal(err)
		}
		if text, err := engine.ReadJobFile(dir, path, 5); err != nil || string(text) != "new" {
			t.Errorf("%s: got %q, %v, want the new content", path, text, err)
		}
	}
	if text, err := os.ReadFile(outside); err != nil || string(text) != "key" {
		t.Errorf("the file outside: got %q, %v, want it unchanged", text, err)
	}
}
