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

// quick are settings under which a lost Instance is noticed while a test waits for it.
var quick = []string{"--set", "lease=3s", "--set", "heartbeat=1s", "--set", "recovery_window=6s"}

// held declares a Module of engine opentofu whose Step of a kind stops until open is called, by a Hook before it.
// The apply itself counts its runs in a file, so that a Step that ran twice is seen.
func held(t *testing.T, s *harness.Server, step work.StepKind) (begun func() bool, open func(), applied func() int) {
	t.Helper()
	dir := t.TempDir()
	gate := fmt.Sprintf("touch %[1]s/begun; until [ -e %[1]s/gate ]; do read -rt 0.05 <> <(:) || :; done", dir)
	hook := fmt.Sprintf("hooks: [{task: %s, phase: before, script: '%s'}]\n", step, gate)
	run := "echo applied >> " + dir + "/applied"
	if step == work.StepApply {
		hook, run = "", gate+"; "+run
	}
	declare(s, "m", tofu(fmt.Sprintf("resource \"terraform_data\" \"x\" {\n  provisioner \"local-exec\" {\n    interpreter = [\"bash\", \"-c\"]\n    command = \"%s\"\n  }\n}", run))+hook)
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

// TestRunnerKilledInEachStep kills the Runner alone; its keeper goes on. Whenever it comes back, in time
// or late, the Job ends well, and what changes something was done once for each Attempt that got so far.
func TestRunnerKilledInEachStep(t *testing.T) {
	for _, step := range []work.StepKind{work.StepInit, work.StepValidate, work.StepPlan, work.StepApply} {
		for _, back := range []string{"at once", "after the lease", "after the recovery window"} {
			t.Run(string(step)+" "+back, func(t *testing.T) {
				t.Parallel()
				s := harness.StartServer(t, quick...)
				r := s.StartRunner("edge-1")
				begun, open, applied := held(t, s, step)
				id := s.Submit("apply", "s/n/m")
				harness.Eventually(t, "the step has begun", begun)
				r.Kill()
				switch back {
				case "after the lease":
					harness.Eventually(t, "the lease is over", func() bool {
						st := s.Job(id).Status
						return st == work.Queued || st == work.Interrupted
					})
				case "after the recovery window":
					harness.Eventually(t, "the job is queued again", func() bool { return s.Job(id).Status == work.Queued })
				}
				open()
				r.Start()
				j := s.Ends(id, work.Succeeded)
				attempts := 1
				if back == "after the recovery window" || (back == "after the lease" && step != work.StepApply) {
					attempts = 2
				}
				if j.Attempt != attempts {
					t.Fatalf("attempt %d, want %d: %+v", j.Attempt, attempts, j.Losses)
				}
				if n := applied(); n != 1 {
					t.Fatalf("applied %d times", n)
				}
			})
		}
	}
}

// TestHostGone kills the Runner and its keeper: a host that went down for good. Another Instance takes over.
func TestHostGone(t *testing.T) {
	for _, step := range []work.StepKind{work.StepPlan, work.StepApply} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			s := harness.StartServer(t, quick...)
			r := s.StartRunner("edge-1")
			begun, open, _ := held(t, s, step)
			id := s.Submit("apply", "s/n/m")
			harness.Eventually(t, "the step has begun", begun)
			r.Kill()
			r.EndKeeper()
			open()
			harness.Eventually(t, "the job is lost", func() bool { return len(s.Job(id).Losses) == 1 })
			j := s.Job(id)
			if j.Losses[0].Step != step || j.Losses[0].Changing != (step == work.StepApply) {
				t.Fatalf("%+v", j.Losses)
			}
			// edge-1 comes up on a new host: another folder, the same name.
			r.SetFolder(filepath.Join(t.TempDir(), "new-host"))
			r.Start()
			if j := s.Ends(id, work.Succeeded); j.Attempt != 2 {
				t.Fatalf("attempt %d", j.Attempt)
			}
		})
	}
}

// TestNeverBack leaves a Job without any Instance: it waits and says why.
func TestNeverBack(t *testing.T) {
	s := harness.StartServer(t, quick...)
	r := s.StartRunner("edge-1")
	begun, _, _ := held(t, s, work.StepPlan)
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

// TestSupersededInstanceReturns lets an Instance come back after another took its Job over: its apply, which was
// running all the time, ends by itself, and its log is kept under the old Attempt.
func TestSupersededInstanceReturns(t *testing.T) {
	s := harness.StartServer(t, quick...)
	cut := harness.NewCut(t, s.URL)
	first := s.NewRunner("edge-1", change(cut.URL, "Server", "Url"))
	s.Apply("kind: Runner\nname: edge-1\nis_assigned_to_all_modules: true\nallow_multiple_instances: true\n")
	first.Start()
	first.Online()
	begun, open, applied := held(t, s, work.StepApply)
	id := s.Submit("apply", "s/n/m")
	harness.Eventually(t, "the apply has begun", begun)
	cut.Set(true)
	harness.Eventually(t, "the job is queued again", func() bool { return s.Job(id).Status == work.Queued })
	open() // the old apply ends while nobody hears of it
	second := first.Twin("edge-1-b", s.URL)
	second.Start()
	j := s.Ends(id, work.Succeeded)
	if j.Attempt != 2 || j.Binding.Instance != "edge-1-b" {
		t.Fatalf("attempt %d at %+v", j.Attempt, j.Binding)
	}
	cut.Set(false)
	harness.Eventually(t, "the log of the old attempt is there", func() bool {
		return strings.Count(s.Log(id), "Apply complete!") == 2
	})
	if n := applied(); n != 2 {
		t.Fatalf("applied %d times: each attempt had a state of its own", n)
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
	s := harness.StartServer(t, quick...)
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
