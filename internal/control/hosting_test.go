package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/store"
	"legwork/internal/store/storetest"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// cloud plays the launcher of a hosted Runner, and the processes that it starts.
type cloud struct {
	s      *server
	runner catalog.Runner
	local  *fake

	mu        sync.Mutex
	launched  []string // names of Units, one for each time that a process was made
	failing   int      // so many launch Steps fail
	silent    int      // so many processes never come
	broken    string   // processes of that release never come
	processes map[string]*fake
	known     [][]string // of each tidy
	steps     []work.StepKind
	hold      chan struct{} // what Jobs wait for; nil: nothing
	stays     bool          // processes that are to leave drain, and stay
	given     []string      // Steps that processes were given
	stopped   bool          // a launch Step that fails says that its processes ended
	launching chan struct{} // what launch Steps wait for; nil: nothing
	tidying   chan struct{} // what tidy Steps wait for, at their end; nil: nothing
	performed []string      // steps of launchers, each behind the name of the instance that performed it
	hubs      []*server     // that processes connect to, one after the other; none: the first Server
	crew      sync.WaitGroup

	// found gives what a tidy finds of the last that was launched; nil: nothing of any.
	found func(launched string) []work.UnitReport

	t testing.TB
}

// hosted declares a hosted Runner, with times that no manifest may have, and a launcher for it.
func (s *server) hosted(change func(h *catalog.Hosting)) *cloud {
	s.t.Helper()
	local := s.runner(s.owner(), catalog.RunnerSpec{Name: catalog.LocalRunner, AllowMultipleInstances: true})
	h := &catalog.Hosting{Launcher: catalog.LaunchProcess, Max: 3, Idle: catalog.Duration(time.Hour)}
	r := s.runner(s.owner(), catalog.RunnerSpec{Name: "edge", AllowMultipleInstances: true, Lifetime: catalog.Ephemeral, Hosting: h})
	c := &cloud{s: s, t: s.t, runner: r, processes: map[string]*fake{}}
	c.change(change)
	c.local = s.fake(local, "launcher")
	c.local.hello.Engines = map[string]string{string(launcher.Name): "1"}
	c.local.online(s)
	c.crew.Go(func() { c.serve(c.local, c.local.in) })
	s.t.Cleanup(c.end)
	return c
}

// change changes the hosting, whatever a manifest may say.
func (c *cloud) change(change func(h *catalog.Hosting)) {
	c.t.Helper()
	if change == nil {
		return
	}
	c.s.must(c.s.store.Update(context.Background(), func(tx *store.Tx) error {
		r, err := tx.Runner(c.s.org, "edge")
		if err != nil {
			return err
		}
		change(r.Hosting)
		return tx.PutRunner(&r)
	}))
	c.s.c.redeclared(c.s.org)
}

func (c *cloud) end() {
	c.s.stop()
	c.mu.Lock()
	for _, hold := range []*chan struct{}{&c.hold, &c.launching, &c.tidying} {
		if *hold != nil {
			close(*hold)
			*hold = nil
		}
	}
	c.mu.Unlock()
	c.local.conn.Close(wire.CloseNormal, "")
	c.crew.Wait()
}

// serve performs Steps of launchers until the connection ends.
func (c *cloud) serve(f *fake, in chan wire.Message) {
	specs := map[wire.Ref]*work.Spec{}

	for m := range in {
		switch m := m.(type) {
		case *wire.Offer:
			_ = f.conn.Send(&wire.Accept{Ref: m.Ref})
		case *wire.RunStep:
			if m.Spec != nil {
				specs[m.Ref] = m.Spec
			}
			_ = f.conn.Send(&wire.StepStarted{Ref: m.Ref, Step: m.Step, At: time.Now()})
			spec, kind := specs[m.Ref], specs[m.Ref].Steps[m.Step]
			finish := func(before, after chan struct{}) {
				wait(before)
				r := c.perform(spec, kind)
				c.mu.Lock()
				c.performed = append(c.performed, f.hello.Instance+" "+string(kind))
				c.mu.Unlock()
				wait(after)
				r.StartedAt, r.FinishedAt = time.Now(), time.Now()
				_ = f.conn.Send(&wire.StepFinished{Ref: m.Ref, Step: m.Step, Result: r})
			}
			c.mu.Lock()
			launching, tidying := c.launching, c.tidying
			c.mu.Unlock()
			switch {
			case kind == work.StepLaunch && launching != nil:
				c.crew.Go(func() { finish(launching, nil) })
			case kind == work.StepTidy && tidying != nil:
				c.crew.Go(func() { finish(nil, tidying) })
			default:
				finish(nil, nil)
			}
		}
	}
}

