package control

import (
	"context"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

func TestCancel(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	waiting := s.submit("prod/net/m0", work.Run)
	got, err := s.c.CancelJob(ctx, s.owner(), waiting.ID, "", "not needed")
	s.must(err)
	if got.Status != work.Canceled || got.Cancel.By != "ann" || got.Cancel.Reason != "not needed" {
		t.Fatalf("canceled: %+v", got)
	}
	if _, err := s.c.CancelJob(ctx, s.owner(), waiting.ID, work.Kill, ""); !fault.Is(err, fault.Conflict) {
		t.Fatalf("again: %v", err)
	}
	if _, err := s.c.CancelJob(ctx, s.owner(), waiting.ID, "softly", ""); !fault.Is(err, fault.Invalid) {
		t.Fatalf("softly: %v", err)
	}
	f := s.fake(r, "a").online(s)
	j := s.submit("prod/net/m0", work.Run)
	step := f.take()
	f.start(step.Ref, 0)
	s.until(j.ID, work.Running)
	for _, mode := range []work.CancelMode{work.AfterCurrent, work.Graceful, work.Kill} {
		_, err := s.c.CancelJob(ctx, s.owner(), j.ID, mode, "")
		s.must(err)
		if c := expect[*wire.Cancel](f); c.Mode != mode || c.Ref != step.Ref {
			t.Fatalf("cancel: %+v", c)
		}
	}
	// The connection breaks; what was asked is said again.
	f.cut()
	f.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 0, Running: true}}
	f.online(s)
	if v := f.welcome.Jobs[0]; v.Fate != wire.Continue || v.Cancel != work.Kill {
		t.Fatalf("verdict: %+v", v)
	}
	f.finish(step.Ref, 0, 0, work.StepResult{Status: work.StepCanceled})
	s.until(j.ID, work.Canceled)
}

func TestApproval(t *testing.T) {
	for name, approve := range map[string]bool{"approved": true, "declined": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.serve(Limits{})
			r := s.runner(s.owner(), catalog.RunnerSpec{})
			s.declare(s.owner(), chainText)
			f := s.fake(r, "a").online(s)
			j := submitWithApproval(s, "prod/net/base")
			step := f.take()
			for step.Spec == nil || step.Spec.Steps[step.Step] != work.StepPlan {
				spec := step.Spec
				f.run(step, 0, work.StepResult{})
				step = expect[*wire.RunStep](f)
				step.Spec = spec
			}
			f.run(step, 0, work.StepResult{Plan: &work.PlanSummary{Add: 1, Hash: "hash", Digest: "digest"}})
			s.until(j.ID, work.AwaitingApproval)
			if !approve {
				_, err := s.c.DeclineJob(context.Background(), s.owner(), j.ID, "looks bad")
				s.must(err)
				s.until(j.ID, work.Declined)
				expect[*wire.Drop](f)
				return
			}
			if _, err := s.c.ApproveJob(context.Background(), s.owner(), j.ID, "looks good", "another hash"); fault.Code(err) != "plan_changed" {
				t.Fatalf("approving another plan: %v", err)
			}
			_, err := s.c.ApproveJob(context.Background(), s.owner(), j.ID, "looks good", "hash")
			s.must(err)
			apply := expect[*wire.RunStep](f)
			if apply.Spec == nil || apply.Spec.PlanHash != "hash" {
				t.Fatalf("apply: %+v", apply)
			}
			f.run(apply, 0, work.StepResult{})
			f.run(expect[*wire.RunStep](f), 0, work.StepResult{})
			s.until(j.ID, work.Succeeded)
		})
	}
}

// submitWithApproval queues an apply of a Module that is declared to ask for approval.
func submitWithApproval(s *server, module string) *work.Job {
	s.t.Helper()
	s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
		m, err := tx.Module(s.org, module)
		if err != nil {
			return err
		}
		m.Approval = catalog.ApproveAlways
		return tx.PutModule(&m)
	}))
	return s.submit(module, work.Apply)
}

func TestWaitingForApprovalTakesNoPlace(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), chainText)
	f := s.fake(r, "a").online(s)
	j := submitWithApproval(s, "prod/net/base")
	step := f.take()
	for range 3 {
		f.run(step, 0, work.StepResult{})
		step = expect[*wire.RunStep](f)
	}
	f.run(step, 0, work.StepResult{Plan: &work.PlanSummary{Add: 1, Hash: "hash", Digest: "digest"}})
	s.until(j.ID, work.AwaitingApproval)
	s.declare(s.owner(), "{kind: Module, stack: prod, namespace: net, name: free, source: {type: inline, files: {main.tf: '#'}}}")
	other := s.submit("prod/net/free", work.Plan)
	if step := f.take(); step.Job != other.ID {
		t.Fatalf("got %+v", step.Ref)
	}
}

func TestNothingNewWhileTheServerStops(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	s.c.Drain(context.Background())
	s.c.Drain(context.Background())
	if bye := f.closed(); bye != wire.CloseShutdown {
		t.Fatalf("closed with %v", bye)
	}
	if _, err := s.c.Submit(context.Background(), s.owner(), SubmitRequest{Module: "prod/net/m0", Action: work.Run}); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("%v", err)
	}
	if code := wire.CodeOf(f.dial(s)); code != wire.CloseShutdown {
		t.Fatalf("closed with %v", code)
	}
}
