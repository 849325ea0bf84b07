package control

import (
	"container/heap"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

const (
	refusalTime   = 5 * time.Second // that an Instance is not asked again for a Job it refused
	fleetTime     = 2 * time.Second // that records of Runners are believed without a hint
	offersAtOnce  = 16              // Instances that are asked for one Job at the same time
	loadedAtOnce  = 500             // Jobs whose details are read in one pass
	checkedAtOnce = 100             // Jobs whose Inputs are looked at in one pass
)

// run dispatches whenever something changed, until ctx ends.
func (q *queue) run(ctx context.Context) {
	for {
		select {
		case <-q.kick:
			q.pass(ctx, time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// pass offers what waits to whom can take it: the oldest Job first, and one that cannot run holds up no other.
func (q *queue) pass(ctx context.Context, now time.Time) {
	if q.c.draining.Load() {
		return
	}
	if err := q.prepare(ctx, now); err != nil {
		if ctx.Err() == nil {
			q.c.log.Error("could not read what waits", "error", err)
		}
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expire(now)
	q.match(now)
	q.awaitExpiry(now)
}

// awaitExpiry has the queue look again when the oldest Offer has stood long enough.
func (q *queue) awaitExpiry(now time.Time) {
	if len(q.offers) == 0 || q.expiry != nil {
		return
	}
	first := now.Add(q.c.limits.OfferTime)
	for _, o := range q.offers {
		if o.until.Before(first) {
			first = o.until
		}
	}
	q.expiry = time.AfterFunc(first.Sub(now), func() {
		q.mu.Lock()
		q.expiry = nil
		q.mu.Unlock()
		q.wake()
	})
}

// lineup is a bucket in a pass: the Instances that suit its Jobs, and how far it was gone through.
type lineup struct {
	*bucket
	at     int
	suits  []*session
	places int // that they had free together when the pass began
}

// lineups is a heap by the age of the next Job.
type lineups []*lineup

func (l lineups) Len() int { return len(l) }
func (l lineups) Less(i, j int) bool {
	return l[i].entries[l[i].at].queuedAt.Before(l[j].entries[l[j].at].queuedAt)
}
func (l lineups) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l *lineups) Push(x any)   { *l = append(*l, x.(*lineup)) }
func (l *lineups) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}

// match makes the Offers of a pass.
func (q *queue) match(now time.Time) {
	var line lineups
	for _, b := range q.buckets {
		if l := q.suitable(b); l.places > 0 {
			line = append(line, l)
		}
	}
	heap.Init(&line)
	for len(line) > 0 {
		l := line[0]
		l.places -= q.offer(l.entries[l.at], l.suits, now)
		l.at++
		if l.at == len(l.entries) || l.places <= 0 {
			heap.Pop(&line)
			continue
		}
		heap.Fix(&line, 0)
	}
}

// suitable gives the Instances connected here that can take Jobs of a bucket now.
func (q *queue) suitable(b *bucket) *lineup {
	l := &lineup{bucket: b}
	f := q.fleets[b.org]
	if f == nil {
		return l
	}
	for _, r := range f.runnersFor(b) {
		if r.IsDisabled {
			continue
		}
		for _, s := range q.local[r.ID] {
			free := s.free(r)
			if free > 0 && !s.draining && b.takes(r, s.labels) && s.has(b.need.Engine) && (b.need.Instance == "" || b.need.Instance == s.instance) {
				l.suits = append(l.suits, s)
				l.places += free
			}
		}
	}
	return l
}

// offer asks Instances for one Job, if it can run now, and tells how many.
func (q *queue) offer(e *entry, suits []*session, now time.Time) int {
	if q.offers[e.id] != nil || (e.upstreams && !e.ready) {
		return 0
	}
	if holder, busy := q.busy[e.moduleID]; busy && holder.jobID != e.id {
		return 0
	}
	f := q.fleets[e.org]
	var candidates []work.Candidate
	at := map[string]*session{}
	start := rand.IntN(len(suits))
	for i := range suits {
		s := suits[(start+i)%len(suits)]
		r, ok := f.runners[s.runnerID]
		if !ok || s.free(r) <= 0 || !catalog.Assigned(r, f.assignments, e.place) || now.Before(e.refused[s.instanceID].until) {
			continue
		}
		candidates = append(candidates, s.candidate(r))
		at[s.instanceID] = s
		if r.Selection != catalog.LeastLoaded && len(candidates) == offersAtOnce {
			break
		}
	}
	if len(candidates) == 0 {
		return 0
	}
	chosen := work.Select(f.runners[candidates[0].RunnerID].Selection, candidates, rand.IntN)
	o := &offer{attempt: e.attempt + 1, at: now, until: now.Add(q.c.limits.OfferTime), to: map[*session]bool{}}
	for _, c := range chosen {
		s := at[c.InstanceID]
		o.to[s] = true
		s.offered[e.id] = true
		s.send(&wire.Offer{Ref: wire.Ref{Job: e.id, Attempt: o.attempt}, Engine: string(e.bucket.need.Engine), Module: e.module})
	}
	q.offers[e.id] = o
	q.c.stats.offers.Add(int64(len(chosen)))
	return len(chosen)
}

// prepare reads from the store what a pass needs and does not know: details of Jobs, records of Runners,
// whether outputs are there.
func (q *queue) prepare(ctx context.Context, now time.Time) error {
	if err := q.load(ctx); err != nil {
		return err
	}
	if err := q.loadFleets(ctx, now); err != nil {
		return err
	}
	return q.checkInputs(ctx)
}

// load reads the details of Jobs that came as a hint or out of the store.
func (q *queue) load(ctx context.Context) error {
	q.mu.Lock()
	unknown := some(q.unread, loadedAtOnce)
	q.mu.Unlock()
	if len(unknown) == 0 {
		return nil
	}
	jobs := make([]*work.Job, len(unknown))
	snapshots := make([]store.JobSnapshot, len(unknown))
	err := q.c.store.View(ctx, func(tx *store.Tx) (err error) {
		for i, e := range unknown {
			if jobs[i], err = tx.Job(e.org, e.id); fault.Is(err, fault.NotFound) {
				continue
			}
			if err == nil {
				snapshots[i], err = tx.JobSnapshot(e.id)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, e := range unknown {
		switch {
		case q.entries[e.id] != e || e.loaded:
		case jobs[i] == nil || jobs[i].Status != work.Queued:
			q.remove(e.id)
		default:
			e.place.StackID = jobs[i].StackID
			q.add(jobs[i], &snapshots[i])
		}
	}
	if len(unknown) == loadedAtOnce {
		q.wake()
	}
	return nil
}

// fleet is what a pass knows of the Runners of an Organization.
type fleet struct {
	read        time.Time
	runners     map[string]catalog.Runner
	assignments []catalog.Assignment
	remote      []store.Instance // connected to other Servers
}

// runnersFor gives the Runners that the Jobs of a bucket may go to, were they assigned. Where labels are asked for, each of their
// Instances has to match by itself: see bucket.takes.
func (f *fleet) runnersFor(b *bucket) []catalog.Runner {
	if b.runnerID != "" {
		if r, ok := f.runners[b.runnerID]; ok {
			return []catalog.Runner{r}
		}
		return nil
	}
	return slices.Collect(maps.Values(f.runners))
}

// takes tells whether an Instance with labels of its own suits the Jobs of a bucket.
func (b *bucket) takes(r catalog.Runner, own map[string]string) bool {
	return b.runnerID != "" || labelsMatch(b.labels, r, own)
}

// labelsMatch tells whether the labels of an Instance are those that are wanted: its own, and those of its Runner's record where it
// says nothing.
func labelsMatch(want map[string]string, r catalog.Runner, own map[string]string) bool {
	for k, v := range want {
		have, ok := own[k]
		if !ok {
			have, ok = r.Labels[k]
		}
		if !ok || have != v {
			return false
		}
	}
	return true
}

// stale has the records of an Organization's Runners read again before the next pass.
func (q *queue) stale(org string) {
	q.mu.Lock()
	delete(q.fleets, org)
	q.mu.Unlock()
	q.wake()
}

func (q *queue) loadFleets(ctx context.Context, now time.Time) error {
	q.mu.Lock()
	wanted := map[string]bool{}
	for _, b := range q.buckets {
		if f := q.fleets[b.org]; f == nil || now.Sub(f.read) > fleetTime {
			wanted[b.org] = true
		}
	}
	q.mu.Unlock()
	for org := range wanted {
		f, err := q.c.readFleet(ctx, org, now)
		if err != nil {
			return err
		}
		q.mu.Lock()
		q.fleets[org] = f
		q.mu.Unlock()
	}
	return nil
}

func (c *Control) readFleet(ctx context.Context, org string, now time.Time) (*fleet, error) {
	f := &fleet{read: now, runners: map[string]catalog.Runner{}}
	err := c.store.View(ctx, func(tx *store.Tx) error {
		runners, err := tx.Runners(org)
		if err != nil {
			return err
		}
		for _, r := range runners {
			f.runners[r.ID] = r
		}
		if f.assignments, err = tx.Assignments(org, ""); err != nil {
			return err
		}
		instances, err := tx.Instances(org, "")
		for _, i := range instances {
			if i.Connected && i.ServerID != c.server {
				f.remote = append(f.remote, i)
			}
		}
		return err
	})
	return f, err
}

// checkInputs looks whether the outputs that Jobs take are there by now. Those that wait in vain are ended.
func (q *queue) checkInputs(ctx context.Context) error {
	q.mu.Lock()
	unsure := some(q.unsure, checkedAtOnce)
	for _, e := range unsure {
		delete(q.unsure, e.id)
	}
	q.mu.Unlock()
	for i, e := range unsure {
		path, err := q.c.missingUpstream(ctx, e.org, e.id)
		if err != nil && !movedOn(err) {
			q.doubt(unsure[i:])
			return err
		}
		if err != nil {
			q.c.cannotRun(ctx, e.org, e.id, err)
			continue
		}
		q.mu.Lock()
		if e.ready = path == ""; path != "" && q.entries[e.id] == e {
			q.block(e, path)
		}
		q.mu.Unlock()
	}
	if len(unsure) == checkedAtOnce {
		q.wake()
	}
	return nil
}

// doubt has Jobs' Inputs looked at again.
func (q *queue) doubt(list []*entry) {
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
