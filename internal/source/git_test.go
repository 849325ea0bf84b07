package source_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/source"
)

// repository is a real git repository that tests write to.
type repository struct {
	t   testing.TB
	dir string
}

func newRepository(t testing.TB, options ...string) repository {
	t.Helper()
	r := repository{t, t.TempDir()}
	r.git(append([]string{"init", "--quiet", "--initial-branch=main"}, options...)...)
	return r
}

func (r repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_ALLOW_PROTOCOL=file",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=c", "GIT_COMMITTER_EMAIL=c@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit makes the repository hold exactly these files and gives the commit. "-> x" makes a link to x.
func (r repository) commit(files map[string]string) string {
	r.t.Helper()
	if out := r.git("ls-files"); out != "" {
		r.git("rm", "-r", "--quiet", "--force", ".")
	}
	for name, text := range files {
		path := filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			r.t.Fatal(err)
		}
		var err error
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	r.git("add", "--all", "--force")
	r.git("commit", "--quiet", "--allow-empty", "--message", "change")
	return r.git("rev-parse", "HEAD")
}

func (r repository) url() string { return "file://" + r.dir }

// host is a Fetcher with its folders, and one Module.
type host struct {
	t testing.TB
	*source.Fetcher
	module string
	log    *journal
}

type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) say(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n")
}

func newHost(t testing.TB, config source.Config) host {
	t.Helper()
	if config.MirrorsDir == "" {
		config.MirrorsDir = filepath.Join(t.TempDir(), "mirrors")
	}
	config.Env = append([]string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"}, config.Env...)
	return host{t, source.New(config), filepath.Join(t.TempDir(), "module"), &journal{}}
}

func gitSource(url, revision string) catalog.Source {
	return catalog.Source{Type: catalog.Git, URL: url, Revision: revision}
}

func (h host) fetch(s catalog.Source, extra ...catalog.ExtraFile) (source.Fetched, error) {
	return h.Fetch(h.t.Context(), source.Request{ModuleDir: h.module, Source: s, ExtraFiles: extra}, h.log.say)
}

func (h host) must(s catalog.Source, extra ...catalog.ExtraFile) source.Fetched {
	h.t.Helper()
	fetched, err := h.fetch(s, extra...)
	if err != nil {
		h.t.Fatalf("fetch: %v (%v)\n%s", err, errors.Unwrap(err), h.log)
	}
	return fetched
}

// refused fails unless the fetch fails with this code and says what to do.
func (h host) refused(code string, s catalog.Source, extra ...catalog.ExtraFile) *fault.Fault {
	h.t.Helper()
	_, err := h.fetch(s, extra...)
	f := fault.Of(err)
	if err == nil || f.Code != code || f.Hint == "" {
		h.t.Fatalf("the fault is %v (%+v), not %s\n%s", err, f, code, h.log)
	}
	return f
}

// holds fails unless src holds exactly these files and links.
func (h host) holds(want map[string]string) {
	h.t.Helper()
	got := map[string]string{}
	src := filepath.Join(h.module, "src")
	err := filepath.WalkDir(src, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, _ := filepath.Rel(src, path)
		if entry.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			got[name] = "-> " + to
			return err
		}
		text, err := os.ReadFile(path)
		got[name] = string(text)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			h.t.Errorf("src holds %s, which it should not", name)
		}
	}
	for name, text := range want {
		if got[name] != text {
			h.t.Errorf("%s is %q, not %q", name, got[name], text)
		}
	}
}

// put writes a file into src as an engine or a script would.
func (h host) put(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.module, "src", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

func (h host) link(to, name string) {
	h.t.Helper()
	if err := os.Symlink(to, filepath.Join(h.module, "src", name)); err != nil {
		h.t.Fatal(err)
	}
}

func (h host) drop(names ...string) {
	h.t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(h.module, "src", name)); err != nil {
			h.t.Fatal(err)
		}
	}
}

