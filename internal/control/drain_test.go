package control

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/store/storetest"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// drainRace is a fleet whose Instances accept Offers and drain in the same breath, again and again.
type drainRace struct {
	*world
	servers []*server
	runner  catalog.Runner
	enough  int64        // claims that were under way when a drain was asked for
	raced   atomic.Int64 // accepts that were sent right before it
	bound   atomic.Int64 // of those, that became Jobs
}

// TestNoJobComesAfterADrainIsAcknowledged has hundreds of claims meet drains: each is bound and told before the
// acknowledgement, or refused.
func TestNoJobComesAfterADrainIsAcknowledged(t *testing.T) {
	w := newWorld(t)
	claims := int64(300)
	if testing.Short() {
		claims = 100
	}
	(&drainRace{world: w, servers: []*server{w.serve(Limits{})}, enough: claims}).run()
}

// TestNoJobComesAfterADrainWithTwoServers is the same where each Session of an Instance may be with another Server.
func TestNoJobComesAfterADrainWithTwoServers(t *testing.T) {
	w := newWorldOn(t, storetest.Postgres(t))
	claims := int64(200)
	if testing.Short() {
		claims = 100
	}
	(&drainRace{world: w, servers: []*server{w.serve(Limits{}), w.serve(Limits{})}, enough: claims}).run()
}

func (d *drainRace) run() {
	const modules, instances = 60, 6
	s := d.servers[0]
	d.runner = s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true, Selection: catalog.Random})
	s.scripts(s.owner(), modules)
	var all sync.WaitGroup
	for n := range instances {
		all.Go(func() {
			for d.raced.Load() < d.enough && !d.t.Failed() {
				at := d.servers[rand.IntN(len(d.servers))]
				d.once(at, at.fake(d.runner, fmt.Sprint("i", n)))
			}
		})
	}
	for n := 0; d.raced.Load() < d.enough && !d.t.Failed(); n++ {
		at := d.servers[n%len(d.servers)]
		if _, err := at.c.Submit(context.Background(), at.owner(), SubmitRequest{Module: fmt.Sprintf("prod/net/m%d", n%modules), Action: work.Run}); err != nil {
			d.t.Errorf("submit: %v", err)
		}
		pause(500 * time.Microsecond)
	}
	all.Wait()
	d.t.Logf("%d claims met a drain, %d of them were bound", d.raced.Load(), d.bound.Load())
	if d.bound.Load() == 0 {
		d.t.Error("no claim was bound: nothing raced")
	}
}

// once is the life of one Session: it accepts an Offer and drains, works on what it was told of, and leaves.
func (d *drainRace) once(s *server, f *fake) {
	if err := f.dial(s); err != nil {
		d.t.Errorf("refused: %v", err)
		return
	}
	defer f.cut()
	told, ended := map[wire.Ref]bool{}, map[wire.Ref]bool{}
	asked, acked := false, false
	var quiet <-chan time.Time
	late := time.After(6 * patience)
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		var m wire.Message
		select {
		case <-look.C:
			if !asked && d.raced.Load() >= d.enough { // no Offer comes any more
				asked = true
				_ = f.conn.Send(&wire.Draining{})
			}
			continue
		case next, ok := <-f.in:
			if !ok {
				d.t.Errorf("the session ended: %v", f.end)
				return
			}
			m = next
		case <-quiet:
			d.check(f, told)
			_ = f.conn.Send(&wire.Goodbye{Reason: "drained"})
			return
		case <-late:
			d.t.Errorf("no acknowledgement: asked %v, told %v, ended %v", asked, told, ended)
			return
		}
		switch m := m.(type) {
		case *wire.Offer:
			if acked {
				d.t.Errorf("an Offer of %v came after the acknowledgement", m.Ref)
			}
			if asked {
				continue
			}
			asked = true
			d.raced.Add(1)
			_ = f.conn.Send(&wire.Accept{Ref: m.Ref})
			if rand.IntN(3) == 0 {
				pause(time.Duration(rand.IntN(2000)) * time.Microsecond)
			}
			_ = f.conn.Send(&wire.Draining{})
		case *wire.RunStep:
			if acked && !told[m.Ref] {
				d.t.Errorf("%v was bound after the acknowledgement", m.Ref)
			}
			if !told[m.Ref] {
				d.bound.Add(1)
			}
			told[m.Ref] = true
			_ = f.conn.Send(&wire.StepStarted{Ref: m.Ref, Step: m.Step, At: time.Now()})
			_ = f.conn.Send(&wire.StepFinished{Ref: m.Ref, Step: m.Step, Result: work.StepResult{Status: work.StepSucceeded}})
		case *wire.Drop:
			ended[m.Ref] = true
		case *wire.DrainAck:
			acked = true
			d.check(f, told)
		}
		if acked && len(ended) >= len(told) && quiet == nil {
			quiet = time.After(3 * time.Millisecond)
		}
	}
}

