package control

import (
	"context"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/wire"
	"legwork/internal/work"
)

const twinKey = "the key of another working directory"

// twin returns an Instance with the name of another one and a key of its own.
func (s *server) twin(r catalog.Runner, name string) *fake {
	f := s.fake(r, name)
	f.hello.Key = twinKey
	return f
}

// held brings a Job into its mutating step at an Instance whose connection then ends.
func held(t *testing.T) (s *server, r catalog.Runner, first *fake, j *work.Job, step *wire.RunStep) {
	s = newWorld(t).serve(Limits{})
	r = s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.declare(s.owner(), changingText)
	first = s.fake(r, "a").online(s)
	j, step = changing(s, first)
	first.cut()
	eventually(t, "the session is over", func() bool { return s.c.sessions.size() == 0 })
	return s, r, first, j, step
}

// wantNoStep fails when an Instance is given a step of an Attempt, or an offer of its Job.
func wantNoStep(t *testing.T, f *fake, j *work.Job) {
	t.Helper()
	for _, m := range append(f.passed, drained(f)...) {
		switch m := m.(type) {
		case *wire.Offer:
			if m.Job == j.ID {
				t.Errorf("job #%d was offered to another process while its first one may run", j.Number)
			}
		case *wire.RunStep:
			if m.Job == j.ID {
				t.Errorf("job #%d, attempt %d, step %d was given to another process", j.Number, m.Attempt, m.Step)
			}
		}
	}
}

// drained returns what came so far.
func drained(f *fake) (all []wire.Message) {
	for {
		select {
		case m := <-f.in:
			all = append(all, m)
		default:
			return all
		}
	}
}

// TestOtherKeyWaitsForTheLease: the processes of the first working directory run on. Its lease and then its recovery
// window have to pass before anybody is given the Job, and the first one may come back until then.
func TestOtherKeyWaitsForTheLease(t *testing.T) {
	s, r, first, j, step := held(t)
	second := s.twin(r, "a")
	err := second.dial(s)
	if got := wire.CodeOf(err); got != wire.CloseHeld {
		t.Fatalf("close code: got %v, want %v", got, wire.CloseHeld)
	}
	if wire.CodeOf(err).Permanent() {
		t.Error("the close code is final: the process would not try again")
	}
	if got := s.job(j.ID); got.Status != work.Running || got.Attempt != 1 {
		t.Fatalf("job: got %s, attempt %d, want running, attempt 1", got.Status, got.Attempt)
	}

	s.must(s.c.endDue(context.Background(), later()))
	s.until(j.ID, work.Interrupted)
	second.online(s)
	got := s.job(j.ID)
	if got.Status != work.Interrupted || got.InterruptedReason == "" || got.RecoverUntil.IsZero() {
		t.Fatalf("job: got %s, reason %q, until %s, want interrupted with a reason and a deadline",
			got.Status, got.InterruptedReason, got.RecoverUntil)
	}
	s.c.keepPresence(context.Background(), later())
	wantNoStep(t, second, j)

	// The first one is back: it goes on, and the other process has to leave.
	first.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 1, Running: true}}
	first.online(s)
	if code := second.closed(); code != wire.CloseReplaced {
		t.Errorf("close code of the other process: got %v, want %v", code, wire.CloseReplaced)
	}
	if v := first.welcome.Jobs[0]; v.Fate != wire.Continue {
		t.Fatalf("verdict: got %+v, want continue", v)
	}
	first.finish(step.Ref, 1, 0, work.StepResult{})
	if done := s.until(j.ID, work.Succeeded); done.Attempt != 1 || len(done.Losses) != 0 {
		t.Errorf("job: got attempt %d, losses %+v, want attempt 1 without a loss", done.Attempt, done.Losses)
	}
}

// TestOtherKeyGetsTheJobAfterTheRecoveryWindow: what is lost for good goes the normal way.
func TestOtherKeyGetsTheJobAfterTheRecoveryWindow(t *testing.T) {
	s, r, first, j, step := held(t)
	s.must(s.c.endDue(context.Background(), later()))
	s.until(j.ID, work.Interrupted)
	second := s.twin(r, "a").online(s)
	s.must(s.c.endDue(context.Background(), recovered()))
	again := second.take()
	if again.Job != j.ID || again.Attempt != 2 || again.Step != 0 {
		t.Fatalf("step: got %+v, want the first one of attempt 2", again)
	}
	first.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 1, Running: true}}
	if code := wire.CodeOf(first.dial(s)); code != wire.CloseDuplicate {
		t.Errorf("close code of the first process: got %v, want %v", code, wire.CloseDuplicate)
	}
}

