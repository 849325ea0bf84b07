package control

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/store/storetest"
	"legwork/internal/wire"
	"legwork/internal/work"
)

func TestOldestFirstAndTheStuckHoldUpNoOther(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), stackText+`---
{kind: Module, stack: prod, namespace: net, name: stuck, runner_instance_name: elsewhere, script: {run: 'true'}}
---
{kind: Module, stack: prod, namespace: net, name: m0, script: {run: 'true'}}
---
{kind: Module, stack: prod, namespace: net, name: m1, script: {run: 'true'}}
`)
	stuck := s.submit("prod/net/stuck", work.Run)
	first, second := s.submit("prod/net/m0", work.Run), s.submit("prod/net/m1", work.Run)
	f := s.fake(r, "a").online(s)
	for _, want := range []*work.Job{first, second} {
		step := f.take()
		if step.Job != want.ID {
			t.Fatalf("got %s, want #%d", step.Job, want.Number)
		}
		f.run(step, 0, work.StepResult{})
		f.run(expect[*wire.RunStep](f), 0, work.StepResult{})
	}
	eventually(t, "the stuck one says why", func() bool { return s.job(stuck.ID).Wait.Code == work.WaitPinnedOffline })
}

func TestOneJobAtATimePerModule(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a")
	f.hello.Capacity = 5
	f.online(s)
	first := s.submit("prod/net/m0", work.Run)
	step := f.take()
	second := s.submit("prod/net/m0", work.Run)
	eventually(t, "the second waits for the first", func() bool {
		w := s.job(second.ID).Wait
		return w.Code == work.WaitModuleBusy && w.Text == fmt.Sprintf("job #%d of the same module is under way", first.Number)
	})
	third := s.submit("prod/net/m0", work.Run)
	if got := s.until(second.ID, work.Superseded); got.Failure.Code != "superseded" {
		t.Fatalf("second: %+v", got.Failure)
	}
	f.run(step, 0, work.StepResult{})
	f.run(expect[*wire.RunStep](f), 0, work.StepResult{})
	if step = f.take(); step.Job != third.ID {
		t.Fatalf("then came %+v", step.Ref)
	}
}

func TestReasonsToWait(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 2)
	j := s.submit("prod/net/m0", work.Run)
	wait := func(j *work.Job, code work.WaitCode) {
		t.Helper()
		eventually(t, string(code), func() bool { return s.job(j.ID).Wait.Code == code })
	}
	wait(j, work.WaitNoInstance)
	f := s.fake(r, "a")
	f.hello.Engines = map[string]string{"opentofu": "1"}
	f.online(s)
	wait(j, work.WaitEngineMissing)
	f.cut()
	f.hello.Engines["script"] = "1"
	f.online(s)
	f.take()
	other := s.submit("prod/net/m1", work.Run)
	wait(other, work.WaitBusy)
	_, err := s.c.UpdateRunner(context.Background(), s.owner(), "edge", catalog.RunnerSpec{Name: "edge"})
	s.must(err)
	wait(other, work.WaitNoAssignment)
}

// TestOffersLapseByThemselves: nothing happens, and yet the queue looks at what nobody answers.
func TestOffersLapseByThemselves(t *testing.T) {
	s := newWorld(t).serve(Limits{OfferTime: 10 * time.Millisecond})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	deaf := s.fake(r, "deaf").online(s)
	s.submit("prod/net/m0", work.Run)
	for range 3 {
		expect[*wire.Offer](deaf)
		expect[*wire.Withdrawn](deaf)
	}
}

func TestFirstToAcceptGetsTheJob(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.scripts(s.owner(), 1)
	a, b := s.fake(r, "a").online(s), s.fake(r, "b").online(s)
	j := s.submit("prod/net/m0", work.Run)
	offerA, offerB := expect[*wire.Offer](a), expect[*wire.Offer](b)
	a.send(&wire.Accept{Ref: offerA.Ref})
	expect[*wire.RunStep](a)
	if w := expect[*wire.Withdrawn](b); w.Job != j.ID {
		t.Fatalf("withdrawn: %+v", w)
	}
	b.send(&wire.Accept{Ref: offerB.Ref}) // too late
	expect[*wire.Withdrawn](b)
}

// refuseAll refuses what is offered, until the connection ends.
func (f *fake) refuseAll(reason string) {
	for m := range f.in {
		if o, ok := m.(*wire.Offer); ok {
			_ = f.conn.Send(&wire.Refuse{Ref: o.Ref, Code: "refused", Message: reason})
		}
	}
}