// wait waits until a channel is closed; nil is nothing to wait for.
func wait(c chan struct{}) {
	if c != nil {
		<-c
	}
}

func (c *cloud) perform(spec *work.Spec, kind work.StepKind) work.StepResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps = append(c.steps, kind)
	r := work.StepResult{Status: work.StepSucceeded}
	switch kind {
	case work.StepTidy:
		c.known = append(c.known, spec.Task.Known)
		if c.found != nil {
			r.Units = c.found(c.launched[len(c.launched)-1])
		}
	case work.StepTeardown:
		for name, p := range c.processes {
			p.conn.Close(wire.CloseNormal, "")
			r.Units = append(r.Units, work.UnitReport{Name: name, State: work.UnitStopped})
		}
	case work.StepLaunch:
		if c.failing > 0 {
			c.failing--
			r.Status, r.ExitCode, r.Failure = work.StepFailed, 1, &work.Failure{Code: "launcher_quota", Message: "there are too many tasks"}
			for _, u := range spec.Task.Units {
				if c.stopped {
					r.Units = append(r.Units, work.UnitReport{Name: u.Name, State: work.UnitStopped, Note: "exit 1"})
				}
			}
			return r
		}
		for _, u := range spec.Task.Units {
			r.Units = append(r.Units, work.UnitReport{Name: u.Name, ID: "pid of " + u.Name, State: work.UnitStarting})
			if c.processes[u.Name] != nil {
				continue
			}
			c.launched = append(c.launched, u.Name)
			if c.silent > 0 || c.broken != "" && spec.Task.Version == c.broken {
				c.silent--
				continue
			}
			c.start(u.Name, spec.Task)
		}
	}
	return r
}

// start makes a process, which runs Jobs until it is to leave.
func (c *cloud) start(name string, task *work.RunnerTask) {
	f := c.s.fake(c.runner, name)
	f.hello.Version, f.hello.Capacity = cmp.Or(task.Version, "1.0.0"), task.Hosting.JobsPerInstance
	c.processes[name] = f
	hub := c.s
	if len(c.hubs) > 0 {
		hub = c.hubs[len(c.launched)%len(c.hubs)]
	}
	c.crew.Go(func() {
		if err := f.dial(hub); err != nil {
			return
		}
		specs := map[wire.Ref]*work.Spec{}
		for m := range f.in {
			switch m := m.(type) {
			case *wire.Offer:
				_ = f.conn.Send(&wire.Accept{Ref: m.Ref})
			case *wire.RunStep:
				if m.Spec != nil {
					specs[m.Ref] = m.Spec
				}
				kind := specs[m.Ref].Steps[m.Step]
				c.mu.Lock()
				c.given = append(c.given, fmt.Sprintf("%s attempt %d %s", name, m.Ref.Attempt, kind))
				c.mu.Unlock()
				c.work(f, m, kind)
			case *wire.Drain:
				c.mu.Lock()
				stays := c.stays
				c.mu.Unlock()
				if m.Leave {
					_ = f.conn.Send(&wire.Draining{})
				}
				if m.Leave && !stays {
					_ = f.conn.Send(&wire.Goodbye{Reason: "it has nothing left to do"})
					f.conn.Close(wire.CloseNormal, "")
				}
			}
		}
	})
}

// work does a Step of a Job, once the test lets it.
func (c *cloud) work(f *fake, m *wire.RunStep, kind work.StepKind) {
	c.mu.Lock()
	hold := c.hold
	c.mu.Unlock()
	if hold != nil && kind == work.StepRun {
		<-hold
	}
	_ = f.conn.Send(&wire.StepStarted{Ref: m.Ref, Step: m.Step, At: time.Now()})
	r := work.StepResult{Status: work.StepSucceeded, StartedAt: time.Now(), FinishedAt: time.Now()}
	if kind == work.StepPlan {
		r.Plan = &work.PlanSummary{Add: 1, Hash: "h", Digest: "d"}
	}
	_ = f.conn.Send(&wire.StepFinished{Ref: m.Ref, Step: m.Step, Result: r})
}

