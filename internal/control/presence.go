package control

import (
	"context"
	"time"

	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// presenceLoop keeps the leases of Jobs and the liveness of Sessions in the store, in batches: leases three times in a
// heartbeat's period, Sessions once.
func (c *Control) presenceLoop(ctx context.Context) {
	tick := time.NewTicker(max(c.limits.Heartbeat/3, 10*time.Millisecond))
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := c.renewLeases(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("could not renew leases", "error", err)
		}
		if n%3 == 0 {
			c.keepPresence(ctx, time.Now())
		}
	}
}

// renewLeases writes what was heard of Attempts since the last time. One call waits for another, so that who has returned from it
// knows that all this was written.
func (c *Control) renewLeases(ctx context.Context) error {
	c.renewing.Lock()
	defer c.renewing.Unlock()
	now := time.Now()
	from := map[*session][]store.JobRef{}
	var refs []store.JobRef
	for _, s := range c.sessions.all() {
		if some := s.takeRefs(now); len(some) > 0 {
			from[s] = some
			refs = append(refs, some...)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	err := c.store.Update(ctx, func(tx *store.Tx) error { return tx.RenewLeases(refs, tx.Now().Add(c.limits.Lease)) })
	if err != nil {
		for s, some := range from {
			s.renewLater(some)
		}
	}
	return err
}

// keepPresence notes which Sessions live, sends again what may have got lost, and marks Steps that are silent.
func (c *Control) keepPresence(ctx context.Context, now time.Time) {
	var ids []string
	for _, s := range c.sessions.all() {
		ids = append(ids, s.id)
		if s.busy() {
			c.checkSession(ctx, s)
		}
		c.markSilent(s, now)
	}
	if len(ids) > 0 {
		err := c.store.Update(ctx, func(tx *store.Tx) error { return tx.TouchInstances(ids, tx.Now()) })
		if err != nil && ctx.Err() == nil {
			c.log.Error("could not note which instances live", "error", err)
		}
	}
	c.tails.refreshWatches(now)
}

// busy tells whether an Instance has, or says that it has, Jobs.
func (s *session) busy() bool {
	s.mu.Lock()
	n := len(s.working)
	s.mu.Unlock()
	s.c.queue.mu.Lock()
	defer s.c.queue.mu.Unlock()
	return n > 0 || len(s.active) > 0
}

// checkSession compares a Session with the Jobs that are bound to its Instance in the store: the places they take, what keeps
// them from going on, Steps whose message may have got lost, and Jobs that were given up while their Instance still worked on them.
func (c *Control) checkSession(ctx context.Context, s *session) {
	began := c.order.Load()
	var bound []*work.Job
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		bound, err = tx.BoundJobs(s.org, s.instanceID)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			s.log.Error("could not look at the jobs of an instance", "error", err)
		}
		return
	}
	c.queue.setActive(s, bound, began)
	for _, j := range bound {
		if j.Status == work.Interrupted && s.worksOn(refOf(j)) {
			c.applyLate(ctx, s.org, j.ID, work.Resumed{Attempt: j.Attempt})
			continue
		}
		if text, ok := s.notice(refOf(j)); ok && text != j.Notice {
			c.applyLate(ctx, s.org, j.ID, work.Noticed{Attempt: j.Attempt, Text: text})
		}
		c.pushJob(s, j)
	}
}

// setActive brings the places that Jobs take in line with the store. Jobs that moved since are left alone.
func (q *queue) setActive(s *session, bound []*work.Job, began uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	holds := map[string]int{}
	for _, j := range bound {
		if j.HoldsSlot() {
			holds[j.ID] = j.Attempt
		}
	}
	freed := false
	for id := range s.active {
		if _, ok := holds[id]; !ok && q.seen[id].order <= began {
			freed = s.release(id) || freed
		}
	}
	for id, attempt := range holds {
		if q.seen[id].order <= began {
			s.active[id] = attempt
		}
	}
	if freed {
		q.wake()
	}
}

// SilenceEvent is the data of the event "job.silent": a Step lives and prints nothing.
type SilenceEvent struct {
	Number  int64     `json:"number,omitempty"`
	Attempt int       `json:"attempt"`
	Since   time.Time `json:"since"`
}

// markSilent notes the Attempts that have printed nothing for half of the time after which their Runner cancels them.
func (c *Control) markSilent(s *session, now time.Time) {
	s.mu.Lock()
	silent := map[wire.Ref]time.Time{}
	for ref := range s.working {
		l := s.lanes[ref]
		if l == nil || l.running {
			continue
		}
		if since := l.printed; now.Sub(since) > c.limits.Stall/2 && !l.silent {
			l.silent = true
			silent[ref] = since
		}
	}
	s.mu.Unlock()
	for ref, since := range silent {
		err := c.store.Update(c.alive, func(tx *store.Tx) error {
			return c.publish(tx, s.org, "job.silent", ref.Job, SilenceEvent{Attempt: ref.Attempt, Since: since.UTC()})
		})
		if err != nil {
			s.log.Warn("could not note that a job is silent", "job_id", ref.Job, "error", err)
			return
		}
		c.signal(s.org)
	}
}

// tell has an Instance drain or take Jobs again, as an operator wants. s may be nil.
func (q *queue) tell(s *session, drain bool) {
	if s == nil {
		return
	}
	q.mu.Lock()
	s.told, s.draining = drain, drain
	q.mu.Unlock()
	s.send(&wire.Drain{Resume: !drain})
	q.wake()
}