func TestRevisions(t *testing.T) {
	r := newRepository(t)
	first := r.commit(map[string]string{"f": "1"})
	r.git("tag", "light")
	r.git("tag", "--annotate", "--message", "m", "annotated")
	r.git("tag", "--annotate", "--message", "m", "twice", "annotated")
	r.git("tag", "a-blob", r.git("hash-object", "-w", "f"))
	second := r.commit(map[string]string{"f": "2"})
	r.git("checkout", "--quiet", "-b", "feature/x")
	third := r.commit(map[string]string{"f": "3"})
	r.git("tag", "both", first)
	r.git("branch", "both", third)
	r.git("branch", "abcd", second)
	r.git("update-ref", "refs/pull/7/head", third)
	r.git("checkout", "--quiet", "--detach")
	lonely := r.commit(map[string]string{"f": "4"})
	r.git("checkout", "--quiet", "main")
	for revision, want := range map[string]string{
		"": second, "HEAD": second, "main": second, "refs/heads/main": second, "light": first, "annotated": first, "twice": first,
		"feature/x": third, "both": third, "refs/tags/both": first, "abcd": second, "refs/pull/7/head": third,
		first: first, third[:7]: third, second[:12]: second,
	} {
		t.Run("revision "+revision, func(t *testing.T) {
			h := newHost(t, source.Config{})
			if got := h.must(gitSource(r.url(), revision)).Commit; got != want {
				t.Errorf("%s is %s, not %s", revision, got, want)
			}
		})
	}
	for _, revision := range []string{"missing", "x", "feature", "deadbeef", strings.Repeat("d", 40), strings.Repeat("d", 64), "a-blob", lonely[:9], "ain", "heads/main"} {
		newHost(t, source.Config{}).refused("revision_not_found", gitSource(r.url(), revision))
	}
	for _, revision := range []string{"--upload-pack=touch x", "-x", "main~1", "main^", "a..b", "@{-1}", ":/x", "a b", "*", "x\n", "x.lock", "/x", strings.Repeat("x", 5000)} {
		newHost(t, source.Config{}).refused("bad_revision", gitSource(r.url(), revision))
	}
}

func TestPinnedCommit(t *testing.T) {
	r := newRepository(t)
	first := r.commit(map[string]string{"f": "1"})
	h := newHost(t, source.Config{})
	h.must(gitSource(r.url(), "main"))
	second := r.commit(map[string]string{"f": "2"})
	pin := func(commit string) {
		t.Helper()
		fetched, err := h.Fetch(t.Context(), source.Request{ModuleDir: h.module, Source: gitSource(r.url(), "main"), Commit: commit}, h.log.say)
		if err != nil || fetched.Commit != commit {
			t.Fatalf("%+v %v", fetched, err)
		}
	}
	pin(first)
	h.holds(map[string]string{"f": "1"})
	pin(second)
	h.holds(map[string]string{"f": "2"})
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	pin(first) // what is there needs no remote
	h.holds(map[string]string{"f": "1"})
	_, err := h.Fetch(t.Context(), source.Request{ModuleDir: h.module, Source: gitSource(r.url(), ""), Commit: "main"}, h.log.say)
	if fault.Code(err) != "bad_revision" {
		t.Errorf("%v", err)
	}
}

// TestForcePushed: a pinned commit that no branch leads to any more is still the one that runs.
func TestForcePushed(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"f": "0"})
	first := r.commit(map[string]string{"f": "1"})
	h := newHost(t, source.Config{})
	h.must(gitSource(r.url(), "main"))
	r.git("reset", "--quiet", "--hard", "HEAD~1")
	second := r.commit(map[string]string{"f": "2"})
	if got := h.must(gitSource(r.url(), "main")).Commit; got != second {
		t.Errorf("%s, not %s", got, second)
	}
	if _, err := h.Fetch(t.Context(), source.Request{ModuleDir: h.module, Source: gitSource(r.url(), "main"), Commit: first}, h.log.say); err != nil {
		t.Error(err)
	}
	h.holds(map[string]string{"f": "1"})
}

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

