package control

import (
	"container/heap"
	"context"
	"iter"
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
	loadedAtOnce  = 500             // Jobs whose details are read in one pass
	checkedAtOnce = 100             // Jobs whose Inputs are looked at in one pass

	// offersAtOnce bounds the Instances that are asked for one Job at the same time: each keeps a place for it until the claim. With
	// 100 Instances of one place, asking all takes twice as long for one Job and gives 100 Jobs less than half the rate that asking
	// 16 at random does (BenchmarkHundredInstances).
	offersAtOnce = 16
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
	suits  []*suited
	places int // that they had free together when the pass began
}

// suited are the Instances of one Runner that suit a bucket. Those that are full are left out by and by: no place becomes free in a pass.
type suited struct {
	runner    catalog.Runner
	instances []*session
}

// next is the Job whose turn it is.
func (l *lineup) next() *entry { return l.entries[l.at] }

// lineups is a heap by the rank of the next Job.
type lineups []*lineup

func (l lineups) Len() int           { return len(l) }
func (l lineups) Less(i, j int) bool { return older(l[i].next(), l[j].next()) < 0 }
func (l lineups) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *lineups) Push(x any)        { *l = append(*l, x.(*lineup)) }
func (l *lineups) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}

// match makes the Offers of a pass: Job by Job in the order of their ranks, whatever their needs are.
func (q *queue) match(now time.Time) {
	var line lineups
	q.rooms, q.asked = map[string]int{}, map[string]bool{}
	for _, o := range q.offers {
		q.asked[o.lane] = true
	}
	for _, b := range q.buckets {
		if l := q.suitable(b); l.places > 0 {
			line = append(line, l)
		}
	}
	heap.Init(&line)
	for len(line) > 0 {
		l := line[0]
		l.places -= q.offer(l, l.next(), now)
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
	if f == nil || f.maintenance != nil {
		return l
	}
	for _, r := range f.runnersFor(b) {
		if !b.task && (r.IsDisabled || q.room(r) <= 0) {
			continue
		}
		of := &suited{runner: r}
		for _, s := range q.local[r.ID] {
			free := s.freeFor(b.task)
			if free > 0 && !s.draining && b.takes(r, s.labels) && s.has(b.need.Engine) && (b.need.Instance == "" || b.need.Instance == s.instance) {
				of.instances = append(of.instances, s)
				l.places += free
			}
		}
		if len(of.instances) > 0 {
			l.suits = append(l.suits, of)
		}
	}
	return l
}

// assigned gives the Instances of a lineup that may take a Job, and how many they are. Runners are asked, not Instances: thousands of
// Jobs that nobody may take cost no look at thousands of Instances each.
func (q *queue) assigned(l *lineup, e *entry) (some []*suited, n int) {
	f := q.fleets[e.org]
	for _, of := range l.suits {
		if len(of.instances) > 0 && (e.task || q.room(of.runner) > 0 && f.rights.Assigned(of.runner, e.place)) {
			some = append(some, of)
			n += len(of.instances)
		}
	}
	return some, n
}

// round goes through Instances once, from the one at start on.
func round(all []*suited, start int) iter.Seq2[*suited, *session] {
	return func(yield func(*suited, *session) bool) {
		skip := start
		for _, of := range all {
			from := min(skip, len(of.instances))
			skip -= from
			for _, s := range of.instances[from:] {
				if !yield(of, s) {
					return
				}
			}
		}
		for _, of := range all {
			to := min(start, len(of.instances))
			start -= to
			for _, s := range of.instances[:to] {
				if !yield(of, s) {
					return
				}
			}
		}
	}
}

// offer asks Instances for one Job, if it can run now, and tells how many.
func (q *queue) offer(l *lineup, e *entry, now time.Time) int {
	if q.asked[e.lane] || (e.upstreams && !e.ready) {
		return 0 // the Jobs of a Module are asked about one after another, or a later one could be quicker to be accepted
	}
	if holder, busy := q.busy[e.lane]; busy && holder.jobID != e.id {
		return 0
	}
	suits, n := q.assigned(l, e)
	if n == 0 {
		return 0
	}
	candidates, at := q.candidates(e, suits, n, now)
	if len(candidates) == 0 {
		return 0
	}
	selection := q.fleets[e.org].runners[candidates[0].RunnerID].Selection
	if e.part {
		selection = catalog.LeastLoaded
	}
	chosen := work.Select(selection, candidates, rand.IntN)
	o := &offer{lane: e.lane, attempt: e.attempt + 1, at: now, until: now.Add(q.c.limits.OfferTime), to: map[*session]bool{}}
	for _, c := range chosen {
		s := at[c.InstanceID]
		o.to[s] = true
		s.offered[e.id] = true
		s.send(&wire.Offer{Ref: wire.Ref{Job: e.id, Attempt: o.attempt}, Engine: string(e.bucket.need.Engine), Module: e.module})
	}
	q.offers[e.id], q.asked[e.lane] = o, true
	for runner := range o.runners() {
		if !e.task {
			q.rooms[runner]--
		}
	}
	q.c.stats.offers.Add(int64(len(chosen)))
	return len(chosen)
}

// candidates gives some of n Instances that have a place and did not refuse the Job, beginning anywhere; all of them where the one with
// the least to do is wanted.
func (q *queue) candidates(e *entry, suits []*suited, n int, now time.Time) (candidates []work.Candidate, at map[string]*session) {
	at = map[string]*session{}
	full := map[*suited]int{}
	for of, s := range round(suits, rand.IntN(n)) {
		if s.freeFor(e.task) <= 0 {
			full[of]++
			continue
		}
		if now.Before(e.refused[s.instanceID].until) {
			continue
		}
		candidates = append(candidates, s.candidate(of.runner))
		at[s.instanceID] = s
		if of.runner.Selection != catalog.LeastLoaded && !e.part && len(candidates) == offersAtOnce {
			break
		}
	}
	for of, n := range full {
		if 2*n >= len(of.instances) {
			of.instances = slices.DeleteFunc(of.instances, func(s *session) bool { return s.freeFor(e.task) <= 0 })
		}
	}
	return candidates, at
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
	if err := q.loadShares(ctx, now); err != nil {
		return err
	}
	return q.checkInputs(ctx)
}

// load reads the details of Jobs that came as a hint or out of the store.
func (q *queue) load(ctx context.Context) error {
	q.mu.Lock()
	unknown := q.firstUnread(loadedAtOnce)
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
				snapshots[i], err = tx.JobSnapshot(e.org, e.id)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
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
		q.wake()
	}
	return nil
}

