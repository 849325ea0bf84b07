//go:build bench

package harness_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// claims runs trivial Jobs one after the other on idle simulated Instances and gives the times from created to offered, as the
// Server and as the first Instance saw it, and to claimed.
func claims(t *testing.T, a *api, f *harness.Fleet, n int) (offered, received, claimed []time.Duration) {
	for i := range n + 10 {
		id := a.submit(t, "s/n/m0")
		j := a.ended(t, id)
		if i < 10 { // warmed up
			continue
		}
		offered = append(offered, j.Binding.OfferedAt.Sub(j.CreatedAt))
		received = append(received, f.Ask(id).Job.Offered.Sub(j.CreatedAt))
		claimed = append(claimed, j.Binding.ClaimedAt.Sub(j.CreatedAt))
	}
	return offered, received, claimed
}

func twoQuantiles(what string, d []time.Duration, q float64, median, limit float64) {
	put(figure{what: what + ", median", value: ms(quantile(d, 0.5)), limit: median, unit: "ms"})
	put(figure{what: fmt.Sprintf("%s, p%.0f", what, q*100), value: ms(quantile(d, q)), limit: limit, unit: "ms"})
}

// hundredInstances measures how soon a Job is claimed when 100 Instances are asked and the first to respond gets it.
func hundredInstances(t *testing.T) {
	s := harness.StartServer(t)
	f := harness.StartFleet(t, s.FleetConfig("sim", 100, 1))
	manyScripts(s, "sim", 1)
	_, _, claimed := claims(t, newAPI(s), f, 300)
	twoQuantiles("created -> claimed, 100 eligible Instances, first_response", claimed, 0.99, 10, 25)
	if c := f.Ask("").Counts; c.Repeated != 0 || c.Steps != 2*310 {
		t.Errorf("%+v", c)
	}
}

// manyInstances measures the memory that idle Instances take on their Server, and with all of them how soon a Job is offered.
func manyInstances(t *testing.T, n int) {
	s := harness.StartServer(t)
	cfg := s.FleetConfig("sim", n, 1)
	manyScripts(s, "sim", 1)
	one := s.FleetConfig("other", 20, 1) // what the first Sessions cost is no matter of their number
	harness.StartFleet(t, one)
	before := settled(t, s.PID())
	begin := time.Now()
	f := harness.StartFleet(t, cfg)
	joined := time.Since(begin)
	peak := resident(t, s.PID())
	after := settled(t, s.PID())
	put(figure{what: fmt.Sprintf("memory of an idle Instance on the Server, of %d", n), value: (after - before) * 1024 / float64(n), limit: 40, unit: "KiB",
		note: fmt.Sprintf("(Server %.0f -> %.0f MiB, %.0f when all had come in %.1f s)", before, after, peak, joined.Seconds())})
	if n < 10_000 {
		return
	}
	a := newAPI(s)
	offered, received, claimed := claims(t, a, f, 200)
	twoQuantiles(fmt.Sprintf("created -> offered, %d connected", n), offered, 0.99, 100, 100)
	twoQuantiles(fmt.Sprintf("created -> the Offer received, %d connected", n), received, 0.99, 100, 100)
	twoQuantiles(fmt.Sprintf("created -> claimed, %d connected", n), claimed, 0.99, 100, 100)
}

// settled gives the resident memory of a process in MiB once it does not fall any more: the runtime gives free memory back
// bit by bit.
func settled(t *testing.T, pid int) float64 {
	least, since := resident(t, pid), time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range tick.C {
		if now := resident(t, pid); now < least*0.995 {
			least, since = now, time.Now()
		}
		if time.Since(since) > 30*time.Second {
			return resident(t, pid)
		}
	}
	return least
}

// ticking prints the time every 20 ms until it is ended, and may be started again.
const ticking = "engine: script\nsource: {type: inline, files: {x: \"\"}}\nscript: {repeatable: true, run: 'while read -rt 0.02 <> <(:) || :; do echo \"at=$EPOCHREALTIME\"; done'}\n"

