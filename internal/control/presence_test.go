package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"legwork/internal/bus"
	"legwork/internal/catalog"
	"legwork/internal/control/queue"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/store/storetest"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// events gives the events of a kind that were written so far.
func (w *world) events(kind string) (some []store.Event) {
	w.t.Helper()
	w.must(w.store.View(context.Background(), func(tx *store.Tx) error {
		all, err := tx.EventsAfter(w.org, 0, 10_000)
		some = slices.DeleteFunc(all, func(e store.Event) bool { return e.Kind != kind })
		return err
	}))
	return some
}

// view is how a Runner is.
func (s *server) view(runner string) RunnerView {
	s.t.Helper()
	v, err := s.c.RunnerView(context.Background(), s.owner(), runner)
	s.must(err)
	return v
}

// on has an Instance run on an operating system.
func (f *fake) on(os string) *fake {
	f.hello.OS = os
	return f
}

// refusedOS tells whether an Instance is refused because of its operating system, with a sentence that names both.
func (s *server) refusedOS(f *fake, want string) {
	s.t.Helper()
	err := f.dial(s)
	var end *wire.CloseError
	if !errors.As(err, &end) || end.Code != wire.CloseOS {
		s.t.Fatalf("an Instance on %s: %v", f.hello.OS, err)
	}
	if !strings.Contains(end.Reason, want) || !strings.Contains(end.Reason, f.hello.OS) {
		s.t.Errorf("it is told %q", end.Reason)
	}
}

func TestInstancesOfAnotherOSAreRefused(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	const multiple = "is_assigned_to_all_modules: true, allow_multiple_instances: true"
	declared := s.runner(s.owner(), catalog.RunnerSpec{Name: "declared", OS: "windows"})
	s.refusedOS(s.fake(declared, "a").on("linux"), "windows")
	s.fake(declared, "a").on("windows").online(s)

	first := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	a := s.fake(first, "a").on("linux").online(s) // it sets the system
	s.refusedOS(s.fake(first, "b").on("windows"), "linux")
	s.declare(s.owner(), "{kind: Runner, name: edge, "+multiple+", description: changed}\n")
	if v := s.view("edge"); v.Description != "changed" || v.OS != "" || v.HostOS != "linux" {
		t.Fatalf("after a manifest that does not speak of it: %+v", v)
	}
	s.refusedOS(s.fake(first, "b").on("windows"), "linux")

	s.declare(s.owner(), "{kind: Runner, name: edge, "+multiple+", os: windows}\n")
	if v := s.view("edge"); v.HostOS != "windows" || len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0], "refused when it connects again") {
		t.Fatalf("after another system was declared: %+v", v)
	}
	s.fake(first, "b").on("windows").online(s)
	a.cut()
	s.refusedOS(a, "windows")
}

func TestInstanceIsRemovedOnlyWhenItIsGoneAndFree(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	id := s.view("edge").Instances[0].ID
	refused := func(code string) {
		t.Helper()
		if err := s.c.RemoveInstance(ctx, s.owner(), id); fault.Code(err) != code {
			t.Fatalf("%v, want %s", err, code)
		}
	}
	refused("instance_connected")
	j := s.submit("prod/net/m0", work.Run)
	step := f.take()
	f.cut()
	eventually(t, "it is gone", func() bool { return s.c.sessions.size() == 0 })
	refused("instance_busy")
	if err := s.c.RemoveInstance(ctx, s.stranger(), id); fault.Code(err) != "instance_not_found" {
		t.Fatalf("another Organization: %v", err)
	}
	f.hello.Journal = []wire.Held{{Ref: step.Ref, Running: true}}
	f.online(s)
	f.run(step, 0, work.StepResult{})
	f.run(expectThat(f, func(m *wire.RunStep) bool { return m.Step == 1 }), 0, work.StepResult{}) // the first may be told again
	s.until(j.ID, work.Succeeded)
	f.cut()
	eventually(t, "it is gone again", func() bool { return s.c.sessions.size() == 0 })
	s.must(s.c.RemoveInstance(ctx, s.owner(), id))
	if v := s.view("edge"); len(v.Instances) != 0 || len(s.events("runner.instance_removed")) != 1 {
		t.Fatalf("it is still there: %+v", v)
	}
}

