package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"legwork/internal/work"
)

func TestLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l locks
		var holders, most int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				release, err := l.acquire(t.Context(), "a", nil)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				holders++
				most = max(most, holders)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				holders--
				mu.Unlock()
				release()
			})
		}
		wg.Wait()
		if most != 1 {
			t.Errorf("%d had the lock at once", most)
		}
		release, _ := l.acquire(t.Context(), "a", nil)
		other, err := l.acquire(t.Context(), "b", func() { t.Error("another name waits") })
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errCanceled)
		defer cancel()
		waited := false
		if _, err := l.acquire(ctx, "a", func() { waited = true }); !errors.Is(err, errCanceled) || !waited {
			t.Errorf("got %v, waited %v", err, waited)
		}
		release()
		other()
		if len(l.held) != 0 {
			t.Errorf("%d locks are left", len(l.held))
		}
	})
}

func TestBaseEnviron(t *testing.T) {
	got := baseEnviron([]string{"PATH=/bin", "LEGWORK_RUNNER__CREDENTIALS__CLIENTSECRET=x", "Runner__Credentials__ClientSecret=x", "legwork_token=x", "RUNNER=kept"})
	if want := "PATH=/bin RUNNER=kept"; strings.Join(got, " ") != want {
		t.Errorf("got %q", got)
	}
}

func TestJournal(t *testing.T) {
	dir := t.TempDir()
	f := facts{Job: "j", Attempt: 2, ModuleID: "m", Steps: []work.StepKind{work.StepFetch, work.StepRun}, Changing: []bool{false, true}, Scratch: 3}
	attempt := filepath.Join(dir, "j.2")
	for _, d := range []string{attempt, filepath.Join(dir, "empty.1"), filepath.Join(dir, "other.1")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now().UTC()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(appendJournal(attempt, false, entry{Job: &f}, entry{Begun: &begunNote{Step: 0, Started: at}}))
	must(appendJournal(attempt, false, entry{Result: &resultNote{Step: 0, Dir: "/src", Result: work.StepResult{Status: work.StepSucceeded, Commit: "abc"}}}))
	must(appendJournal(attempt, true, entry{Begun: &begunNote{Step: 1, Started: at}}))
	must(appendJournal(filepath.Join(dir, "other.1"), false, entry{Job: &f}, entry{Begun: &begunNote{Step: 0, Started: at}}))
	file, err := os.OpenFile(filepath.Join(attempt, journalFile), os.O_WRONLY|os.O_APPEND, 0)
	must(err)
	_, err = file.WriteString(`{"result":{"step":1,"resu`) // torn
	must(errors.Join(err, file.Close()))
	var damaged []string
	all, err := readJournals(dir, func(name string, err error) { damaged = append(damaged, name) })
	must(err)
	if len(all) != 1 || all[0].Job != "j" || all[0].Scratch != 3 || len(all[0].steps) != 2 {
		t.Fatalf("got %+v", all)
	}
	fetch, run := all[0].steps[0], all[0].steps[1]
	if fetch.result == nil || fetch.result.Dir != "/src" || fetch.result.Result.Commit != "abc" || run.result != nil || !run.begun.Started.Equal(at) {
		t.Errorf("got %+v, %+v", fetch, run)
	}
	if len(damaged) != 1 || damaged[0] != "other.1" || exists(filepath.Join(dir, "empty.1")) {
		t.Errorf("damaged: %v", damaged)
	}
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"job":{"job":"j","attempt":1,"module_id":"m","steps":["run"],"changing":[true]}}` + "\n" + `{"begun":{"step":0}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := filepath.Join(t.TempDir(), "j.1")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, journalFile), data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readJournal(dir)
		if err == nil && len(got.steps) > 0 && (got.Job != "j" || got.ModuleID == "") {
			t.Errorf("taken: %+v", got)
		}
	})
}