func TestRefusalGoesToAnother(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.scripts(s.owner(), 1)
	a := s.fake(r, "a").online(s)
	j := s.submit("prod/net/m0", work.Run)
	go a.refuseAll("the disk is full") // it is asked again after a while
	eventually(t, "the job says why it waits", func() bool {
		w := s.job(j.ID).Wait
		return w.Code == work.WaitRefused && w.Text == "the disk is full"
	})
	b := s.fake(r, "b").online(s)
	step := b.take()
	b.send(&wire.Refuse{Ref: step.Ref, Code: "engine_missing", Message: "no such engine"}) // of a Job that it has
	expect[*wire.Drop](b)
	eventually(t, "it is queued again", func() bool {
		got := s.job(j.ID)
		return got.Status == work.Queued && len(got.Losses) == 1
	})
}

func TestMaxParallelJobsOfTheRunnerBoundsItsInstances(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{MaxParallelJobs: 1})
	s.scripts(s.owner(), 2)
	f := s.fake(r, "a")
	f.hello.Capacity = 10
	f.online(s)
	s.submit("prod/net/m0", work.Run)
	second := s.submit("prod/net/m1", work.Run)
	f.take()
	eventually(t, "the second waits", func() bool { return s.job(second.ID).Wait.Code == work.WaitRunnerFull })
}

func TestJobOutOfTheStoreIsFoundWithoutAHint(t *testing.T) {
	w := newWorld(t)
	s := w.serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	w.must(w.store.Update(context.Background(), func(tx *store.Tx) error {
		m, err := tx.Module(w.org, "prod/net/m0")
		if err != nil {
			return err
		}
		sub, err := s.c.draft(tx, m, work.Run, "ann", "")
		if err != nil {
			return err
		}
		_, err = s.c.enqueue(tx, sub) // and nothing is carried out
		return err
	}))
	w.must(s.c.queue.Resync(context.Background()))
	s.c.queue.Wake()
	f.take()
}

func TestResyncReadsEveryPage(t *testing.T) {
	const n = 1020 // more than the store gives at once
	w := newWorld(t)
	s := w.serve(Limits{})
	s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	w.must(w.store.Update(context.Background(), func(tx *store.Tx) error {
		m, err := tx.Module(w.org, "prod/net/m0")
		if err != nil {
			return err
		}
		sub, err := s.c.draft(tx, m, work.Run, "ann", "")
		for range n {
			job := sub.job
			if err := tx.InsertJob(&job, sub.snapshot); err != nil {
				return err
			}
		}
		return err
	}))
	w.must(s.c.queue.Resync(context.Background()))
	if got := s.c.queue.Size(); got != n {
		t.Fatalf("%d of %d jobs were found", got, n)
	}
}

// tally counts what runs where, and fails when it is too much.
type tally struct {
	mu     sync.Mutex
	now    map[string]int
	jobs   map[string]int
	claims map[wire.Ref]int
	bad    []string
}

func (y *tally) begin(instance string, capacity int, m *wire.RunStep) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.claims[m.Ref]++
	y.jobs[m.Job]++
	if y.now[instance]++; y.now[instance] > capacity {
		y.bad = append(y.bad, fmt.Sprintf("%s has %d jobs", instance, y.now[instance]))
	}
	if y.jobs[m.Job] > 1 || y.claims[m.Ref] > 1 {
		y.bad = append(y.bad, fmt.Sprintf("job %s was given out twice", m.Job))
	}
}

func (y *tally) end(instance string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.now[instance]--
}

// count runs Jobs for an Instance, several at once, and keeps the tally.
func (f *fake) count(y *tally, capacity int) { f.countAs(f.hello.Instance, y, capacity) }

// countAs keeps the tally under another name than the Instance's.
func (f *fake) countAs(name string, y *tally, capacity int) {
	for m := range f.in {
		switch m := m.(type) {
		case *wire.Offer:
			_ = f.conn.Send(&wire.Accept{Ref: m.Ref})
		case *wire.RunStep:
			if m.Step == 0 {
				y.begin(name, capacity, m)
			}
			go func() {
				pause(time.Millisecond)
				if m.Step == 1 {
					y.end(name)
				}
				_ = f.conn.Send(&wire.StepStarted{Ref: m.Ref, Step: m.Step, At: time.Now()})
				_ = f.conn.Send(&wire.StepFinished{Ref: m.Ref, Step: m.Step, Result: work.StepResult{Status: work.StepSucceeded}})
			}()
		}
	}
}

func TestTwoServersNeverBindAJobTwiceNorOverfillAnInstance(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { twoServers(t, newWorldOn(t, filepath.Join(t.TempDir(), "legwork.db"))) })
	t.Run("postgres", func(t *testing.T) { twoServers(t, newWorldOn(t, storetest.Postgres(t))) })
}

