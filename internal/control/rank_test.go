package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// prioritized queues a Job and makes it as old as a test wants.
func (s *server) prioritized(module string, p work.Priority, age time.Duration) *work.Job {
	s.t.Helper()
	var j *work.Job
	s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
		m, err := tx.Module(s.org, module)
		if err != nil {
			return err
		}
		sub, err := s.c.draft(tx, m, work.Run, "ann", "")
		if err != nil {
			return err
		}
		sub.job.Priority = p
		moves, err := s.c.enqueue(tx, sub)
		if err != nil {
			return err
		}
		j = moves[0].job
		j.CreatedAt = j.CreatedAt.Add(-age)
		return tx.SaveJob(j)
	}))
	return j
}

// finishAll runs what an Instance is given, one Job at a time, and gives their ids in that order.
func (f *fake) finishAll(n int) []string {
	f.t.Helper()
	var ids []string
	for range n {
		step := f.take()
		ids = append(ids, step.Job)
		f.run(step, 0, work.StepResult{})
		f.run(expectThat(f, func(m *wire.RunStep) bool { return m.Ref == step.Ref && m.Step == 1 }), 0, work.StepResult{})
	}
	return ids
}

// TestRanksHoldOverAll: Jobs of two Runners, with other needs, priorities and ages, found by a Server that was just started: each
// Runner gets its own in the order of their ranks.
func TestRanksHoldOverAll(t *testing.T) {
	const n = 24
	w := newWorld(t)
	before := w.serve(Limits{})
	edge := before.runner(before.owner(), catalog.RunnerSpec{})
	other := before.runner(before.owner(), catalog.RunnerSpec{Name: "other"})
	text := stackText
	for i := range n {
		runner := []string{"edge", "other"}[i%2]
		pin := []string{"", ", runner_instance_name: a"}[i/2%2]
		text += fmt.Sprintf("---\n{kind: Module, stack: prod, namespace: net, name: m%d, runner: %s%s, script: {run: 'true', repeatable: true}}\n", i, runner, pin)
	}
	before.declare(before.owner(), text)
	want := map[int][]*work.Job{}
	for i := range n {
		p := work.Priorities[rand.IntN(3)]
		j := before.prioritized(fmt.Sprintf("prod/net/m%d", i), p, time.Duration(rand.IntN(40))*time.Minute)
		want[i%2] = append(want[i%2], j)
	}
	before.stop()
	s := w.serve(Limits{OfferTime: time.Hour})
	for i, r := range []catalog.Runner{edge, other} {
		slices.SortFunc(want[i], func(a, b *work.Job) int { return a.Rank().Compare(b.Rank()) })
		eventually(t, "the queue is known", func() bool { return s.c.queue.Size() >= (2-i)*n/2 })
		got := s.fake(r, "a").online(s).finishAll(n / 2)
		for k, j := range want[i] {
			if got[k] != j.ID {
				t.Fatalf("%s got #%d of %v", r.Name, k, got)
			}
		}
	}
}

func TestPriorityIsAskedForKeptAndHandedOn(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 2)
	submit := func(p work.Priority) *work.Job {
		t.Helper()
		j, err := s.c.Submit(context.Background(), s.owner(), SubmitRequest{Module: "prod/net/m0", Action: work.Run, Priority: p})
		s.must(err)
		return j
	}
	if j := s.submit("prod/net/m1", work.Run); j.Priority != work.PriorityNormal {
		t.Errorf("without a word: %q", j.Priority)
	}
	if j := submit(work.PriorityHigh); j.Priority != work.PriorityHigh {
		t.Errorf("high became %q", j.Priority)
	}
	if j := submit(work.PriorityLow); j.Priority != work.PriorityHigh {
		t.Errorf("what replaces a high one is %q", j.Priority)
	}
	_, err := s.c.Submit(context.Background(), s.owner(), SubmitRequest{Module: "prod/net/m0", Action: work.Run, Priority: "urgent"})
	if fault.Code(err) != "priority_unknown" {
		t.Errorf("urgent: %v", err)
	}
}

