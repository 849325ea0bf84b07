package control

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// TestApprovalAtOneThatDrains: a Job is approved whose Instance is about to go, but is still there: one process applies, not two.
func TestApprovalAtOneThatDrains(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(func(h *catalog.Hosting) { h.JobsPerInstance = 2 })
	s.declare(s.owner(), stackText+"---\n{kind: Module, stack: prod, namespace: net, name: tofu, engine: opentofu, approval: always, source: {type: git, url: 'https://example.org/a.git'}}\n")
	c.deploy()
	c.mu.Lock()
	c.stays = true
	c.mu.Unlock()
	j := s.submit("prod/net/tofu", work.Apply)
	s.until(j.ID, work.AwaitingApproval)
	c.change(func(h *catalog.Hosting) { h.Idle = catalog.Duration(time.Millisecond) })
	eventually(t, "it drains, and stays", func() bool { return c.ledger()[store.LaunchDraining] == 1 })
	c.change(func(h *catalog.Hosting) { h.Idle = catalog.Duration(time.Hour) })
	_, err := s.c.ApproveJob(context.Background(), s.owner(), j.ID, "", "h")
	s.must(err)
	s.until(j.ID, work.Succeeded)
	c.mu.Lock()
	defer c.mu.Unlock()
	applies := slices.DeleteFunc(slices.Clone(c.given), func(step string) bool { return !strings.HasSuffix(step, " "+string(work.StepApply)) })
	if len(applies) != 1 || !strings.Contains(applies[0], "attempt 2") {
		t.Errorf("processes applied: %v", applies)
	}
}

// TestRemoveWhileLaunching: a removal waits for a launch that is under way, and cancels one that waits: no process is left behind it.
func TestRemoveWhileLaunching(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(nil)
	c.deploy()
	c.empty()
	launching := make(chan struct{})
	c.mu.Lock()
	c.launching = launching
	c.mu.Unlock()
	c.change(func(h *catalog.Hosting) { h.Warm = 1 })
	var launch *work.Job
	eventually(t, "a launch is under way", func() bool {
		all, err := s.c.Jobs(context.Background(), s.owner(), JobFilter{Kind: work.RunnerJob})
		s.must(err)
		launch = all[0]
		return launch.Action == work.Launch && launch.Status == work.Running
	})
	j, err := s.c.RemoveRunner(context.Background(), s.owner(), "edge")
	s.must(err)
	eventually(t, "it is drained", func() bool { return s.hostingState().RemoveJob == j.ID })
	for range 5 {
		s.c.hosting.Look(context.Background())
	}
	if s.job(launch.ID).Status.Terminal() || s.job(j.ID).Steps[s.job(j.ID).Current()].Kind != work.StepDrain {
		t.Errorf("the removal did not wait: %+v", s.job(j.ID).Steps)
	}
	c.mu.Lock()
	close(launching)
	c.launching = nil
	c.mu.Unlock()
	s.until(j.ID, work.Succeeded)
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.steps[len(c.steps)-1]; last != work.StepTeardown {
		t.Errorf("after the teardown the launcher did %v", c.steps)
	}
}

// hostingState gives how the hosting of the Runner stands.
func (s *server) hostingState() (state store.HostingState) {
	s.t.Helper()
	s.must(s.store.View(context.Background(), func(tx *store.Tx) error {
		r, err := tx.Runner(s.org, "edge")
		if err == nil {
			state, err = tx.Hosting(s.org, r.ID)
		}
		return err
	}))
	return state
}

// TestDeployWhileTidying: a deploy waits until the orphans are looked for that its process could be taken for.
func TestDeployWhileTidying(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(nil)
	c.deploy()
	c.empty()
	eventually(t, "the cleanup after the instance that ended is over", func() bool {
		all, err := s.c.Jobs(context.Background(), s.owner(), JobFilter{Kind: work.RunnerJob})
		s.must(err)
		return slices.ContainsFunc(all, func(j *work.Job) bool { return j.Action == work.Tidy }) &&
			!slices.ContainsFunc(all, func(j *work.Job) bool { return j.Action == work.Tidy && !j.Status.Terminal() })
	})
	tidying := make(chan struct{})
	c.mu.Lock()
	c.tidying = tidying
	before := len(c.known)
	c.mu.Unlock()
	s.setHosting(func(state *store.HostingState) { state.TidyDue = true })
	s.c.hosting.Poke()
	eventually(t, "a tidy is under way", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.known) > before })
	j, err := s.c.DeployRunner(context.Background(), s.owner(), "edge")
	s.must(err)
	eventually(t, "a launcher was refused it, or has it", func() bool {
		s.c.queue.Tick(context.Background(), time.Now())
		now := s.job(j.ID)
		return now.Wait.Code == work.WaitRefused || now.Attempt > 0
	})
	if n := s.job(j.ID).Attempt; n > 0 || len(c.made()) > 1 {
		t.Errorf("attempt %d of a deploy began during a tidy, of which %v were made", n, c.made())
	}
	c.mu.Lock()
	close(tidying)
	c.tidying = nil
	c.mu.Unlock()
	s.until(j.ID, work.Succeeded)
}