func twoServers(t *testing.T, w *world) {
	const jobs, capacity = 150, 3
	one, two := w.serve(Limits{}), w.serve(Limits{})
	r := one.runner(one.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	one.scripts(one.owner(), jobs)
	y := &tally{now: map[string]int{}, jobs: map[string]int{}, claims: map[wire.Ref]int{}}
	for i, s := range []*server{one, two, one, two} {
		f := s.fake(r, fmt.Sprintf("i%d", i))
		f.hello.Capacity = capacity
		f.online(s)
		go f.count(y, capacity)
	}
	ids := make([]string, jobs)
	var submitters sync.WaitGroup
	for i := range jobs {
		submitters.Go(func() {
			s := []*server{one, two}[i%2]
			j, err := s.c.Submit(context.Background(), s.owner(), SubmitRequest{Module: fmt.Sprintf("prod/net/m%d", i), Action: work.Run})
			if err != nil {
				t.Errorf("submit: %v", err)
				return
			}
			ids[i] = j.ID
		})
	}
	submitters.Wait()
	where := map[string]int{}
	for _, id := range ids {
		where[one.until(id, work.Succeeded).Binding.Instance]++
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.bad) > 0 {
		t.Fatal(y.bad)
	}
	for i := range 4 {
		if where[fmt.Sprintf("i%d", i)] == 0 {
			t.Errorf("an instance got nothing: %v", where)
		}
	}
}

func TestHintsReachTheOtherServer(t *testing.T) {
	w := newWorld(t)
	one, two := w.serve(Limits{Heartbeat: time.Hour}), w.serve(Limits{Heartbeat: time.Hour})
	r := one.runner(one.owner(), catalog.RunnerSpec{})
	one.declare(one.owner(), changingText)
	f := two.fake(r, "a").online(two)
	j := one.submit("prod/net/change", work.Run) // here, for an Instance there
	step := f.take()
	f.start(step.Ref, 0)
	one.until(j.ID, work.Running)

	lines := follow(one, j.ID, 0)
	if c := expect[*wire.Configure](f); !c.Watch || c.Ref != step.Ref {
		t.Fatalf("configure: %+v", c)
	}
	f.print(step.Ref, 0, 1, 2)
	for i := range 2 {
		if l := lines.next(t); l.Pos != int64(i+1) {
			t.Fatalf("line %+v", l)
		}
	}
	_, err := one.c.CancelJob(context.Background(), one.owner(), j.ID, work.Graceful, "enough")
	w.must(err)
	if c := expect[*wire.Cancel](f); c.Mode != work.Graceful || c.Ref != step.Ref {
		t.Fatalf("cancel: %+v", c)
	}
	f.finish(step.Ref, 0, 2, work.StepResult{Status: work.StepCanceled})
	expect[*wire.Drop](f)
	w.must(lines.wait(t))
	one.until(j.ID, work.Canceled)
}

func TestSessionGoesToAnotherServer(t *testing.T) {
	w := newWorld(t)
	one, two := w.serve(Limits{}), w.serve(Limits{})
	r := one.runner(one.owner(), catalog.RunnerSpec{})
	one.scripts(one.owner(), 1)
	old := one.fake(r, "a").online(one)
	j := one.submit("prod/net/m0", work.Run)
	step := old.take()
	now := two.fake(r, "a")
	now.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 0, Running: true}}
	now.online(two)
	if code := old.closed(); code != wire.CloseReplaced {
		t.Fatalf("closed with %v", code)
	}
	now.finish(step.Ref, 0, 0, work.StepResult{})
	now.run(expectThat(now, func(m *wire.RunStep) bool { return m.Step == 1 }), 0, work.StepResult{})
	if done := two.until(j.ID, work.Succeeded); done.Attempt != 1 {
		t.Fatalf("job: %+v", done)
	}
}

func TestLabelsOfAnInstanceCount(t *testing.T) {
	w := newWorld(t)
	s, elsewhere := w.serve(Limits{}), w.serve(Limits{})
	spec := catalog.RunnerSpec{Labels: map[string]string{"site": "north"}, AllowMultipleInstances: true}
	r := s.runner(s.owner(), spec)
	s.declare(s.owner(), `
{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: net, defaults: {engine: script}}
---
{kind: Module, stack: prod, namespace: net, name: fast, runner_labels: {site: north, disk: fast}, script: {run: 'true'}}
---
{kind: Module, stack: prod, namespace: net, name: slow, runner_labels: {site: north, disk: slow}, script: {run: 'true'}}
`)
	_, err := s.c.Submit(context.Background(), s.owner(), SubmitRequest{Module: "prod/net/fast", Action: work.Run})
	if fault.Code(err) != "module_not_assigned" {
		t.Fatalf("nobody ever had the labels: %v", err)
	}
	plain := s.fake(r, "plain")
	plain.hello.Labels = map[string]string{"disk": "slow", "site": "south"} // the site is that of the record
	plain.online(s)
	quick := s.fake(r, "quick")
	quick.hello.Labels = map[string]string{"disk": "fast"}
	quick.hello.Capacity = 2
	quick.online(s)
	fast := s.submit("prod/net/fast", work.Run)
	if step := quick.take(); step.Job != fast.ID {
		t.Fatalf("it got %+v", step.Ref)
	}
	slow := s.submit("prod/net/slow", work.Run)
	if step := plain.take(); step.Job != slow.ID {
		t.Fatalf("it got %+v", step.Ref)
	}
	quick.cut()
	quick.online(elsewhere)
	eventually(t, "it has moved", func() bool { return elsewhere.c.sessions.size() == 1 })
	again := elsewhere.submit("prod/net/fast", work.Run)
	if o := expect[*wire.Offer](quick); o.Job != fast.ID && o.Job != again.ID {
		t.Fatalf("offered %+v", o)
	}
}