func TestWhatIsTriggeredInheritsThePriority(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), chainText)
	f := s.fake(r, "a").online(s)
	go f.work(0, tofu(func(string) map[string]catalog.OutputValue {
		return map[string]catalog.OutputValue{"subnet": {Value: json.RawMessage(`"s-1"`)}, "password": {Value: json.RawMessage(`"p"`)}}
	}, nil))
	j, err := s.c.Submit(context.Background(), s.owner(), SubmitRequest{Module: "prod/net/base", Action: work.Apply, Priority: work.PriorityHigh})
	s.must(err)
	s.until(j.ID, work.Succeeded)
	var next *work.Job
	eventually(t, "the next is triggered", func() bool {
		jobs, err := s.c.Jobs(context.Background(), s.owner(), JobFilter{})
		s.must(err)
		next = jobs[0]
		return next.Cause != ""
	})
	if next.Priority != work.PriorityHigh {
		t.Fatalf("it has %q", next.Priority)
	}
}

// TestMaxParallelJobsHoldsOverInstancesAndServers: a Runner of two Servers with four Instances of three places each runs two Jobs at
// a time, and all of them.
func TestMaxParallelJobsHoldsOverInstancesAndServers(t *testing.T) {
	const jobs, most = 60, 2
	w := newWorldOn(t, database(t))
	one, two := w.serve(Limits{}), w.serve(Limits{})
	r := one.runner(one.owner(), catalog.RunnerSpec{AllowMultipleInstances: true, MaxParallelJobs: most})
	one.scripts(one.owner(), jobs)
	y := &tally{now: map[string]int{}, jobs: map[string]int{}, claims: map[wire.Ref]int{}}
	for i, s := range []*server{one, two, one, two} {
		f := s.fake(r, fmt.Sprintf("i%d", i))
		f.hello.Capacity = 3
		f.online(s)
		go f.countAs("all", y, most)
	}
	ids := make([]string, jobs)
	for i := range jobs {
		s := []*server{one, two}[i%2]
		ids[i] = s.submit(fmt.Sprintf("prod/net/m%d", i), work.Run).ID
	}
	for _, id := range ids {
		one.until(id, work.Succeeded)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.bad) > 0 {
		t.Fatal(y.bad)
	}
}

// TestClaimChecksPlacesInTheStore: what a Server believes does not matter. Two that believe each that a place is free give out one Job.
func TestClaimChecksPlacesInTheStore(t *testing.T) {
	for name, spec := range map[string]catalog.RunnerSpec{
		"the Runner's":   {AllowMultipleInstances: true, MaxParallelJobs: 1},
		"the Instance's": {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).serve(Limits{})
			r := s.runner(s.owner(), spec)
			s.scripts(s.owner(), 2)
			f := s.fake(r, "a")
			f.hello.Capacity = cmp.Or(spec.MaxParallelJobs*2, 1)
			f.online(s)
			first := s.submit("prod/net/m0", work.Run)
			f.take()
			second := s.submit("prod/net/m1", work.Run)
			eventually(t, "the second waits", func() bool {
				code := s.job(second.ID).Wait.Code
				return code == work.WaitBusy || code == work.WaitRunnerFull
			})
			c := s.c.sessions.named(r.ID, "a")
			_, err := s.c.tryClaim(context.Background(), c, wire.Ref{Job: second.ID, Attempt: 1}, time.Now())
			if err != errNoPlace { //nolint:errorlint // it is given as it is
				t.Fatalf("claimed beside #%d: %v", first.Number, err)
			}
		})
	}
}