// setHosting changes how the hosting of the Runner stands.
func (s *server) setHosting(change func(*store.HostingState)) {
	s.t.Helper()
	s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
		r, err := tx.Runner(s.org, "edge")
		if err != nil {
			return err
		}
		state, err := tx.Hosting(s.org, r.ID)
		if err != nil {
			return err
		}
		change(&state)
		return tx.PutHosting(s.org, r.ID, state)
	}))
}

// TestReleaseWithdrawnMeanwhile: a launch whose release is withdrawn before a launcher has it fails, and the next one is of another release.
func TestReleaseWithdrawnMeanwhile(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(nil)
	s.scripts(s.owner(), 1)
	c.deploy()
	c.empty()
	eventually(t, "the cleanup after the last instance is over", func() bool { // it asks for releases as well
		all, err := s.c.Jobs(context.Background(), s.owner(), JobFilter{Kind: work.RunnerJob})
		s.must(err)
		active := slices.ContainsFunc(all, func(j *work.Job) bool { return !j.Status.Terminal() })
		return !active && !s.hostingState().TidyDue
	})
	var asked atomic.Int64
	s.c.launchRelease = func(_ *store.Tx, version string) (*work.ReleaseRef, error) {
		if asked.Add(1) > 1 {
			return nil, fault.New(fault.NotFound, "release_withdrawn", "release %s was withdrawn", version)
		}
		return &work.ReleaseRef{Version: version}, nil
	}
	s.setHosting(func(state *store.HostingState) { state.Version = "2.0.0" })
	before := s.c.queue.Offers()
	j := s.submit("prod/net/m0", work.Run)
	eventually(t, "it runs", func() bool { s.hasty(); return s.job(j.ID).Status == work.Succeeded })
	all, err := s.c.Jobs(context.Background(), s.owner(), JobFilter{Kind: work.RunnerJob})
	s.must(err)
	failed := slices.DeleteFunc(all, func(j *work.Job) bool { return j.Status != work.Failed })
	if len(failed) != 1 || failed[0].Failure.Code != "release_withdrawn" {
		t.Errorf("the launches that failed: %v", failed)
	}
	if n := s.c.queue.Offers() - before; n > 50 {
		t.Errorf("%d offers were made", n)
	}
	if state := s.hostingState(); state.Version != "" {
		t.Errorf("it should run %q", state.Version)
	}
}

// TestFailureWithUnits: a launch that fails and tells that its processes ended counts as one failure, and is not tried again at once.
func TestFailureWithUnits(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(nil)
	s.scripts(s.owner(), 1)
	c.deploy()
	c.empty()
	c.mu.Lock()
	c.failing, c.stopped = 1000, true
	c.mu.Unlock()
	s.submit("prod/net/m0", work.Run)
	eventually(t, "it is given up", func() bool { return c.ledger()[store.LaunchGivenUp] > 0 })
	eventually(t, "its job is over", func() bool {
		all, err := s.c.Jobs(context.Background(), s.owner(), JobFilter{Kind: work.RunnerJob})
		s.must(err)
		return !slices.ContainsFunc(all, func(j *work.Job) bool { return j.Action == work.Launch && !j.Status.Terminal() })
	})
	for range 3 {
		s.c.hosting.Look(context.Background())
	}
	least, counted, most := c.ledger()[store.LaunchGivenUp], s.hostingState().Failures, 0
	if most = c.ledger()[store.LaunchGivenUp]; counted < least || counted > most {
		t.Errorf("%d to %d launches were given up, %d failures counted", least, most, counted)
	}
}

// TestRollOfDisabled: a roll of a Runner that is disabled meanwhile ends, and says so.
func TestRollOfDisabled(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(nil)
	c.deploy()
	s.c.launchRelease = func(_ *store.Tx, version string) (*work.ReleaseRef, error) {
		return &work.ReleaseRef{Version: version}, nil
	}
	c.mu.Lock()
	c.broken = "2.0.0" // it never comes
	c.mu.Unlock()
	roll, err := s.c.hosting.Update(context.Background(), s.owner(), "edge", "2.0.0")
	s.must(err)
	eventually(t, "it is rolled", func() bool { return s.hostingState().RollJob == roll.ID })
	s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
		r, err := tx.Runner(s.org, "edge")
		if err != nil {
			return err
		}
		r.IsDisabled = true
		return tx.PutRunner(&r)
	}))
	s.c.redeclared(s.org)
	done := s.until(roll.ID, work.Failed)
	if f := done.Failure; f.Code != "roll_stopped" || !strings.Contains(f.Message, "was disabled") {
		t.Errorf("it failed with %+v", f)
	}
	if state := s.hostingState(); state.RollJob != "" || state.Version != "" {
		t.Errorf("its hosting says %+v", state)
	}
}

// TestDeployAtMax: a deploy of a Runner that has as many Instances as it may have starts no further one.
func TestDeployAtMax(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(func(h *catalog.Hosting) { h.Max = 1 })
	c.deploy()
	c.deploy()
	if n := c.made(); len(n) != 1 {
		t.Errorf("%v were made, of one that may be", n)
	}
}
