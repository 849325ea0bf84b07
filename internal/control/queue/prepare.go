package queue

import (
	"container/heap"
	"context"
	"time"
)

const (
	fleetTime     = 2 * time.Second // that records of Runners are believed without a hint
	loadedAtOnce  = 500             // Jobs whose details are read in one pass
	checkedAtOnce = 100             // Jobs whose Inputs are looked at in one pass
)

// prepare reads from the store what a pass needs and does not know: details of Jobs, records of Runners,
// whether outputs are there.
func (q *Queue) prepare(ctx context.Context, now time.Time) error {
	if err := q.load(ctx); err != nil {
		return err
	}
	if err := q.loadFleets(ctx, now); err != nil {
		return err
	}
	if err := q.loadShares(ctx, now); err != nil {
		return err
	}
	return q.checkInputs(ctx)
}

// load reads the details of Jobs that came as a hint or out of the store.
func (q *Queue) load(ctx context.Context) error {
	q.mu.Lock()
	unknown := q.firstUnread(loadedAtOnce)
	q.mu.Unlock()
	if len(unknown) == 0 {
		return nil
	}
	refs := make([]Ref, len(unknown))
	for i, e := range unknown {
		refs[i] = Ref{e.org, e.id}
	}
	jobs, snapshots, err := q.host.Details(ctx, refs)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		for _, e := range unknown {
			heap.Push(&q.backlog, e)
		}
		return err
	}
	for i, e := range unknown {
		switch {
		case q.entries[e.id] != e || e.loaded:
		case jobs[i] == nil || !jobs[i].Offerable():
			q.remove(e.id)
		default:
			e.place.StackID, e.rank = jobs[i].StackID, jobs[i].Rank()
			q.add(jobs[i], &snapshots[i])
		}
	}
	if len(unknown) == loadedAtOnce {
		q.Wake()
	}
	return nil
}

// Stale has the records of an Organization's Runners read again before the next pass.
func (q *Queue) Stale(org string) {
	q.mu.Lock()
	delete(q.fleets, org)
	for _, e := range q.entries {
		if e.org == org && e.bucket != nil && e.bucket.need.Holder.Instance != "" { // which may have been released
			q.unload(e)
		}
	}
	q.redeclared++
	q.mu.Unlock()
	q.Wake()
}

func (q *Queue) loadFleets(ctx context.Context, now time.Time) error {
	q.mu.Lock()
	wanted := map[string]bool{}
	for _, b := range q.buckets {
		if f := q.fleets[b.org]; f == nil || now.Sub(f.read) > fleetTime {
			wanted[b.org] = true
		}
	}
	known := q.redeclared
	q.mu.Unlock()
	for org := range wanted {
		f, err := q.host.Fleet(ctx, org)
		if err != nil {
			return err
		}
		q.mu.Lock()
		f.read = now
		if q.redeclared != known { // meanwhile: this may be what was before, and is good for one pass
			f.read = time.Time{}
		}
		q.fleets[org] = f
		q.mu.Unlock()
	}
	return nil
}

// checkInputs looks whether the outputs that Jobs take are there by now. Those that wait in vain are ended.
func (q *Queue) checkInputs(ctx context.Context) error {
	q.mu.Lock()
	unsure := some(q.unsure, checkedAtOnce)
	for _, e := range unsure {
		delete(q.unsure, e.id)
	}
	q.mu.Unlock()
	for i, e := range unsure {
		path, over, err := q.host.Upstream(ctx, Ref{e.org, e.id})
		if err != nil {
			q.doubt(unsure[i:])
			return err
		}
		if over {
			continue
		}
		q.mu.Lock()
		if e.ready = path == ""; path != "" && q.entries[e.id] == e {
			q.block(e, path)
		}
		q.mu.Unlock()
	}
	if len(unsure) == checkedAtOnce {
		q.Wake()
	}
	return nil
}

// doubt has Jobs' Inputs looked at again.
func (q *Queue) doubt(list []*entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range list {
		if q.entries[e.id] == e && e.upstreams {
			q.unwait(e)
			e.ready = false
			q.unsure[e.id] = e
		}
	}
}

// Doubt has the Inputs of a Job looked at again.
func (q *Queue) Doubt(jobID string) {
	q.mu.Lock()
	e := q.entries[jobID]
	q.mu.Unlock()
	if e != nil {
		q.doubt([]*entry{e})
	}
}

func some(set map[string]*entry, limit int) []*entry {
	var list []*entry
	for _, e := range set {
		if len(list) == limit {
			break
		}
		list = append(list, e)
	}
	return list
}
