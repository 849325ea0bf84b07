package control

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// later is past every lease, and recovered past every recovery window.
func later() time.Time     { return time.Now().Add(2 * time.Minute) }
func recovered() time.Time { return time.Now().Add(time.Hour) }

const changingText = stackText + `---
{kind: Module, stack: prod, namespace: net, name: change, script: {run: 'true'}}
`

func TestLeaseLostBeforeAChangingStepGoesToAnother(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.declare(s.owner(), changingText)
	a := s.fake(r, "a").online(s)
	j := s.submit("prod/net/change", work.Run)
	old := a.take()
	a.print(old.Ref, 0, 1, 2)
	expect[*wire.LogAck](a)
	a.cut()
	if got := s.job(j.ID); got.Status != work.Claimed {
		t.Fatalf("a cut connection alone made it %s", got.Status)
	}
	b := s.fake(r, "b").online(s)
	s.must(s.c.endDue(context.Background(), later()))
	step := b.take()
	if step.Attempt != 2 {
		t.Fatalf("attempt %d", step.Attempt)
	}

	// The lost one comes back: it is told so, and its log and result are kept without moving the Job.
	a.hello.Journal = []wire.Held{{Ref: old.Ref, Step: 0, Running: true}}
	a.online(s)
	if v := a.welcome.Jobs[0]; v.Fate != wire.Superseded || len(v.Acks) != 1 || v.Acks[0].Next != 3 {
		t.Fatalf("verdict: %+v", v)
	}
	a.print(old.Ref, 0, 3, 3)
	a.finish(old.Ref, 0, 5, work.StepResult{Status: work.StepFailed})
	if ack := expect[*wire.StepAck](a); ack.Ref != old.Ref {
		t.Fatalf("acked %+v", ack)
	}
	expect[*wire.Drop](a)
	b.run(step, 1, work.StepResult{})
	b.run(expect[*wire.RunStep](b), 1, work.StepResult{})
	done := s.until(j.ID, work.Succeeded)
	if len(done.Losses) != 1 || done.Losses[0].Instance != "a" {
		t.Fatalf("losses: %+v", done.Losses)
	}
	byAttempt := map[int]int{}
	for _, l := range s.log(j.ID) {
		byAttempt[l.Attempt]++
	}
	if byAttempt[1] != 5 || byAttempt[2] != 2 {
		t.Fatalf("lines by attempt: %v", byAttempt)
	}
}

// changing brings a Job into its changing Step.
func changing(s *server, f *fake) (*work.Job, *wire.RunStep) {
	s.t.Helper()
	j := s.submit("prod/net/change", work.Run)
	f.run(f.take(), 0, work.StepResult{})
	step := expectThat(f, func(m *wire.RunStep) bool { return m.Step == 1 }) // the first may be told again
	f.start(step.Ref, step.Step)
	eventually(s.t, "the step runs", func() bool { return s.job(j.ID).Steps[1].Status == work.StepRunning })
	return j, step
}

func TestLeaseLostDuringAChangingStepWaitsForItsInstance(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.declare(s.owner(), changingText)
	a := s.fake(r, "a").online(s)
	j, step := changing(s, a)
	a.cut()
	b := s.fake(r, "b").online(s)
	s.must(s.c.endDue(context.Background(), later()))
	s.until(j.ID, work.Interrupted)

	a.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 1, Running: true}}
	a.online(s)
	if v := a.welcome.Jobs[0]; v.Fate != wire.Continue || v.Next != 1 || v.Spec == nil {
		t.Fatalf("verdict: %+v", v)
	}
	s.until(j.ID, work.Running)
	a.print(step.Ref, 1, 1, 2)
	a.finish(step.Ref, 1, 2, work.StepResult{})
	if done := s.until(j.ID, work.Succeeded); done.Attempt != 1 || len(done.Losses) != 0 {
		t.Fatalf("job: %+v", done)
	}
	select {
	case m := <-b.in:
		t.Fatalf("the other instance got %T", m)
	default:
	}
}

