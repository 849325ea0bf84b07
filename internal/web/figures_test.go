//go:build bench

package web_test

import (
	"net/http"
	"net/url"
	"slices"
	"syscall"
	"testing"
	"time"

	"legwork/internal/api/apitest"
)

// large is what the limits of time hold for.
var large = size{stacks: 10, modules: 1000, runners: 500, jobs: 10_000, auditDays: 30, sampled: 50, samples: 48 * 60}

// TestPageFigures prints how long the Server takes for every page of a large database, beside the limit: `make bench`.
func TestPageFigures(t *testing.T) {
	const limit = 50 * time.Millisecond
	w := start(t)
	world := fillEverything(t, w)
	begun := time.Now()
	more := fillLarge(w, large)
	t.Logf("filled in %s", time.Since(begun).Round(time.Second))
	t.Logf("%-28s %9s %9s %9s %9s", "page", "median", "p95", "processor", "limit")
	const times = 20
	timings(t, w, slices.Concat(more, places), world, times, func(p place, took []time.Duration, busy time.Duration) {
		median, p95 := took[len(took)/2], took[len(took)*95/100]
		verdict := "ok"
		if median > limit {
			verdict = "FALLS SHORT"
		}
		const unit = 100 * time.Microsecond
		t.Logf("%-28s %9s %9s %9s %9s  %s", p.name, median.Round(unit), p95.Round(unit), busy.Round(unit), limit, verdict)
	})
}

// timings visits every place some times and gives how long each took, sorted, and the processor time of one in the mean, which
// tells more where others are at work.
func timings(t *testing.T, w *apitest.World, all []place, world map[string]string, times int, each func(p place, took []time.Duration, busy time.Duration)) {
	t.Helper()
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for _, p := range all {
		took := make([]time.Duration, times)
		path := p.filled(world)
		if status, _ := v.get(path); status != http.StatusOK {
			t.Errorf("%s: %d", p.name, status)
		}
		before := processorTime()
		for i := range took {
			begun := time.Now()
			v.get(path)
			took[i] = time.Since(begun)
		}
		slices.Sort(took)
		each(p, took, (processorTime()-before)/time.Duration(times))
	}
}

// processorTime returns the processor time that this process has used, 0 if the system does not say.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