// TestInstanceWithAnotherServerGivesWayWhenItsLeaseIsOver: this Server hears nothing of it, and goes by when it was heard of last.
func TestInstanceWithAnotherServerGivesWayWhenItsLeaseIsOver(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	id := s.lost(r, "a")
	heard := func(ago time.Duration) {
		s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
			i, err := tx.InstanceForUpdate(s.org, id)
			if i.ServerID, i.Connected, i.LastSeen = "another", true, tx.Now().Add(-ago); err == nil {
				err = tx.PutInstance(&i)
			}
			return err
		}))
	}
	for name, code := range map[string]wire.CloseCode{"a": wire.CloseDuplicate, "b": wire.CloseSingle} {
		heard(s.c.limits.Lease / 2)
		if got := wire.CodeOf(s.fake(r, name).dial(s)); got != code {
			t.Errorf("%s while it lives: %v", name, got)
		}
	}
	for _, name := range []string{"b", "a"} {
		heard(s.c.limits.Lease)
		s.fake(r, name).online(s).cut()
		eventually(t, "it is gone", func() bool { return s.c.sessions.size() == 0 })
	}
}

// warnings counts what the Server's log warns of.
type warnings struct {
	slog.Handler
	text string
	n    atomic.Int32
}

func (w *warnings) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn && strings.Contains(r.Message, w.text) {
		w.n.Add(1)
	}
	return w.Handler.Handle(ctx, r)
}

func (w *warnings) WithAttrs(a []slog.Attr) slog.Handler {
	return &forwarded{w.Handler.WithAttrs(a), w}
}

// forwarded is a warnings handler with attributes.
type forwarded struct {
	slog.Handler
	to *warnings
}

func (f *forwarded) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn && strings.Contains(r.Message, f.to.text) {
		f.to.n.Add(1)
	}
	return f.Handler.Handle(ctx, r)
}

func (f *forwarded) WithAttrs(a []slog.Attr) slog.Handler {
	return &forwarded{f.Handler.WithAttrs(a), f.to}
}

func TestVersionsThatDifferWarnOnceAndBlockNothing(t *testing.T) {
	w := newWorld(t)
	said := &warnings{Handler: testLog(t).Handler(), text: "different versions"}
	s := w.serveLogging(Limits{}, slog.New(said))
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.scripts(s.owner(), 2)
	of := func(name, version string) *fake {
		f := s.fake(r, name)
		f.hello.Version = version
		return f.online(s)
	}
	a, b := of("a", "1.0.0"), of("b", "1.1.0")
	eventually(t, "it is warned of", func() bool { return said.n.Load() == 1 })
	if v := s.view("edge"); v.Health != work.RunnerHealthy || v.Status != work.StatusOnline ||
		len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0], "1.0.0, 1.1.0") {
		t.Fatalf("it is %+v", v)
	}
	for _, m := range []string{"prod/net/m0", "prod/net/m1"} {
		s.submit(m, work.Run)
	}
	for _, f := range []*fake{a, b} { // both work: each has one place
		ref := expect[*wire.Offer](f).Ref
		f.send(&wire.Accept{Ref: ref})
	}
	of("b", "1.1.0")
	for _, name := range []string{"a", "b"} { // every hello looks again
		s.c.checkVersions(context.Background(), s.c.sessions.named(r.ID, name))
	}
	if n := said.n.Load(); n != 1 {
		t.Fatalf("it is warned of %d times", n)
	}
	of("b", "1.0.0")
	if v := s.view("edge"); len(v.Warnings) != 0 {
		t.Fatalf("they are the same, and yet: %v", v.Warnings)
	}
	of("b", "2.0.0")
	eventually(t, "another difference is news", func() bool { return said.n.Load() == 2 })
}

