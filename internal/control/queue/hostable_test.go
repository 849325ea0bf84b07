package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

// TestHostableIsBoundedByPlaces: of a long line of Jobs hosting is given those that could have a place, and none of a Runner hides those of
// another behind it.
func TestHostableIsBoundedByPlaces(t *testing.T) {
	const jobs = 5000
	q := New(nil, nil, time.Minute)
	hosts := func(id string) catalog.Runner {
		return catalog.Runner{Identity: catalog.Identity{ID: id, OrganizationID: "o"}, RunnerSpec: catalog.RunnerSpec{Name: id, IsAssignedToAllModules: true,
			Hosting: &catalog.Hosting{Launcher: catalog.LaunchProcess, Max: 3, JobsPerInstance: 2}}}
	}
	a, b := hosts("a"), hosts("b")
	q.fleets["o"] = &Fleet{Runners: map[string]catalog.Runner{"a": a, "b": b}, Rights: catalog.RightsOf("o", nil)}
	line := func(runner string, from int) {
		bucket := &bucket{key: runner, org: "o", runnerID: runner, need: work.Need{Engine: catalog.Script}}
		q.buckets[runner] = bucket
		for i := range jobs {
			id := fmt.Sprintf("%06d", from+i)
			bucket.entries = append(bucket.entries, &entry{id: id, org: "o", moduleID: id, lane: id, bucket: bucket, rank: work.Rank{ID: id},
				place: catalog.Module{Identity: catalog.Identity{ID: id, OrganizationID: "o"}, StackID: "s", NamespaceID: "n"}})
		}
	}
	line("a", 0)
	line("b", jobs)
	began := time.Now()
	got := q.Hostable(began)
	t.Logf("%d of %d in %s", len(got), 2*jobs, time.Since(began))
	of := map[string]int{}
	for _, w := range got {
		of[w.Runners[0]]++
	}
	if want := 3*2 + placesSpare; of["a"] != want || of["b"] != want {
		t.Errorf("they are %v, not %d each", of, want)
	}
	if !slices.IsSortedFunc(got, func(a, b Waiter) int { return strings.Compare(a.JobID, b.JobID) }) {
		t.Error("they are not in the order of their ranks")
	}
	if len(got) == 0 || got[0].JobID != "000000" {
		t.Errorf("the first is not among them: %+v", got[:min(len(got), 1)])
	}
}

// TestPlacesOfHostedRunners: a Job counts for the first that is not full.
func TestPlacesOfHostedRunners(t *testing.T) {
	p := places{"a": 1, "b": 2}
	for i, c := range []struct {
		runners []string
		want    bool
	}{{[]string{"a", "b"}, true}, {[]string{"a"}, false}, {[]string{"a", "b"}, true}, {[]string{"c"}, false}, {[]string{"b"}, true}, {[]string{"a", "b"}, false}} {
		if got := p.take(c.runners); got != c.want {
			t.Errorf("%d: %v gives %v", i, c.runners, got)
		}
	}
	if len(p) != 0 {
		t.Errorf("these have places left: %v", p)
	}
}
