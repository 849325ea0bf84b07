package queue

import (
	"maps"
	"slices"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// Profile is what an Instance says of itself when it comes.
type Profile struct {
	ID, Name string // of its record
	RunnerID string
	Engines  map[string]string // with their versions
	Labels   map[string]string // its own, beside those of its Runner
	Capacity int               // Jobs that it takes at once
	Leaving  bool              // its process ends when its Jobs are over
	// Unavailable is why it took no new jobs when it was last connected.
	Unavailable string
}

// Instance is what the queue keeps of an Instance that is connected to this Server.
type Instance struct {
	q    *Queue
	send func(wire.Message)

	id, name, runnerID string
	engines, labels    map[string]string

	// Guarded by the queue's mutex.
	capacity  int
	active    map[string]int  // Attempts that take a place, by Job
	offered   map[string]bool // Jobs
	draining  bool            // it gets no Offer: told or leaving
	told      bool            // an operator had it drain
	tellings  uint64          // how often told was set
	leaving   bool            // its process ends when its Jobs are over
	claims    int             // of it that are under way
	ackDue    bool            // it is to be told that no further Job comes, once claims is 0
	hidden    int             // places that are taken there by what the Server gave up, as the last Heartbeat said
	idleSince time.Time

	unavailable string // why it takes no new jobs for now, as its last heartbeat said
}

// NewInstance makes the record of an Instance, which gets no Offer before it is connected. send queues a message to it: it returns at once, and
// asks nothing of the queue.
func (q *Queue) NewInstance(p Profile, send func(wire.Message)) *Instance {
	return &Instance{
		q: q, send: send, id: p.ID, name: p.Name, runnerID: p.RunnerID, engines: p.Engines, labels: p.Labels,
		capacity: p.Capacity, draining: p.Leaving, leaving: p.Leaving, unavailable: p.Unavailable,
		active: map[string]int{}, offered: map[string]bool{},
	}
}

// Connect has the Instance asked for Jobs from here on, until Disconnect.
func (i *Instance) Connect() {
	q := i.q
	q.mu.Lock()
	defer q.mu.Unlock()
	q.local[i.runnerID] = append(q.local[i.runnerID], i)
	i.idleSince = time.Now()
	q.recount(i.runnerID)
	q.Wake()
}

// Disconnect takes the Instance out, with the Offers that stand with it.
func (i *Instance) Disconnect() {
	q := i.q
	q.mu.Lock()
	defer q.mu.Unlock()
	q.local[i.runnerID] = slices.DeleteFunc(q.local[i.runnerID], func(o *Instance) bool { return o == i })
	if len(q.local[i.runnerID]) == 0 {
		delete(q.local, i.runnerID)
	}
	q.recount(i.runnerID)
	for id := range i.offered {
		if o := q.offers[id]; o != nil && !o.claiming {
			delete(o.to, i)
			if len(o.to) == 0 {
				delete(q.offers, id)
			}
		}
	}
	q.Wake()
}

// Heartbeat notes how much room the Instance says it has. It tells whether the Instance drains by itself and this is news: see Leave.
func (i *Instance) Heartbeat(m *wire.Heartbeat) (leaves bool) {
	q := i.q
	q.mu.Lock()
	defer q.mu.Unlock()
	hidden := max(0, m.Active-len(i.active)-len(i.offered))
	capacity := i.capacity
	if m.Capacity > 0 {
		capacity = m.Capacity
	}
	if hidden < i.hidden || capacity > i.capacity {
		q.Wake()
	}
	i.hidden, i.capacity = hidden, capacity
	return m.Draining && !i.leaving
}

// SetUnavailable records why the instance takes no new jobs for now; reason is empty when it takes jobs. It reports whether
// the reason changed.
func (i *Instance) SetUnavailable(reason string) (changed bool) {
	q := i.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if i.unavailable == reason {
		return false
	}
	i.unavailable = reason
	q.Wake()
	return true
}

// takes reports whether the instance takes new jobs. It takes those of launchers and updates (task) also while it is unavailable.
func (i *Instance) takes(task bool) bool {
	return !i.draining && (task || i.unavailable == "")
}

// SetActive brings the places that Jobs take in line with the store: bound are those that are bound to the Instance. Jobs that moved since
// the transition began are left alone.
func (i *Instance) SetActive(bound []*work.Job, began uint64) {
	q := i.q
	q.mu.Lock()
	defer q.mu.Unlock()
	holds := map[string]int{}
	for _, j := range bound {
		if j.HoldsSlot() {
			holds[j.ID] = j.Attempt
		}
	}
	freed := false
	for id := range i.active {
		if _, ok := holds[id]; !ok && q.seen[id].order <= began {
			freed = i.release(id) || freed
		}
	}
	for id, attempt := range holds {
		if q.seen[id].order <= began {
			i.active[id] = attempt
		}
	}
	if freed {
		q.Wake()
	}
}

// Held gives the Attempts that take a place at the Instance, by Job.
func (i *Instance) Held() map[string]int {
	i.q.mu.Lock()
	defer i.q.mu.Unlock()
	return maps.Clone(i.active)
}

// Recount has the places of the Instance's Runner counted in the store anew before the next pass.
func (i *Instance) Recount() {
	i.q.mu.Lock()
	defer i.q.mu.Unlock()
	i.q.recount(i.runnerID)
}

// State is how an Instance stands.
type State struct {
	Active   int  // Jobs that take a place
	Hidden   int  // places beyond those that are taken there, as it says
	Capacity int  //
	Told     bool // an operator had it drain
	Leaving  bool // its process ends when its Jobs are over
	// Unavailable is why it takes no new jobs for now, from its last heartbeat.
	Unavailable string
}

// State tells how the Instance stands.
func (i *Instance) State() State {
	i.q.mu.Lock()
	defer i.q.mu.Unlock()
	return State{Active: len(i.active), Hidden: i.hidden, Capacity: i.capacity, Told: i.told, Leaving: i.leaving,
		Unavailable: i.unavailable}
}

// jobs counts the Jobs that it has, and those that it is asked about, which may come.
func (i *Instance) jobs() int { return len(i.active) + len(i.offered) }

// free gives the places left of its own. Its Runner's record may leave fewer: see Queue.room.
func (i *Instance) free() int { return i.capacity - i.jobs() - i.hidden }

// freeFor is free for Jobs that take a place, and always one for a Runner Job, which takes none.
func (i *Instance) freeFor(task bool) int {
	if task {
		return 1
	}
	return i.free()
}

func (i *Instance) has(engine catalog.Engine) bool {
	_, ok := i.engines[string(engine)]
	return ok || engine == ""
}

// release gives a place back. It may be called on nil.
func (i *Instance) release(jobID string) bool {
	if i == nil {
		return false
	}
	if _, ok := i.active[jobID]; !ok {
		return false
	}
	delete(i.active, jobID)
	i.idleSince = time.Now()
	return true
}

func (i *Instance) candidate(r catalog.Runner) work.Candidate {
	return work.Candidate{
		RunnerID: r.ID, Runner: r.Name, InstanceID: i.id, Instance: i.name,
		Disabled: r.IsDisabled, Online: true, Draining: i.draining, Unavailable: i.unavailable,
		Full: i.q.room(r) <= 0, Free: i.free(), Active: i.jobs(), IdleSince: i.idleSince, Engines: i.engines,
	}
}

// Idle tells since when the Instances of a Runner that are connected here have no Job, by name.
func (q *Queue) Idle(runnerID string) map[string]time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	idle := map[string]time.Time{}
	for _, i := range q.local[runnerID] {
		if i.jobs() == 0 {
			idle[i.name] = i.idleSince.UTC()
		}
	}
	return idle
}
