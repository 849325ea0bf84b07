package control

import (
	"context"
	"time"

	"legwork/internal/catalog"
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
		if c.heardAll(reading{up: time.Since(c.born)}) {
			c.markOffline(ctx)
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
	all := c.sessions.all()
	for _, s := range all {
		if s.speaks(now) {
			ids = append(ids, s.id)
		}
		if s.silentFor(now) >= c.limits.Lease && c.heardAll(reading{up: time.Since(c.born)}) {
			s.fail(wire.CloseSilent, wire.CloseSilent.Sentence())
			continue
		}
		if s.busy() {
			c.checkSession(ctx, s, now)
		}
		c.markSilent(s, now)
	}
	c.checkTold(ctx, all)
	if len(ids) > 0 {
		err := c.store.Update(ctx, func(tx *store.Tx) error { return tx.TouchInstances(ids, tx.Now()) })
		if err != nil && ctx.Err() == nil {
			c.log.Error("could not note which instances live", "error", err)
		}
	}
	c.noteLoads(ctx, all)
	c.logs.Refresh(now)
}

// busy tells whether an Instance has, or says that it has, Jobs.
func (s *session) busy() bool {
	s.mu.Lock()
	n := len(s.working)
	s.mu.Unlock()
	return n > 0 || s.known.State().Active > 0
}

// speaks reports whether the instance was heard of recently. The lease is longer, so the jobs of an instance that
// speaks are not lost.
func (s *session) speaks(now time.Time) bool { return now.Sub(s.lastHeard()) < 2*s.c.limits.Heartbeat }

// silentFor returns for how long nothing was heard of the instance. It is 0 while messages wait here to be stored: then
// this server is the slow end.
func (s *session) silentFor(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full || s.waiting > 0 {
		return 0
	}
	return now.Sub(s.lastHeard())
}

// checkSession compares a Session with the Jobs that are bound to its Instance in the store: the places they take, what keeps
// them from going on, Steps whose message may have got lost, and Jobs that were given up while their Instance still worked on them.
// A job that was given up resumes only when its instance was heard of recently.
func (c *Control) checkSession(ctx context.Context, s *session, now time.Time) {
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
	s.known.SetActive(bound, began)
	for _, j := range bound {
		if !s.holds(j) {
			continue
		}
		if j.Status == work.Interrupted && s.worksOn(refOf(j)) && s.speaks(now) {
			c.applyLate(ctx, s.org, j.ID, work.Resumed{Attempt: j.Attempt})
			continue
		}
		if text, ok := s.notice(refOf(j)); ok && text != j.Notice {
			c.applyLate(ctx, s.org, j.ID, work.Noticed{Attempt: j.Attempt, Text: text})
		}
		c.pushJob(s, j)
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
	held := s.known.Held() // what waits for an approval prints nothing, and nobody minds
	s.mu.Lock()
	silent := map[wire.Ref]time.Time{}
	for ref := range s.working {
		l := s.lanes[ref]
		if l == nil || l.running || l.stall <= 0 || held[ref.Job] != ref.Attempt {
			continue
		}
		if since := l.printed; now.Sub(since) > l.stall/2 && !l.silent {
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

// stalls tells whether a Job of the Instance prints nothing.
func (s *session) stalls() bool {
	held := s.known.Held()
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, l := range s.lanes {
		if !l.running && l.silent && s.working[ref] && held[ref.Job] == ref.Attempt {
			return true
		}
	}
	return false
}

// LoadEvent is the data of the event "runner.load", as JSON: how much some Instances of a Runner have to do, where that
// changed.
type LoadEvent struct {
	Runner    string         `json:"runner"` // name
	Instances []InstanceLoad `json:"instances"`
}

// InstanceLoad is the load of one Instance.
type InstanceLoad struct {
	InstanceID string            `json:"instance_id"`
	Instance   string            `json:"instance"` // name
	Load       work.InstanceLoad `json:"load"`
	Active     int               `json:"active"`
	Capacity   int               `json:"capacity"`
}

// noteLoads writes, for all Instances that are connected here at once, which loads changed.
func (c *Control) noteLoads(ctx context.Context, all []*session) {
	type runner struct{ org, id string }
	events := map[runner]*LoadEvent{}
	told := map[*session]work.InstanceLoad{}
	for _, s := range all {
		now := c.loadOf(s)
		if s.load == now.Load {
			continue
		}
		key := runner{s.org, s.runnerID}
		if events[key] == nil {
			events[key] = &LoadEvent{Runner: s.runner}
		}
		events[key].Instances = append(events[key].Instances, now)
		told[s] = now.Load
	}
	if len(told) == 0 {
		return
	}
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		for s, load := range told {
			if stalled := load == work.LoadStalled; stalled != s.stalled {
				if err := tx.MarkStalled(s.id, stalled); err != nil {
					return err
				}
			}
		}
		for r, e := range events {
			if err := c.publish(tx, r.org, "runner.load", r.id, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		if ctx.Err() == nil {
			c.log.Error("could not note how busy instances are", "error", err)
		}
		return
	}
	for s, load := range told {
		s.load, s.stalled = load, load == work.LoadStalled
	}
	orgs := map[string]bool{}
	for r := range events {
		orgs[r.org] = true
	}
	for org := range orgs {
		c.signal(org)
	}
}

func (c *Control) loadOf(s *session) InstanceLoad {
	stalled := s.stalls()
	now := s.known.State()
	p := work.Presence{Active: now.Active + now.Hidden, Capacity: now.Capacity, Stalled: stalled}
	return InstanceLoad{InstanceID: s.instanceID, Instance: s.instance, Load: p.Load(), Active: p.Active, Capacity: p.Capacity}
}

// offlineAtOnce bounds the Instances that are found to be offline in one transaction.
const offlineAtOnce = 200

// markOffline tells followers of Instances of which nothing was heard for too long.
func (c *Control) markOffline(ctx context.Context) {
	orgs := map[string]bool{}
	var unheard bool
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		unheard, err = tx.Unheard(tx.Now().Add(-work.OfflineAfter))
		return err
	})
	if err == nil && !unheard {
		return
	}
	err = c.store.Update(ctx, func(tx *store.Tx) error {
		clear(orgs)
		gone, err := tx.MarkOffline(tx.Now().Add(-work.OfflineAfter), offlineAtOnce)
		for n := 0; n < len(gone) && err == nil; n++ {
			i := gone[n]
			orgs[i.OrganizationID] = true
			var r catalog.Runner
			if r, err = tx.Runner(i.OrganizationID, i.RunnerID); err == nil {
				err = c.publish(tx, i.OrganizationID, "runner.offline", i.RunnerID,
					InstanceEvent{Runner: r.Name, InstanceID: i.ID, Instance: i.Name, Version: i.Version})
			}
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		c.log.Error("could not note which instances are offline", "error", err)
		return
	}
	for org := range orgs {
		c.signal(org)
	}
}
