package control

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// plannedResult is a plan as an Instance reports it, with a secret in its file.
func plannedResult() work.StepResult {
	return work.StepResult{Plan: &work.PlanSummary{Add: 1, Hash: "hash", Digest: "digest"},
		SavedPlan: &work.SavedPlan{File: []byte("the plan and hunter2"), Lock: "lock", Commit: "c0ffee"}}
}

// storedPlan returns what is kept of the plan of a Job.
func (s *server) storedPlan(job string) ([]byte, error) {
	object, err := s.c.blobs.Get(context.Background(), savedPlanKey(job))
	if err != nil {
		return nil, err
	}
	r, err := object.Reader()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// TestApprovedPlanGoesToAnotherInstance keeps the plan of a Job that waits for approval, sealed, and gives exactly
// that one to another Instance when everything that it was made with is the same.
func TestApprovedPlanGoesToAnotherInstance(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *server, f *fake)
		want   bool
	}{
		"the same":         {func(*server, *fake) {}, true},
		"another engine":   {func(_ *server, f *fake) { f.hello.Engines["opentofu"] = "9.9.9" }, false},
		"another platform": {func(_ *server, f *fake) { f.hello.Arch = "riscv64" }, false},
		"other inputs": {func(s *server, _ *fake) {
			s.output("prod/net/base", vpcOutputs(`"new"`, `"hunter3"`))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).serve(Limits{})
			r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
			s.declare(s.owner(), chainText)
			s.output("prod/net/base", vpcOutputs(`"old"`, `"hunter3"`))
			first := s.fake(r, "a").online(s)
			j := submitWithApproval(s, "prod/net/vpc")
			step := first.take()
			ref := step.Ref
			if step.Spec.KeepPlan == 0 {
				t.Error("the instance is not asked for its plan file")
			}
			for range 3 {
				first.run(step, 0, work.StepResult{})
				step = expect[*wire.RunStep](first)
			}
			first.run(step, 0, plannedResult())
			s.until(j.ID, work.AwaitingApproval)
			stored, err := s.storedPlan(j.ID)
			if err != nil || bytes.Contains(stored, []byte("hunter2")) || strings.Contains(string(stored), "plan and") {
				t.Fatalf("stored: got %q, %v, want it sealed", stored, err)
			}
			_, err = s.c.ApproveJob(context.Background(), s.owner(), j.ID, "", "hash")
			s.must(err)
			first.cut()
			_, err = s.c.apply(context.Background(), s.org, j.ID, work.LeaseLost{Attempt: ref.Attempt, Reason: "its process stopped", Gone: true})
			s.must(err)

			second := s.fake(r, "b")
			c.change(s, second)
			second.online(s)
			step = second.take()
			plan := step.Spec.Plan
			if got := plan != nil; got != c.want {
				t.Fatalf("the plan goes to the other instance: got %v, want %v", got, c.want)
			}
			if c.want && (string(plan.File) != "the plan and hunter2" || plan.Lock != "lock" || plan.Commit != "c0ffee") {
				t.Errorf("got %+v, want what was kept", plan)
			}
			if !c.want {
				return
			}
			for range 3 {
				second.run(step, 0, work.StepResult{})
				step = expectThat(second, func(m *wire.RunStep) bool { return m.Step > step.Step })
			}
			second.run(step, 0, plannedResult())
			step = expectThat(second, func(m *wire.RunStep) bool { return m.Step > step.Step })
			if step.Spec == nil || step.Spec.PlanHash != "hash" {
				t.Fatalf("apply: got %+v, want the approved plan without another question", step.Spec)
			}
			second.run(step, 0, work.StepResult{})
			second.run(expectThat(second, func(m *wire.RunStep) bool { return m.Step > step.Step }), 0, work.StepResult{HasOutputs: true})
			s.until(j.ID, work.Succeeded)
			eventually(t, "the plan of a job that is over is deleted", func() bool {
				_, err := s.storedPlan(j.ID)
				return fault.Is(err, fault.NotFound)
			})
		})
	}
}

// TestPlanTooLargeIsNotKept has the result of a plan count whose file is too large.
func TestPlanTooLargeIsNotKept(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), chainText)
	s.output("prod/net/base", vpcOutputs(`"old"`, `"hunter3"`))
	f := s.fake(r, "a").online(s)
	j := submitWithApproval(s, "prod/net/vpc")
	step := f.take()
	for range 3 {
		f.run(step, 0, work.StepResult{})
		step = expect[*wire.RunStep](f)
	}
	result := plannedResult()
	result.SavedPlan.File = make([]byte, maxSavedPlan+1)
	f.run(step, 0, result)
	s.until(j.ID, work.AwaitingApproval)
	if _, err := s.storedPlan(j.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v, want no plan that is kept", err)
	}
}
