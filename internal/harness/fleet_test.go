package harness_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"legwork/internal/harness"
	"legwork/internal/harness/fleet"
	"legwork/internal/work"
)

// manyScripts declares Modules s/n/m0... of a Runner.
func manyScripts(s *harness.Server, runner string, n int) {
	var b strings.Builder
	fmt.Fprintf(&b, "kind: Stack\nname: s\n---\nkind: Namespace\nstack: s\nname: n\ndefaults: {engine: script, runner: %s}\n", runner)
	for i := range n {
		fmt.Fprintf(&b, "---\nkind: Module\nstack: s\nnamespace: n\nname: m%d\nsource: {type: inline, files: {x: \"\"}}\nscript: {run: ':'}\n", i)
	}
	s.Apply(b.String())
}

// runFleet runs a Fleet in this process until the test is over.
func runFleet(t *testing.T, cfg fleet.Config) *fleet.Fleet {
	f := fleet.New(cfg)
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- f.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return f
}

// TestThousandComeBack kills a Server that has 1,000 Instances and starts it again. All come back by themselves, spread over time,
// while 50 Jobs wait; each of these is offered to a few Instances, is claimed once, and its Steps are run once.
func TestThousandComeBack(t *testing.T) {
	const instances, jobs, askedAtMost = 1000, 50, 16
	s := harness.StartServer(t)
	f := runFleet(t, s.FleetConfig("sim", instances, 1))
	harness.Eventually(t, "all instances are online", func() bool { return f.Online() == instances })
	manyScripts(s, "sim", jobs)
	s.Do("runner", "disable", "sim")
	ids := make([]string, jobs)
	for i := range ids {
		ids[i] = s.Submit("run", fmt.Sprintf("s/n/m%d", i))
	}

	killed := time.Now()
	s.Kill()
	harness.Eventually(t, "all instances have lost it", func() bool { return f.Online() == 0 })
	s.Start()
	s.Do("runner", "enable", "sim")
	harness.Eventually(t, "all instances are back", func() bool { return f.Online() == instances })
	back := time.Since(killed)
	s.Ends(ids[0], work.Succeeded)
	for _, j := range allJobs(t, s, jobs) {
		if j.Attempt != 1 || len(j.Losses) != 0 {
			t.Errorf("job %d: attempt %d, losses %+v", j.Number, j.Attempt, j.Losses)
		}
	}

	dials, welcomes := f.Since(killed)
	if n := f.Counts().Sessions; n != 2*instances || len(welcomes) != instances {
		t.Errorf("%d Sessions in all, %d since the Server was killed", n, len(welcomes))
	}
	if took := spread(dials); took < 100*time.Millisecond {
		t.Errorf("four fifths of %d Instances tried within %v", instances, took)
	}
	c := f.Counts()
	if c.Steps != 2*jobs || c.Repeated != 0 {
		t.Errorf("%d Steps were run, %d of them again; want %d and none", c.Steps, c.Repeated, 2*jobs)
	}
	if c.Offers > jobs*askedAtMost*2 {
		t.Errorf("%d Offers for %d Jobs", c.Offers, jobs)
	}
	t.Logf("all back after %v; %d tries, four fifths of them within %v; %d Offers, %d accepted, %d withdrawn", back.Round(time.Millisecond), len(dials),
		spread(dials).Round(time.Millisecond), c.Offers, c.Accepted, c.Withdrawn)
}

// allJobs waits until so many Jobs have succeeded and gives them.
func allJobs(t *testing.T, s *harness.Server, n int) (jobs []work.Job) {
	harness.Eventually(t, "all jobs have succeeded", func() bool {
		s.JSON(&jobs, "job", "list", "--limit", fmt.Sprint(n))
		return len(jobs) == n && !slices.ContainsFunc(jobs, func(j work.Job) bool { return j.Status != work.Succeeded })
	})
	return jobs
}

// spread gives over how long the middle four fifths of some times lie: a machine that stands still for a moment bunches a few
// of them, and does not shorten it.
func spread(times []time.Time) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.SortFunc(times, time.Time.Compare)
	return times[len(times)*9/10].Sub(times[len(times)/10])
}