func TestCanceledJobHoldsItsModuleWhileItsInstanceIsAway(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.declare(s.owner(), changingText)
	a := s.fake(r, "a").online(s)
	j, step := changing(s, a)
	_, err := s.c.CancelJob(ctx, s.owner(), j.ID, work.AfterCurrent, "")
	s.must(err)
	a.cut()
	s.must(s.c.endDue(ctx, later()))
	s.until(j.ID, work.Interrupted)
	if got, err := s.c.CancelJob(ctx, s.owner(), j.ID, work.Graceful, ""); err != nil || got.Status != work.Interrupted {
		t.Fatalf("canceled while its instance is away: %+v, %v", got, err)
	}
	b := s.fake(r, "b").online(s)
	next := s.submit("prod/net/change", work.Run)
	eventually(t, "the next one waits for it", func() bool { return s.job(next.ID).Wait.Code == work.WaitModuleBusy })

	a.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 1, Running: true}}
	a.online(s)
	if v := a.welcome.Jobs[0]; v.Fate != wire.Continue || v.Cancel != work.Graceful {
		t.Fatalf("verdict: %+v", v)
	}
	s.until(j.ID, work.Canceling)
	if c := expect[*wire.Cancel](a); c.Ref != step.Ref || c.Mode != work.Graceful {
		t.Fatalf("cancel: %+v", c)
	}
	a.finish(step.Ref, 1, 0, work.StepResult{Status: work.StepCanceled})
	s.until(j.ID, work.Canceled)
	select {
	case m := <-b.in:
		if o, ok := m.(*wire.Offer); !ok || o.Job != next.ID {
			t.Fatalf("the other instance got %T", m)
		}
	case <-time.After(patience):
		t.Fatal("nobody is asked to take the next one")
	}
}

func TestKillGivesUpAnInterruptedJob(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.declare(s.owner(), changingText)
	a := s.fake(r, "a").online(s)
	j, step := changing(s, a)
	a.cut()
	s.must(s.c.endDue(context.Background(), later()))
	got, err := s.c.CancelJob(context.Background(), s.owner(), j.ID, work.Kill, "")
	if err != nil || got.Status != work.Canceled || got.Failure.Code != "outcome_unknown" {
		t.Fatalf("%+v, %v", got, err)
	}
	a.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 1, Running: true}}
	a.online(s)
	if v := a.welcome.Jobs[0]; v.Fate != wire.Superseded {
		t.Fatalf("verdict: %+v", v)
	}
}

func TestRecoveryWindowPasses(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.declare(s.owner(), changingText)
	a := s.fake(r, "a").online(s)
	j, step := changing(s, a)
	a.cut()
	s.must(s.c.endDue(context.Background(), later()))
	s.must(s.c.endDue(context.Background(), later()))
	s.until(j.ID, work.Interrupted)
	s.must(s.c.endDue(context.Background(), recovered()))
	b := s.fake(r, "b").online(s)
	again := b.take()
	if again.Attempt != 2 || again.Step != 0 {
		t.Fatalf("again: %+v", again)
	}
	a.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 1, Running: true}}
	a.online(s)
	if v := a.welcome.Jobs[0]; v.Fate != wire.Superseded {
		t.Fatalf("verdict: %+v", v)
	}
	a.finish(step.Ref, 1, 0, work.StepResult{})
	expect[*wire.StepAck](a)
	if got := s.job(j.ID); got.Attempt != 2 || got.Status != work.Claimed {
		t.Fatalf("the old result moved the job: %+v", got)
	}
}

func TestInstanceThatIsStillThereIsToldOfTheLoss(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), changingText)
	a := s.fake(r, "a").online(s)
	j := s.submit("prod/net/change", work.Run)
	step := a.take()
	a.start(step.Ref, 0)
	s.until(j.ID, work.Running)
	s.must(s.c.endDue(context.Background(), later()))
	again := a.take()
	if again.Attempt != 2 {
		t.Fatalf("step: %+v", again)
	}
	if c := expect[*wire.Cancel](a); c.Ref != step.Ref || c.Mode != work.Graceful {
		t.Fatalf("cancel: %+v", c)
	}
	a.finish(step.Ref, 0, 0, work.StepResult{Status: work.StepCanceled})
	expect[*wire.StepAck](a)
	expect[*wire.Drop](a)
	if got := s.job(j.ID); got.Status != work.Claimed || got.Attempt != 2 {
		t.Fatalf("the canceled step of attempt 1 moved the job: %+v", got)
	}
}