func TestStalledIsSetAndCleared(t *testing.T) {
	s := newWorld(t).serve(Limits{Heartbeat: time.Hour, Stall: 10 * time.Minute}) // presence is kept when the test says so
	ctx := context.Background()
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a")
	f.hello.Capacity = 2
	f.online(s)
	j := s.submit("prod/net/m0", work.Run)
	step := f.take()
	f.start(step.Ref, 0)
	s.until(j.ID, work.Running)
	f.send(&wire.Heartbeat{Working: []wire.Ref{step.Ref}, Active: 1, Capacity: 2})
	eventually(t, "the heartbeat is read", func() bool { return s.c.sessions.named(r.ID, "a").worksOn(step.Ref) })
	sess := s.c.sessions.named(r.ID, "a")
	is := func(after time.Duration, want work.InstanceLoad) {
		t.Helper()
		eventually(t, "what was stored is noted", sess.lanesIdle)
		s.c.keepPresence(ctx, time.Now().Add(after))
		i := s.view("edge").Instances[0]
		if i.Load != want || i.Stalled != (want == work.LoadStalled) || i.Active != 1 {
			t.Fatalf("after %s its load is %s, stored as stalled %v, with %d Jobs; want %s", after, i.Load, i.Stalled, i.Active, want)
		}
	}
	is(4*time.Minute, work.LoadBusy)
	is(6*time.Minute, work.LoadStalled)
	is(7*time.Minute, work.LoadStalled)
	if n := len(s.events("job.silent")); n != 1 {
		t.Fatalf("%d events", n)
	}
	f.print(step.Ref, 0, 1, 1)
	eventually(t, "its line is stored", func() bool { return len(s.log(j.ID)) == 1 })
	is(4*time.Minute, work.LoadBusy)
	is(6*time.Minute, work.LoadStalled)
	f.finish(step.Ref, 0, 1, work.StepResult{})
	f.run(expect[*wire.RunStep](f), 0, work.StepResult{})
	s.until(j.ID, work.Succeeded)
	eventually(t, "its end is noted", sess.lanesIdle)
	s.c.keepPresence(ctx, time.Now())
	if i := s.view("edge").Instances[0]; i.Load != work.LoadIdle || i.Stalled {
		t.Fatalf("after its end: %+v", i)
	}
}

// TestLoadsAreToldTogether: what changed of the Instances of a Runner since the last look is one event, and nothing is none.
func TestLoadsAreToldTogether(t *testing.T) {
	const each = 8
	s := newWorld(t).serve(Limits{Heartbeat: time.Hour})
	ctx := context.Background()
	var all []*fake
	for _, name := range []string{"edge", "far"} {
		r := s.runner(s.owner(), catalog.RunnerSpec{Name: name, AllowMultipleInstances: true})
		for i := range each {
			all = append(all, s.fake(r, fmt.Sprintf("%s-%d", name, i)).online(s))
		}
	}
	s.scriptsOf(each)
	s.c.keepPresence(ctx, time.Now())
	if n := len(s.events("runner.load")); n != 0 {
		t.Fatalf("%d events of Instances that are idle as ever", n)
	}
	for i := range each {
		s.submit(fmt.Sprintf("prod/edge/m%d", i), work.Run)
		s.submit(fmt.Sprintf("prod/far/m%d", i), work.Run)
	}
	for _, f := range all {
		go f.acceptAll()
	}
	eventually(t, "all have a Job, and the Server has noted it", func() bool {
		n := 0
		for _, sess := range s.c.sessions.all() {
			n += s.c.loadOf(sess).Active
		}
		return n == 2*each
	})
	s.c.keepPresence(ctx, time.Now())
	s.c.keepPresence(ctx, time.Now())
	events := s.events("runner.load")
	if len(events) != 2 {
		t.Fatalf("%d events for two Runners", len(events))
	}
	for _, e := range events {
		var l LoadEvent
		s.must(json.Unmarshal(e.Data, &l))
		if len(l.Instances) != each || l.Instances[0].Load != work.LoadSaturated || l.Instances[0].Active != 1 {
			t.Errorf("%s: %+v", l.Runner, l.Instances)
		}
	}
}

// scriptsOf declares that many Modules for each of the Runners edge and far.
func (s *server) scriptsOf(n int) {
	var b strings.Builder
	b.WriteString("{kind: Stack, name: prod}\n")
	for _, r := range []string{"edge", "far"} {
		fmt.Fprintf(&b, "---\n{kind: Namespace, stack: prod, name: %[1]s, defaults: {engine: script, runner: %[1]s}}\n", r)
		for i := range n {
			fmt.Fprintf(&b, "---\n{kind: Module, stack: prod, namespace: %s, name: m%d, script: {run: 'true', repeatable: true}}\n", r, i)
		}
	}
	s.declare(s.owner(), b.String())
}

// acceptAll takes what is offered and does nothing about it, until the connection ends.
func (f *fake) acceptAll() {
	for m := range f.in {
		if o, ok := m.(*wire.Offer); ok {
			_ = f.conn.Send(&wire.Accept{Ref: o.Ref})
		}
	}
}

