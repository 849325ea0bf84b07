package harness_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// Settings under which a lost Instance is noticed while a test waits for it: in either case a recovery window that passes as well, or
// one that does not.
var (
	quick       = []string{"--set", "lease=5s", "--set", "heartbeat=1s", "--set", "recovery_window=6s"}
	recoverable = []string{"--set", "lease=5s", "--set", "heartbeat=1s", "--set", "recovery_window=10m"}
)

// held declares a Module of engine opentofu whose Step of a kind stops until open is called: a fetch by a git that waits, an apply by
// itself, another Step by a Hook before it. The Runner is not started yet. The apply counts its runs in a file, so that a Step that ran
// twice is seen.
func held(t *testing.T, s *harness.Server, r *harness.Runner, step work.StepKind) (begun func() bool, open func(), applied func() int) {
	t.Helper()
	dir := t.TempDir()
	gate := fmt.Sprintf("touch %[1]s/begun; until [ -e %[1]s/gate ]; do read -rt 0.05 <> <(:) || :; done", dir)
	run := "echo applied >> " + dir + "/applied"
	if step == work.StepApply {
		run = gate + "; " + run
	}
	backend := harness.InStateStore(harness.StateStore(t), "m")
	code := backend + fmt.Sprintf("resource \"terraform_data\" \"x\" {\n  provisioner \"local-exec\" {\n    interpreter = [\"bash\", \"-c\"]\n    command = \"%s\"\n  }\n}", run)
	switch step {
	case work.StepFetch:
		url, _ := repository(t, map[string]string{"main.tf": code + "\n"})
		r.SetEnv("PATH=" + slowGit(t, dir, gate) + ":" + os.Getenv("PATH"))
		declare(s, "m", fmt.Sprintf("engine: opentofu\nsource: {type: git, url: %q, revision: main}\n", url))
	case work.StepApply:
		declare(s, "m", tofu(code))
	default:
		declare(s, "m", tofu(code)+fmt.Sprintf("hooks: [{task: %s, phase: before, script: '%s'}]\n", step, gate))
	}
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	applied = func() int {
		b, _ := os.ReadFile(filepath.Join(dir, "applied"))
		return strings.Count(string(b), "applied")
	}
	return func() bool { return exists("begun") }, func() {
		if err := os.WriteFile(filepath.Join(dir, "gate"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}, applied
}

// slowGit makes a git that waits at a gate before it does anything but tell its version.
func slowGit(t *testing.T, dir, gate string) (folder string) {
	t.Helper()
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	folder = filepath.Join(dir, "bin")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("#!/bin/bash\nif [[ $* != *version* ]]; then %s; fi\nexec %s \"$@\"\n", gate, real)
	if err := os.WriteFile(filepath.Join(folder, "git"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// several lets more than one Instance be there of the Runner record edge-1.
func several(s *harness.Server) {
	s.Apply("kind: Runner\nname: edge-1\nis_assigned_to_all_modules: true\nallow_multiple_instances: true\n")
}

// lost waits until the Lease of a Job is over.
func lost(t *testing.T, s *harness.Server, id string) {
	t.Helper()
	harness.Eventually(t, "the lease is over", func() bool {
		st := s.Job(id).Status
		return st == work.Queued || st == work.Interrupted
	})
}

// TestRunnerKilledInEachStep kills the runner alone; its supervisor goes on. Whenever it comes back, in time or late, its attempt goes on,
// because no other one has begun, and nothing is done twice. The lease is 5 s instead of 60 where it has to pass.
func TestRunnerKilledInEachStep(t *testing.T) {
	limits := map[string][]string{"at once": nil, "later within the lease": nil, "after the lease": recoverable, "after the recovery window": quick}
	for _, step := range []work.StepKind{work.StepFetch, work.StepInit, work.StepValidate, work.StepPlan, work.StepApply, work.StepOutput} {
		for back, args := range limits {
			t.Run(string(step)+" "+back, func(t *testing.T) {
				t.Parallel()
				s := harness.StartServer(t, args...)
				r := s.NewRunner("edge-1")
				begun, open, applied := held(t, s, r, step)
				r.Start()
				r.Online()
				id := s.Submit("apply", "s/n/m")
				harness.Eventually(t, "the step has begun", begun)
				r.Kill()
				killed := time.Now()
				switch back {
				case "later within the lease":
					harness.Eventually(t, "the server swept once or twice", func() bool { return time.Since(killed) > 1500*time.Millisecond })
				case "after the lease":
					lost(t, s, id)
				case "after the recovery window":
					harness.Eventually(t, "the job is queued again", func() bool { return s.Job(id).Status == work.Queued })
				}
				open()
				r.Start()
				j := s.Ends(id, work.Succeeded)
				if j.Attempt != 1 || len(j.Losses) != 0 {
					t.Fatalf("attempt: got %d, want 1; lost attempts %+v", j.Attempt, j.Losses)
				}
				if n := applied(); n != 1 {
					t.Fatalf("applied %d times", n)
				}
			})
		}
	}
}

// TestRunnerKilledForGood kills a Runner that never comes back, in each Step. Its keeper goes on and ends what it began; another
// Instance takes the Job over and does all of it anew.
func TestRunnerKilledForGood(t *testing.T) {
	for _, step := range []work.StepKind{work.StepFetch, work.StepInit, work.StepPlan, work.StepApply} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			takenOver(t, step, func(r *harness.Runner) { r.Kill() })
		})
	}
}

// TestHostGone kills the Runner and its keeper: a host that went down for good. Another Instance takes over.
func TestHostGone(t *testing.T) {
	for _, step := range []work.StepKind{work.StepPlan, work.StepApply} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			takenOver(t, step, func(r *harness.Runner) {
				r.Kill()
				r.EndKeeper()
			})
		})
	}
}

