package control

import (
	"context"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

const holdText = stackText + `---
{kind: Module, stack: prod, namespace: net, name: pay, runner_instance_name: a, script: {run: 'true'}}
---
{kind: Module, stack: prod, namespace: net, name: next, runner_instance_name: a, script: {run: 'true'}}
---
{kind: Module, stack: prod, namespace: net, name: kept, runner_instance_name: b, script: {run: 'true'}}
`

// markCopied makes what is stored a copy that no Server has used yet.
func (w *world) markCopied() {
	w.t.Helper()
	w.must(w.store.Update(context.Background(), func(tx *store.Tx) error {
		return tx.PutInstallation(store.Installation{ID: "i", Hold: &store.Hold{Reason: "a backup was restored", Since: tx.Now()}})
	}))
}

func TestServerOnACopyStartsNothingUntilItIsResumed(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	first := w.serve(Limits{})
	r := first.runner(first.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	first.declare(first.owner(), holdText)
	a, b := first.fake(r, "a").online(first), first.fake(r, "b").online(first)
	begin := func(f *fake, module string) (*work.Job, *wire.RunStep) {
		j := first.submit("prod/net/"+module, work.Run)
		step := f.take()
		f.start(step.Ref, 0)
		return first.until(j.ID, work.Running), step
	}
	pay, _ := begin(a, "pay")
	kept, held := begin(b, "kept")
	next := first.submit("prod/net/next", work.Run)
	first.stop()
	w.markCopied()

	s := w.serve(Limits{})
	for _, id := range []string{pay.ID, kept.ID} {
		if j := s.job(id); j.Status != work.Interrupted || !j.Restored || !j.RecoverUntil.IsZero() {
			t.Errorf("job #%d: got %s, restored %v, until %v; want interrupted by the restore, without a deadline", j.Number, j.Status, j.Restored, j.RecoverUntil)
		}
	}
	idle := s.fake(r, "a").online(s) // it finished the job meanwhile and forgot it
	busy := s.fake(r, "b")
	busy.hello.Journal = []wire.Held{{Ref: held.Ref, Step: 0, Running: true}}
	busy.online(s)
	busy.finish(held.Ref, 0, 0, work.StepResult{})
	busy.run(expectThat(busy, func(m *wire.RunStep) bool { return m.Step == 1 }), 0, work.StepResult{})
	if done := s.until(kept.ID, work.Succeeded); done.Attempt != 1 {
		t.Errorf("the job that its instance kept: got attempt %d, want 1", done.Attempt)
	}
	eventually(t, "the queued job says that the server is on hold", func() bool { return s.job(next.ID).Wait.Code == work.WaitOnHold })
	if j := s.job(pay.ID); j.Status != work.Interrupted {
		t.Errorf("the job that its instance forgot: got %s, want interrupted", j.Status)
	}
	hold, err := s.c.Hold(ctx, s.owner())
	if err != nil || !hold.On || hold.Interrupted != 1 || hold.Queued != 1 || hold.Reason != "a backup was restored" {
		t.Errorf("hold: got %+v, %v; want 1 interrupted and 1 queued job", hold, err)
	}

	viewer := s.owner()
	viewer.Role = catalog.RoleViewer
	for _, actor := range []catalog.Actor{viewer, s.stranger()} {
		if _, err := s.c.Resume(ctx, actor, ResumeRequest{}); !fault.Is(err, fault.Forbidden) {
			t.Errorf("resuming as %s: got %v, want it refused", actor.Name, err)
		}
	}
	if _, err := s.c.Resume(ctx, s.owner(), ResumeRequest{}); err != nil {
		t.Fatal(err)
	}
	if j := s.job(pay.ID); j.Status != work.Failed || j.Attempt != 1 || j.Failure.Code != "restored" {
		t.Errorf("the job that its instance forgot, after resuming: got %s, attempt %d, %+v; want failed", j.Status, j.Attempt, j.Failure)
	}
	if step := idle.take(); step.Job != next.ID {
		t.Errorf("the first job that is started: got %s, want %s", step.Job, next.ID)
	}
	if hold, err := s.c.Hold(ctx, s.owner()); err != nil || hold.On {
		t.Errorf("hold after resuming: got %+v, %v", hold, err)
	}
}

func TestResumingMayCancelWhatWaits(t *testing.T) {
	w := newWorld(t)
	first := w.serve(Limits{})
	first.runner(first.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	first.declare(first.owner(), holdText)
	j := first.submit("prod/net/pay", work.Run)
	first.stop()
	w.markCopied()
	s := w.serve(Limits{})
	if _, err := s.c.Resume(context.Background(), s.owner(), ResumeRequest{CancelQueued: true}); err != nil {
		t.Fatal(err)
	}
	if got := s.job(j.ID); got.Status != work.Canceled || got.Attempt != 0 {
		t.Errorf("the queued job: got %s, attempt %d; want canceled", got.Status, got.Attempt)
	}
}

func TestAnotherServerSeesThatTheHoldIsOver(t *testing.T) {
	w := newWorld(t)
	w.markCopied()
	one, two := w.serve(Limits{}), w.serve(Limits{})
	if one.c.HoldReason() == "" || two.c.HoldReason() == "" {
		t.Fatal("a server on a copy is not on hold")
	}
	if _, err := one.c.Resume(context.Background(), one.owner(), ResumeRequest{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other server goes on", func() bool { return two.c.HoldReason() == "" })
}

func TestSchedulesThatWereDueOnHoldAreSkipped(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	first := w.serve(Limits{})
	first.runner(first.owner(), catalog.RunnerSpec{})
	first.declare(first.owner(), stackText+"---\n{kind: Runbook, stack: prod, name: tidy, dispatch: {mode: manual, runner: edge}, "+
		"schedules: [{cron: '* * * * *'}], steps: [{command: uptime, each: runner}]}\n")
	first.stop()
	w.markCopied()
	s := w.serve(Limits{})
	now, err := w.store.Now(ctx)
	w.must(err)
	later := now.Add(90 * time.Second) // by then it is due
	w.must(s.c.fireDue(ctx, later))
	w.must(w.store.View(ctx, func(tx *store.Tx) error {
		due, err := tx.DueSchedules(later, 10)
		if len(due) != 1 {
			t.Errorf("schedules that are due on hold: got %d, want 1 that was not run", len(due))
		}
		for _, d := range due {
			if d.LastJobID != "" || !d.LastAt.IsZero() {
				t.Errorf("a schedule was run on hold: %+v", d)
			}
		}
		return err
	}))
}
