package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// TestServerKilledInEachStep kills the Server while a Job is in each of its Steps. The Step ends while there is no Server, or after it is
// back: the Job goes on as if nothing had been.
func TestServerKilledInEachStep(t *testing.T) {
	for _, step := range []work.StepKind{work.StepFetch, work.StepInit, work.StepValidate, work.StepPlan, work.StepApply, work.StepOutput} {
		for _, meanwhile := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, over meanwhile %v", step, meanwhile), func(t *testing.T) {
				t.Parallel()
				s := harness.StartServer(t)
				r := s.NewRunner("edge-1")
				begun, open, applied := held(t, s, r, step)
				r.Start()
				r.Online()
				id := s.Submit("apply", "s/n/m")
				harness.Eventually(t, "the step has begun", begun)
				s.Reaches(id, step)
				s.Kill()
				if meanwhile {
					open()
				}
				s.Start()
				if !meanwhile {
					if j := s.Job(id); j.Status != work.Running {
						t.Errorf("it is %s after the restart", j.Status)
					}
					r.Online()
					open()
				}
				unharmed(t, s, id)
				if n := applied(); n != 1 {
					t.Errorf("applied %d times", n)
				}
			})
		}
	}
}

// unharmed checks that a Job succeeded at the first Attempt, with an apply that is in the log once.
func unharmed(t *testing.T, s *harness.Server, id string) {
	t.Helper()
	if j := s.Ends(id, work.Succeeded); j.Attempt != 1 || len(j.Losses) != 0 {
		t.Errorf("attempt %d, losses %+v", j.Attempt, j.Losses)
	}
	if n := strings.Count(s.Log(id), "Apply complete!"); n != 1 {
		t.Errorf("%d applies in the log", n)
	}
}

// TestServerKilledWhileAJobWaits kills the Server while a Job is queued, for want of an Instance and behind another Job.
func TestServerKilledWhileAJobWaits(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	r := s.NewRunner("edge-1")
	begun, open, applied := held(t, s, r, work.StepApply)
	first := s.Submit("apply", "s/n/m")
	s.Kill()
	s.Start()
	if j := s.Job(first); j.Status != work.Queued || j.Attempt != 0 {
		t.Fatalf("it is %s", j.Status)
	}
	r.Start()
	harness.Eventually(t, "the step has begun", begun)
	second := s.Submit("apply", "s/n/m")
	s.Kill()
	s.Start()
	if j := s.Job(second); j.Status != work.Queued {
		t.Errorf("the second one is %s", j.Status)
	}
	open()
	unharmed(t, s, first)
	unharmed(t, s, second)
	if n := applied(); n != 1 {
		t.Errorf("applied %d times: the second plan had nothing to do", n)
	}
}