// check looks into the store for Jobs that are bound to the Instance and that it was not told of.
func (d *drainRace) check(f *fake, told map[wire.Ref]bool) {
	var bound []*work.Job
	d.must(d.store.View(context.Background(), func(tx *store.Tx) error {
		i, err := tx.InstanceByName(d.org, d.runner.ID, f.hello.Instance)
		if err == nil {
			bound, err = tx.BoundJobs(d.org, i.ID)
		}
		return err
	}))
	for _, j := range bound {
		if !told[refOf(j)] {
			d.t.Errorf("job #%d is bound to %s, which was not told before the acknowledgement", j.Number, f.hello.Instance)
		}
	}
}

func TestDrainOfARunner(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.scripts(s.owner(), 1)
	a := s.fake(r, "a").online(s)
	s.must(s.c.SetRunnerDraining(ctx, s.owner(), "edge", true))
	expect[*wire.Drain](a)
	expect[*wire.DrainAck](a)
	late := s.fake(r, "late").online(s) // it drains, too
	expect[*wire.Drain](late)
	v, err := s.c.RunnerView(ctx, s.owner(), "edge")
	s.must(err)
	if v.Status != work.StatusDraining || v.Health != work.RunnerHealthy || !v.Draining || len(v.Instances) != 2 {
		t.Fatalf("draining: %+v", v)
	}
	s.declare(s.owner(), "{kind: Runner, name: edge, is_assigned_to_all_modules: true, allow_multiple_instances: true, description: other}\n")
	if v, err = s.c.RunnerView(ctx, s.owner(), "edge"); err != nil || !v.Draining {
		t.Fatalf("a manifest ended the drain: %+v, %v", v, err)
	}
	j := s.submit("prod/net/m0", work.Run)
	eventually(t, "the job says why it waits", func() bool { return s.job(j.ID).Wait.Code == work.WaitDraining })
	s.must(s.c.SetRunnerDraining(ctx, s.owner(), "edge", false))
	if !expectThat(late, func(m *wire.Drain) bool { return m.Resume }).Resume {
		t.Fatal("not resumed")
	}
	late.take()
}

func TestAProcessThatLeavesIsNotResumed(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	f := s.fake(r, "a").online(s)
	f.send(&wire.Draining{})
	expect[*wire.DrainAck](f)
	var id string
	eventually(t, "it is seen to leave", func() bool {
		views, err := s.c.Instances(ctx, s.owner(), "edge")
		s.must(err)
		id = views[0].ID
		return views[0].Leaving && views[0].State == work.InstanceDraining
	})
	err := s.c.SetDraining(ctx, s.owner(), id, false)
	if err == nil {
		t.Fatal("it was resumed")
	}
	f.send(&wire.Goodbye{Reason: "gone"})
	f.cut()
	eventually(t, "it is offline at once", func() bool {
		views, err := s.c.Instances(ctx, s.owner(), "edge")
		s.must(err)
		return views[0].State == work.InstanceOffline
	})
}

// TestOneThatHasJustSaidThatItLeavesIsNotResumed: that it leaves is not stored yet.
func TestOneThatHasJustSaidThatItLeavesIsNotResumed(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.fake(r, "a").online(s)
	sess := s.c.sessions.named(r.ID, "a")
	sess.known.Leave()
	if err := s.c.SetDraining(context.Background(), s.owner(), sess.instanceID, false); fault.Code(err) != "instance_leaving" {
		t.Fatalf("it was resumed: %v", err)
	}
}