// watched runs fn in virtual time with a Server of which the loops of presence alone go on.
func watched(t *testing.T, limits Limits, fn func(s *server)) {
	hints, err := bus.Open(context.Background(), bus.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer hints.Close()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{t: t, bus: hints}
		w.store, err = store.Open(ctx, filepath.Join(dir, "legwork.db"), slog.New(slog.DiscardHandler))
		w.must(err)
		defer w.store.Close()
		w.must(w.store.Update(ctx, func(tx *store.Tx) error {
			o, err := tx.CreateOrganization("default")
			w.org = o.ID
			return err
		}))
		s := &server{world: w, c: New(Config{Store: w.store, Bus: w.bus, Sealer: flip{}, Log: slog.New(slog.DiscardHandler), Limits: limits})}
		defer s.c.settleDown()
		over := make(chan struct{}, 2)
		for _, loop := range []func(context.Context){s.c.presenceLoop, s.c.forgetLoop} {
			go func() {
				loop(ctx)
				over <- struct{}{}
			}()
		}
		fn(s)
		cancel()
		<-over
		<-over
	})
}

// lost enters an Instance whose connection broke right now.
func (s *server) lost(r catalog.Runner, name string) (id string) {
	s.t.Helper()
	s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
		i := store.Instance{OrganizationID: s.org, RunnerID: r.ID, Name: name, SessionID: "session of " + name, LastSeen: tx.Now(), Capacity: 1}
		err := tx.PutInstance(&i)
		id = i.ID
		return err
	}))
	return id
}

// TestPresenceIsWrittenOnceInAPeriod: what was heard of an Instance is not written when it is heard, and no longer than it is heard.
func TestPresenceIsWrittenOnceInAPeriod(t *testing.T) {
	watched(t, Limits{Lease: time.Hour}, func(s *server) {
		r := s.runner(s.owner(), catalog.RunnerSpec{})
		sess := newSession(s.c, nil)
		sess.id, sess.org, sess.runnerID, sess.instance, sess.instanceID = "session of a", s.org, r.ID, "a", s.lost(r, "a")
		sess.known = s.c.queue.NewInstance(queue.Profile{ID: sess.instanceID, Name: "a", RunnerID: r.ID}, sess.send)
		s.c.sessions.put(sess)
		seen := func() (at time.Time) {
			s.must(s.store.View(context.Background(), func(tx *store.Tx) error {
				i, err := tx.InstanceByName(s.org, r.ID, "a")
				at = i.LastSeen
				return err
			}))
			return at
		}
		last := seen()
		for range 3 {
			sess.hear()
			after(work.HeartbeatPeriod - time.Second)
			if got := seen(); !got.Equal(last) {
				t.Fatalf("written within a period: %v after %v", got, last)
			}
			after(time.Second)
			if got := seen(); got.Sub(last) < work.HeartbeatPeriod-time.Second {
				t.Fatalf("a period later: %v after %v", got, last)
			}
			last = seen()
		}
		after(2*work.HeartbeatPeriod - time.Second)
		if got := seen(); got.Sub(last) > work.HeartbeatPeriod {
			t.Fatalf("nothing was heard, and it was seen at %v after %v", got, last)
		}
		last = seen()
		after(time.Minute)
		if got := seen(); !got.Equal(last) {
			t.Fatalf("silent for a minute, and it was seen at %v after %v", got, last)
		}
	})
}

// TestLeasesAreRenewedThriceInAPeriod: what a Heartbeat named is written within a third of its period.
func TestLeasesAreRenewedThriceInAPeriod(t *testing.T) {
	watched(t, Limits{}, func(s *server) {
		r := s.runner(s.owner(), catalog.RunnerSpec{})
		s.scripts(s.owner(), 1)
		sess := newSession(s.c, nil)
		sess.id, sess.org, sess.runnerID, sess.instance, sess.instanceID = "session of a", s.org, r.ID, "a", s.lost(r, "a")
		sess.known = s.c.queue.NewInstance(queue.Profile{ID: sess.instanceID, Name: "a", RunnerID: r.ID}, sess.send)
		id := s.bind(s.submit("prod/net/m0", work.Run), r, sess.instanceID, "a")
		synctest.Wait()
		s.c.sessions.put(sess) // its Step was not sent: there is no connection
		ref := wire.Ref{Job: id, Attempt: 1}
		sess.mu.Lock()
		sess.lanes[ref] = &lane{adopted: true}
		sess.mu.Unlock()
		for range 2 { // then the Step would be sent
			lease := s.job(id).LeaseUntil
			sess.hear()
			sess.heartbeat(&wire.Heartbeat{Working: []wire.Ref{ref}, Active: 1})
			after(work.HeartbeatPeriod / 3)
			if got := s.job(id).LeaseUntil; !got.After(lease) {
				t.Fatalf("a third of a period after a heartbeat the lease is until %v, before until %v", got, lease)
			}
		}
	})
}