func (c *cloud) made() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.launched)
}

func (c *cloud) deploy() {
	c.t.Helper()
	j, err := c.s.c.DeployRunner(context.Background(), c.s.owner(), "edge")
	c.s.must(err)
	c.s.until(j.ID, work.Succeeded)
}

// ledger counts launches by their states.
func (c *cloud) ledger() map[store.LaunchState]int {
	c.t.Helper()
	all, err := c.s.c.Launches(context.Background(), c.s.owner(), "edge")
	c.s.must(err)
	n := map[store.LaunchState]int{}
	for _, l := range all {
		n[l.State]++
	}
	return n
}

// empty waits until the Runner is at zero.
func (c *cloud) empty() {
	c.t.Helper()
	c.change(func(h *catalog.Hosting) { h.Idle = catalog.Duration(time.Millisecond) })
	eventually(c.t, "all instances have gone", func() bool {
		n := c.ledger()
		return n[store.LaunchStarting]+n[store.LaunchOnline]+n[store.LaunchDraining] == 0
	})
	c.change(func(h *catalog.Hosting) { h.Idle = catalog.Duration(time.Hour) })
}

// TestScaleFromZero: three Jobs arrive at a Runner at zero, three Instances come, run them, and go.
func TestScaleFromZero(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(nil)
	c.deploy()
	c.mu.Lock()
	if got := fmt.Sprint(c.steps); got != "[check prepare launch]" {
		t.Errorf("the launcher did %s", got)
	}
	c.mu.Unlock()
	c.empty()

	s.scripts(s.owner(), 3)
	c.mu.Lock()
	c.hold = make(chan struct{})
	c.mu.Unlock()
	var jobs []*work.Job
	for i := range 3 {
		jobs = append(jobs, s.submit(fmt.Sprintf("prod/net/m%d", i), work.Run))
	}
	eventually(t, "three instances work", func() bool {
		d, err := s.c.DemandOf(context.Background(), s.owner(), "edge")
		s.must(err)
		return d.Busy == 3 && d.Running == 3 && d.Waiting == 0
	})
	c.mu.Lock()
	close(c.hold)
	c.hold = nil
	c.mu.Unlock()
	for _, j := range jobs {
		done := s.until(j.ID, work.Succeeded)
		if len(done.Losses) > 0 {
			t.Errorf("job #%d was lost on its way: %v", done.Number, done.Losses)
		}
	}
	if n := len(c.made()); n != 4 {
		t.Errorf("%d processes were made for a deploy and three jobs", n)
	}
	c.empty()
	if n := c.ledger(); n[store.LaunchEnded] != 4 {
		t.Errorf("the ledger says %v", n)
	}
}

// TestLauncherThatFails: it fails twice, is tried again each time, and the Job runs all the same. Meanwhile it says why it waits.
func TestLauncherThatFails(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(nil)
	s.scripts(s.owner(), 1)
	c.deploy()
	c.empty()
	c.mu.Lock()
	c.failing = 2
	c.mu.Unlock()
	j := s.submit("prod/net/m0", work.Run)
	eventually(t, "the failure is told", func() bool { return strings.Contains(s.job(j.ID).Wait.Text, "too many tasks") })
	eventually(t, "it runs", func() bool { s.hasty(); return s.job(j.ID).Status == work.Succeeded })
	if n := c.ledger(); n[store.LaunchGivenUp] != 2 {
		t.Errorf("the ledger says %v", n)
	}
	eventually(t, "orphans are looked for", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.known) > 0 })
}

// hasty forgets when a launch failed, so that a test need not wait.
func (s *server) hasty() {
	s.t.Helper()
	s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
		r, err := tx.Runner(s.org, "edge")
		if err != nil {
			return err
		}
		state, err := tx.Hosting(s.org, r.ID)
		if err != nil || state.Failures == 0 {
			return err
		}
		state.FailedAt = tx.Now().Add(-time.Hour)
		return tx.PutHosting(s.org, r.ID, state)
	}))
}