// TestOtherKeyIsNotTheHolder: a process that names a held Attempt in its journal gets neither its spec nor its secrets, may
// not report about it, and renews no lease.
func TestOtherKeyIsNotTheHolder(t *testing.T) {
	s, r, _, j, step := held(t)
	s.must(s.c.endDue(context.Background(), later()))
	s.until(j.ID, work.Interrupted)
	thief := s.twin(r, "a")
	thief.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 1, Running: true}}
	thief.online(s)
	if v := thief.welcome.Jobs[0]; v.Fate != wire.Unknown || v.Spec != nil {
		t.Fatalf("verdict: got %+v, want unknown", v)
	}
	thief.send(&wire.Heartbeat{Working: []wire.Ref{step.Ref}})
	thief.finish(step.Ref, 1, 0, work.StepResult{})
	if code := thief.closed(); code != wire.CloseForbidden {
		t.Errorf("close code: got %v, want %v", code, wire.CloseForbidden)
	}
	if got := s.job(j.ID); got.Status != work.Interrupted {
		t.Errorf("job: got %s, want interrupted", got.Status)
	}
}

// TestSameKeyWithoutItsJournal: the key proves the folder, and the server knows that the step began there.
func TestSameKeyWithoutItsJournal(t *testing.T) {
	s, _, first, j, step := held(t)
	first.online(s)
	got := s.job(j.ID)
	if got.Status != work.Interrupted || got.InterruptedReason == "" {
		t.Fatalf("job: got %s, reason %q, want interrupted with a reason", got.Status, got.InterruptedReason)
	}
	s.c.keepPresence(context.Background(), later())
	wantNoStep(t, first, j)
	first.cut()

	first.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 1, Running: true}} // the folder was restored
	first.online(s)
	s.until(j.ID, work.Running)
}

// TestMutatingStepThatWasOnlySentIsNotSentTwice: word of its start may have been lost with the connection.
func TestMutatingStepThatWasOnlySentIsNotSentTwice(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), changingText)
	first := s.fake(r, "a").online(s)
	j := s.submit("prod/net/change", work.Run)
	first.run(first.take(), 0, work.StepResult{})
	expectThat(first, func(m *wire.RunStep) bool { return m.Step == 1 })
	first.cut()
	eventually(t, "the session is over", func() bool { return s.c.sessions.size() == 0 })
	first.online(s)
	if got := s.job(j.ID); got.Status != work.Interrupted {
		t.Fatalf("job: got %s, want interrupted", got.Status)
	}
	s.c.keepPresence(context.Background(), later())
	wantNoStep(t, first, j)
}

// TestOtherKeyOfAnIdleInstanceIsAdmitted: nothing is held, and a new working directory is as good as the old one.
func TestOtherKeyOfAnIdleInstanceIsAdmitted(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.fake(r, "a").online(s).cut()
	eventually(t, "the session is over", func() bool { return s.c.sessions.size() == 0 })
	s.twin(r, "a").online(s)
}

// TestRestartedServerEndsNoLeaseForAnotherKey: a lease that should be over is the sweeper's to end, because the server
// could not listen meanwhile.
func TestRestartedServerEndsNoLeaseForAnotherKey(t *testing.T) {
	w := newWorld(t)
	s := w.serve(Limits{Lease: 1}) // each is over at once
	s.c.upSince.Store(1 << 62)     // and this server has not listened for long enough to end any
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), changingText)
	first := s.fake(r, "a").online(s)
	j := s.submit("prod/net/change", work.Run)
	first.take()
	first.cut()
	eventually(t, "the session is over", func() bool { return s.c.sessions.size() == 0 })
	if code := wire.CodeOf(s.twin(r, "a").dial(s)); code != wire.CloseHeld {
		t.Fatalf("close code: got %v, want %v", code, wire.CloseHeld)
	}
	if got := s.job(j.ID); !got.HasLease() {
		t.Errorf("job: got %s, want one with a lease", got.Status)
	}
}