// TestOfflineAfterAMinute: 60 s after the last word an Instance is not offline, and right after that it is.
func TestOfflineAfterAMinute(t *testing.T) {
	watched(t, Limits{}, func(s *server) {
		after(10 * time.Minute) // this Server has heard all that there are
		r := s.runner(s.owner(), catalog.RunnerSpec{})
		s.lost(r, "a")
		after(work.OfflineAfter)
		if v := s.view("edge"); v.Instances[0].State != work.InstanceOnline || v.Health != work.RunnerHealthy || len(s.events("runner.offline")) != 0 {
			t.Fatalf("after 60 s: %+v", v)
		}
		after(time.Microsecond)
		if v := s.view("edge"); v.Instances[0].State != work.InstanceOffline || v.Health != work.RunnerOffline || v.Status != work.StatusOffline {
			t.Fatalf("right after it: %+v", v)
		}
		after(work.HeartbeatPeriod / 3)
		events := s.events("runner.offline")
		if len(events) != 1 || !strings.Contains(string(events[0].Data), `"instance":"a"`) {
			t.Fatalf("followers are told %v", events)
		}
		after(time.Minute)
		if n := len(s.events("runner.offline")); n != 1 {
			t.Fatalf("they are told %d times", n)
		}
	})
}

// TestYoungServerCallsNobodyOffline: a Server that has just come up could not hear anybody before.
func TestYoungServerCallsNobodyOffline(t *testing.T) {
	watched(t, Limits{Lease: 3 * time.Minute}, func(s *server) {
		s.lost(s.runner(s.owner(), catalog.RunnerSpec{}), "a")
		after(3*time.Minute - time.Second)
		if n := len(s.events("runner.offline")); n != 0 {
			t.Fatalf("told %d times", n)
		}
		after(7 * time.Second)
		if n := len(s.events("runner.offline")); n != 1 {
			t.Fatalf("told %d times", n)
		}
	})
}

// TestEphemeralInstancesThatAreGoneDisappear after the time that is set, and never while a Job is bound to them.
func TestEphemeralInstancesThatAreGoneDisappear(t *testing.T) {
	for name, kept := range map[string]time.Duration{"default": 0, "set": 3 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			watched(t, Limits{Ephemeral: kept}, func(s *server) {
				short := s.runner(s.owner(), catalog.RunnerSpec{Lifetime: catalog.Ephemeral, AllowMultipleInstances: true})
				long := s.runner(s.owner(), catalog.RunnerSpec{Name: "long"})
				s.scripts(s.owner(), 1)
				after(time.Minute)
				s.lost(short, "free")
				bound := s.bind(s.submit("prod/net/m0", work.Run), short, s.lost(short, "bound"), "bound")
				s.lost(long, "persistent")
				wait := kept
				if wait == 0 {
					wait = 10 * time.Minute
				}
				after(wait)
				if v := s.view("edge"); len(v.Instances) != 2 {
					t.Fatalf("too early: %+v", v.Instances)
				}
				after(forgetPeriod)
				if v := s.view("edge"); len(v.Instances) != 1 || v.Instances[0].Name != "bound" || v.Instances[0].State != work.InstanceOffline {
					t.Fatalf("when it is time: %+v", v.Instances)
				}
				after(30 * time.Minute)
				if v := s.view("edge"); len(v.Instances) != 1 {
					t.Fatal("a Job is bound to it, and it is gone")
				}
				s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
					j, err := tx.JobForUpdate(s.org, bound)
					if err == nil {
						_, _, err = s.c.move(tx, j, work.LeaseLost{Attempt: 1, Reason: "gone", Gone: true})
					}
					return err
				}))
				after(forgetPeriod)
				if v := s.view("edge"); len(v.Instances) != 0 || len(s.events("runner.instance_removed")) != 2 {
					t.Fatalf("nothing keeps it any more: %+v", v.Instances)
				}
				if v := s.view("long"); len(v.Instances) != 1 {
					t.Fatal("a persistent one is gone")
				}
			})
		})
	}
}

// bind has a Job be bound to an Instance, as a claim does, and gives its id.
func (s *server) bind(j *work.Job, r catalog.Runner, instanceID, instance string) string {
	s.t.Helper()
	s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
		now, err := tx.JobForUpdate(s.org, j.ID)
		if err == nil {
			_, _, err = s.c.move(tx, now, work.ClaimedBy{Binding: work.Binding{
				RunnerID: r.ID, Runner: r.Name, InstanceID: instanceID, Instance: instance, OfferedAt: tx.Now()}})
		}
		return err
	}))
	return j.ID
}