// overdue has what is being launched be under way for longer than it may.
func (s *server) overdue() {
	s.t.Helper()
	s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
		open, err := tx.OpenLaunches(s.org, "")
		for _, l := range open {
			l.StartedAt = l.StartedAt.Add(-24 * time.Hour)
			err = errors.Join(err, tx.SaveLaunch(l))
		}
		return err
	}))
	s.c.hosting.Poke()
}

// TestLaunchThatNeverComes: it is given up after its time, and another is launched.
func TestLaunchThatNeverComes(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(nil)
	s.scripts(s.owner(), 1)
	c.deploy()
	c.empty()
	c.mu.Lock()
	c.silent = 1
	c.mu.Unlock()
	j := s.submit("prod/net/m0", work.Run)
	eventually(t, "a process was made", func() bool { return len(c.made()) == 2 })
	s.overdue()
	eventually(t, "it is given up", func() bool { return c.ledger()[store.LaunchGivenUp] == 1 })
	s.hasty()
	s.until(j.ID, work.Succeeded)
	if n := len(c.made()); n != 3 {
		t.Errorf("%d processes were made", n)
	}
}

// TestProcessGoesBeforeItIsOnline: a process that ends while it is awaited is given up when its launcher sees it gone, with what that knows of
// its end, long before launch_timeout; so is one of which nothing is there at all.
func TestProcessGoesBeforeItIsOnline(t *testing.T) {
	for name, report := range map[string]func(string) []work.UnitReport{
		"it ended": func(unit string) []work.UnitReport {
			return []work.UnitReport{{Name: unit, ID: "pid 7", State: work.UnitStopped, Note: "exit 3: no route to host"}}
		},
		"it is gone": func(string) []work.UnitReport { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).serve(Limits{})
			c := s.hosted(func(h *catalog.Hosting) { h.LaunchTimeout = catalog.Duration(time.Hour) })
			s.scripts(s.owner(), 1)
			c.deploy()
			c.empty()
			eventually(t, "no orphans are looked for", func() bool { return !s.hostingState().TidyDue })
			c.mu.Lock()
			c.silent, c.found = 1, report
			c.mu.Unlock()
			j := s.submit("prod/net/m0", work.Run)
			eventually(t, "it is awaited", func() bool {
				return len(c.made()) == 2 && slices.ContainsFunc(s.runnerJobs(work.Launch), func(j *work.Job) bool {
					return j.Current() < len(j.Steps) && j.Steps[j.Current()].Kind == work.StepOnline && j.Steps[j.Current()].Status == work.StepRunning
				})
			})
			s.longSince(c.made()[1], 11*time.Minute) // of the hour
			eventually(t, "it is given up", func() bool { return c.ledger()[store.LaunchGivenUp] == 1 })
			all, err := s.c.Launches(t.Context(), s.owner(), "edge")
			s.must(err)
			want := "its process ended before it was online: it is not there any more"
			if len(report("")) > 0 {
				want = "its process ended before it was online: exit 3: no route to host"
			}
			if i := slices.IndexFunc(all, func(l store.Launch) bool { return l.Name == c.made()[1] }); i < 0 || all[i].EndedWhy != want || !all[i].Stopped {
				t.Errorf("the ledger says %+v", all)
			}
			if got := s.c.Stats().FailedLaunches; got != 1 {
				t.Errorf("got %d failed launches in the metrics, want 1", got)
			}
			if n := s.hostingState().Failures; n != 1 {
				t.Errorf("it counts as %d failures", n)
			}
			s.hasty()
			s.until(j.ID, work.Succeeded)
		})
	}
}

// runnerJobs gives the Runner Jobs of an Action that are not over.
func (s *server) runnerJobs(action work.Action) (found []*work.Job) {
	s.t.Helper()
	s.must(s.store.View(context.Background(), func(tx *store.Tx) error {
		all, err := tx.OpenTasks(s.org)
		found = slices.DeleteFunc(all, func(j *work.Job) bool { return j.Action != action })
		return err
	}))
	return found
}