func TestAssignmentThatIsWithdrawnTurnsTheReason(t *testing.T) {
	ctx := context.Background()
	s := newWorld(t).serve(Limits{})
	r, err := s.c.CreateRunner(ctx, s.owner(), catalog.RunnerSpec{Name: "edge"})
	s.must(err)
	s.scripts(s.owner(), 1)
	_, err = s.c.Submit(ctx, s.owner(), SubmitRequest{Module: "prod/net/m0", Action: work.Run})
	if f := fault.Of(err); f == nil || f.Code != notAssigned || f.Message != "runner edge is not assigned to module prod/net/m0" ||
		f.Hint != "run: legwork assignment create edge prod/net/m0" {
		t.Fatalf("refused with %+v", f)
	}
	assign := func() catalog.Assignment {
		a, err := s.c.CreateAssignment(ctx, s.owner(), catalog.AssignmentSpec{Runner: "edge", Scope: "prod/net/m0"})
		s.must(err)
		return a
	}
	a := assign()
	j := s.submit("prod/net/m0", work.Run)
	s.must(s.c.DeleteAssignment(ctx, s.owner(), a.ID))
	f := s.fake(r.Runner, "a").online(s)
	eventually(t, "it says so", func() bool {
		w := s.job(j.ID).Wait
		return w.Code == work.WaitNoAssignment && w.Text == "runner edge is not assigned to module prod/net/m0: run: legwork assignment create edge prod/net/m0"
	})
	assign()
	go f.work(0, nil)
	s.until(j.ID, work.Succeeded)
}

func TestLabelsWithoutAssignmentNameWhoWouldSuit(t *testing.T) {
	ctx := context.Background()
	s := newWorld(t).serve(Limits{})
	for name, labels := range map[string]map[string]string{"north": {"region": "eu", "tier": "prod"}, "south": {"region": "us"}} {
		_, err := s.c.CreateRunner(ctx, s.owner(), catalog.RunnerSpec{Name: name, Labels: labels})
		s.must(err)
	}
	s.runner(s.owner(), catalog.RunnerSpec{Name: "west", Labels: map[string]string{"region": "us"}})
	s.declare(s.owner(), `
{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: net, defaults: {engine: script}}
---
{kind: Module, stack: prod, namespace: net, name: m0, runner_labels: {tier: prod, region: eu}, script: {run: 'true'}}
---
{kind: Module, stack: prod, namespace: net, name: m1, runner_labels: {region: mars}, script: {run: 'true'}}
`)
	for module, want := range map[string][2]string{
		"prod/net/m0": {"no runner with the labels region=eu, tier=prod is assigned to module prod/net/m0",
			"these would suit: north; run: legwork assignment create north prod/net/m0"},
		"prod/net/m1": {"no runner with the labels region=mars is assigned to module prod/net/m1",
			"no runner has these labels: give them to one, then run: legwork assignment create RUNNER prod/net/m1"},
	} {
		_, err := s.c.Submit(ctx, s.owner(), SubmitRequest{Module: module, Action: work.Run})
		if f := fault.Of(err); f == nil || f.Message != want[0] || f.Hint != want[1] {
			t.Errorf("%s: %+v", module, f)
		}
	}
	a, err := s.c.CreateAssignment(ctx, s.owner(), catalog.AssignmentSpec{Runner: "north", Scope: "prod/net/m0"})
	s.must(err)
	j := s.submit("prod/net/m0", work.Run)
	wait := func(code work.WaitCode, text string) {
		t.Helper()
		eventually(t, string(code), func() bool { w := s.job(j.ID).Wait; return w.Code == code && w.Text == text })
	}
	wait(work.WaitNoInstance, "no instance of a runner with the labels region=eu, tier=prod is online")
	s.must(s.c.DeleteAssignment(ctx, s.owner(), a.ID))
	wait(work.WaitNoAssignment, "no runner with the labels region=eu, tier=prod is assigned to module prod/net/m0: run: legwork assignment create RUNNER prod/net/m0")
}