// TestInstanceReturnsBeforeAnotherAttempt lets an instance come back after its lease and its recovery window, while nobody else has
// taken its job: its attempt goes on, with the inputs that it had.
func TestInstanceReturnsBeforeAnotherAttempt(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), stackText+`---
{kind: Module, stack: prod, namespace: net, name: change, script: {run: 'true'}, inputs: [{name: A, kind: env, value: first}]}
`)
	a := s.fake(r, "a").online(s)
	j, step := changing(s, a)
	a.cut()
	s.must(s.c.endDue(context.Background(), later()))
	s.must(s.c.endDue(context.Background(), recovered()))
	if got := s.until(j.ID, work.Queued); len(got.Losses) != 1 || got.Resumable == nil {
		t.Fatalf("lost attempts %+v, resumable %+v", got.Losses, got.Resumable)
	}

	a.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 1, Running: true}}
	a.online(s)
	v := a.welcome.Jobs[0]
	if v.Fate != wire.Continue || v.Next != 1 || v.Spec == nil {
		t.Fatalf("verdict: %+v", v)
	}
	if got := string(v.Spec.Inputs[0].Value); got != `"first"` {
		t.Errorf("input: got %s", got)
	}
	a.finish(step.Ref, 1, 0, work.StepResult{})
	done := s.until(j.ID, work.Succeeded)
	if done.Attempt != 1 || len(done.Losses) != 0 || done.Resumable != nil {
		t.Fatalf("attempt %d, lost attempts %+v, resumable %+v", done.Attempt, done.Losses, done.Resumable)
	}
}

// TestOnlyTheInstanceOfTheAttemptResumesIt has others claim that they held the attempt, and the right one return while another job of
// the module is under way.
func TestOnlyTheInstanceOfTheAttemptResumesIt(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.declare(s.owner(), changingText)
	a := s.fake(r, "a").online(s)
	j, step := changing(s, a)
	a.cut()
	s.must(s.c.endDue(context.Background(), later()))
	s.must(s.c.endDue(context.Background(), recovered()))
	s.until(j.ID, work.Queued)

	b := s.fake(r, "b")
	b.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 1, Running: true}}
	b.online(s)
	if v := b.welcome.Jobs[0]; v.Fate != wire.Unknown {
		t.Fatalf("another instance: verdict %+v", v)
	}
	impostor := s.fake(r, "a")
	impostor.hello.Key, impostor.hello.Capacity = "another key 0123456789", 0
	impostor.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 1, Running: true}}
	impostor.online(s)
	if v := impostor.welcome.Jobs[0]; v.Fate != wire.Unknown {
		t.Fatalf("another key: verdict %+v", v)
	}
	impostor.cut()
	if again := b.take(); again.Attempt != 2 {
		t.Fatalf("attempt %d", again.Attempt)
	}
	a.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 1, Running: true}}
	a.online(s)
	if v := a.welcome.Jobs[0]; v.Fate != wire.Superseded {
		t.Fatalf("after another attempt began: verdict %+v", v)
	}
	if got := s.job(j.ID); got.Attempt != 2 || got.Status != work.Claimed {
		t.Fatalf("the old attempt moved the job: %+v", got)
	}
}

