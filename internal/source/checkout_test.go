package source_test

import (
	"os"
	"path/filepath"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/source"
)

func TestTrackedAndLocal(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"main.tf": "one", "old/gone.tf": "x", "run.sh": "y", "kind": "file", "link": "-> main.tf", ".terraform.lock.hcl": "locked"})
	h := newHost(t, source.Config{})
	h.must(gitSource(r.url(), "main"))
	local := map[string]string{
		"terraform.tfstate": "state", "terraform.tfstate.backup": "older", ".terraform/providers/p": "provider", "out.log": "any",
		"terraform.tfstate.d/w/terraform.tfstate": "workspace", "old/terraform.tfstate": "inner",
	}
	for name, text := range local {
		h.put(name, text)
	}
	h.put("main.tf", "changed by a script")
	h.put(".terraform.lock.hcl", "changed by init")
	h.drop("run.sh", "link")
	h.put("link", "no link any more")

	want := map[string]string{"main.tf": "one", "old/gone.tf": "x", "run.sh": "y", "kind": "file", "link": "-> main.tf", ".terraform.lock.hcl": "locked"}
	add := func(to map[string]string) map[string]string {
		for name, text := range local {
			to[name] = text
		}
		return to
	}
	h.must(gitSource(r.url(), "main"))
	h.holds(add(want))

	r.commit(map[string]string{"main.tf": "two", "kind/is": "a folder now", "new.tf": "n"})
	h.must(gitSource(r.url(), "main"))
	h.holds(add(map[string]string{"main.tf": "two", "kind/is": "a folder now", "new.tf": "n"}))
	if _, err := os.Stat(filepath.Join(h.module, "src", "old", "gone.tf")); err == nil {
		t.Error("a dropped file is still there")
	}
}

// TestStateInSource: a state file that the source tracks is placed once and then belongs to the Module.
func TestStateInSource(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"a/main.tf": "1", "a/terraform.tfstate": "committed"})
	h := newHost(t, source.Config{})
	s := gitSource(r.url(), "main")
	s.Subdirectory = "a"
	h.must(s)
	h.holds(map[string]string{"a/main.tf": "1", "a/terraform.tfstate": "committed"})
	h.put("a/terraform.tfstate", "after an apply")
	h.must(s)
	h.holds(map[string]string{"a/main.tf": "1", "a/terraform.tfstate": "after an apply"})
	r.commit(map[string]string{"a/main.tf": "2", "a/terraform.tfstate": "committed again"})
	h.must(s)
	h.holds(map[string]string{"a/main.tf": "2", "a/terraform.tfstate": "after an apply"})
	r.commit(map[string]string{"a/main.tf": "3"})
	h.must(s)
	h.holds(map[string]string{"a/main.tf": "3", "a/terraform.tfstate": "after an apply"})
	r.commit(map[string]string{"a": "a file"})
	h.refused("state_in_the_way", gitSource(r.url(), "main"))
	h.holds(map[string]string{"a/main.tf": "3", "a/terraform.tfstate": "after an apply"})
}

func TestSubdirectory(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"a/b/main.tf": "1", "inside": "-> a/b", "out": "-> /etc", "up": "-> ../..", "a/up": "-> ../inside", "file": "x", "loop": "-> loop"})
	h := newHost(t, source.Config{})
	s := gitSource(r.url(), "main")
	for sub, want := range map[string]string{"": "", ".": "", "a/b": "a/b", "./a//b/": "a/b", "inside": "a/b", "a/up": "a/b"} {
		s.Subdirectory = sub
		if got, want := h.must(s).Dir, filepath.Join(h.module, "src", want); got != want {
			t.Errorf("%q is at %s, not %s", sub, got, want)
		}
	}
	for sub, code := range map[string]string{
		"missing": "subdirectory_missing", "file": "subdirectory_missing", "a/b/main.tf": "subdirectory_missing",
		"out": "bad_path", "up": "bad_path", "../x": "bad_path", "/etc": "bad_path", "a/../../x": "bad_path", ".git": "bad_path", "loop": "bad_path", "x\x00": "bad_path",
	} {
		s.Subdirectory = sub
		h.refused(code, s)
	}
	s.Subdirectory = "a/b"
	h.must(s)
	h.put("a/b/terraform.tfstate", "state")
	r.commit(map[string]string{"other/main.tf": "1"})
	h.refused("subdirectory_missing", s) // the folder is there, but only the state is left in it
	h.holds(map[string]string{"a/b/terraform.tfstate": "state", "other/main.tf": "1"})
}

// TestSourceMoves changes type and URL between Jobs: the code goes, the state stays.
func TestSourceMoves(t *testing.T) {
	a, b := newRepository(t), newRepository(t)
	a.commit(map[string]string{"main.tf": "a", "only-a/x": "x"})
	b.commit(map[string]string{"main.tf": "b", "only-b": "y"})
	h := newHost(t, source.Config{})
	h.must(gitSource(a.url(), ""), catalog.ExtraFile{FileName: "extra", Contents: "e"})
	h.put("terraform.tfstate", "state")
	h.must(gitSource(b.url(), ""))
	h.holds(map[string]string{"main.tf": "b", "only-b": "y", "terraform.tfstate": "state"})
	h.must(catalog.Source{Type: catalog.Inline, Files: map[string]string{"inline.tf": "i"}})
	h.holds(map[string]string{"inline.tf": "i", "terraform.tfstate": "state"})
	h.put("only-b", "a script made it")
	h.must(gitSource(a.url(), ""))
	h.holds(map[string]string{"main.tf": "a", "only-a/x": "x", "only-b": "a script made it", "terraform.tfstate": "state"})
	sha256 := newRepository(t, "--object-format=sha256")
	sha256.commit(map[string]string{"main.tf": "long ids"})
	if commit := h.must(gitSource(sha256.url(), "")).Commit; len(commit) != 64 {
		t.Error(commit)
	}
	h.holds(map[string]string{"main.tf": "long ids", "only-b": "a script made it", "terraform.tfstate": "state"})
}

