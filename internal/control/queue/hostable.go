package queue

import (
	"slices"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// believed is how long others are given to take a Job before an Instance is launched for it: those of which this Server does not know
// whether they have a place.
const believed = 2 * time.Second

// Hostable gives the Jobs that wait for nothing but an Instance and that hosted Runners could take, in the order of their ranks, without
// those that a self-hosted Instance can take now. Of each Runner they are no more than its Instances could ever take at once.
func (q *Queue) Hostable(now time.Time) []Waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []hostable
	free := map[string]int{} // places of self-hosted Runners that are not spoken for
	for _, b := range q.buckets {
		f := q.fleets[b.org]
		if f == nil || f.Pause != (work.Wait{}) || b.task || b.need.Instance != "" || b.need.Holder.Instance != "" {
			continue
		}
		hosted, others := q.hostsOf(f, b)
		left := placesOf(hosted)
		for _, e := range b.entries {
			if len(left) == 0 {
				break
			}
			if !q.onlyWaits(e) {
				continue
			}
			w := Waiter{OrganizationID: e.org, JobID: e.id, Engine: string(b.need.Engine)}
			for _, r := range hosted {
				if f.Rights.Assigned(r, e.place) {
					w.Runners = append(w.Runners, r.ID)
				}
			}
			if len(w.Runners) > 0 && !q.takenByOthers(f, e, others, free, now) && left.take(w.Runners) {
				all = append(all, hostable{e, w})
			}
		}
	}
	slices.SortFunc(all, func(a, b hostable) int { return older(a.e, b.e) })
	waiters := make([]Waiter, len(all))
	for i, n := range all {
		waiters[i] = n.w
	}
	return waiters
}

// hostable is a Job that a hosted Runner could take.
type hostable struct {
	e *entry
	w Waiter
}

// places are how many Jobs hosted Runners could still take, if all their Instances were there and free, by Runner; one that is full is missing.
type places map[string]int

// placesSpare are Jobs more than a Runner has places: this picture may hold some that others have by now.
const placesSpare = 16

func placesOf(hosted []catalog.Runner) places {
	p := places{}
	for _, r := range hosted {
		h := r.Hosting.Filled()
		each := h.JobsPerInstance
		if h.OneOff {
			each = 1
		}
		p[r.ID] = h.Max*each + placesSpare
	}
	return p
}

// take has a Job count for the first of some Runners that is not full, and tells whether there is one.
func (p places) take(runners []string) bool {
	for _, id := range runners {
		if p[id] == 0 {
			continue
		}
		if p[id]--; p[id] == 0 {
			delete(p, id)
		}
		return true
	}
	return false
}

// other is a self-hosted Runner that has Instances online which suit a bucket.
type other struct {
	runner catalog.Runner
	free   int  // places here
	remote bool // it has Instances at other Servers
}

// hostsOf gives the hosted Runners whose Instances could take the Jobs of a bucket, by name, and the others that have some online.
func (q *Queue) hostsOf(f *Fleet, b *bucket) (hosted []catalog.Runner, others []other) {
	for _, r := range f.runnersFor(b) {
		if r.IsDisabled {
			continue
		}
		if r.Hosting != nil {
			if b.takes(r, nil) {
				hosted = append(hosted, r)
			}
			continue
		}
		o := other{runner: r}
		for _, i := range q.local[r.ID] {
			if i.takes(b.task) && b.takes(r, i.labels) && i.has(b.need.Engine) {
				o.free += max(i.free(), 0)
			}
		}
		o.remote = slices.ContainsFunc(f.Remote, func(i store.Instance) bool {
			return i.RunnerID == r.ID && !i.Draining && i.UnavailableReason == "" && b.takes(r, i.Labels)
		})
		if o.free > 0 || o.remote {
			others = append(others, o)
		}
	}
	slices.SortFunc(hosted, func(a, b catalog.Runner) int { return strings.Compare(a.Name, b.Name) })
	return hosted, others
}

// takenByOthers tells whether a self-hosted Instance is about to take a Job. spoken counts the places that earlier ones take.
func (q *Queue) takenByOthers(f *Fleet, e *entry, others []other, spoken map[string]int, now time.Time) bool {
	for _, o := range others {
		if !f.Rights.Assigned(o.runner, e.place) {
			continue
		}
		if o.free > spoken[o.runner.ID] {
			spoken[o.runner.ID]++
			return true
		}
		if o.remote && now.Sub(e.added) < believed {
			return true
		}
	}
	return false
}