// TestAttemptIsNotResumedBesideAnotherJobOfItsModule keeps two jobs of one module apart.
func TestAttemptIsNotResumedBesideAnotherJobOfItsModule(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.declare(s.owner(), stackText+`---
{kind: Module, stack: prod, namespace: net, name: change, engine: opentofu, source: {type: inline, files: {main.tf: ''}}}
`)
	a := s.fake(r, "a").online(s)
	lost := s.submit("prod/net/change", work.Plan)
	step := a.take()
	a.start(step.Ref, 0)
	s.until(lost.ID, work.Running)
	a.cut()
	s.must(s.c.endDue(context.Background(), later()))
	s.until(lost.ID, work.Queued)
	urgent, err := s.c.Submit(context.Background(), s.owner(),
		SubmitRequest{Module: "prod/net/change", Action: work.Apply, Priority: work.PriorityHigh})
	s.must(err)
	b := s.fake(r, "b").online(s)
	if got := b.take(); got.Job != urgent.ID {
		t.Fatalf("taken: %+v", got)
	}
	a.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 0, Running: true}}
	a.online(s)
	if v := a.welcome.Jobs[0]; v.Fate != wire.Superseded {
		t.Fatalf("verdict: %+v", v)
	}
	if got := s.job(lost.ID); got.Status != work.Queued {
		t.Fatalf("two jobs of one module are under way: %+v", got)
	}
}

func TestInterruptedJobResumesWhenItsInstanceSpeaksOfIt(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), changingText)
	a := s.fake(r, "a").online(s)
	j, step := changing(s, a)
	s.must(s.c.endDue(context.Background(), later()))
	s.until(j.ID, work.Interrupted)
	s.c.keepPresence(context.Background(), time.Now())
	if got := s.job(j.ID); got.Status != work.Interrupted {
		t.Fatalf("nobody spoke of it, and it is %s", got.Status)
	}
	a.send(&wire.Heartbeat{Working: []wire.Ref{step.Ref}})
	eventually(t, "the heartbeat is read", func() bool { return s.c.sessions.named(r.ID, "a").worksOn(step.Ref) })
	s.c.keepPresence(context.Background(), time.Now())
	if got := s.job(j.ID); got.Status != work.Running {
		t.Fatalf("it is %s", got.Status)
	}
}

func TestPoisonedJobFails(t *testing.T) {
	s := newWorld(t).serve(Limits{MaxAttempts: 2})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), changingText)
	a := s.fake(r, "a").online(s)
	j := s.submit("prod/net/change", work.Run)
	for range 2 {
		a.take()
		a.cut()
		a.online(s) // with an empty journal: it lost everything
	}
	done := s.until(j.ID, work.Failed)
	if done.Failure.Code != "too_many_attempts" || len(done.Losses) != 2 {
		t.Fatalf("job: %+v", done)
	}
}

// silent is a Server with a Job whose Instance is gone.
func silent(t *testing.T) (*server, *work.Job) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), changingText)
	a := s.fake(r, "a").online(s)
	j := s.submit("prod/net/change", work.Run)
	a.take()
	a.cut()
	return s, j
}

func TestYoungServerEndsNoLease(t *testing.T) {
	s, j := silent(t)
	up := time.Duration(s.c.upSince.Load())
	s.c.sweep(context.Background(), new(sweeper), reading{later(), up + 59*time.Second})
	if got := s.job(j.ID); got.Status != work.Claimed {
		t.Fatalf("job is %s", got.Status)
	}
	s.c.sweep(context.Background(), new(sweeper), reading{later(), up + time.Minute})
	s.until(j.ID, work.Queued)
}

func TestClockThatIsSetEndsNoLease(t *testing.T) {
	s, j := silent(t)
	now, up := time.Now(), time.Hour
	var sw sweeper
	s.c.sweep(context.Background(), &sw, reading{now, up})
	for i := range 60 { // an hour ahead at once, then it goes on as time does
		s.c.sweep(context.Background(), &sw, reading{now.Add(time.Hour + time.Duration(i)*time.Second), up + time.Duration(i+1)*time.Second})
		if got := s.job(j.ID); got.Status != work.Claimed {
			t.Fatalf("after %d s the job is %s", i, got.Status)
		}
	}
	s.c.sweep(context.Background(), &sw, reading{now.Add(time.Hour + time.Minute), up + 61*time.Second})
	s.until(j.ID, work.Queued)
}

