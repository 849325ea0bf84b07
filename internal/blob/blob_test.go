package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"legwork/internal/blob"
	"legwork/internal/fault"
)

func each(t *testing.T, run func(t *testing.T, s *blob.Store)) {
	for name, where := range map[string]string{"files": filepath.Join(t.TempDir(), "deep", "blobs"), "memory": "mem://"} {
		t.Run(name, func(t *testing.T) {
			s, err := blob.Open(t.Context(), where)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			run(t, s)
		})
	}
}

func put(t *testing.T, s *blob.Store, key, text string) {
	t.Helper()
	if err := s.Put(t.Context(), key, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

func TestPutAndGet(t *testing.T) {
	each(t, func(t *testing.T, s *blob.Store) {
		put(t, s, "logs/a/1", "0123456789")
		put(t, s, "logs/a/1", "0123456789abc")
		o, err := s.Get(t.Context(), "logs/a/1")
		if err != nil {
			t.Fatal(err)
		}
		if err := iotest.TestReader(io.NewSectionReader(o, 0, o.Size), []byte("0123456789abc")); err != nil {
			t.Error(err)
		}
		r, err := o.Reader()
		if err != nil {
			t.Fatal(err)
		}
		if all, err := io.ReadAll(r); err != nil || string(all) != "0123456789abc" {
			t.Errorf("got %q, %v", all, err)
		}
		_ = r.Close()
		if _, err := s.Get(t.Context(), "logs/a/2"); !fault.Is(err, fault.NotFound) {
			t.Errorf("a blob that is not there gives %v", err)
		}
	})
}

func TestDeleteAndList(t *testing.T) {
	each(t, func(t *testing.T, s *blob.Store) {
		for _, key := range []string{"logs/b", "logs/a", "plans/x", "logs/c"} {
			put(t, s, key, key)
		}
		for range 2 {
			if err := s.Delete(t.Context(), "logs/b"); err != nil {
				t.Fatal(err)
			}
		}
		var keys []string
		for e, err := range s.List(t.Context(), "logs/") {
			if err != nil || e.Size != int64(len(e.Key)) {
				t.Fatal(e, err)
			}
			keys = append(keys, e.Key)
		}
		if !slices.Equal(keys, []string{"logs/a", "logs/c"}) {
			t.Errorf("got %v", keys)
		}
	})
}

func TestFailedPutChangesNothing(t *testing.T) {
	broken := errors.New("the source broke")
	each(t, func(t *testing.T, s *blob.Store) {
		put(t, s, "k", "before")
		half := io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), iotest.ErrReader(broken))
		if err := s.Put(t.Context(), "k", half); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Put(ctx, "k", strings.NewReader("late")); err == nil {
			t.Error("a Put whose time was over succeeded")
		}
		o, err := s.Get(t.Context(), "k")
		if err != nil || o.Size != 6 {
			t.Errorf("the blob has %d bytes, %v", o.Size, err)
		}
		for e := range s.List(t.Context(), "") {
			if e.Key != "k" {
				t.Errorf("%s was left behind", e.Key)
			}
		}
	})
}

func TestKeys(t *testing.T) {
	each(t, func(t *testing.T, s *blob.Store) {
		for _, key := range []string{"", "/a", "a/", "a//b", "../a", "a/../b", ".", "a\x00", "a b", "ä", "a.tmp", strings.Repeat("a", 300), strings.Repeat("a/", 600) + "a"} {
			if err := s.Put(t.Context(), key, strings.NewReader("")); !fault.Is(err, fault.Invalid) {
				t.Errorf("key %q gives %v", key, err)
			}
			if _, err := s.Get(t.Context(), key); !fault.Is(err, fault.Invalid) {
				t.Errorf("key %q gives %v", key, err)
			}
			if err := s.Delete(t.Context(), key); !fault.Is(err, fault.Invalid) {
				t.Errorf("key %q gives %v", key, err)
			}
		}
	})
}

// TestFilesArePrivate: files have mode 0600, folders 0700, and nothing lies beside the blobs.
func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	s, err := blob.Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put(t, s, "plans/1/plan", "secret")
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || files != 1 {
		t.Errorf("%d files, %v", files, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{"s3://bucket", "file://relative/dir", "mem://x", file, filepath.Join(file, "below")} {
		s, err := blob.Open(t.Context(), where)
		if err == nil {
			_ = s.Close()
		}
		if fault.Of(err).Hint == "" || fault.Is(err, fault.Internal) {
			t.Errorf("%s gives %v", where, err)
		}
	}
}

func TestObjectIsReadFromWhereItIsSoughtTo(t *testing.T) {
	for _, where := range []string{"mem://", t.TempDir()} {
		s, err := blob.Open(t.Context(), where)
		if err != nil {
			t.Fatal(err)
		}
		content := []byte(strings.Repeat("0123456789", 10_000))
		if err := s.Put(t.Context(), "a", bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		o, err := s.Get(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		r := o.Open()
		if err := iotest.TestReader(r, content); err != nil {
			t.Error(err)
		}
		if err := errors.Join(r.Close(), r.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	}
}
