package durable

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWriteFileReplaces(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "marker"), filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("untouched"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "second"} {
		if err := WriteFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("got %q (%v), want %q", got, err, text)
		}
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("got mode %v, want a regular file of mode 0600", info.Mode())
	}
	if got, err := os.ReadFile(other); err != nil || string(got) != "untouched" {
		t.Errorf("the target of the link is %q (%v), want it untouched", got, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("got %v (%v), want only the two files", entries, err)
	}
}

func TestWriteFileLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("x")); err == nil {
		t.Error("a folder was replaced")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v (%v), want only the folder", entries, err)
	}
	if err := WriteFile(filepath.Join(dir, "missing", "file"), nil); err == nil {
		t.Error("a file in a missing folder was written")
	}
}

// TestRemoveTemporary removes what a crash between the two steps of WriteFile leaves, and nothing else.
func TestRemoveTemporary(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := WriteFile(key, []byte("key")); err != nil {
		t.Fatal(err)
	}
	left, err := WriteTemporary(key, []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".key.1"), []byte("of the user"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := RemoveTemporary(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("got %v (%v), want the key and the file of the user, without %s", entries, err, left)
	}
}
