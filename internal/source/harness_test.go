package source_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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
