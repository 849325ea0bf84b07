package control

import (
	"container/heap"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// queue is what this Server knows of the Jobs that wait and of the Instances that are connected here. It is a
// picture of the store that is kept up by transitions (observe) and hints, and made good by resync: what is wrong in it
// costs an Offer in vain, because a claim is decided in the store.
type queue struct {
	c    *Control
	kick chan struct{} // holds one

	mu      sync.Mutex
	entries map[string]*entry            // by Job
	unread  map[string]*entry            // those whose details are not loaded
	backlog backlog                      // those, and some that were among them, the first in rank on top
	unsure  map[string]*entry            // those whose upstream outputs are to be looked at
	buckets map[string]*bucket           // by what the Jobs need
	blocked map[string]map[string]*entry // "organization/module path" -> those that wait for an output of it
	offers  map[string]*offer            // by Job
	asked   map[string]bool              // lanes of which a Job is offered, in this pass
	busy    map[string]busyModule        // by lane, which is the Module where there is one
	seen    map[string]sighting          // by Job
	local   map[string][]*session        // by Runner
	fleets  map[string]*fleet            // by Organization
	shares  map[string]*share            // by Runner, of those whose record bounds its Jobs
	rooms   map[string]int               // what is left of those bounds in this pass, by Runner
	expiry  *time.Timer                  // of the oldest Offer; nil when none is awaited

	redeclared uint64 // rises when records of Runners have changed
}

// entry is one Job that waits.
type entry struct {
	id, org, module string // module is the path
	moduleID        string
	lane            string // of which one Job is bound at a time
	part            bool   // of a Runbook Job
	task            bool   // a Runner Job: it takes no place and needs no Assignment
	rank            work.Rank
	attempt         int       // of the last Binding
	wait            work.Wait // as it is stored
	added           time.Time // to this picture
	queuedAt        time.Time // zero: not known yet

	loaded    bool           // the fields below are set
	place     catalog.Module // identity alone: what Assigned looks at
	upstreams bool           // some Input takes an output
	ready     bool           // every output that it takes is there
	waitsFor  string         // path of the Module whose output is missing
	bucket    *bucket
	refused   map[string]refusal // by Instance
}

// refusal is an Instance's No to a Job, for a while.
type refusal struct {
	until  time.Time
	reason string
}

// bucket holds the Jobs with the same needs, by rank.
type bucket struct {
	key      string
	org      string
	runnerID string            // the Runner that the Modules name; empty for any that matches
	labels   map[string]string // without runnerID
	need     work.Need
	task     bool // Runner Jobs: runnerID is empty where need.Runner is to be looked up
	entries  []*entry
}

// offer is a Job that Instances were asked about.
type offer struct {
	lane     string // of the Job
	attempt  int
	at       time.Time
	until    time.Time
	to       map[*session]bool
	claiming bool
	by       *session // that claims
}

// busyModule is the Job that holds a Module.
type busyModule struct {
	jobID  string
	number int64
}

// sighting is the newest transition of a Job that observe has seen.
type sighting struct {
	order uint64
	at    time.Time
}

func newQueue(c *Control) *queue {
	return &queue{
		c: c, kick: make(chan struct{}, 1),
		entries: map[string]*entry{}, unread: map[string]*entry{}, unsure: map[string]*entry{}, buckets: map[string]*bucket{}, blocked: map[string]map[string]*entry{},
		offers: map[string]*offer{}, busy: map[string]busyModule{}, seen: map[string]sighting{},
		local: map[string][]*session{}, fleets: map[string]*fleet{}, shares: map[string]*share{}, rooms: map[string]int{},
	}
}

// wake has the dispatcher look again. Many wakes that meet are one.
func (q *queue) wake() {
	select {
	case q.kick <- struct{}{}:
	default:
	}
}

// size is how many Jobs wait.
func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries)
}

// observe takes a stored transition into the picture.
func (q *queue) observe(m moved) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j := m.job
	if q.seen[j.ID].order >= m.order {
		return
	}
	q.seen[j.ID] = sighting{m.order, time.Now()}
	freed := q.slots(m)
	if j.Status.Bound() {
		q.busy[j.LaneID()] = busyModule{j.ID, j.Number}
	} else if q.busy[j.LaneID()].jobID == j.ID {
		delete(q.busy, j.LaneID())
		freed = true
	}
	if j.Status.Terminal() && q.unblock(j.OrganizationID+"/"+j.Module) {
		freed = true
	}
	if j.Offerable() {
		q.add(j, m.snapshot)
		_, onlyWait := m.event.(work.WaitChanged)
		freed = freed || !onlyWait
	} else {
		q.remove(j.ID)
	}
	if freed {
		q.wake()
	}
}