func TestHomeUsesFoldersAgain(t *testing.T) {
	h, err := openHome(filepath.Join(t.TempDir(), "home"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	if err := h.makeJob("a.1"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{journalFile, scriptFile, "01-run.spool", "01-run.main.start", "plan.tfplan"} {
		if err := os.WriteFile(filepath.Join(h.job("a.1"), name), []byte("of job a"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(h.job("a.1"), "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := h.dropJob("a.1"); err != nil {
		t.Fatal(err)
	}
	if err := h.makeJob("b.1"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(h.job("b.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Size() != 0 || (entry.Name() != journalFile && entry.Name() != scriptFile) {
			t.Errorf("%s is left, %v", entry.Name(), err)
		}
	}
	if exists(h.job("a.1")) {
		t.Error("the old folder is still there")
	}
	first, second := h.takeScratch(), h.takeScratch()
	if first == second {
		t.Errorf("scratch folder %d twice", first)
	}
}

func TestInstanceKeyStays(t *testing.T) {
	dir := t.TempDir()
	h, err := openHome(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	key := h.key
	h.close()
	info, err := os.Stat(filepath.Join(dir, "instance.key"))
	if err != nil || info.Mode().Perm() != 0o600 || len(key) < 20 {
		t.Errorf("%v %v %q", info.Mode(), err, key)
	}
	again, err := openHome(dir, "")
	if err != nil || again.key != key {
		t.Errorf("the key changed: %v", err)
	}
	again.close()
}

// TestCopiedFolderGetsItsOwnKey opens a copy of a working directory, and a folder of a version that stored only the
// key.
func TestCopiedFolderGetsItsOwnKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "original")
	original, err := openHome(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer original.close()
	if err := original.makeJob("j.1"); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		h, err := openHome(copied, "")
		if err != nil {
			t.Fatal(err)
		}
		if h.key == original.key {
			t.Error("key: got that of the original, want another one")
		}
		if exists(h.job("j.1")) || !exists(filepath.Join(copied, copiedJobs, "j.1")) {
			t.Error("job: got it in the journals of the copy, want it set aside")
		}
		h.close()
	}

	old := t.TempDir()
	key := strings.Repeat("K", 26)
	if err := os.WriteFile(filepath.Join(old, instanceKeyFile), []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		h, err := openHome(old, "")
		if err != nil || h.key != key || h.copied {
			t.Errorf("folder of an earlier version: got key %q, copied %v, %v, want the stored key", h.key, h.copied, err)
		}
		h.close()
	}
}

// TestPaceOfShipping looks at when the next batch is due while nobody follows, and while somebody does.
func TestPaceOfShipping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{LogStream: LogStream{BatchSizeLimit: 50, Period: 5 * time.Second, Eager: true}})
		s := &shipper{r: r, maybe: true, since: time.Now()}
		running := shipState{running: true}
		time.Sleep(time.Hour)
		if due := s.due(running); due != 0 {
			t.Errorf("the first record waits %v", due)
		}
		s.opened = time.Now()
		time.Sleep(time.Second)
		if due := s.due(running); due != 4*time.Second {
			t.Errorf("the second record waits %v", due)
		}
		if due := s.due(shipState{running: true, watch: true}); due != 0 {
			t.Errorf("with a follower it waits %v", due)
		}
		if due := s.due(shipState{result: &work.StepResult{}}); due != 0 {
			t.Errorf("at the end of the Step it waits %v", due)
		}
		r.cfg.LogStream.Eager = false
		s.since, s.opened = time.Now(), time.Time{}
		if due := s.due(running); due != 5*time.Second {
			t.Errorf("not eager: it waits %v", due)
		}
	})
}

func TestFailureTellsAFullDisk(t *testing.T) {
	r := New(Config{})
	st := &step{kind: work.StepRun, job: &job{}}
	for err, code := range map[error]string{
		os.ErrPermission: "run_failed", errCanceled: "canceled", errStepTimeout: "step_timeout",
		&os.PathError{Op: "write", Err: syscall.ENOSPC}: "disk_full", hostLost(work.StepRun): "host_lost",
	} {
		if got := r.failure(st, err); got.Failure.Code != code {
			t.Errorf("%v: got %s", err, got.Failure.Code)
		}
	}
}

func TestApproverReadsAgain(t *testing.T) {
	dir := t.TempDir()
	a := newApprover(Approval{Enabled: true, Dir: dir})
	file := filepath.Join(dir, "sub", "x")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("one")
	if err := a.check("it", []byte("one")); err != nil {
		t.Error(err)
	}
	if err := a.check("it", []byte("one\n")); err == nil {
		t.Error("another text was approved")
	}
	put("other")
	if err := a.check("it", []byte("one")); err == nil {
		t.Error("what was taken away is still approved")
	}
	if err := a.check("it", []byte("other")); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := a.check("it", []byte("other")); faultOf(err).Code != "approval_unreadable" {
		t.Errorf("without the folder: %v", err)
	}
}
