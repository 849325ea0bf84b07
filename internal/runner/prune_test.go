package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/source"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// oldModules makes folders of Modules, each used an hour later than the one before, the first long ago.
func oldModules(t *testing.T, r *started, names ...string) {
	t.Helper()
	for i, name := range names {
		_, err := r.fetcher.Fetch(t.Context(), source.Request{ModuleDir: r.home.module(name),
			Source: catalog.Source{Type: catalog.Inline, Files: map[string]string{"main.tf": string(make([]byte, 1<<20))}}}, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		age(t, filepath.Join(r.home.module(name), "source.lock"), 100*time.Hour-time.Duration(i)*time.Hour)
	}
}

func age(t *testing.T, path string, by time.Duration) {
	t.Helper()
	if err := os.Chtimes(path, time.Now().Add(-by), time.Now().Add(-by)); err != nil {
		t.Fatal(err)
	}
}

func left(r *started, names ...string) (n int) {
	for _, name := range names {
		if exists(r.home.module(name)) {
			n++
		}
	}
	return n
}

func TestPruneByAge(t *testing.T) {
	s := newServer(t)
	r := start(t, testConfig(t, s))
	job := ref("job-1", 1)
	s.begin(job, scriptSpec("true", false), 0)
	s.result(job, 0) // module-1 has a Job that waits for its next Step
	oldModules(t, r, "plain", "state", "workspace", "unknown", "engine", "young")
	for _, file := range []string{"state/src/terraform.tfstate", "workspace/src/terraform.tfstate.d/a/terraform.tfstate", "unknown/src/out.db",
		"engine/src/.terraform/providers/p", "engine/src/.terraform.lock.hcl"} {
		path := filepath.Join(r.home.modules(), file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	age(t, filepath.Join(r.home.module("young"), "source.lock"), time.Hour)
	age(t, filepath.Join(r.home.module("module-1"), "source.lock"), 1000*time.Hour)
	r.prune(Prune{}, time.Now())
	if left(r, "plain", "engine") != 2 {
		t.Error("pruning is on without a setting")
	}
	p := Prune{MaxAge: 48 * time.Hour}
	r.prune(p, time.Now())
	if left(r, "plain", "engine") != 0 {
		t.Error("old folders are still there")
	}
	if left(r, "state", "workspace", "unknown", "young", "module-1") != 5 {
		t.Error("a folder that is in use, young, or holds something of its own was removed")
	}
	p.LocalState = true
	r.prune(p, time.Now())
	if left(r, "state", "workspace", "unknown") != 0 || left(r, "young", "module-1") != 2 {
		t.Error("local state was asked for")
	}
	s.send(&wire.RunStep{Ref: job, Step: 1})
	if got := s.result(job, 1); got.Status != work.StepSucceeded {
		t.Errorf("the Job that was under way: %+v", got.Failure)
	}
}

func TestPruneBySize(t *testing.T) {
	s := newServer(t)
	r := start(t, testConfig(t, s))
	s.wait("connected", func() bool { return s.conn != nil })
	oldModules(t, r, "a", "b", "c", "d")
	age(t, filepath.Join(r.home.module("b"), "source.lock"), time.Minute)
	p := Prune{MaxBytes: 5<<19 + 1<<17} // a little over two and a half
	release, err := r.modules.acquire(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.prune(p, time.Now())
	if left(r, "a", "b") != 2 || left(r, "c", "d") != 0 {
		t.Errorf("left: a %v b %v c %v d %v", left(r, "a"), left(r, "b"), left(r, "c"), left(r, "d"))
	}
	release()
	p.MaxBytes = 1
	r.prune(p, time.Now())
	if left(r, "a") != 0 || left(r, "b") != 1 {
		t.Error("what was used within an hour must stay, what is free must go")
	}
}

func TestPruneMirrors(t *testing.T) {
	s := newServer(t)
	r := start(t, testConfig(t, s))
	s.wait("connected", func() bool { return s.conn != nil })
	repository := t.TempDir()
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = repository
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v", out, err)
		}
	}
	fetch := func() {
		t.Helper()
		_, err := r.fetcher.Fetch(t.Context(), source.Request{ModuleDir: r.home.module("m"),
			Source: catalog.Source{Type: catalog.Git, URL: "file://" + repository}}, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
	}
	fetch()
	stored, err := r.fetcher.Stored(r.home.modules())
	if err != nil || len(stored) != 2 || !stored[1].Mirror || time.Since(stored[1].Used) > time.Minute {
		t.Fatalf("got %+v %v", stored, err)
	}
	p := Prune{MaxAge: time.Hour}
	r.prune(p, time.Now())
	if !exists(stored[1].Path) {
		t.Error("a mirror that was just used is gone")
	}
	r.prune(p, time.Now().Add(2*time.Hour))
	if exists(stored[1].Path) || left(r, "m") != 0 {
		t.Error("an old mirror or its Module is still there")
	}
	fetch()
}