// slots keeps the places that the Job takes at Instances connected here. It tells whether one became free. Those at others are
// for the store to say.
func (q *queue) slots(m moved) (freed bool) {
	for _, j := range []*work.Job{m.before, m.job} {
		if j != nil && j.Binding != nil && q.c.sessions.ofInstance(j.Binding.InstanceID) == nil {
			freed = q.recount(j.Binding.RunnerID) || freed
		}
	}
	if m.before != nil && m.before.Binding != nil {
		freed = q.c.sessions.ofInstance(m.before.Binding.InstanceID).release(m.job.ID) || freed
	}
	if m.job.HoldsSlot() {
		if s := q.c.sessions.ofInstance(instanceOf(m.job)); s != nil {
			s.active[m.job.ID] = m.job.Attempt
			return false
		}
	}
	return freed
}

// add puts a queued Job in, or renews what is known of it.
func (q *queue) add(j *work.Job, snapshot *store.JobSnapshot) {
	e := q.entries[j.ID]
	if e == nil {
		e = &entry{id: j.ID, org: j.OrganizationID, module: j.Module, moduleID: j.ModuleID, lane: j.LaneID(), rank: j.Rank(), added: time.Now()}
		e.place = catalog.Module{StackID: j.StackID}
		q.enter(e)
	}
	if e.part, e.task = j.IsPart(), j.Kind == work.RunnerJob; e.module == "" {
		e.module = j.Runbook
	}
	e.attempt, e.wait, e.queuedAt = j.Attempt, j.Wait, j.QueuedAt
	if snapshot != nil && !e.loaded {
		q.describe(e, *snapshot)
	}
}

// enter puts in a Job of which no details are known.
func (q *queue) enter(e *entry) {
	q.entries[e.id], q.unread[e.id] = e, e
	heap.Push(&q.backlog, e)
}

// describe fills in what a Job needs and puts it into the bucket of its like.
func (q *queue) describe(e *entry, s store.JobSnapshot) {
	m := s.Module
	delete(q.unread, e.id)
	e.loaded = true
	e.place.ID, e.place.OrganizationID, e.place.NamespaceID = e.moduleID, e.org, s.NamespaceID
	if e.upstreams = len(catalog.Upstreams(m)) > 0; e.upstreams {
		q.unsure[e.id] = e
	}
	b := &bucket{org: e.org, runnerID: s.RunnerID, labels: m.RunnerLabels, task: e.task,
		need: work.Need{Runner: m.Runner, Engine: m.Engine, Instance: m.RunnerInstanceName}}
	b.key = b.name()
	if known := q.buckets[b.key]; known != nil {
		b = known
	} else {
		q.buckets[b.key] = b
	}
	e.bucket = b
	at, _ := slices.BinarySearchFunc(b.entries, e, older)
	b.entries = slices.Insert(b.entries, at, e)
}

// older orders entries as their Jobs stand in line.
func older(a, b *entry) int { return a.rank.Compare(b.rank) }

// backlog is a heap of entries by rank.
type backlog []*entry

func (b backlog) Len() int           { return len(b) }
func (b backlog) Less(i, j int) bool { return older(b[i], b[j]) < 0 }
func (b backlog) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *backlog) Push(x any)        { *b = append(*b, x.(*entry)) }
func (b *backlog) Pop() any {
	n := len(*b) - 1
	last := (*b)[n]
	(*b)[n], *b = nil, (*b)[:n]
	return last
}

// firstUnread takes those out of the backlog that come first in rank. Who cannot load them puts them back.
func (q *queue) firstUnread(limit int) []*entry {
	var first []*entry
	for len(q.backlog) > 0 && len(first) < limit {
		if e := heap.Pop(&q.backlog).(*entry); q.unread[e.id] == e {
			first = append(first, e)
		}
	}
	return first
}

func (b *bucket) name() string {
	var s strings.Builder
	for _, part := range []string{b.org, b.runnerID, b.need.Runner, string(b.need.Engine), b.need.Instance, strconv.FormatBool(b.task)} {
		s.WriteString(part)
		s.WriteByte(0)
	}
	for _, k := range slices.Sorted(maps.Keys(b.labels)) {
		s.WriteString(k + "\x01" + b.labels[k] + "\x00")
	}
	return s.String()
}