func TestClockThatIsSetBackStopsNoSweep(t *testing.T) {
	s, j := silent(t)
	now, up := time.Now(), time.Hour
	var sw sweeper
	s.c.sweep(context.Background(), &sw, reading{now.Add(time.Hour), up}) // the lease is over by far
	s.until(j.ID, work.Queued)
	s.c.sweep(context.Background(), &sw, reading{now, up + time.Minute})
	if sw.beat != up+time.Minute || sw.resync != up+time.Minute || sw.prune != up+time.Minute {
		t.Fatalf("nothing is done until the clock is where it was: %+v", sw)
	}
}

func TestPauseStartsTheWaitingAnew(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for name, c := range map[string]struct {
		clock, up time.Duration
		want      bool
	}{
		"a second":              {time.Second, time.Second, false},
		"a slow round":          {20 * time.Second, 20 * time.Second, false},
		"slewed":                {time.Second, 1300 * time.Millisecond, false},
		"stopped":               {time.Minute, time.Minute, true},
		"suspended":             {time.Minute, time.Second, true},
		"suspended for seconds": {5 * time.Second, time.Second, true},
		"set ahead":             {24 * time.Hour, time.Second, true},
		"set back":              {-time.Hour, time.Second, true},
		"stands still":          {0, 5 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctl := New(Config{Log: testLog(t)})
			var sw sweeper
			ctl.noticePause(&sw, reading{at, time.Minute})
			if ctl.upSince.Load() != 0 {
				t.Fatal("the first round is no pause")
			}
			now := reading{at.Add(c.clock), time.Minute + c.up}
			ctl.noticePause(&sw, now)
			if began := time.Duration(ctl.upSince.Load()); (began == now.up) != c.want {
				t.Fatalf("waits since %s", began)
			}
		})
	}
}

func TestJobThatCannotBeEndedHoldsUpNoOther(t *testing.T) {
	if os.Getenv("LEGWORK_TEST_DATABASE") == "postgres" {
		t.Skip("the trouble is made in SQLite")
	}
	path := filepath.Join(t.TempDir(), "legwork.db")
	s := newWorldOn(t, path).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 2)
	f := s.fake(r, "a")
	f.hello.Capacity = 2
	f.online(s)
	stuck := s.submit("prod/net/m0", work.Run)
	f.take()
	free := s.submit("prod/net/m1", work.Run)
	f.take()
	f.cut()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	s.must(err)
	eventually(t, "the trouble is made beside a Server that writes", func() bool {
		_, err = db.Exec("CREATE TRIGGER IF NOT EXISTS stuck BEFORE UPDATE ON jobs WHEN new.id = '" + stuck.ID + "' BEGIN SELECT raise(ABORT, 'stuck'); END")
		return err == nil
	})
	s.must(db.Close())
	s.must(s.c.endDue(context.Background(), later()))
	s.until(free.ID, work.Queued)
	if got := s.job(stuck.ID); got.Status != work.Claimed {
		t.Fatalf("the other is %s", got.Status)
	}
}

func TestDueEvents(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		job  work.Job
		want work.Event
	}{
		"lease over":    {work.Job{Status: work.Running, Attempt: 3, LeaseUntil: now}, work.LeaseLost{}},
		"lease holds":   {work.Job{Status: work.Running, LeaseUntil: now.Add(1)}, nil},
		"no lease":      {work.Job{Status: work.Running}, nil},
		"window over":   {work.Job{Status: work.Interrupted, RecoverUntil: now}, work.RecoveryOver{}},
		"approval over": {work.Job{Status: work.AwaitingApproval, ApproveUntil: now}, work.ApprovalExpired{}},
		"for ever":      {work.Job{Status: work.AwaitingApproval}, nil},
		"over":          {work.Job{Status: work.Succeeded, LeaseUntil: now}, nil},
	} {
		got := dueEvent(&c.job, now)
		if (got == nil) != (c.want == nil) || (got != nil && got.Name() != c.want.Name()) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestSilentInstanceIsNotTakenForBack lets an instance name its job and then say nothing. What it said before its job was
// given up is no sign of life.
func TestSilentInstanceIsNotTakenForBack(t *testing.T) {
	s := newWorld(t).serve(Limits{Heartbeat: work.HeartbeatPeriod})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), changingText)
	a := s.fake(r, "a").online(s)
	j, step := changing(s, a)
	a.send(&wire.Heartbeat{Working: []wire.Ref{step.Ref}})
	eventually(t, "the heartbeat is read", func() bool { return s.c.sessions.named(r.ID, "a").worksOn(step.Ref) })
	s.must(s.c.endDue(context.Background(), later()))
	until := s.until(j.ID, work.Interrupted).RecoverUntil
	s.c.keepPresence(context.Background(), later())
	if got := s.job(j.ID); got.Status != work.Interrupted || !got.RecoverUntil.Equal(until) {
		t.Fatalf("job of a silent instance: got %s until %s, want interrupted until %s", got.Status, got.RecoverUntil, until)
	}
	s.c.upSince.Store(-int64(time.Hour)) // as a server that has listened for long
	s.c.keepPresence(context.Background(), later())
	if code := a.closed(); code != wire.CloseSilent {
		t.Errorf("end of a session of which nothing was heard for the lease: got %v, want %v", code, wire.CloseSilent)
	}
}

