package queue

import (
	"container/heap"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

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
func (q *Queue) firstUnread(limit int) []*entry {
	var first []*entry
	for len(q.backlog) > 0 && len(first) < limit {
		if e := heap.Pop(&q.backlog).(*entry); q.unread[e.id] == e {
			first = append(first, e)
		}
	}
	return first
}

// add puts a queued Job in, or renews what is known of it.
func (q *Queue) add(j *work.Job, snapshot *store.JobSnapshot) {
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
func (q *Queue) enter(e *entry) {
	q.entries[e.id], q.unread[e.id] = e, e
	heap.Push(&q.backlog, e)
}

// describe fills in what a Job needs and puts it into the bucket of its like.
func (q *Queue) describe(e *entry, s store.JobSnapshot) {
	m := s.Module
	delete(q.unread, e.id)
	e.loaded = true
	e.place.ID, e.place.OrganizationID, e.place.NamespaceID = e.moduleID, e.org, s.NamespaceID
	if e.upstreams = len(catalog.Upstreams(m)) > 0; e.upstreams {
		q.unsure[e.id] = e
	}
	b := &bucket{org: e.org, runnerID: s.RunnerID, labels: m.RunnerLabels, task: e.task,
		need: work.Need{Runner: m.Runner, Engine: m.Engine, Instance: m.RunnerInstanceName, Holder: s.Holder}}
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

func (b *bucket) name() string {
	var s strings.Builder
	for _, part := range []string{b.org, b.runnerID, b.need.Runner, string(b.need.Engine), b.need.Instance,
		b.need.Holder.RunnerID, b.need.Holder.Instance, strconv.FormatBool(b.task)} {
		s.WriteString(part)
		s.WriteByte(0)
	}
	for _, k := range slices.Sorted(maps.Keys(b.labels)) {
		s.WriteString(k + "\x01" + b.labels[k] + "\x00")
	}
	return s.String()
}

// runnersFor gives the Runners that the Jobs of a bucket may go to, were they assigned. Where labels are asked for, each of their
// Instances has to match by itself: see bucket.takes.
func (f *Fleet) runnersFor(b *bucket) []catalog.Runner {
	if b.runnerID != "" {
		if r, ok := f.Runners[b.runnerID]; ok {
			return []catalog.Runner{r}
		}
		return nil
	}
	if b.task {
		for _, r := range f.Runners {
			if r.Name == b.need.Runner && r.ReservedName(r.RunnerSpec) == nil {
				return []catalog.Runner{r}
			}
		}
		return nil
	}
	return slices.Collect(maps.Values(f.Runners))
}

// takes tells whether an Instance with labels of its own suits the Jobs of a bucket.
func (b *bucket) takes(r catalog.Runner, own map[string]string) bool {
	return b.runnerID != "" || b.task || r.Matches(b.labels, own)
}

// suits is takes for an Instance with a name, which is the one that the Jobs ask for, if they do.
func (b *bucket) suits(r catalog.Runner, name string, own map[string]string) bool {
	return (b.need.Instance == "" || b.need.Instance == name) && b.need.Holder.Allows(r.ID, name) && b.takes(r, own)
}

// remove forgets a Job that waits no more, with the Offers of it that nobody is claiming.
func (q *Queue) remove(id string) {
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

// Reload reads again what the queued jobs of a module need, since the instance that holds the state of the module
// has changed.
func (q *Queue) Reload(moduleID string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		if e.moduleID == moduleID && e.loaded {
			q.unload(e)
		}
	}
	q.Wake()
}

// unload forgets what a job needs, so that it is read from the store again.
func (q *Queue) unload(e *entry) {
	q.remove(e.id)
	q.enter(&entry{id: e.id, org: e.org, module: e.module, moduleID: e.moduleID, lane: e.lane, rank: e.rank, added: e.added,
		place: catalog.Module{StackID: e.place.StackID}, refused: e.refused})
}

// block notes that a Job waits for an output of a Module.
func (q *Queue) block(e *entry, path string) {
	q.unwait(e)
	e.waitsFor = path
	key := e.org + "/" + path
	if q.blocked[key] == nil {
		q.blocked[key] = map[string]*entry{}
	}
	q.blocked[key][e.id] = e
}

func (q *Queue) unwait(e *entry) {
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
func (q *Queue) unblock(key string) bool {
	waiting := q.blocked[key]
	for _, e := range maps.Clone(waiting) {
		q.unwait(e)
		q.unsure[e.id] = e
	}
	return len(waiting) > 0
}
