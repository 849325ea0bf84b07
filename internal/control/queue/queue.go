// Package queue is one Server's picture of what waits and of who could take it, and the matching of the two.
//
// Jobs come in with the transitions that this Server stores (Observe), with hints of other Servers (Elsewhere) and with a look at the
// store (Resync). Instances come in when their Sessions begin (Instance.Connect), and say what they have room for. A pass offers what
// waits to who can take it, in the order of work.Rank; who accepts first may claim (Instance.Accept), and says how that went (Settle).
// Whether the claim holds is decided in the store: what is wrong in the picture costs an Offer in vain.
//
// The queue also tells why a Job waits, and what is wanted that is not there: for hosted Runners (Hostable), for webhooks (Wanted) and for
// autoscalers (WaitingFor). Everything else, and every write, is its Host's.
package queue

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"legwork/internal/work"
)

// Queue is safe for concurrent use.
type Queue struct {
	host      Host
	log       *slog.Logger
	offerTime time.Duration
	kick      chan struct{} // holds one
	stopped   atomic.Bool
	made      atomic.Int64 // Offers

	mu      sync.Mutex
	entries map[string]*entry            // by Job
	unread  map[string]*entry            // those whose details are not loaded
	backlog backlog                      // those, and some that were among them, the first in rank on top
	unsure  map[string]*entry            // those whose upstream outputs are to be looked at
	buckets map[string]*bucket           // by what the Jobs need
	blocked map[string]map[string]*entry // "organization/module path" -> those that wait for an output of it
	offers  map[string]*offer            // by Job
	asked   map[string]bool              // lanes of which a Job is offered, in this pass
	busy    map[string]holder            // by lane, which is the Module where there is one
	seen    map[string]sighting          // by Job
	local   map[string][]*Instance       // by Runner
	fleets  map[string]*Fleet            // by Organization
	shares  map[string]*share            // by Runner, of those whose record bounds its Jobs
	rooms   map[string]int               // what is left of those bounds in this pass, by Runner
	expiry  *time.Timer                  // of the oldest Offer; nil when none is awaited

	redeclared uint64 // rises when records of Runners have changed
}

// holder is the Job that holds a lane.
type holder struct {
	jobID  string
	number int64
}

// sighting is the newest transition of a Job that Observe has seen.
type sighting struct {
	order uint64
	at    time.Time
}

// New makes an empty Queue. offerTime is how long an Offer stands that nobody answers.
func New(host Host, log *slog.Logger, offerTime time.Duration) *Queue {
	return &Queue{
		host: host, log: log, offerTime: offerTime, kick: make(chan struct{}, 1),
		entries: map[string]*entry{}, unread: map[string]*entry{}, unsure: map[string]*entry{}, buckets: map[string]*bucket{}, blocked: map[string]map[string]*entry{},
		offers: map[string]*offer{}, busy: map[string]holder{}, seen: map[string]sighting{},
		local: map[string][]*Instance{}, fleets: map[string]*Fleet{}, shares: map[string]*share{}, rooms: map[string]int{},
	}
}

// Run makes a pass whenever something changed, until ctx ends.
func (q *Queue) Run(ctx context.Context) {
	for {
		select {
		case <-q.kick:
			q.Pass(ctx, time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// Wake asks for a pass. Many wakes that meet are one.
func (q *Queue) Wake() {
	select {
	case q.kick <- struct{}{}:
	default:
	}
}

// Stop has no Offer made any more.
func (q *Queue) Stop() { q.stopped.Store(true) }

// Size is how many Jobs wait.
func (q *Queue) Size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries)
}

// Offers is how many were made, to whomever.
func (q *Queue) Offers() int64 { return q.made.Load() }

// Pass offers what waits to whom can take it: the oldest Job first, and one that cannot run holds up no other. One goroutine at a time
// calls it.
func (q *Queue) Pass(ctx context.Context, now time.Time) {
	if q.stopped.Load() {
		return
	}
	if err := q.prepare(ctx, now); err != nil {
		if ctx.Err() == nil {
			q.log.Error("could not read what waits", "error", err)
		}
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expire(now)
	q.match(now)
	q.awaitExpiry(now)
}

// Tick does what is due once in a while: it has the reasons stored why Jobs wait, forgets what can no longer be overtaken, and asks for a
// pass.
func (q *Queue) Tick(ctx context.Context, now time.Time) {
	q.forgetSightings(now)
	q.explain(ctx, now)
	q.Wake()
}

// Observe takes a stored transition into the picture, after its commit. One that is older than what was seen of the Job says nothing.
func (q *Queue) Observe(t Transition) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j := t.Job
	if q.seen[j.ID].order >= t.Order {
		return
	}
	q.seen[j.ID] = sighting{t.Order, time.Now()}
	freed := q.slots(t)
	if j.Status.Bound() {
		q.busy[j.LaneID()] = holder{j.ID, j.Number}
	} else if q.busy[j.LaneID()].jobID == j.ID {
		delete(q.busy, j.LaneID())
		freed = true
	}
	if j.Status.Terminal() && q.unblock(j.OrganizationID+"/"+j.Module) {
		freed = true
	}
	if j.Offerable() {
		q.add(j, t.Snapshot)
		_, onlyWait := t.Event.(work.WaitChanged)
		freed = freed || !onlyWait
	} else {
		q.remove(j.ID)
	}
	if freed {
		q.Wake()
	}
}

// slots keeps the places that the Job takes at Instances connected here. It tells whether one became free. Those at others are
// for the store to say.
func (q *Queue) slots(t Transition) (freed bool) {
	for _, j := range []*work.Job{t.Before, t.Job} {
		if j != nil && j.Binding != nil && q.host.Instance(j.Binding.InstanceID) == nil {
			freed = q.recount(j.Binding.RunnerID) || freed
		}
	}
	if t.Before != nil && t.Before.Binding != nil {
		freed = q.host.Instance(t.Before.Binding.InstanceID).release(t.Job.ID) || freed
	}
	if t.Job.HoldsSlot() && t.Job.Binding != nil {
		if i := q.host.Instance(t.Job.Binding.InstanceID); i != nil {
			i.active[t.Job.ID] = t.Job.Attempt
			return false
		}
	}
	return freed
}

// Elsewhere takes what another Server said into the picture, carefully: hints come late and out of order.
func (q *Queue) Elsewhere(h Hint) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.recount(h.RunnerID)
	switch {
	case h.Status == work.Queued && !h.Idle:
		if q.entries[h.JobID] == nil {
			q.enter(&entry{id: h.JobID, org: h.OrganizationID, module: h.Module, moduleID: h.ModuleID, lane: h.Lane, added: time.Now(),
				rank: work.Rank{At: h.RankedAt, Number: h.Number, ID: h.JobID}})
		}
		if q.busy[h.Lane].jobID == h.JobID {
			delete(q.busy, h.Lane)
		}
	case h.Status.Bound():
		q.remove(h.JobID)
		q.busy[h.Lane] = holder{h.JobID, h.Number}
		return
	default:
		q.remove(h.JobID)
		if q.busy[h.Lane].jobID == h.JobID {
			delete(q.busy, h.Lane)
		}
		q.unblock(h.OrganizationID + "/" + h.Module)
	}
	q.Wake()
}

// Holds notes which Job holds a lane; nil for none.
func (q *Queue) Holds(lane string, j *work.Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j == nil {
		delete(q.busy, lane)
	} else {
		q.busy[lane] = holder{j.ID, j.Number}
	}
	q.Wake()
}

// Forget drops a Job that is not there any more.
func (q *Queue) Forget(jobID string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(jobID)
}