// remove forgets a Job that waits no more, with the Offers of it that nobody is claiming.
func (q *queue) remove(id string) {
	e := q.entries[id]
	if e == nil {
		return
	}
	delete(q.entries, id)
	delete(q.unread, id)
	delete(q.unsure, id)
	q.unwait(e)
	if b := e.bucket; b != nil {
		if at, ok := slices.BinarySearchFunc(b.entries, e, older); ok {
			b.entries = slices.Delete(b.entries, at, at+1)
		}
		if len(b.entries) == 0 {
			delete(q.buckets, b.key)
		}
	}
	if o := q.offers[id]; o != nil && !o.claiming {
		q.withdraw(id, o, nil)
	}
}

// block notes that a Job waits for an output of a Module.
func (q *queue) block(e *entry, path string) {
	q.unwait(e)
	e.waitsFor = path
	key := e.org + "/" + path
	if q.blocked[key] == nil {
		q.blocked[key] = map[string]*entry{}
	}
	q.blocked[key][e.id] = e
}

func (q *queue) unwait(e *entry) {
	if e.waitsFor == "" {
		return
	}
	key := e.org + "/" + e.waitsFor
	delete(q.blocked[key], e.id)
	if len(q.blocked[key]) == 0 {
		delete(q.blocked, key)
	}
	e.waitsFor = ""
}

// unblock has those that wait for a Module looked at again.
func (q *queue) unblock(key string) bool {
	waiting := q.blocked[key]
	for _, e := range maps.Clone(waiting) {
		q.unwait(e)
		q.unsure[e.id] = e
	}
	return len(waiting) > 0
}

// connect takes an Instance in, disconnect takes it out.
func (q *queue) connect(s *session) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.local[s.runnerID] = append(q.local[s.runnerID], s)
	s.idleSince = time.Now()
	q.recount(s.runnerID)
	q.wake()
}

func (q *queue) disconnect(s *session) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.local[s.runnerID] = slices.DeleteFunc(q.local[s.runnerID], func(o *session) bool { return o == s })
	if len(q.local[s.runnerID]) == 0 {
		delete(q.local, s.runnerID)
	}
	q.recount(s.runnerID)
	for id := range s.offered {
		if o := q.offers[id]; o != nil && !o.claiming {
			delete(o.to, s)
			if len(o.to) == 0 {
				delete(q.offers, id)
			}
		}
	}
	q.wake()
}

// accept tells whether an Instance may claim the Job that it was offered. The one who asks must settle it.
func (q *queue) accept(s *session, ref wire.Ref) (at time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.offers[ref.Job]
	if o == nil || o.attempt != ref.Attempt || !o.to[s] || o.claiming || s.draining {
		return time.Time{}, false
	}
	o.claiming, o.by = true, s
	s.claims++
	return o.at, true
}

// settle ends a claim: everyone but the winner is told that the Job is gone.
func (q *queue) settle(id string, winner *session) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if o := q.offers[id]; o != nil {
		q.withdraw(id, o, winner)
		if o.by != nil {
			o.by.claims--
			o.by.acknowledge()
		}
	}
}

// refuse notes that an Instance does not want a Job that it was offered, for a while. Others have nothing to say about the Job.
func (q *queue) refuse(s *session, ref wire.Ref, reason string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.offers[ref.Job]
	if o == nil || o.attempt != ref.Attempt || !o.to[s] {
		return
	}
	if e := q.entries[ref.Job]; e != nil {
		if e.refused == nil {
			e.refused = map[string]refusal{}
		}
		e.refused[s.instanceID] = refusal{time.Now().Add(refusalTime), reason}
		time.AfterFunc(refusalTime, q.wake)
	}
	if o.claiming {
		return
	}
	delete(o.to, s)
	delete(s.offered, ref.Job)
	if len(o.to) == 0 {
		delete(q.offers, ref.Job)
	}
	q.wake()
}

// withdraw takes an Offer back from all but the winner.
func (q *queue) withdraw(id string, o *offer, winner *session) {
	delete(q.offers, id)
	for s := range o.to {
		delete(s.offered, id)
		if s != winner {
			s.send(&wire.Withdrawn{Ref: wire.Ref{Job: id, Attempt: o.attempt}})
		}
	}
	q.wake()
}

// expire takes back the Offers that nobody answered.
func (q *queue) expire(now time.Time) {
	for id, o := range q.offers {
		if !o.claiming && !now.Before(o.until) {
			q.withdraw(id, o, nil)
		}
	}
}

// forgetSightings drops what can no longer be overtaken.
func (q *queue) forgetSightings(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, s := range q.seen {
		if now.Sub(s.at) > time.Minute {
			delete(q.seen, id)
		}
	}
}