// TestDrainWhoseHintGotLostIsSeenByTheClaim: the store says that an Instance drains, and its Server was not told. The first Job that
// is tried is not bound, its Server knows from then on, and does not ask again and again.
func TestDrainWhoseHintGotLostIsSeenByTheClaim(t *testing.T) {
	s := newWorld(t).serve(Limits{Heartbeat: time.Hour})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	id := s.view("edge").Instances[0].ID
	set := func(drain bool) {
		s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
			i, err := tx.InstanceForUpdate(s.org, id)
			if i.Draining = drain; err == nil {
				err = tx.PutInstance(&i)
			}
			return err
		}))
	}
	set(true)
	j := s.submit("prod/net/m0", work.Run)
	o := expect[*wire.Offer](f)
	f.send(&wire.Accept{Ref: o.Ref})
	if expect[*wire.Drain](f).Resume {
		t.Fatal("told to resume")
	}
	expect[*wire.DrainAck](f)
	for _, m := range f.passed {
		if _, again := m.(*wire.Offer); again {
			t.Fatal("it was asked again")
		}
	}
	eventually(t, "the job says why it waits", func() bool { return s.job(j.ID).Wait.Code == work.WaitDraining })
	set(false)
	s.c.keepPresence(context.Background(), time.Now()) // a resume that got lost is found within a heartbeat's period
	if f.take().Job != j.ID {
		t.Fatal("another job")
	}
}

// TestWhatForbidsJobsWaitsForClaims: maintenance, a Runner that is disabled, and an Assignment that is taken back hold from the return on: a
// claim that has looked already is over by then, and one that comes sees it.
func TestWhatForbidsJobsWaitsForClaims(t *testing.T) {
	for name, forbid := range map[string]func(s *server) error{
		"maintenance": func(s *server) error {
			_, err := s.c.SetMaintenance(context.Background(), s.owner(), true, "")
			return err
		},
		"assignment": func(s *server) error {
			all, err := s.c.Assignments(context.Background(), s.owner(), "edge")
			s.must(err)
			return s.c.DeleteAssignment(context.Background(), s.owner(), all[0].ID)
		},
		"manifest": func(s *server) error {
			m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: []byte("{kind: Runner, name: edge, is_disabled: true}\n")}})
			s.must(err)
			_, err = s.c.ApplyManifest(context.Background(), s.owner(), m, false)
			return err
		},
		"disabled": func(s *server) error {
			_, err := s.c.UpdateRunner(context.Background(), s.owner(), "edge", catalog.RunnerSpec{Name: "edge", IsDisabled: true})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOn(t, storetest.Postgres(t))
			s, other := w.serve(Limits{}), w.serve(Limits{})
			s.declare(s.owner(), stackText+"---\n{kind: Runner, name: edge}\n---\n{kind: Assignment, runner: edge, scope: prod}\n"+
				"---\n{kind: Module, stack: prod, namespace: net, name: m0, script: {run: 'true'}}\n")
			r, err := s.c.Runner(context.Background(), s.owner(), "edge")
			s.must(err)
			module, err := s.c.Module(context.Background(), s.owner(), "prod/net/m0")
			s.must(err)
			s.fake(r, "a").online(s)
			sess := s.c.sessions.named(r.ID, "a")
			looked, goOn, claimed, forbidden := make(chan struct{}), make(chan struct{}), make(chan error, 1), make(chan error, 1)
			looks := sync.OnceFunc(func() { close(looked) })
			go func() {
				claimed <- s.store.Update(context.Background(), func(tx *store.Tx) error {
					err := s.c.mayTake(tx, sess, module, false)
					looks()
					<-goOn
					return err
				})
			}()
			<-looked
			go func() { forbidden <- forbid(other) }()
			select {
			case err := <-forbidden:
				t.Errorf("it returned while a claim was under way: %v", err)
			case <-time.After(300 * time.Millisecond):
			}
			close(goOn)
			s.must(<-claimed)
			if !t.Failed() {
				s.must(<-forbidden)
			}
			err = s.store.Update(context.Background(), func(tx *store.Tx) error { return s.c.mayTake(tx, sess, module, false) })
			if !errors.Is(err, errHeldBack) {
				t.Fatalf("a claim after it: %v", err)
			}
		})
	}
}