// takenOver loses the Instance of a Job in a Step for good, while another one is there.
func takenOver(t *testing.T, step work.StepKind, lose func(*harness.Runner)) {
	t.Helper()
	s := harness.StartServer(t, quick...)
	r := s.NewRunner("edge-1")
	several(s)
	begun, open, applied := held(t, s, r, step)
	r.Start()
	r.Online()
	id := s.Submit("apply", "s/n/m")
	harness.Eventually(t, "the step has begun", begun)
	other := r.Twin("edge-1-b", s.URL)
	other.Start()
	lose(r)
	killed := time.Now()
	open()
	j := s.Ends(id, work.Succeeded)
	if j.Attempt != 2 || j.Binding.Instance != "edge-1-b" || len(j.Losses) != 1 {
		t.Fatalf("attempt %d at %+v, losses %+v", j.Attempt, j.Binding, j.Losses)
	}
	changing := step == work.StepApply
	if l := j.Losses[0]; l.Step != step || l.Changing != changing || l.Instance != "edge-1-a" {
		t.Errorf("lost %+v", l)
	}
	if took := j.Binding.ClaimedAt.Sub(killed); changing && took < 6*time.Second {
		t.Errorf("another instance began after %s, within the recovery window of a change", took)
	}
	// The apply of the lost one may have come to its end, too; nothing else was done twice.
	if n := applied(); n != 1 && !(changing && n == 2) {
		t.Errorf("applied %d times", n)
	}
	if n := strings.Count(s.Log(id), "Apply complete!"); n != 1 {
		t.Errorf("%d applies in the log", n)
	}
}

