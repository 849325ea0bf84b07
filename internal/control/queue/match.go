package queue

import (
	"container/heap"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// offersAtOnce bounds the Instances that are asked for one Job at the same time: each keeps a place for it until the claim. With
// 100 Instances of one place, asking all takes twice as long for one Job and gives 100 Jobs less than half the rate that asking
// 16 at random does (BenchmarkHundredInstances of package control).
const offersAtOnce = 16

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
	instances []*Instance
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
func (q *Queue) match(now time.Time) {
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
func (q *Queue) suitable(b *bucket) *lineup {
	l := &lineup{bucket: b}
	f := q.fleets[b.org]
	if f == nil || f.Pause != (work.Wait{}) {
		return l
	}
	for _, r := range f.runnersFor(b) {
		if !b.task && (r.IsDisabled || q.room(r) <= 0) {
			continue
		}
		of := &suited{runner: r}
		for _, i := range q.local[r.ID] {
			free := i.freeFor(b.task)
			if free > 0 && i.takes(b.task) && b.suits(r, i.name, i.labels) && i.has(b.need.Engine) {
				of.instances = append(of.instances, i)
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
func (q *Queue) assigned(l *lineup, e *entry) (some []*suited, n int) {
	f := q.fleets[e.org]
	for _, of := range l.suits {
		if len(of.instances) > 0 && (e.task || q.room(of.runner) > 0 && f.Rights.Assigned(of.runner, e.place)) {
			some = append(some, of)
			n += len(of.instances)
		}
	}
	return some, n
}

// round goes through Instances once, from the one at start on.
func round(all []*suited, start int) iter.Seq2[*suited, *Instance] {
	return func(yield func(*suited, *Instance) bool) {
		skip := start
		for _, of := range all {
			from := min(skip, len(of.instances))
			skip -= from
			for _, i := range of.instances[from:] {
				if !yield(of, i) {
					return
				}
			}
		}
		for _, of := range all {
			to := min(start, len(of.instances))
			start -= to
			for _, i := range of.instances[:to] {
				if !yield(of, i) {
					return
				}
			}
		}
	}
}

// offer asks Instances for one Job, if it can run now, and tells how many.
func (q *Queue) offer(l *lineup, e *entry, now time.Time) int {
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
	selection := q.fleets[e.org].Runners[candidates[0].RunnerID].Selection
	if e.part {
		selection = catalog.LeastLoaded
	}
	chosen := work.Select(selection, candidates, rand.IntN)
	o := &offer{lane: e.lane, attempt: e.attempt + 1, at: now, until: now.Add(q.offerTime), to: map[*Instance]bool{}}
	for _, c := range chosen {
		i := at[c.InstanceID]
		o.to[i] = true
		i.offered[e.id] = true
		i.send(&wire.Offer{Ref: wire.Ref{Job: e.id, Attempt: o.attempt}, Engine: string(e.bucket.need.Engine), Module: e.module})
	}
	q.offers[e.id], q.asked[e.lane] = o, true
	for runner := range o.runners() {
		if !e.task {
			q.rooms[runner]--
		}
	}
	q.made.Add(int64(len(chosen)))
	return len(chosen)
}

// candidates gives some of n Instances that have a place and did not refuse the Job, beginning anywhere; all of them where the one with
// the least to do is wanted.
func (q *Queue) candidates(e *entry, suits []*suited, n int, now time.Time) (candidates []work.Candidate, at map[string]*Instance) {
	at = map[string]*Instance{}
	full := map[*suited]int{}
	for of, i := range round(suits, rand.IntN(n)) {
		if i.freeFor(e.task) <= 0 {
			full[of]++
			continue
		}
		if now.Before(e.refused[i.id].until) {
			continue
		}
		candidates = append(candidates, i.candidate(of.runner))
		at[i.id] = i
		if of.runner.Selection != catalog.LeastLoaded && !e.part && len(candidates) == offersAtOnce {
			break
		}
	}
	for of, n := range full {
		if 2*n >= len(of.instances) {
			of.instances = slices.DeleteFunc(of.instances, func(i *Instance) bool { return i.freeFor(e.task) <= 0 })
		}
	}
	return candidates, at
}