func TestMaintenanceHoldsBackWhatIsNew(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	s := w.serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 2)
	f := s.fake(r, "a")
	f.hello.Capacity = 2
	f.online(s)
	running := s.submit("prod/net/m0", work.Run)
	step := f.take()
	m, err := s.c.SetMaintenance(ctx, s.owner(), true, "database")
	if s.must(err); !m.On || m.By != "ann" {
		t.Fatalf("it is %+v", m)
	}
	if again, err := s.c.SetMaintenance(ctx, s.owner(), true, ""); err != nil || again != m {
		t.Fatalf("begun twice it is %+v, %v", again, err)
	}
	j := s.submit("prod/net/m1", work.Run)
	text := "ann began maintenance (database): nothing new is started until legwork maintenance off"
	eventually(t, "it says so", func() bool { return s.job(j.ID).Wait == work.Wait{Code: work.WaitMaintenance, Text: text} })
	c := s.c.sessions.named(r.ID, "a")
	if _, err := s.c.tryClaim(ctx, c, wire.Ref{Job: j.ID, Attempt: 1}, time.Now()); err != errHeldBack { //nolint:errorlint // as it is
		t.Fatalf("claimed: %v", err)
	}
	f.run(step, 0, work.StepResult{})
	f.run(expect[*wire.RunStep](f), 0, work.StepResult{})
	s.until(running.ID, work.Succeeded)
	other := w.serve(Limits{}) // it outlives Servers
	if m, err := other.c.Maintenance(ctx, s.owner()); err != nil || !m.On || m.Reason != "database" {
		t.Fatalf("another Server says %+v, %v", m, err)
	}
	if m, err := s.c.Maintenance(ctx, s.stranger()); err != nil || m.On {
		t.Fatalf("another Organization: %+v, %v", m, err)
	}
	operator := s.owner()
	operator.Role = catalog.RoleOperator
	if _, err := s.c.SetMaintenance(ctx, operator, false, ""); fault.Code(err) != "not_allowed" {
		t.Fatalf("an operator: %v", err)
	}
	_, err = other.c.SetMaintenance(ctx, s.owner(), false, "")
	s.must(err)
	if step := f.take(); step.Job != j.ID {
		t.Fatalf("then came %+v", step.Ref)
	}
}

func TestMoreReasonsToWait(t *testing.T) {
	ctx := context.Background()
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	s.c.sessions.named(r.ID, "a").known.Leave()
	j := s.submit("prod/net/m0", work.Run)
	wait := func(code work.WaitCode) {
		t.Helper()
		eventually(t, string(code), func() bool { return s.job(j.ID).Wait.Code == code })
	}
	wait(work.WaitDraining)
	_, err := s.c.UpdateRunner(ctx, s.owner(), "edge", catalog.RunnerSpec{Name: "edge", IsAssignedToAllModules: true, IsDisabled: true})
	s.must(err)
	wait(work.WaitRunnerDisabled)
	f.cut()
	wait(work.WaitRunnerDisabled)
	_, err = s.c.UpdateRunner(ctx, s.owner(), "edge", catalog.RunnerSpec{Name: "edge", IsAssignedToAllModules: true})
	s.must(err)
	wait(work.WaitNoInstance)
}

func TestFirstOfThreeGetsItTheRestIsTold(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.scripts(s.owner(), 1)
	var three []*fake
	for _, name := range []string{"a", "b", "c"} {
		three = append(three, s.fake(r, name).online(s))
	}
	j := s.submit("prod/net/m0", work.Run)
	var refs []wire.Ref
	for _, f := range three {
		refs = append(refs, expect[*wire.Offer](f).Ref)
	}
	for i, f := range three { // all at once
		f.send(&wire.Accept{Ref: refs[i]})
	}
	winner := s.until(j.ID, work.Claimed).Binding.Instance
	for _, f := range three {
		if f.hello.Instance == winner {
			expect[*wire.RunStep](f)
			continue
		}
		if w := expect[*wire.Withdrawn](f); w.Ref != refs[0] {
			t.Errorf("%s was told %+v", f.hello.Instance, w)
		}
	}
}

// TestOfferedByWhoHasTheInstance: a Job that is queued here runs at the only Instance, which is connected to another Server.
func TestOfferedByWhoHasTheInstance(t *testing.T) {
	w := newWorld(t)
	one, two := w.serve(Limits{}), w.serve(Limits{})
	r := one.runner(one.owner(), catalog.RunnerSpec{MaxParallelJobs: 1})
	one.scripts(one.owner(), 2)
	f := two.fake(r, "a")
	f.hello.Capacity = 5
	f.online(two)
	high := SubmitRequest{Module: "prod/net/m0", Action: work.Run, Priority: work.PriorityHigh}
	first, err := one.c.Submit(context.Background(), one.owner(), high)
	one.must(err)
	second := one.submit("prod/net/m1", work.Run)
	got := f.finishAll(2)
	if got[0] != first.ID || got[1] != second.ID {
		t.Fatalf("got %v", got)
	}
}