func TestExtraFiles(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"m/main.tf": "code", "m/backend.tf": "original", "m/link.tf": "-> ../shared.tf", "shared.tf": "shared", "m/out": "-> /tmp", "m/dir/x": "x"})
	base := func(over map[string]string) map[string]string {
		all := map[string]string{"m/main.tf": "code", "m/backend.tf": "original", "m/link.tf": "-> ../shared.tf", "shared.tf": "shared", "m/out": "-> /tmp", "m/dir/x": "x"}
		for name, text := range over {
			all[name] = text
		}
		return all
	}
	for _, kind := range []string{"git", "inline"} {
		t.Run(kind, func(t *testing.T) {
			h := newHost(t, source.Config{})
			s := gitSource(r.url(), "main")
			base := base
			if kind == "inline" {
				s = catalog.Source{Type: catalog.Inline, Files: map[string]string{"m/main.tf": "code", "m/backend.tf": "original", "m/dir/x": "x"}}
				base = func(over map[string]string) map[string]string {
					all := map[string]string{"m/main.tf": "code", "m/backend.tf": "original", "m/dir/x": "x"}
					for name, text := range over {
						all[name] = text
					}
					return all
				}
			}
			s.Subdirectory = "m"
			h.must(s, catalog.ExtraFile{FileName: "extra.tf", Contents: "e1"}, catalog.ExtraFile{FileName: "deep/down.json", Contents: "d"})
			h.holds(base(map[string]string{"m/extra.tf": "e1", "m/deep/down.json": "d"}))

			h.refused("file_exists", s, catalog.ExtraFile{FileName: "backend.tf", Contents: "mine"})
			over := catalog.ExtraFile{FileName: "backend.tf", Contents: "mine", Overwrite: true}
			h.must(s, over, catalog.ExtraFile{FileName: "extra.tf", Contents: "e2"})
			h.holds(base(map[string]string{"m/extra.tf": "e2", "m/backend.tf": "mine"}))
			h.must(s, over)
			h.holds(base(map[string]string{"m/backend.tf": "mine"}))
			h.must(s)
			h.holds(base(nil))

			h.put("m/made.tf", "by a script")
			h.refused("file_exists", s, catalog.ExtraFile{FileName: "made.tf", Contents: "mine"})
			h.holds(base(map[string]string{"m/made.tf": "by a script"}))
			for name, code := range map[string]string{"../x": "bad_path", "/etc/x": "bad_path", "": "bad_path", ".": "bad_path", "a/../..": "bad_path", "dir": "bad_path",
				"terraform.tfstate": "bad_path", ".terraform/x": "bad_path", ".git/config": "bad_path", "main.tf/x": "bad_path"} {
				h.refused(code, s, catalog.ExtraFile{FileName: name, Contents: "x", Overwrite: true})
			}
			if kind == "git" {
				h.refused("bad_path", s, catalog.ExtraFile{FileName: "out/evil", Contents: "x"})
				h.must(s, catalog.ExtraFile{FileName: "link.tf", Contents: "instead of the link", Overwrite: true})
				h.holds(base(map[string]string{"m/made.tf": "by a script", "m/link.tf": "instead of the link"}))
				h.must(s)
			}
			h.holds(base(map[string]string{"m/made.tf": "by a script"}))
			info, err := os.Stat(h.must(s, catalog.ExtraFile{FileName: "secret", Contents: "s"}).Dir + "/secret")
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("an Extra file has the mode %v (%v)", info.Mode(), err)
			}
		})
	}
}

