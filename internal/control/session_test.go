package control

import (
	"context"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/wire"
	"legwork/internal/work"
)

func TestHelloIsRefusedWithTheRightCode(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	theirs := s.runner(s.stranger(), catalog.RunnerSpec{})
	for name, c := range map[string]struct {
		change func(f *fake)
		want   wire.CloseCode
	}{
		"unknown runner":                 {func(f *fake) { f.runner.ID = "nobody" }, wire.CloseUnknown},
		"runner by name":                 {func(f *fake) { f.runner.ID = r.Name }, wire.CloseUnknown},
		"runner of another organization": {func(f *fake) { f.runner.ID = theirs.ID }, wire.CloseUnknown},
		"too old":                        {func(f *fake) { f.hello.Capability = wire.OldestCapability - 1 }, wire.CloseCapability},
		"too new":                        {func(f *fake) { f.hello.Capability = wire.Capability + 1 }, wire.CloseCapability},
		"short key":                      {func(f *fake) { f.hello.Key = "x" }, wire.CloseProtocol},
		"no instance":                    {func(f *fake) { f.hello.Instance = " " }, wire.CloseProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			f := s.fake(r, "a")
			c.change(f)
			if code := wire.CodeOf(f.dial(s)); code != c.want {
				t.Fatalf("closed with %v, want %v", code, c.want)
			}
		})
	}
}

func TestSameKeyTakesTheSessionOver(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	first := s.fake(r, "a").online(s)
	second := s.fake(r, "a").online(s)
	if code := first.closed(); code != wire.CloseReplaced {
		t.Fatalf("the first was closed with %v", code)
	}
	s.scripts(s.owner(), 1)
	s.submit("prod/net/m0", work.Run)
	second.take()
}

func TestAnotherProcessOfTheSameNameIsRefused(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	first := s.fake(r, "a").online(s)
	second := s.fake(r, "a")
	second.hello.Key = "another key 0123456789"
	if code := wire.CodeOf(second.dial(s)); code != wire.CloseDuplicate {
		t.Fatalf("closed with %v", code)
	}
	first.cut()
	eventually(t, "the first is gone", func() bool { return s.c.sessions.size() == 0 })
	if err := second.dial(s); err != nil {
		t.Fatalf("still refused: %v", err)
	}
}

func TestRunnerThatAllowsOneInstance(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.fake(r, "a").online(s)
	if code := wire.CodeOf(s.fake(r, "b").dial(s)); code != wire.CloseSingle {
		t.Fatalf("closed with %v", code)
	}
	_, err := s.c.UpdateRunner(context.Background(), s.owner(), r.ID, catalog.RunnerSpec{Name: "edge", IsAssignedToAllModules: true, AllowMultipleInstances: true})
	s.must(err)
	s.fake(r, "b").online(s)
}

func TestDisabledRunnerConnectsAndGetsNothing(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{IsDisabled: true})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	j := s.submit("prod/net/m0", work.Run)
	eventually(t, "the job says why it waits", func() bool { return s.job(j.ID).Wait.Code == work.WaitRunnerDisabled })
	_, err := s.c.UpdateRunner(context.Background(), s.owner(), "edge", catalog.RunnerSpec{Name: "edge", IsAssignedToAllModules: true})
	s.must(err)
	f.take()
}