// longSince has the launcher have had a launch, and orphans have been looked for, so long ago.
func (s *server) longSince(name string, ago time.Duration) {
	s.t.Helper()
	s.setHosting(func(state *store.HostingState) { state.TidyAt = time.Now().Add(-ago) })
	s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
		r, err := tx.Runner(s.org, "edge")
		if err != nil {
			return err
		}
		l, _, err := tx.LaunchNamed(s.org, r.ID, name)
		l.StartedAt = tx.Now().Add(-ago)
		return errors.Join(err, tx.SaveLaunch(l))
	}))
	s.c.hosting.Poke()
}

// TestTwoServersLaunchOnce: two Servers on one database launch for a Job once.
func TestTwoServersLaunchOnce(t *testing.T) {
	for name, database := range map[string]func(t testing.TB) string{"sqlite": nil, "postgresql": func(t testing.TB) string { return storetest.Postgres(t) }} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if database != nil {
				w = newWorldOn(t, database(t))
			}
			s := w.serve(Limits{})
			other := w.serve(Limits{})
			c := s.hosted(func(h *catalog.Hosting) { h.Max = 10 })
			s.scripts(s.owner(), 3)
			c.hubs = []*server{s, other}
			c.deploy()
			for round := range 3 {
				c.empty()
				c.mu.Lock()
				c.hold = make(chan struct{})
				c.mu.Unlock()
				before := len(c.made())
				var jobs []*work.Job
				for i := range 3 {
					jobs = append(jobs, s.submit(fmt.Sprintf("prod/net/m%d", i), work.Run))
				}
				for _, j := range jobs {
					eventually(t, "an instance has the job", func() bool { return s.job(j.ID).Attempt == 1 })
				}
				if n := len(c.made()) - before; n != 3 {
					t.Errorf("round %d: %d processes were made for three jobs", round, n)
				}
				c.mu.Lock()
				close(c.hold)
				c.hold = nil
				c.mu.Unlock()
				for _, j := range jobs {
					s.until(j.ID, work.Succeeded)
				}
			}
		})
	}
}

// TestRollAndRollBack: a release is rolled out over an Instance, and one whose Instances never come online is taken back.
func TestRollAndRollBack(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(nil)
	s.scripts(s.owner(), 1)
	c.deploy()
	s.c.launchRelease = func(_ *store.Tx, version string) (*work.ReleaseRef, error) {
		return &work.ReleaseRef{Version: version}, nil
	}
	roll, err := s.c.hosting.Update(context.Background(), s.owner(), "edge", "2.0.0")
	s.must(err)
	s.until(roll.ID, work.Succeeded)
	eventually(t, "the earlier one has gone", func() bool { n := c.ledger(); return n[store.LaunchOnline] == 1 && n[store.LaunchEnded] == 1 })
	var said []string
	for _, line := range s.log(roll.ID) {
		said = append(said, string(line.Data))
	}
	if text := strings.Join(said, "\n"); !strings.Contains(text, "is online after") || !strings.Contains(text, "takes no further jobs: it is of another release") {
		t.Errorf("the log says:\n%s", text)
	}

	c.mu.Lock()
	c.broken = "3.0.0"
	c.mu.Unlock()
	c.change(func(h *catalog.Hosting) { h.LaunchTimeout = catalog.Duration(10 * time.Millisecond) })
	if _, err := s.c.hosting.Update(context.Background(), s.owner(), "edge", "2.0.0"); fault.Code(err) != "runner_current" {
		t.Errorf("the same release again: %v", err)
	}
	bad, err := s.c.hosting.Update(context.Background(), s.owner(), "edge", "3.0.0")
	s.must(err)
	eventually(t, "it fails", func() bool { s.hasty(); return s.job(bad.ID).Status == work.Failed })
	if f := s.job(bad.ID).Failure; f.Code != "roll_failed" || !strings.Contains(f.Message, "goes on with 2.0.0") {
		t.Errorf("it failed with %+v", f)
	}
	c.change(func(h *catalog.Hosting) { h.LaunchTimeout = 0 })
	j := s.submit("prod/net/m0", work.Run)
	s.until(j.ID, work.Succeeded)
	if n := c.ledger(); n[store.LaunchOnline] != 1 {
		t.Errorf("the ledger says %v", n)
	}
}

