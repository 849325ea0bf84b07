package source_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"legwork/internal/source"
)

func TestManyAtOnce(t *testing.T) {
	r := newRepository(t)
	want := r.commit(map[string]string{"f": "1"})
	h := newHost(t, source.Config{})
	var together sync.WaitGroup
	for i := range 8 {
		together.Go(func() {
			fetched, err := h.Fetch(t.Context(), source.Request{ModuleDir: filepath.Join(h.module, string(rune('a'+i%4))), Source: gitSource(r.url(), "main")}, h.log.say)
			if err != nil || fetched.Commit != want {
				t.Errorf("%+v %v", fetched, err)
			}
		})
	}
	together.Wait()
	if n := strings.Count(h.log.String(), "fetching"); n != 1 {
		t.Errorf("it was fetched %d times, not once", n)
	}
}

func TestMirrorIsShared(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"f": "1"})
	h := newHost(t, source.Config{})
	for i := range 45 { // more than the packs that are joined
		r.commit(map[string]string{"f": strings.Repeat("x", i)})
		h.must(gitSource(r.url(), "main"))
	}
	packs, _ := filepath.Glob(filepath.Join(h.MirrorsDir, "*.git", "objects", "pack", "*.pack"))
	if len(packs) == 0 || len(packs) > 42 {
		t.Errorf("%d packs", len(packs))
	}
	if mirrors, _ := filepath.Glob(filepath.Join(h.MirrorsDir, "*.git")); len(mirrors) != 1 {
		t.Errorf("mirrors: %q", mirrors)
	}
	h.must(gitSource(r.url(), "main"))
	if n := strings.Count(h.log.String(), "fetching"); n != 45 {
		t.Errorf("it was fetched %d times", n)
	}
}

// TestMirrorIsPrivate: only the user of the runner can read a mirror, even if the folder around it is open.
func TestMirrorIsPrivate(t *testing.T) {
	r, h := newRepository(t), newHost(t, source.Config{})
	r.commit(map[string]string{"f": "1"})
	h.must(gitSource(r.url(), "main"))
	mirrors, err := filepath.Glob(filepath.Join(h.MirrorsDir, "*.git"))
	if err != nil || len(mirrors) == 0 {
		t.Fatalf("got %q and %v, want a mirror", mirrors, err)
	}
	for _, mirror := range mirrors {
		info, err := os.Stat(mirror)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o700 {
			t.Errorf("%s: got mode %04o, want 0700", mirror, got)
		}
	}
}

func TestDamage(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"f": strings.Repeat("text ", 1000)})
	want := map[string]string{"f": strings.Repeat("text ", 1000)}
	h := newHost(t, source.Config{})
	s := gitSource(r.url(), "")
	h.must(s)
	damage := func(pattern string, with []byte) {
		t.Helper()
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("nothing at %s", pattern)
		}
		for _, path := range found {
			if err := os.Chmod(path, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, with, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	damage(filepath.Join(h.module, "index"), []byte("garbage"))
	h.must(s)
	damage(filepath.Join(h.module, "index"), nil)
	h.must(s)
	mirror := filepath.Join(h.MirrorsDir, "*.git")
	damage(filepath.Join(mirror, "HEAD"), []byte("garbage"))
	h.must(s)
	for _, part := range []string{"*.pack", "*.idx"} {
		damage(filepath.Join(mirror, "objects", "pack", part), []byte("garbage"))
		h.drop("f")
		h.must(s)
		h.holds(want)
	}
	damage(filepath.Join(h.module, "source.json"), []byte("{"))
	h.refused("module_folder_damaged", s)
}

func TestStaleLocks(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"f": "1"})
	h := newHost(t, source.Config{})
	s := gitSource(r.url(), "main")
	h.must(s)
	mirrors, _ := filepath.Glob(filepath.Join(h.MirrorsDir, "*.git"))
	refs, _ := filepath.Glob(filepath.Join(mirrors[0], "refs", "legwork", "one", "*"))
	for _, path := range append(refs, filepath.Join(h.module, "index"), filepath.Join(mirrors[0], "packed-refs"), filepath.Join(mirrors[0], "HEAD"), filepath.Join(mirrors[0], "config")) {
		if err := os.WriteFile(path+".lock", nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.commit(map[string]string{"f": "2"})
	h.must(s)
	h.holds(map[string]string{"f": "2"})
	if slices.ContainsFunc(refs, func(ref string) bool { _, err := os.Stat(ref + ".lock"); return err == nil }) || len(refs) == 0 {
		t.Error("a stale lock is still there")
	}
}