// lostRunner measures how soon Jobs run again whose Runner got lost in a Step that changes nothing.
func lostRunner(t *testing.T) {
	s := harness.StartServer(t)
	first := s.NewRunner("edge-1", capacity(3))
	s.Apply("kind: Runner\nname: edge-1\nis_assigned_to_all_modules: true\nallow_multiple_instances: true\n")
	first.Start()
	first.Online()
	for i := range 3 {
		declare(s, fmt.Sprintf("m%d", i), ticking)
	}
	a := newAPI(s)
	restarted(t, a, first)
	hostGone(t, a, first, first.Twin("edge-1-b", s.URL))
}

// restarted kills the Runner's process alone and starts it again: its keeper and the Step went on.
func restarted(t *testing.T, a *api, r *harness.Runner) {
	var again []time.Duration
	id := a.submit(t, "s/n/m0")
	began := make(chan struct{})
	var once sync.Once
	var mu sync.Mutex
	var start, seen time.Time
	go a.follow(t, id, func(text string) {
		once.Do(func() { close(began) })
		mu.Lock()
		defer mu.Unlock()
		if m := stamp.FindStringSubmatch(text); m != nil && seen.IsZero() && !start.IsZero() {
			seen = time.Now()
		}
	})
	<-began
	for range 5 {
		r.Kill()
		mu.Lock()
		start, seen = time.Now(), time.Time{}
		mu.Unlock()
		r.Start()
		harness.Eventually(t, "its lines come again", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return !seen.IsZero()
		})
		again = append(again, seen.Sub(start))
	}
	if j := a.job(t, id); j.Attempt != 1 || len(j.Losses) != 0 {
		t.Errorf("attempt %d, %+v", j.Attempt, j.Losses)
	}
	cancelNow(t, a, id)
	put(figure{what: "Runner's process killed and started -> lines of its Step again", value: quantile(again, 0.5).Seconds(), limit: 1, unit: "s",
		note: fmt.Sprintf("(worst of %d: %.2f s)", len(again), quantile(again, 1).Seconds())})
}

// hostGone kills the Runner and its keeper, with three Jobs, while another Instance is free.
func hostGone(t *testing.T, a *api, first, second *harness.Runner) {
	ids := make([]string, 3)
	for i := range ids {
		ids[i] = a.submit(t, fmt.Sprintf("s/n/m%d", i))
		harness.Eventually(t, "it runs", func() bool { return a.job(t, ids[i]).Steps[1].Status == work.StepRunning })
	}
	second.Start()
	harness.Eventually(t, "the other instance is online", func() bool {
		return strings.Count(a.s.Do("runner", "show", first.Name, "-o", "json"), `"online"`) == 2
	})
	gone := time.Now()
	first.Kill()
	first.EndKeeper()
	var again []time.Duration
	for _, id := range ids {
		var j work.Job
		waitLong(t, "it runs again", 2*work.DefaultLease, func() bool {
			j = a.job(t, id)
			return j.Attempt == 2 && j.Steps[1].Status == work.StepRunning
		})
		again = append(again, j.Steps[1].StartedAt.Sub(gone))
		cancelNow(t, a, id)
	}
	put(figure{what: "Runner's host gone -> its Jobs run at another Instance", value: quantile(again, 1).Seconds(), limit: work.DefaultLease.Seconds() + 2, unit: "s",
		note: fmt.Sprintf("(Lease %v; the soonest %.1f s)", work.DefaultLease, quantile(again, 0).Seconds())})
}

func cancelNow(t *testing.T, a *api, id string) {
	if status, err := a.call("POST", "/api/v1/jobs/"+id+"/cancel", map[string]string{"mode": "kill"}, nil); err != nil || status >= 300 {
		t.Fatalf("cancel: %d %v", status, err)
	}
	harness.Eventually(t, "it is over", func() bool { return a.job(t, id).Status.Terminal() })
}

// waitLong is Eventually for what takes longer than Patience.
func waitLong(t *testing.T, what string, most time.Duration, holds func() bool) {
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}