// TestRemoveHosted: while instances are there the Runner cannot be deleted; its removal lets its Job end, and leaves nothing.
func TestRemoveHosted(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.declare(s.owner(), "{kind: Stack, name: prod}\n---\n{kind: Namespace, stack: prod, name: net}\n---\n"+
		"{kind: Module, stack: prod, namespace: net, name: m0, engine: script, script: {run: 'true', repeatable: true}}\n")
	c := s.hosted(nil)
	c.deploy()
	if err := s.c.DeleteRunner(context.Background(), s.owner(), "edge"); fault.Code(err) != "runner_launched" || !strings.Contains(fault.Of(err).Hint, "legwork runner remove edge") {
		t.Fatalf("deleted with instances: %v", err)
	}
	c.mu.Lock()
	c.hold = make(chan struct{})
	c.mu.Unlock()
	j := s.submit("prod/net/m0", work.Run)
	eventually(t, "it has the job", func() bool { return s.job(j.ID).Attempt == 1 })
	remove, err := s.c.RemoveRunner(context.Background(), s.owner(), "edge")
	s.must(err)
	again, err := s.c.RemoveRunner(context.Background(), s.owner(), "edge")
	s.must(err)
	if again.ID != remove.ID {
		t.Errorf("a second removal is job #%d, not #%d", again.Number, remove.Number)
	}
	eventually(t, "it drains", func() bool { return c.ledger()[store.LaunchDraining] == 1 })
	if s.job(remove.ID).Status.Terminal() {
		t.Error("the removal did not wait for the job")
	}
	c.mu.Lock()
	close(c.hold)
	c.hold = nil
	c.mu.Unlock()
	s.until(j.ID, work.Succeeded)
	s.until(remove.ID, work.Succeeded)
	eventually(t, "the record is gone", func() bool {
		_, err := s.c.Runner(context.Background(), s.owner(), "edge")
		return fault.Is(err, fault.NotFound)
	})
}

// TestCancelOwnStep: a deploy that waits for an Instance is canceled at once, and what it launched is given up.
func TestCancelOwnStep(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(nil)
	c.silent = 1
	j, err := s.c.DeployRunner(context.Background(), s.owner(), "edge")
	s.must(err)
	eventually(t, "it waits for the instance", func() bool { return s.job(j.ID).Current() == 3 })
	_, err = s.c.CancelJob(context.Background(), s.owner(), j.ID, work.Graceful, "enough")
	s.must(err)
	s.until(j.ID, work.Canceled)
	eventually(t, "it is given up", func() bool { return c.ledger()[store.LaunchGivenUp] == 1 })
	eventually(t, "orphans are looked for", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.known) > 0 && len(c.known[0]) == 0 })
}

// TestServerGoesInADeploy: the Server that a deploy was begun at goes away in the middle; another one ends it.
func TestServerGoesInADeploy(t *testing.T) {
	w := newWorld(t)
	first := w.serve(Limits{})
	c := first.hosted(nil)
	c.silent = 1
	j, err := first.c.DeployRunner(context.Background(), first.owner(), "edge")
	first.must(err)
	eventually(t, "it waits for the instance", func() bool { return first.job(j.ID).Current() == 3 })
	name := c.made()[0]
	first.stop()

	second := w.serve(Limits{})
	f := second.fake(c.runner, name)
	f.online(second)
	second.until(j.ID, work.Succeeded)
	var said []string
	for _, line := range second.log(j.ID) {
		said = append(said, string(line.Data))
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], name+" is online after") {
		t.Errorf("the log says %q", said)
	}
}

// TestApprovalOfOneThatIsGone: while an approval is waited for the Instance goes; approved, the Job begins anew at once, and the approval holds.
func TestApprovalOfOneThatIsGone(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(nil)
	s.declare(s.owner(), stackText+"---\n{kind: Module, stack: prod, namespace: net, name: tofu, engine: opentofu, approval: always, source: {type: git, url: 'https://example.org/a.git'}}\n")
	c.deploy()
	j := s.submit("prod/net/tofu", work.Apply)
	s.until(j.ID, work.AwaitingApproval)
	c.empty()
	_, err := s.c.ApproveJob(context.Background(), s.owner(), j.ID, "", "h")
	s.must(err)
	done := s.until(j.ID, work.Succeeded)
	if done.Attempt != 2 || done.Losses[0].Changing {
		t.Errorf("attempt %d, losses %+v", done.Attempt, done.Losses)
	}
}