func TestInline(t *testing.T) {
	h := newHost(t, source.Config{Git: "/no/git/is/needed"})
	inline := func(files map[string]string) catalog.Source {
		return catalog.Source{Type: catalog.Inline, Files: files}
	}
	fetched := h.must(inline(map[string]string{"main.tf": "1", "mod/a.tf": "a", "x": "file"}))
	if fetched.Commit != "" || fetched.Dir != filepath.Join(h.module, "src") {
		t.Errorf("%+v", fetched)
	}
	h.put("terraform.tfstate", "state")
	h.put("main.tf", "changed")
	h.must(inline(map[string]string{"main.tf": "2", "x/y": "folder", "terraform.tfstate": "from the manifest"}))
	h.holds(map[string]string{"main.tf": "2", "x/y": "folder", "terraform.tfstate": "state"})
	h.must(inline(map[string]string{"x": "file again", "new.tfstate": "placed once"}))
	h.holds(map[string]string{"x": "file again", "terraform.tfstate": "state", "new.tfstate": "placed once"})
	h.drop("x")
	h.link("/etc/passwd", "x")
	h.link("/tmp", "dir")
	h.must(inline(map[string]string{"x": "in place of a link", "dir/f": "in a folder"}))
	h.holds(map[string]string{"x": "in place of a link", "dir/f": "in a folder", "terraform.tfstate": "state", "new.tfstate": "placed once"})
	h.put("d/terraform.tfstate", "deep")
	h.refused("state_in_the_way", inline(map[string]string{"d": "file"}))
	h.refused("state_in_the_way", inline(map[string]string{"terraform.tfstate/x": "file", "a": ""}))
	for _, name := range []string{"../x", "/x", "", "a/../b", "./a", ".git/hooks/x", "a\n"} {
		h.refused("bad_path", inline(map[string]string{name: ""}))
	}
	h.refused("bad_source", inline(nil))
	h.refused("bad_source", catalog.Source{Type: "svn"})
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

func TestFaults(t *testing.T) {
	h := newHost(t, source.Config{})
	h.refused("source_not_found", gitSource("file://"+t.TempDir(), ""))
	h.refused("source_not_found", gitSource("file:///no/such/folder", ""))
	h.refused("source_unreachable", gitSource("https://127.0.0.1:1/x.git", ""))
	h.refused("source_unreachable", gitSource("ssh://git@127.0.0.1:1/x.git", ""))
	h.refused("source_unreachable", gitSource("https://no-such-host.invalid/x.git", ""))
	h.refused("revision_not_found", gitSource(newRepository(t).url(), ""))
	for _, url := range []string{"", "http://example.com/x.git", "ext::sh -c touch% /tmp/x", "git://example.com/x", "ftp://h/x", "relative/path", "-x", "--upload-pack=x",
		"ssh://-oProxyCommand=x/y", "ssh://-x@host/y", "-oProxyCommand=x@host:y", "https:///x", "https://h/x?token=1", "file://other/x", "https://h/\x00", "fd::3", "https://[::1/x"} {
		h.refused("bad_url", gitSource(url, ""))
	}
	none := newHost(t, source.Config{Git: "no-such-git"})
	none.refused("git_missing", gitSource("file:///x", ""))
	r := newRepository(t)
	r.commit(map[string]string{"a": "12345", "b": "12345"})
	newHost(t, source.Config{Limits: source.Limits{Files: 1}}).refused("source_too_large", gitSource(r.url(), ""))
	newHost(t, source.Config{Limits: source.Limits{Bytes: 9}}).refused("source_too_large", gitSource(r.url(), ""))
}

// TestNoHooks: neither the settings nor the hooks of the host or of a repository run.
func TestNoHooks(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"f": "1", ".gitattributes": "* filter=evil\n"})
	touched := filepath.Join(t.TempDir(), "touched")
	for _, hook := range []string{"post-checkout", "reference-transaction", "post-index-change"} {
		path := filepath.Join(r.dir, ".git", "hooks", hook)
		if err := os.WriteFile(path, []byte("#!/bin/sh\ntouch "+touched), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h := newHost(t, source.Config{Env: []string{"GIT_DIR=/nowhere", "GIT_WORK_TREE=/nowhere", "GIT_INDEX_FILE=/nowhere", "GIT_TRACE=" + touched,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0=touch " + touched}})
	h.must(gitSource(r.url(), ""))
	h.holds(map[string]string{"f": "1", ".gitattributes": "* filter=evil\n"})
	if _, err := os.Stat(touched); err == nil {
		t.Error("a hook has run")
	}
}

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
