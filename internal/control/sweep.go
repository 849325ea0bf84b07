package control

import (
	"context"
	"time"

	"legwork/internal/store"
	"legwork/internal/work"
)

const (
	sweepPeriod  = time.Second
	serverLease  = 30 * time.Second // how long a Server counts as living without a word
	serverBeat   = 10 * time.Second
	resyncPeriod = 10 * time.Second // how often the queue is compared with the store, at least
	runsPeriod   = 2 * time.Second  // how often it is looked whether a Runbook Job should have gone on, at least
	prunePeriod  = 10 * time.Second // each removes so many at most that nobody waits for it
	dueAtOnce    = 500
)

// jumpMost is how far the clock may go before or behind the time that really passed, in one round, without being taken for
// one that was set anew.
const jumpMost = 3 * time.Second

// reading is what two clocks say at one moment. Leases are kept by the first, because all Servers share it; how long this Server
// has waited is told by the second, because nobody sets it.
type reading struct {
	clock time.Time     // the store's
	up    time.Duration // since this Control was made; it stands still while the machine is suspended
}

// sweeper holds what was done last.
type sweeper struct {
	last                reading
	beat, resync, prune time.Duration
	runs                time.Duration
	resyncTook          time.Duration
	runsTook            time.Duration
}

// sweepLoop finds again, once a second, whatever a lost hint or a dead Server left lying.
func (c *Control) sweepLoop(ctx context.Context) {
	s := sweeper{beat: -serverBeat, resync: -resyncPeriod, prune: -prunePeriod, runs: -runsPeriod}
	tick := time.NewTicker(sweepPeriod)
	defer tick.Stop()
	c.queue.Wake()
	for {
		if now, err := c.store.Now(ctx); err == nil {
			c.sweep(ctx, &s, reading{now, time.Since(c.born)})
		} else if ctx.Err() == nil {
			c.log.Error("sweep failed", "part", "clock", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// sweep is one round. Errors are logged and the next round tries again.
func (c *Control) sweep(ctx context.Context, s *sweeper, now reading) {
	c.noticePause(s, now)
	parts := []struct {
		name string
		last *time.Duration
		each time.Duration
		do   func(context.Context, time.Time) error
	}{
		{"hold", new(time.Duration), 0, func(ctx context.Context, _ time.Time) error { return c.readHold(ctx) }},
		{"server lease", &s.beat, serverBeat, c.beat},
		{"due jobs", new(time.Duration), 0, func(ctx context.Context, at time.Time) error {
			if !c.heardAll(now) {
				return nil
			}
			if err := c.renewLeases(ctx); err != nil { // or who was heard would be taken for lost
				return err
			}
			return c.endDue(ctx, at)
		}},
		{"time limits", new(time.Duration), 0, c.endOverdue},
		{"schedules", new(time.Duration), 0, c.fireDue},
		{"queue", &s.resync, max(resyncPeriod, 20*s.resyncTook), func(ctx context.Context, _ time.Time) error {
			began := time.Now()
			defer func() { s.resyncTook = time.Since(began) }()
			return c.queue.Resync(ctx)
		}},
		{"runbook jobs", &s.runs, max(runsPeriod, 20*s.runsTook), func(ctx context.Context, at time.Time) error {
			began := time.Now()
			defer func() { s.runsTook = time.Since(began) }()
			return c.sweepRuns(ctx, at)
		}},
		{"events", &s.prune, prunePeriod, c.prune},
	}
	for _, p := range parts {
		if now.up-*p.last < p.each {
			continue
		}
		*p.last = now.up
		if err := p.do(ctx, now.clock); err != nil && ctx.Err() == nil {
			c.log.Error("sweep failed", "part", p.name, "error", err)
		}
	}
	c.queue.Tick(ctx, time.Now())
}

// noticePause begins the time over which this Server could hear Instances anew after it was stopped itself, or after the
// clock was set or stood still, as in a suspended machine: the silence of others must not be read off that.
func (c *Control) noticePause(s *sweeper, now reading) {
	last := s.last
	s.last = now
	if last.clock.IsZero() {
		return
	}
	passed := now.up - last.up
	jumped := now.clock.Round(0).Sub(last.clock.Round(0)) - passed
	if passed > c.limits.Lease/2 || jumped.Abs() > jumpMost {
		c.log.Warn("this server was paused or its clock was set", "paused_seconds", passed.Seconds(), "jumped_seconds", jumped.Seconds())
		c.upSince.Store(int64(now.up))
	}
}

// heardAll tells whether this Server was up for long enough, without a pause, for every Instance to have reached it.
func (c *Control) heardAll(now reading) bool {
	return now.up-time.Duration(c.upSince.Load()) >= c.limits.Lease
}

// beat renews this Server's own lease and ends the Sessions of Servers that did not.
func (c *Control) beat(ctx context.Context, now time.Time) error {
	var gone []string
	err := c.store.Update(ctx, func(tx *store.Tx) (err error) {
		if err := tx.BeatServer(c.server, now.Add(serverLease)); err != nil {
			return err
		}
		gone, err = tx.EndDeadServers(now)
		return err
	})
	if len(gone) > 0 {
		c.log.Warn("sessions of a dead server ended", "runners", len(gone))
	}
	return err
}

// endDue ends what waited too long: leases, recovery windows, approvals. What cannot be ended now holds up nothing else.
func (c *Control) endDue(ctx context.Context, now time.Time) error {
	var due []*work.Job
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		due, err = tx.DueJobs(now, dueAtOnce)
		return err
	})
	if err != nil {
		return err
	}
	for _, j := range due {
		if err := c.endOne(ctx, j.OrganizationID, j.ID, now, dueEvent); err != nil && ctx.Err() == nil {
			c.log.Error("could not end what is due", "job_id", j.ID, "job_status", string(j.Status), "error", err)
		}
	}
	return ctx.Err()
}

// endOne looks at a due Job again, locked: a heartbeat may have saved it meanwhile.
// due says what has become due, nil when nothing has.
func (c *Control) endOne(ctx context.Context, org, id string, now time.Time, due func(*work.Job, time.Time) work.Event) error {
	var all []moved
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		all = nil
		j, err := tx.JobForUpdate(org, id)
		if err != nil {
			return err
		}
		event := due(j, now)
		if event == nil {
			return nil
		}
		m, changed, err := c.move(tx, j, event)
		if changed {
			all = append(all, m)
		}
		return err
	})
	if err != nil && !movedOn(err) {
		return err
	}
	c.carryOut(all...)
	return nil
}