// TestDeclaredIsEnough: a Runner that was declared alone is deployed when the first Job wants it.
func TestDeclaredIsEnough(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(nil)
	s.scripts(s.owner(), 1)
	j := s.submit("prod/net/m0", work.Run)
	s.until(j.ID, work.Succeeded)
	if n := c.made(); len(n) != 1 {
		t.Errorf("launched: %v", n)
	}
	eventually(t, "the ledger has the version that the instance told, where no release was asked for", func() bool {
		ledger, err := s.c.Launches(context.Background(), s.owner(), "edge")
		s.must(err)
		return len(ledger) == 1 && ledger[0].Version == "1.0.0"
	})
	all, err := s.c.Jobs(context.Background(), s.owner(), JobFilter{})
	s.must(err)
	if !slices.ContainsFunc(all, func(j *work.Job) bool { return j.Kind == work.RunnerJob && j.Action == work.Deploy }) {
		t.Error("it was not deployed")
	}
}

// TestLauncherIsMissed: a Runner Job says whose Instance it waits for.
func TestLauncherIsMissed(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{Name: "edge", AllowMultipleInstances: true, Lifetime: catalog.Ephemeral, Hosting: &catalog.Hosting{Launcher: catalog.LaunchProcess}})
	j, err := s.c.DeployRunner(context.Background(), s.owner(), r.Name)
	s.must(err)
	eventually(t, "it says so", func() bool { return strings.Contains(s.job(j.ID).Wait.Text, "the Server's own runner") })
}

// TestSelfHostedGoesFirst: nothing is launched for a Job that a self-hosted Instance can take.
func TestSelfHostedGoesFirst(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.declare(s.owner(), "{kind: Stack, name: prod}\n---\n{kind: Namespace, stack: prod, name: net}\n---\n"+
		"{kind: Module, stack: prod, namespace: net, name: m0, engine: script, script: {run: 'true', repeatable: true}}\n---\n"+
		"{kind: Module, stack: prod, namespace: net, name: m1, engine: script, script: {run: 'true', repeatable: true}}\n")
	c := s.hosted(nil)
	c.deploy()
	c.empty()
	own := s.fake(s.runner(s.owner(), catalog.RunnerSpec{Name: "own"}), "own").online(s)
	j := s.submit("prod/net/m0", work.Run)
	offer := expect[*wire.Offer](own)
	if n := len(c.made()); n != 1 {
		t.Errorf("%d were launched beside a free one", n-1)
	}
	own.send(&wire.Accept{Ref: offer.Ref})
	s.until(j.ID, work.Claimed)
	j = s.submit("prod/net/m1", work.Run)
	s.until(j.ID, work.Succeeded)
	if n := len(c.made()); n != 2 {
		t.Errorf("%d were launched beside a busy one", n-1)
	}
}

// TestAutoUpdate: a Runner whose record wants it takes a stable release that is published, once.
func TestAutoUpdate(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.c.launchRelease = func(_ *store.Tx, version string) (*work.ReleaseRef, error) {
		return &work.ReleaseRef{Version: version}, nil
	}
	var newest atomic.Value
	newest.Store("")
	s.c.newestStable = func(*store.Tx) (string, error) { return newest.Load().(string), nil }
	c := s.hosted(func(h *catalog.Hosting) { h.AutoUpdate = true })
	c.deploy()
	publish := func(version string) {
		newest.Store(version)
		s.c.released(context.Background(), version)
	}
	updates := func() (n int) {
		all, err := s.c.Jobs(context.Background(), s.owner(), JobFilter{})
		s.must(err)
		for _, j := range all {
			if j.Action == work.Update && j.Status == work.Succeeded {
				n++
			}
		}
		return n
	}
	publish("2.0.0")
	eventually(t, "it is rolled out", func() bool { return updates() == 1 })
	publish("1.5.0")
	publish("2.1.0")
	eventually(t, "so is the next", func() bool { return updates() == 2 })
	all, err := s.c.Launches(context.Background(), s.owner(), "edge")
	s.must(err)
	if all[0].Version != "2.1.0" {
		t.Errorf("the last one launched is of %s", all[0].Version)
	}
}
