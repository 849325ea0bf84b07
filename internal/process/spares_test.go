//go:build linux || darwin

package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

func TestSparesServeAgain(t *testing.T) {
	dir := t.TempDir()
	s := NewSpares(dir)
	old := filepath.Join(dir, "old")
	write(t, old, "what stood there before")
	before, err := os.Stat(old)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Give(old); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the given file is still there: %v", err)
	}
	file, err := NewSpares(dir).create(filepath.Join(dir, "new"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	after, err := file.Stat()
	if err != nil || !os.SameFile(before, after) || after.Size() != 0 || after.Mode().Perm() != 0o600 {
		t.Errorf("got %v of %d bytes, %v", after.Mode(), after.Size(), err)
	}
	if _, err := s.create(filepath.Join(dir, "new")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that is there was made: %v", err)
	}
	if _, err := s.create(filepath.Join(dir, "missing", "new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSparesTakeNothingForeign gives what a hostile Job may have put in the place of a record.
func TestSparesTakeNothingForeign(t *testing.T) {
	dir := t.TempDir()
	s := NewSpares(dir)
	precious := filepath.Join(dir, "precious")
	write(t, precious, "precious")
	for name, place := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink(precious, path) },
		"hard link": func(path string) error { return os.Link(precious, path) },
		"readable":  func(path string) error { return os.WriteFile(path, nil, 0o644) },
		"large":     func(path string) error { return os.WriteFile(path, make([]byte, spareBytes+1), 0o600) },
	} {
		path := filepath.Join(dir, name)
		if err := place(path); err != nil {
			t.Fatal(err)
		}
		if err := s.Give(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it is still there", name)
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(dir, "spare")); len(entries) != 0 {
		t.Errorf("%d spares", len(entries))
	}
	if text, _ := os.ReadFile(precious); string(text) != "precious" {
		t.Errorf("got %q", text)
	}
}

func TestSparesAreBoundedAndShared(t *testing.T) {
	dir := t.TempDir()
	giver := NewSpares(dir)
	for i := range 2 * maxSpares {
		path := filepath.Join(dir, "given"+strconv.Itoa(i))
		write(t, path, "x")
		if err := giver.Give(path); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, "spare"))
	if err != nil || len(entries) == 0 || len(entries) > maxSpares {
		t.Fatalf("%d spares, %v", len(entries), err)
	}
	var wg sync.WaitGroup
	for taker := range 4 {
		s := NewSpares(dir)
		wg.Go(func() {
			for i := range maxSpares {
				file, err := s.create(filepath.Join(dir, strconv.Itoa(taker)+"-"+strconv.Itoa(i)))
				if err != nil {
					t.Error(err)
					return
				}
				_ = file.Close()
			}
		})
	}
	wg.Wait()
	if entries, _ := os.ReadDir(filepath.Join(dir, "spare")); len(entries) != 0 {
		t.Errorf("%d spares are left", len(entries))
	}
}