// fleet is what a pass knows of the Runners of an Organization.
type fleet struct {
	read        time.Time
	runners     map[string]catalog.Runner
	rights      catalog.Rights
	remote      []store.Instance               // connected to other Servers
	labels      map[string][]map[string]string // that Instances ever had of their own, by Runner
	maintenance *store.Maintenance
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
	if b.task {
		for _, r := range f.runners {
			if r.Name == b.need.Runner {
				return []catalog.Runner{r}
			}
		}
		return nil
	}
	return slices.Collect(maps.Values(f.runners))
}

// takes tells whether an Instance with labels of its own suits the Jobs of a bucket.
func (b *bucket) takes(r catalog.Runner, own map[string]string) bool {
	return b.runnerID != "" || b.task || r.Matches(b.labels, own)
}

// stale has the records of an Organization's Runners read again before the next pass.
func (q *queue) stale(org string) {
	q.mu.Lock()
	delete(q.fleets, org)
	q.redeclared++
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
	known := q.redeclared
	q.mu.Unlock()
	for org := range wanted {
		f, err := q.c.readFleet(ctx, org, now)
		if err != nil {
			return err
		}
		q.mu.Lock()
		if q.redeclared != known { // meanwhile: this may be what was before, and is good for one pass
			f.read = time.Time{}
		}
		q.fleets[org] = f
		q.mu.Unlock()
	}
	return nil
}

func (c *Control) readFleet(ctx context.Context, org string, now time.Time) (*fleet, error) {
	f := &fleet{read: now, runners: map[string]catalog.Runner{}, labels: map[string][]map[string]string{}}
	err := c.store.View(ctx, func(tx *store.Tx) error {
		runners, err := tx.Runners(org)
		if err != nil {
			return err
		}
		for _, r := range runners {
			f.runners[r.ID] = r
		}
		assignments, err := tx.Assignments(org, "")
		if err != nil {
			return err
		}
		f.rights = catalog.RightsOf(org, assignments)
		if f.maintenance, err = tx.Maintenance(org); err != nil {
			return err
		}
		instances, err := tx.InstancesBeyond(org, c.server)
		for _, i := range instances {
			if len(i.Labels) > 0 {
				f.labels[i.RunnerID] = append(f.labels[i.RunnerID], i.Labels)
			}
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
