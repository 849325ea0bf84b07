package queue

import (
	"time"

	"legwork/internal/wire"
)

// refusalTime is how long an Instance is not asked again for a Job that it refused.
const refusalTime = 5 * time.Second

// offer is a Job that Instances were asked about.
type offer struct {
	lane     string // of the Job
	attempt  int
	at       time.Time
	until    time.Time
	to       map[*Instance]bool
	claiming bool
	by       *Instance // that claims
}

// runners gives the Runners whose Instances an Offer went to.
func (o *offer) runners() map[string]bool {
	of := map[string]bool{}
	for i := range o.to {
		of[i.runnerID] = true
	}
	return of
}

// Accept tells whether the Instance may claim the Job that it was offered. Who asks must settle it: see Settle.
func (i *Instance) Accept(ref wire.Ref) (at time.Time, ok bool) {
	q := i.q
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.offers[ref.Job]
	if o == nil || o.attempt != ref.Attempt || !o.to[i] || o.claiming || i.draining {
		return time.Time{}, false
	}
	o.claiming, o.by = true, i
	i.claims++
	return o.at, true
}

// Settle ends a claim, won by an Instance or, with nil, by none: everyone but the winner is told that the Job is gone.
func (q *Queue) Settle(jobID string, winner *Instance) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if o := q.offers[jobID]; o != nil {
		q.withdraw(jobID, o, winner)
		if o.by != nil {
			o.by.claims--
			o.by.acknowledge()
		}
	}
}

// Refuse notes that the Instance does not want a Job that it was offered, for a while. Others have nothing to say about the Job.
func (i *Instance) Refuse(ref wire.Ref, reason string) {
	q := i.q
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.offers[ref.Job]
	if o == nil || o.attempt != ref.Attempt || !o.to[i] {
		return
	}
	if e := q.entries[ref.Job]; e != nil {
		if e.refused == nil {
			e.refused = map[string]refusal{}
		}
		e.refused[i.id] = refusal{time.Now().Add(refusalTime), reason}
		time.AfterFunc(refusalTime, q.Wake)
	}
	if o.claiming {
		return
	}
	delete(o.to, i)
	delete(i.offered, ref.Job)
	if len(o.to) == 0 {
		delete(q.offers, ref.Job)
	}
	q.Wake()
}

// withdraw takes an Offer back from all but the winner.
func (q *Queue) withdraw(id string, o *offer, winner *Instance) {
	delete(q.offers, id)
	for i := range o.to {
		delete(i.offered, id)
		if i != winner {
			i.send(&wire.Withdrawn{Ref: wire.Ref{Job: id, Attempt: o.attempt}})
		}
	}
	q.Wake()
}

// expire takes back the Offers that nobody answered.
func (q *Queue) expire(now time.Time) {
	for id, o := range q.offers {
		if !o.claiming && !now.Before(o.until) {
			q.withdraw(id, o, nil)
		}
	}
}

// awaitExpiry has the queue look again when the oldest Offer has stood long enough.
func (q *Queue) awaitExpiry(now time.Time) {
	if len(q.offers) == 0 || q.expiry != nil {
		return
	}
	first := now.Add(q.offerTime)
	for _, o := range q.offers {
		if o.until.Before(first) {
			first = o.until
		}
	}
	q.expiry = time.AfterFunc(first.Sub(now), func() {
		q.mu.Lock()
		q.expiry = nil
		q.mu.Unlock()
		q.Wake()
	})
}