func TestMessageAboutAnothersJobEndsTheSession(t *testing.T) {
	w := newWorld(t)
	s := w.serve(Limits{})
	mine := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	theirs := s.runner(s.stranger(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.scripts(s.owner(), 1)
	s.scripts(s.stranger(), 1)
	f := s.fake(mine, "a").online(s)
	j := s.submit("prod/net/m0", work.Run)
	step := f.take()
	f.start(step.Ref, 0)
	s.until(j.ID, work.Running)
	for name, intruder := range map[string]*fake{"same runner": s.fake(mine, "b"), "another organization, same names": s.fake(theirs, "a")} {
		for what, m := range map[string]func() wire.Message{
			"log":   func() wire.Message { b, _ := wire.PackRecords(step.Ref, 0, records(0, 1, 1)); return b },
			"start": func() wire.Message { return &wire.StepStarted{Ref: step.Ref, At: time.Now()} },
			"result": func() wire.Message {
				return &wire.StepFinished{Ref: step.Ref, Result: work.StepResult{Status: work.StepFailed}}
			},
			"no such job": func() wire.Message {
				return &wire.StepStarted{Ref: wire.Ref{Job: "nothing", Attempt: 1}, At: time.Now()}
			},
		} {
			intruder.online(s)
			intruder.send(m())
			if code := intruder.closed(); code != wire.CloseForbidden {
				t.Fatalf("%s, %s: closed with %v", name, what, code)
			}
			eventually(t, "it is gone", func() bool { return s.c.sessions.size() == 1 })
		}
	}
	if got := s.job(j.ID); got.Status != work.Running || len(s.log(j.ID)) != 0 {
		t.Fatalf("the job was touched: %+v", got)
	}
}

func TestHeartbeatRenewsOnlyTheLeasesOfItsOwnJobs(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.scripts(s.owner(), 2)
	a, b := s.fake(r, "a").online(s), (*fake)(nil)
	j := s.submit("prod/net/m0", work.Run)
	step := a.take()
	b = s.fake(r, "b").online(s)
	other := s.submit("prod/net/m1", work.Run)
	others := b.take()
	lease := s.job(j.ID).LeaseUntil
	foreign := s.job(other.ID).LeaseUntil
	a.send(&wire.Heartbeat{Working: []wire.Ref{step.Ref, others.Ref}})
	eventually(t, "the heartbeat is read", func() bool { return s.c.sessions.named(r.ID, "a").worksOn(step.Ref) })
	s.must(s.c.renewLeases(context.Background()))
	if got := s.job(j.ID).LeaseUntil; !got.After(lease) {
		t.Fatalf("the lease is until %v, before until %v", got, lease)
	}
	if got := s.job(other.ID).LeaseUntil; !got.Equal(foreign) {
		t.Fatalf("the lease of another's job moved from %v to %v", foreign, got)
	}
}

func TestJournalIsReconciled(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 3)
	f := s.fake(r, "a")
	f.hello.Capacity = 3
	f.online(s)
	kept, lost := s.submit("prod/net/m0", work.Run), s.submit("prod/net/m1", work.Run)
	var keptStep *wire.RunStep
	for range 2 {
		if m := f.take(); m.Job == kept.ID {
			keptStep = m
		}
	}
	f.print(keptStep.Ref, 0, 1, 4)
	expect[*wire.LogAck](f)
	f.cut()

	f.hello.Journal = []wire.Held{
		{Ref: keptStep.Ref, Step: 0, Running: true},
		{Ref: wire.Ref{Job: "nothing", Attempt: 1}},
	}
	f.online(s)
	verdicts := map[string]wire.Verdict{}
	for _, v := range f.welcome.Jobs {
		verdicts[v.Job] = v
	}
	v := verdicts[kept.ID]
	if v.Fate != wire.Continue || v.Spec == nil || v.Next != 0 || len(v.Acks) != 1 || v.Acks[0].Next != 5 {
		t.Fatalf("kept: %+v", v)
	}
	if verdicts["nothing"].Fate != wire.Unknown {
		t.Fatalf("unknown: %+v", verdicts["nothing"])
	}
	again := f.take() // what it knew nothing of was queued again at once
	if again.Job != lost.ID || again.Attempt != 2 {
		t.Fatalf("lost job came back as %+v", again.Ref)
	}
	if l := s.job(lost.ID).Losses; len(l) != 1 || l[0].Attempt != 1 {
		t.Fatalf("losses: %+v", l)
	}
	f.run(keptStep, 4, work.StepResult{})
}

func TestResumedStepIsSentAgainWhenItsMessageWasLost(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	s.submit("prod/net/m0", work.Run)
	step := f.take()
	f.cut()
	f.hello.Journal = []wire.Held{{Ref: step.Ref, Step: -1}}
	f.online(s)
	again := expect[*wire.RunStep](f)
	if again.Ref != step.Ref || again.Step != 0 || again.Spec == nil {
		t.Fatalf("sent again: %+v", again)
	}
}

func TestServerRestartKeepsJobsAndLogs(t *testing.T) {
	w := newWorld(t)
	s := w.serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	j := s.submit("prod/net/m0", work.Run)
	step := f.take()
	f.start(step.Ref, 0)
	f.print(step.Ref, 0, 1, 2)
	expect[*wire.LogAck](f)
	s.stop()
	if code := f.closed(); code != wire.CloseShutdown {
		t.Fatalf("closed with %v", code)
	}
	s = w.serve(Limits{})
	f.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 0, Running: true}}
	f.online(s)
	f.print(step.Ref, 0, 1, 4) // overlaps what was acked
	f.finish(step.Ref, 0, 4, work.StepResult{})
	f.run(expect[*wire.RunStep](f), 1, work.StepResult{})
	done := s.until(j.ID, work.Succeeded)
	if len(s.log(j.ID)) != 5 || done.Attempt != 1 {
		t.Fatalf("%d lines, attempt %d", len(s.log(j.ID)), done.Attempt)
	}
}

func TestDrainingInstanceTakesNothing(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	views, err := s.c.Instances(context.Background(), s.owner(), "edge")
	s.must(err)
	if len(views) != 1 || views[0].State != work.InstanceOnline {
		t.Fatalf("instances: %+v", views)
	}
	s.must(s.c.SetDraining(context.Background(), s.owner(), views[0].ID, true))
	if expect[*wire.Drain](f).Resume {
		t.Fatal("told to resume")
	}
	j := s.submit("prod/net/m0", work.Run)
	eventually(t, "the job says why it waits", func() bool { return s.job(j.ID).Wait.Code == work.WaitDraining })
	f.cut()
	f.online(s) // it holds over a restart
	if expect[*wire.Drain](f).Resume {
		t.Fatal("told to resume")
	}
	s.must(s.c.SetDraining(context.Background(), s.owner(), views[0].ID, false))
	f.take()
}