// TestJobThatMayHaveRunIsNotSuperseded submits jobs while the first one is queued again. Its runner was lost in a
// mutating step.
func TestJobThatMayHaveRunIsNotSuperseded(t *testing.T) {
	s, _, first, j, step := held(t)
	s.must(s.c.endDue(context.Background(), later()))
	s.must(s.c.endDue(context.Background(), recovered()))
	s.until(j.ID, work.Queued)
	second, third := s.submit("prod/net/change", work.Run), s.submit("prod/net/change", work.Run)
	if got := s.job(j.ID); got.Status != work.Queued {
		t.Fatalf("lost job after a newer one was submitted: got %s, want queued", got.Status)
	}
	if got := s.job(second.ID); got.Status != work.Superseded {
		t.Errorf("job that was never begun: got %s, want superseded by #%d", got.Status, third.Number)
	}
	first.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 1, Running: true}}
	first.online(s)
	first.finish(step.Ref, 1, 0, work.StepResult{})
	if done := s.until(j.ID, work.Succeeded); done.Attempt != 1 {
		t.Errorf("lost job whose instance returned: got attempt %d, want 1", done.Attempt)
	}
}

// TestStepOfALostAttemptIsUnknown cancels a job whose runner was lost in a mutating step, before and after it is
// queued again.
func TestStepOfALostAttemptIsUnknown(t *testing.T) {
	for _, status := range []work.Status{work.Interrupted, work.Queued} {
		s, _, _, j, _ := held(t)
		s.must(s.c.endDue(context.Background(), later()))
		if status == work.Queued {
			s.must(s.c.endDue(context.Background(), recovered()))
		}
		s.until(j.ID, status)
		if _, err := s.c.CancelJob(context.Background(), s.owner(), j.ID, work.Kill, ""); err != nil {
			t.Fatal(err)
		}
		got := s.until(j.ID, work.Canceled).Steps[1]
		if got.Status != work.StepUnknown || (!got.StartedAt.IsZero() && got.FinishedAt.IsZero()) {
			t.Errorf("canceled while %s: got step %s from %s to %s, want unknown with an end",
				status, got.Status, got.StartedAt, got.FinishedAt)
		}
	}
}

// TestJobTellsThatItsInstanceIsAway reads a job whose instance lost its connection a moment ago.
func TestJobTellsThatItsInstanceIsAway(t *testing.T) {
	s, _, first, j, step := held(t)
	notice := func() string {
		got, err := s.c.Job(context.Background(), s.owner(), j.ID)
		if err != nil {
			t.Fatal(err)
		}
		return got.Notice
	}
	eventually(t, "the job says that its instance is away", func() bool { return notice() != "" })
	if got := notice(); !strings.Contains(got, "instance edge/a lost its connection at ") || !strings.Contains(got, "counts as lost at ") {
		t.Errorf("notice: got %q, want the instance and both times", got)
	}
	first.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 1, Running: true}}
	first.online(s)
	eventually(t, "the notice goes", func() bool { return notice() == "" })
}