// TestAnOfferOfADisabledRunnerIsNoClaim disables a Runner while an Offer stands, and while one was taken back.
func TestAnOfferOfADisabledRunnerIsNoClaim(t *testing.T) {
	s := newWorld(t).serve(Limits{OfferTime: time.Minute})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	j := s.submit("prod/net/m0", work.Run)
	o := expect[*wire.Offer](f)
	off := r.RunnerSpec
	off.IsDisabled = true
	_, err := s.c.UpdateRunner(context.Background(), s.owner(), "edge", off)
	s.must(err)
	f.send(&wire.Accept{Ref: o.Ref})
	expectThat(f, func(m *wire.Withdrawn) bool { return m.Ref == o.Ref })
	eventually(t, "the job says why it waits", func() bool { return s.job(j.ID).Wait.Code == work.WaitRunnerDisabled })
	if got := s.job(j.ID); got.Attempt != 0 {
		t.Fatalf("it was bound: %+v", got)
	}
	off.IsDisabled = false
	_, err = s.c.UpdateRunner(context.Background(), s.owner(), "edge", off)
	s.must(err)
	f.take()
}

// TestADrainWhoseHintGotLostIsFoundByComparing: what the store says of Instances, and what their Sessions know, is compared both ways once
// in a heartbeat's period, whether there are Jobs or not.
func TestADrainWhoseHintGotLostIsFoundByComparing(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	a, b := s.fake(r, "a").online(s), s.fake(r, "b").online(s)
	sess := s.c.sessions.named(r.ID, "a")
	for _, drain := range []bool{true, false, true} {
		s.must(s.store.Update(context.Background(), func(tx *store.Tx) error { // as another Server, whose hint does not arrive
			i, err := tx.InstanceForUpdate(s.org, sess.instanceID)
			if i.Draining = drain; err == nil {
				err = tx.PutInstance(&i)
			}
			return err
		}))
		s.c.keepPresence(context.Background(), time.Now())
		if got := expect[*wire.Drain](a); got.Resume == drain {
			t.Fatalf("drain %v, and it is told %+v", drain, got)
		}
	}
	for _, m := range b.passed {
		if _, told := m.(*wire.Drain); told {
			t.Error("its sibling is told, too")
		}
	}
	s.must(s.c.SetDraining(context.Background(), s.owner(), sess.instanceID, false))
	expectThat(a, func(m *wire.Drain) bool { return m.Resume })
}

// TestADrainThatChangesNothingIsNoEvent: asked for twice, it is told once to who follows.
func TestADrainThatChangesNothingIsNoEvent(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	f := s.fake(r, "a").online(s)
	for range 2 {
		s.must(s.c.SetRunnerDraining(ctx, s.owner(), "edge", true))
	}
	if n := len(s.events("runner.draining")); n != 1 {
		t.Errorf("%d events", n)
	}
	id := s.view("edge").Instances[0].ID
	for range 2 {
		s.must(s.c.SetDraining(ctx, s.owner(), id, false))
	}
	if n := len(s.events("runner.resumed")); n != 1 {
		t.Errorf("%d events of one Instance", n)
	}
	s.must(s.c.SetRunnerDraining(ctx, s.owner(), "edge", false)) // the Runner drained still
	if n := len(s.events("runner.resumed")); n != 2 {
		t.Errorf("%d events", n)
	}
	expect[*wire.Drain](f)
}

// TestAHelloLocksTheStateOfItsRunnerFirst: a new Instance says hello while its Runner is being drained. It waits for the state of the
// Runner with no Instance locked, so that the drain can lock what Instances there are.
func TestAHelloLocksTheStateOfItsRunnerFirst(t *testing.T) {
	s := newWorldOn(t, storetest.Postgres(t)).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	ctx := context.Background()
	hello := make(chan error, 1)
	f := s.fake(r, "a")
	tries := 0
	s.must(s.store.Update(ctx, func(tx *store.Tx) error {
		state, err := tx.RunnerStateForUpdate(s.org, r.ID)
		if err != nil {
			return err
		}
		if tries++; tries == 1 {
			go func() { hello <- f.dial(s) }()
		}
		select {
		case err := <-hello:
			t.Errorf("it did not wait: %v", err)
		case <-time.After(300 * time.Millisecond):
		}
		if _, err := tx.InstanceByName(s.org, r.ID, "a"); !fault.Is(err, fault.NotFound) { // it locks the name
			t.Errorf("the name: %v", err)
			return err
		}
		state.Draining = true
		return tx.PutRunnerState(s.org, r.ID, state)
	}))
	s.must(<-hello)
	if tries != 1 {
		t.Errorf("the drain was tried %d times: the two waited for one another", tries)
	}
	if !s.view("edge").Instances[0].Draining {
		t.Error("it does not drain")
	}
}