// TestLinksInTheWay: links that a script leaves in src never lead a fetch out of it.
func TestLinksInTheWay(t *testing.T) {
	outside := t.TempDir()
	r := newRepository(t)
	r.commit(map[string]string{"dir/f": "1", "g": "1"})
	h := newHost(t, source.Config{})
	h.must(gitSource(r.url(), ""))
	h.drop("dir", "g")
	h.link(outside, "dir")
	h.link(filepath.Join(outside, "g"), "g")
	r.commit(map[string]string{"dir/f": "2", "g": "2"})
	h.must(gitSource(r.url(), ""))
	h.holds(map[string]string{"dir/f": "2", "g": "2"})
	if err := os.RemoveAll(filepath.Join(h.module, "src")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(h.module, "src")); err != nil {
		t.Fatal(err)
	}
	h.must(gitSource(r.url(), ""))
	h.holds(map[string]string{"dir/f": "2", "g": "2"})
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("something was written outside: %v", entries)
	}
}

func TestSubmodules(t *testing.T) {
	inner, outer, other := newRepository(t), newRepository(t), newRepository(t)
	inner.commit(map[string]string{"inner.tf": "i"})
	other.git("submodule", "--quiet", "add", inner.url(), "deep")
	other.git("commit", "--quiet", "--message", "nested")
	outer.commit(map[string]string{"main.tf": "m"})
	outer.git("submodule", "--quiet", "add", inner.url(), "mods/one")
	outer.git("submodule", "--quiet", "add", other.url(), "two")
	outer.git("submodule", "--quiet", "add", "../"+filepath.Base(inner.dir), "relative")
	outer.git("commit", "--quiet", "--message", "submodules")
	h := newHost(t, source.Config{})
	s := gitSource(outer.url(), "")
	s.Subdirectory = "mods/one"
	if dir := h.must(s).Dir; dir != filepath.Join(h.module, "src", "mods", "one") {
		t.Error(dir)
	}
	modules := "[submodule \"mods/one\"]\n\tpath = mods/one\n\turl = " + inner.url() +
		"\n[submodule \"two\"]\n\tpath = two\n\turl = " + other.url() +
		"\n[submodule \"relative\"]\n\tpath = relative\n\turl = ../" + filepath.Base(inner.dir) + "\n"
	nested := "[submodule \"deep\"]\n\tpath = deep\n\turl = " + inner.url() + "\n"
	want := map[string]string{"main.tf": "m", ".gitmodules": modules, "mods/one/inner.tf": "i", "relative/inner.tf": "i",
		"two/.gitmodules": nested, "two/deep/inner.tf": "i"}
	h.holds(want)
	h.put("two/deep/inner.tf", "changed")
	h.put("two/terraform.tfstate", "state")
	want["two/terraform.tfstate"] = "state"
	h.must(s)
	h.holds(want)

	inner.commit(map[string]string{"renamed.tf": "i2"}) // the outer repository does not follow by itself
	h.must(s)
	h.holds(want)
	outer.git("-C", "mods/one", "pull", "--quiet", "origin", "main")
	outer.git("rm", "--quiet", "two", "relative")
	outer.git("commit", "--quiet", "--all", "--message", "moves on")
	h.must(s)
	h.holds(map[string]string{"main.tf": "m", ".gitmodules": "[submodule \"mods/one\"]\n\tpath = mods/one\n\turl = " + inner.url() + "\n",
		"mods/one/renamed.tf": "i2", "two/terraform.tfstate": "state"})
}

func TestAllow(t *testing.T) {
	inner, outer := newRepository(t), newRepository(t)
	inner.commit(map[string]string{"inner.tf": "i"})
	outer.commit(map[string]string{"main.tf": "m"})
	outer.git("submodule", "--quiet", "add", inner.url(), "deep")
	outer.git("submodule", "--quiet", "add", "../"+filepath.Base(inner.dir), "relative")
	outer.git("commit", "--quiet", "--message", "submodules")
	var asked []string
	allowed := map[string]bool{outer.url(): true}
	h := newHost(t, source.Config{Allow: func(url string) error {
		asked = append(asked, url)
		if allowed[url] {
			return nil
		}
		return fault.New(fault.Forbidden, "policy_refused", "no").WithHint("ask")
	}})
	h.refused("policy_refused", gitSource(inner.url(), ""))
	h.refused("policy_refused", gitSource(outer.url(), ""))
	for _, url := range asked {
		if url != outer.url() && url != inner.url() {
			t.Errorf("asked about %q", url)
		}
	}
	allowed[inner.url()] = true
	h.must(gitSource(outer.url(), ""))
}