func TestDeletedRunnerLosesItsSession(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	f := s.fake(r, "a").online(s)
	s.must(s.c.DeleteRunner(context.Background(), s.owner(), "edge"))
	if code := f.closed(); code != wire.CloseUnknown {
		t.Fatalf("closed with %v", code)
	}
	if code := wire.CodeOf(f.dial(s)); code != wire.CloseUnknown {
		t.Fatalf("refused with %v", code)
	}
}

// TestRunnerThatWasJustMadeKeepsItsSession: it came after the Runners were read of which one was deleted.
func TestRunnerThatWasJustMadeKeepsItsSession(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	s.c.tellKnown(context.Background(), s.org, map[string]catalog.Runner{})
	s.submit("prod/net/m0", work.Run)
	f.take()
}

// TestBlockedJobSaysSo: what keeps an Instance from going on stands in the Job until it goes on, and later Sessions go on with that.
func TestBlockedJobSaysSo(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	j := s.submit("prod/net/m0", work.Run)
	step := f.take()
	f.start(step.Ref, 0)
	const full = "the disk is full"
	f.send(&wire.Heartbeat{Working: []wire.Ref{step.Ref}, Blocked: []wire.Blocked{{Ref: step.Ref, Reason: full}}})
	eventually(t, "the job says what keeps it", func() bool { return s.job(j.ID).Notice == full })
	f.cut()
	f.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 0, Running: true}}
	f.online(s)
	if got := s.job(j.ID).Notice; got != full {
		t.Errorf("a new session alone changes it to %q", got)
	}
	f.send(&wire.Heartbeat{Working: []wire.Ref{step.Ref}})
	f.send(&wire.Heartbeat{Working: []wire.Ref{step.Ref}, Blocked: []wire.Blocked{{Ref: wire.Ref{Job: "other", Attempt: 1}, Reason: full}}})
	eventually(t, "the job goes on", func() bool { return s.job(j.ID).Notice == "" })
}

// TestDisabledRunnerIsTold when it connects, and when it is disabled while it is connected.
func TestDisabledRunnerIsTold(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	f := s.fake(r, "a").online(s)
	set := func(disabled bool) {
		t.Helper()
		spec := r.RunnerSpec
		spec.IsDisabled = disabled
		_, err := s.c.UpdateRunner(context.Background(), s.owner(), r.ID, spec)
		s.must(err)
	}
	set(true)
	if m := expect[*wire.Notice](f); !m.Trouble || m.Text != "runner edge is disabled: it gets no Jobs until `legwork runner enable edge`" {
		t.Errorf("told %+v", m)
	}
	f.cut()
	f.online(s)
	if m := expect[*wire.Notice](f); !m.Trouble {
		t.Errorf("told %+v at a connect", m)
	}
	set(false)
	if m := expect[*wire.Notice](f); m.Trouble {
		t.Errorf("told %+v when it was enabled", m)
	}
}

// TestUnavailableInstanceGetsNoJob: an unavailable instance gets no job. The job and the runner show the reason, also after a
// reconnect, and the instance gets the job when it is available again.
func TestUnavailableInstanceGetsNoJob(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	const low = "the disk of its working directory has less than 256 MiB free"
	reason := func() string {
		views, err := s.c.Instances(context.Background(), s.owner(), "edge")
		s.must(err)
		return views[0].UnavailableReason
	}
	f.send(&wire.Heartbeat{Unavailable: low})
	eventually(t, "the instance shows why it takes no jobs", func() bool { return reason() == low })
	j := s.submit("prod/net/m0", work.Run)
	waits := func() bool {
		w := s.job(j.ID).Wait
		return w.Code == work.WaitUnavailable && strings.Contains(w.Text, low)
	}
	eventually(t, "the job shows why it waits", waits)
	view, err := s.c.RunnerView(context.Background(), s.owner(), "edge")
	s.must(err)
	if len(view.Warnings) != 1 || !strings.Contains(view.Warnings[0], "instance a takes no new jobs: "+low) {
		t.Errorf("got the warnings %q, want the reason of instance a", view.Warnings)
	}
	f.cut()
	f.online(s)
	if got := reason(); got != low || !waits() {
		t.Errorf("after a reconnect: got %q and %+v, want the reason from before", got, s.job(j.ID).Wait)
	}
	f.send(&wire.Heartbeat{})
	f.take()
	eventually(t, "the instance takes jobs", func() bool { return reason() == "" })
}