// TestServerKilledAtAClaim kills the Server while Jobs are being claimed, again and again: whatever was on its way, each Job is done
// once.
func TestServerKilledAtAClaim(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--set", "lease=3s", "--set", "heartbeat=1s")
	s.StartRunner("edge-1", change(4, "Runner", "Capacity"))
	dir := t.TempDir()
	var jobs []string
	for round := range 6 {
		for i := range 3 {
			name := fmt.Sprintf("m%d-%d", round, i)
			declare(s, name, script(fmt.Sprintf("echo done >> %s/%s", dir, name)))
			jobs = append(jobs, s.Submit("run", "s/n/"+name))
		}
		s.Kill() // a claim takes a few milliseconds, and so does the end of the last submit
		s.Start()
	}
	for _, id := range jobs {
		s.Ends(id, work.Succeeded)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != len(jobs) {
		t.Fatalf("%d of %d scripts ran, %v", len(files), len(jobs), err)
	}
	for _, file := range files {
		if b, _ := os.ReadFile(file); string(b) != "done\n" {
			t.Errorf("%s ran %d times", filepath.Base(file), strings.Count(string(b), "done"))
		}
	}
}

// TestServerKilledWhileAJobIsCanceled kills the Server while a canceled Step takes its time to end.
func TestServerKilledWhileAJobIsCanceled(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	r := s.StartRunner("edge-1", change(map[string]any{"InterruptSeconds": 300, "TerminateSeconds": 300}, "Cancel"))
	dir := t.TempDir()
	declare(s, "m", script(fmt.Sprintf("trap 'echo interrupted' INT\necho ready\nuntil [ -e %s/gate ]; do sleep 0.05 || :; done\nexit 3", dir)))
	id := s.Submit("run", "s/n/m")
	s.Says(id, "ready")
	s.Do("job", "cancel", id)
	s.Says(id, "interrupted")
	s.Kill()
	s.Start()
	if j := s.Job(id); j.Status != work.Canceling {
		t.Errorf("it is %s after the restart", j.Status)
	}
	r.Online()
	if err := os.WriteFile(filepath.Join(dir, "gate"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if j := s.Ends(id, work.Canceled); j.Attempt != 1 {
		t.Errorf("attempt %d", j.Attempt)
	}
	if log := s.Log(id); strings.Count(log, "interrupted") != 1 {
		t.Errorf("it was interrupted again, or lines were doubled:\n%s", log)
	}
}

// TestServerKilledWhileAJobIsInterrupted kills the Server while it waits for the Instance of a changing Step.
func TestServerKilledWhileAJobIsInterrupted(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--set", "lease=3s", "--set", "heartbeat=1s")
	r := s.NewRunner("edge-1")
	begun, open, applied := held(t, s, r, work.StepApply)
	r.Start()
	id := s.Submit("apply", "s/n/m")
	harness.Eventually(t, "the apply has begun", begun)
	s.Reaches(id, work.StepApply)
	r.Kill()
	harness.Eventually(t, "it is interrupted", func() bool { return s.Job(id).Status == work.Interrupted })
	s.Kill()
	s.Start()
	if j := s.Job(id); j.Status != work.Interrupted {
		t.Errorf("it is %s after the restart", j.Status)
	}
	open()
	r.Start()
	unharmed(t, s, id)
	if n := applied(); n != 1 {
		t.Errorf("applied %d times", n)
	}
}

// TestServerKilledWhileAJobWaitsForApproval kills the Server, and then the Runner, while a Job waits for a person.
func TestServerKilledWhileAJobWaitsForApproval(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	r := s.StartRunner("edge-1")
	declare(s, "m", tofu("resource \"terraform_data\" \"x\" {}")+"approval: always\n")
	id := s.Submit("apply", "s/n/m")
	waits := func() bool { return s.Job(id).Status == work.AwaitingApproval }
	harness.Eventually(t, "it waits for approval", waits)
	s.Kill()
	s.Start()
	if !waits() {
		t.Errorf("it is %s after the restart", s.Job(id).Status)
	}
	r.Kill()
	r.Start()
	r.Online()
	s.Do("job", "approve", id)
	unharmed(t, s, id)
}

// TestServerKilledWhileTenJobsPrint kills the Server three times while ten Jobs print at once, and counts every line.
func TestServerKilledWhileTenJobsPrint(t *testing.T) {
	t.Parallel()
	const modules, lines = 10, 1500
	s := harness.StartServer(t)
	s.StartRunner("edge-1", change(modules, "Runner", "Capacity"))
	var jobs []string
	for i := range modules {
		name := fmt.Sprintf("m%d", i)
		declare(s, name, script(fmt.Sprintf("for i in $(seq %d); do echo line $i; (( i %% 20 )) || read -rt 0.04 <> <(:) || :; done", lines)))
		jobs = append(jobs, s.Submit("run", "s/n/"+name))
	}
	for kill := range 3 {
		for _, id := range jobs {
			s.Says(id, fmt.Sprintf("line %d\n", 1+kill*300))
		}
		s.Kill()
		s.Start()
	}
	for _, id := range jobs {
		if j := s.Ends(id, work.Succeeded); j.Attempt != 1 {
			t.Errorf("job %s took %d attempts: %+v", id, j.Attempt, j.Losses)
		}
		linesOnce(t, s.Log(id), lines)
	}
}