func TestNoInstanceWithTheLabelsIsSaid(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.declare(s.owner(), stackText+"---\n{kind: Stack, name: other}\n---\n{kind: Namespace, stack: other, name: net, defaults: {engine: script}}\n"+
		"---\n{kind: Module, stack: other, namespace: net, name: fast, runner_labels: {disk: fast}, script: {run: 'true'}}\n")
	gone := s.fake(r, "gone")
	gone.hello.Labels = map[string]string{"disk": "fast"}
	gone.online(s).cut()
	f := s.fake(r, "a")
	f.hello.Labels = map[string]string{"disk": "slow"}
	f.online(s)
	j := s.submit("other/net/fast", work.Run)
	eventually(t, "the job says why it waits", func() bool { return s.job(j.ID).Wait.Code == work.WaitNoInstance })
}

func TestDeadServersSessionsEnd(t *testing.T) {
	w := newWorld(t)
	one := w.serve(Limits{})
	r := one.runner(one.owner(), catalog.RunnerSpec{})
	var over time.Time // the lease of a Server that is dead, and not known to be so yet
	w.must(w.store.Update(context.Background(), func(tx *store.Tx) error {
		over = tx.Now().Add(serverLease)
		if err := tx.BeatServer("dead", over); err != nil {
			return err
		}
		return tx.PutInstance(&store.Instance{OrganizationID: w.org, RunnerID: r.ID, Name: "b", KeyHash: []byte("x"),
			SessionID: "s", ServerID: "dead", Connected: true, LastSeen: tx.Now()})
	}))
	if code := wire.CodeOf(one.fake(r, "a").dial(one)); code != wire.CloseSingle {
		t.Fatalf("closed with %v", code)
	}
	w.must(one.c.beat(context.Background(), over.Add(time.Second)))
	one.fake(r, "a").online(one)
}

func TestSubmitIsRefusedWithWhatToDo(t *testing.T) {
	s := newWorld(t).serve(Limits{QueuedJobs: 1})
	s.declare(s.owner(), `
{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: net, defaults: {engine: script}}
---
{kind: Runner, name: edge}
---
{kind: Runner, name: free, is_assigned_to_all_modules: true}
---
{kind: Module, stack: prod, namespace: net, name: bound, runner: edge, script: {run: 'true'}}
---
{kind: Module, stack: prod, namespace: net, name: any, script: {run: 'true'}}
---
{kind: Module, stack: prod, namespace: net, name: labels, runner_labels: {a: b}, script: {run: 'true'}}
`)
	viewer := s.owner()
	viewer.Role = catalog.RoleViewer
	for name, c := range map[string]struct {
		actor  catalog.Actor
		module string
		action work.Action
		code   string
	}{
		"not allowed":          {viewer, "prod/net/any", work.Run, "not_allowed"},
		"no such module":       {s.owner(), "prod/net/nothing", work.Run, "module_not_found"},
		"another organization": {s.stranger(), "prod/net/any", work.Run, "module_not_found"},
		"wrong action":         {s.owner(), "prod/net/any", work.Apply, "action_unknown"},
		"not assigned":         {s.owner(), "prod/net/bound", work.Run, "module_not_assigned"},
		"no such labels":       {s.owner(), "prod/net/labels", work.Run, "module_not_assigned"},
	} {
		_, err := s.c.Submit(context.Background(), c.actor, SubmitRequest{Module: c.module, Action: c.action})
		if fault.Code(err) != c.code {
			t.Errorf("%s: %v (%s)", name, err, fault.Code(err))
		}
		if f := fault.Of(err); f != nil && f.Hint == "" {
			t.Errorf("%s: no hint", name)
		}
	}
	s.submit("prod/net/any", work.Run)
	_, err := s.c.Submit(context.Background(), s.owner(), SubmitRequest{Module: "prod/net/any", Action: work.Run})
	if fault.Code(err) != "queue_full" {
		t.Errorf("queue: %v", err)
	}
}