// stateServer is a backend of type http.
func stateServer(t *testing.T) (url string) {
	t.Helper()
	var mu sync.Mutex
	var state []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.Method == http.MethodPost:
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			state = body
		case len(state) == 0:
			w.WriteHeader(http.StatusNoContent)
		default:
			_, _ = w.Write(state)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestHostGoneAfterTheApply loses the host of a job in step output, when its apply is complete. Another instance reads the outputs, and
// neither the apply nor its hooks run again.
func TestHostGoneAfterTheApply(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, quick...)
	r := s.NewRunner("edge-1")
	several(s)
	dir := t.TempDir()
	record := func(what string) string { return "echo " + what + " >> " + dir + "/record" }
	gate := fmt.Sprintf("touch %[1]s/begun; until [ -e %[1]s/gate ]; do read -rt 0.05 <> <(:) || :; done", dir)
	declare(s, "m", tofu(fmt.Sprintf(`terraform {
  backend "http" {
    address = %q
  }
}
resource "terraform_data" "x" {
  provisioner "local-exec" {
    command = %q
  }
}
output "answer" {
  value = "forty-two"
}`, stateServer(t), record("applied")))+fmt.Sprintf(`hooks:
- {task: apply, phase: before, script: '%s'}
- {task: apply, phase: after, script: '%s'}
- {task: output, phase: before, script: '%s'}
`, record("before"), record("after"), gate))
	r.Start()
	r.Online()
	id := s.Submit("apply", "s/n/m")
	harness.Eventually(t, "the step has begun", func() bool { return fileExists(filepath.Join(dir, "begun")) })
	other := r.Twin("edge-1-b", s.URL)
	r.Kill()
	r.EndKeeper()
	if err := os.WriteFile(filepath.Join(dir, "gate"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other.Start()
	j := s.Ends(id, work.Succeeded)
	if j.Attempt != 2 || j.Binding.Instance != "edge-1-b" || len(j.Losses) != 1 || j.Losses[0].Step != work.StepOutput {
		t.Fatalf("attempt %d at %+v, lost attempts %+v", j.Attempt, j.Binding, j.Losses)
	}
	done, err := os.ReadFile(filepath.Join(dir, "record"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(done), "before\napplied\nafter\n"; got != want {
		t.Errorf("done: got %q, want %q", got, want)
	}
	if out := s.Do("output", "s/n/m"); !strings.Contains(out, "forty-two") {
		t.Errorf("outputs: %s", out)
	}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestResultIsTakenAfterTheRecoveryWindow ends a script, which must not run twice, while its runner is away for longer than the lease and
// the recovery window.
func TestResultIsTakenAfterTheRecoveryWindow(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, quick...)
	r := s.StartRunner("edge-1")
	dir := t.TempDir()
	declare(s, "m", script(fmt.Sprintf("echo begun >> %[1]s/record; until [ -e %[1]s/gate ]; do read -rt 0.05 <> <(:) || :; done; "+
		"echo over; echo ended >> %[1]s/record", dir)))
	id := s.Submit("run", "s/n/m")
	record := func() string {
		b, _ := os.ReadFile(filepath.Join(dir, "record"))
		return string(b)
	}
	harness.Eventually(t, "the script has begun", func() bool { return record() != "" })
	r.Kill()
	if err := os.WriteFile(filepath.Join(dir, "gate"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the script is over", func() bool { return record() == "begun\nended\n" })
	harness.Eventually(t, "the job is queued again", func() bool { return s.Job(id).Status == work.Queued })
	r.Start()
	j := s.Ends(id, work.Succeeded)
	if j.Attempt != 1 || len(j.Losses) != 0 {
		t.Errorf("attempt: got %d, want 1; lost attempts %+v", j.Attempt, j.Losses)
	}
	if got, want := record(), "begun\nended\n"; got != want {
		t.Errorf("done: got %q, want %q", got, want)
	}
	if log := s.Log(id); strings.Count(log, "over") != 1 {
		t.Errorf("log:\n%s", log)
	}
}

// TestHostComesBackEmpty brings an Instance up again on a new host, with nothing of what it had.
func TestHostComesBackEmpty(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, quick...)
	r := s.NewRunner("edge-1")
	begun, open, _ := held(t, s, r, work.StepApply)
	r.Start()
	r.Online()
	id := s.Submit("apply", "s/n/m")
	harness.Eventually(t, "the step has begun", begun)
	r.Kill()
	r.EndKeeper()
	open()
	harness.Eventually(t, "the job is lost", func() bool { return len(s.Job(id).Losses) == 1 })
	r.SetFolder(filepath.Join(t.TempDir(), "new-host"))
	r.Start()
	if j := s.Ends(id, work.Succeeded); j.Attempt != 2 {
		t.Fatalf("attempt %d", j.Attempt)
	}
}

// TestNeverBack leaves a Job without any Instance: it waits and says why.
func TestNeverBack(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, quick...)
	r := s.StartRunner("edge-1")
	begun, _, _ := held(t, s, r, work.StepPlan)
	id := s.Submit("apply", "s/n/m")
	harness.Eventually(t, "the step has begun", begun)
	r.Kill()
	r.EndKeeper()
	harness.Eventually(t, "the job waits", func() bool {
		j := s.Job(id)
		return j.Status == work.Queued && j.Wait.Code == work.WaitNoInstance
	})
	s.Do("job", "cancel", id)
	s.Ends(id, work.Canceled)
}

// superseded lets an apply be taken over by another Instance while its own is cut off. before has the
// old one end while nobody hears of it, else it ends after its Instance is back.
func superseded(t *testing.T, before bool) {
	s := harness.StartServer(t, quick...)
	cut := harness.NewCut(t, s.URL)
	first := s.NewRunner("edge-1", change(cut.URL, "Server", "Url"))
	several(s)
	dir := t.TempDir()
	// Only the first Instance waits at the gate: the other one's working directory is below dir.
	declare(s, "m", script(fmt.Sprintf("echo apply begins; touch %[1]s/begun; "+
		"if [[ $PWD == %[1]s/* ]]; then :; else until [ -e %[1]s/gate ]; do read -rt 0.05 <> <(:) || :; done; fi; echo done >> %[1]s/applied; echo apply ends", dir)))
	first.Start()
	first.Online()
	id := s.Submit("run", "s/n/m")
	exists := func() bool {
		_, err := os.Stat(filepath.Join(dir, "begun"))
		return err == nil
	}
	open := func() {
		if err := os.WriteFile(filepath.Join(dir, "gate"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	harness.Eventually(t, "the change has begun", exists)
	s.Says(id, "begins")
	cut.Set(true)
	harness.Eventually(t, "the job is queued again", func() bool { return s.Job(id).Status == work.Queued })
	if before {
		open()
	}
	second := first.Twin("edge-1-b", s.URL)
	second.SetFolder(filepath.Join(dir, "work"))
	second.Start()
	j := s.Ends(id, work.Succeeded)
	if j.Attempt != 2 || j.Binding.Instance != "edge-1-b" {
		t.Fatalf("attempt %d at %+v", j.Attempt, j.Binding)
	}
	cut.Set(false)
	if !before {
		harness.Eventually(t, "the first instance is back", func() bool { return first.Connections() == 2 })
		open()
	}
	harness.Eventually(t, "the log of the old attempt is there", func() bool { return strings.Count(s.Log(id), "apply ends") == 2 })
	harness.Eventually(t, "the first instance forgets it", func() bool {
		left, _ := filepath.Glob(filepath.Join(first.Dir, "jobs", "[^.]*"))
		return len(left) == 0
	})
	if b, _ := os.ReadFile(filepath.Join(dir, "applied")); strings.Count(string(b), "done") != 2 {
		t.Errorf("the change was made %d times: the running one was not let finish", strings.Count(string(b), "done"))
	}
	after := s.Job(id)
	if after.Status != work.Succeeded || after.Attempt != 2 || after.Binding.Instance != "edge-1-b" || !after.FinishedAt.Equal(j.FinishedAt) || len(after.Losses) != 1 {
		t.Errorf("the result of the old attempt moved the job: %+v", after)
	}
	if log := s.Log(id); strings.Count(log, "begins") != 2 {
		t.Errorf("lines were lost or doubled:\n%s", log)
	}
}

// TestSupersededInstanceReturns lets an Instance come back after another took its Job over. Its change, which was running all the time, ends
// by itself, whether that is before or after it was told; log and result are kept under the old Attempt and do not move the Job.
func TestSupersededInstanceReturns(t *testing.T) {
	for name, before := range map[string]bool{"finished": true, "running": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			superseded(t, before)
		})
	}
}

// TestThreeJobsOverAnUpgrade replaces the Runner's process while three Jobs run.
func TestThreeJobsOverAnUpgrade(t *testing.T) {
	s := harness.StartServer(t)
	r := s.StartRunner("edge-1")
	gate := filepath.Join(t.TempDir(), "gate")
	var jobs []string
	for i := range 3 {
		name := fmt.Sprintf("m%d", i)
		declare(s, name, script(fmt.Sprintf("for i in $(seq 1000); do echo line $i; done; until [ -e %s ]; do read -rt 0.05 <> <(:) || :; done; echo over", gate)))
		jobs = append(jobs, s.Submit("run", "s/n/"+name))
	}
	for _, id := range jobs {
		s.Says(id, "line 1000")
	}
	r.Kill()
	r.Start()
	r.Online()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range jobs {
		j := s.Ends(id, work.Succeeded)
		log := s.Log(id)
		if j.Attempt != 1 || strings.Count(log, "line ") != 1000 || !strings.Contains(log, "over") {
			t.Fatalf("attempt %d, %d lines", j.Attempt, strings.Count(log, "line "))
		}
	}
}

// TestInputsChangeBetweenPlanAndApply: an output that the Job takes changes after its plan was made and the Runner starts anew. The plan
// is applied with what it was made with, and what the Job knew as a secret stays masked.
func TestInputsChangeBetweenPlanAndApply(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	r := s.StartRunner("edge-1", func(s map[string]any) { s["Runner"].(map[string]any)["Capacity"] = 2 })
	dir := t.TempDir()
	base := func(secret string) string {
		return tofu(fmt.Sprintf("output \"password\" {\n  value = %q\n  sensitive = true\n}", secret))
	}
	declare(s, "base", base("first-secret"))
	s.Ends(s.Submit("apply", "s/n/base"), work.Succeeded)
	gate := fmt.Sprintf("touch %[1]s/begun; until [ -e %[1]s/gate ]; do read -rt 0.05 <> <(:) || :; done", dir)
	declare(s, "m", tofu("variable \"pass\" {}\nresource \"terraform_data\" \"x\" {\n  input = nonsensitive(sha256(var.pass))\n}")+
		"trigger_on_upstream_output_changed: false\n"+
		"inputs: [{name: pass, from: output, module: base, output: password}]\n"+
		"hooks: [{task: apply, phase: before, script: '"+gate+"'}, {task: apply, phase: after, script: 'echo it is first-secret'}]\n")
	id := s.Submit("apply", "s/n/m")
	harness.Eventually(t, "the apply has begun", func() bool {
		_, err := os.Stat(filepath.Join(dir, "begun"))
		return err == nil
	})
	declare(s, "base", base("second-secret"))
	s.Ends(s.Submit("apply", "s/n/base"), work.Succeeded)
	r.Kill()
	if err := os.WriteFile(filepath.Join(dir, "gate"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.Start()
	s.Ends(id, work.Succeeded)
	log := s.Do("job", "logs", id)
	if strings.Contains(log, "first-secret") || !strings.Contains(log, "it is ") {
		t.Fatalf("log:\n%s", log)
	}
}