// endOverdue cancels jobs whose time limit is over. It does not wait until every instance has been heard of: a time limit
// holds whatever an instance does.
func (c *Control) endOverdue(ctx context.Context, now time.Time) error {
	if c.hold.Load() != nil {
		return nil
	}
	var overdue []*work.Job
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		overdue, err = tx.OverdueJobs(now, dueAtOnce)
		return err
	})
	if err != nil {
		return err
	}
	for _, j := range overdue {
		if err := c.endOne(ctx, j.OrganizationID, j.ID, now, overdueEvent); err != nil && ctx.Err() == nil {
			c.log.Error("could not end a job whose time limit is over", "job_id", j.ID, "error", err)
		}
	}
	return ctx.Err()
}

// overdueEvent is what the end of its time limit does to a job, nil while it is not over.
func overdueEvent(j *work.Job, now time.Time) work.Event {
	if at := j.Deadline(); at.IsZero() || at.After(now) {
		return nil
	}
	return work.CancelRequested{Mode: work.Graceful, By: "legwork", Reason: "the time limit of the job is over", TimedOut: true}
}

// dueEvent is what the passing of time does to a Job, nil when nothing is due.
func dueEvent(j *work.Job, now time.Time) work.Event {
	over := func(t time.Time) bool { return !t.IsZero() && !t.After(now) }
	switch {
	case j.HasLease() && over(j.LeaseUntil):
		return work.LeaseLost{Attempt: j.Attempt, Reason: "nothing was heard of its instance for too long"}
	case j.Status == work.Interrupted && over(j.RecoverUntil):
		return work.RecoveryOver{}
	case j.Status == work.AwaitingApproval && over(j.ApproveUntil):
		return work.ApprovalExpired{}
	}
	return nil
}

func (c *Control) prune(ctx context.Context, now time.Time) error {
	if c.hold.Load() != nil {
		return nil
	}
	for more := true; more; {
		err := c.store.Update(ctx, func(tx *store.Tx) (err error) {
			more, err = tx.PruneKeyedRequests()
			return err
		})
		if err != nil {
			return err
		}
	}
	return c.store.Update(ctx, func(tx *store.Tx) error {
		return tx.PruneEvents(now.Add(-c.limits.EventsKept), now.Add(-c.limits.AuditKept))
	})
}
