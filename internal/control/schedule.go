package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control/nodes"
	"legwork/internal/fault"
	"legwork/internal/store"
)

const (
	// lateMost is how late a Schedule still runs its Runbook, once, after no Server was there to do it in time.
	lateMost = time.Hour

	// firedAtOnce bounds the Schedules that a Server runs at once, and the Node sources that one round of the sweeper has asked.
	firedAtOnce = 50
)

// scheduledRun is what a Schedule wants to be run.
type scheduledRun struct {
	Runbook  catalog.Runbook
	Schedule catalog.Schedule
	Name     string // of the Schedule
	Due      time.Time
}

// actor is on whose behalf the run is made.
func (r scheduledRun) actor() catalog.Actor {
	return catalog.Actor{OrganizationID: r.Runbook.OrganizationID, Name: "schedule " + r.Name, Role: catalog.RoleOperator}
}

// cause tells why there is the Job.
func (r scheduledRun) cause() string {
	return fmt.Sprintf("schedule %s of %s", r.Name, r.Runbook.Path())
}

// claimDue takes what is due, in the transaction that stores the Job that comes of it, so that there is exactly one. It is errClaimLost
// when another Server was faster: then nothing is to be stored.
type claimDue = func(tx *store.Tx, jobID string) error

// ScheduleEvent is the data of the events "runbook.scheduled" and "runbook.schedule_failed", as JSON.
type ScheduleEvent struct {
	Path     string    `json:"path"`
	Schedule string    `json:"schedule"`
	Due      time.Time `json:"due"`
	JobID    string    `json:"job_id,omitempty"`
	Error    string    `json:"error,omitempty"` // why no Job came of it
}

// firing are the Schedules that this Server is running now: of each one at a time, so that what is slow about one, as the URL that an Option is asked of,
// holds up nothing else and is not begun again.
type firing struct {
	mu  sync.Mutex
	now map[scheduleKey]bool
}

type scheduleKey struct{ org, runbook, name string }

// begin takes a Schedule, unless it is being run, or as many as may be at once are.
func (f *firing) begin(k scheduleKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now[k] || len(f.now) >= firedAtOnce {
		return false
	}
	if f.now == nil {
		f.now = map[scheduleKey]bool{}
	}
	f.now[k] = true
	return true
}

func (f *firing) end(k scheduleKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.now, k)
}

// fireDue begins what is due by Schedules and by the intervals of Node sources. What cannot be begun now holds up nothing else. Runbooks are compiled and
// queued beside, because that may ask URLs: whoever calls has more to do.
func (c *Control) fireDue(ctx context.Context, now time.Time) error {
	var schedules []store.Schedule
	var sources []catalog.NodeSource
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		if c.startRun != nil {
			if schedules, err = tx.DueSchedules(now, 2*firedAtOnce); err != nil { // those that are being run are among them
				return err
			}
		}
		if c.startDiscovery != nil {
			sources, err = tx.DueNodeSources(now, firedAtOnce)
		}
		return err
	})
	if err != nil || c.draining.Load() || c.hold.Load() != nil {
		return err
	}
	for _, s := range schedules {
		c.fireBeside(s, now)
	}
	for _, s := range sources {
		if err := c.discoverDue(ctx, s, now); err != nil && ctx.Err() == nil {
			c.log.Error("could not refresh a node source", "node_source", s.Path(), "error", err)
		}
	}
	return ctx.Err()
}

// fireBeside runs the Runbook of a Schedule that is due in the background.
func (c *Control) fireBeside(s store.Schedule, now time.Time) {
	k := scheduleKey{s.OrganizationID, s.RunbookID, s.Name}
	if !c.firing.begin(k) {
		return
	}
	if !c.background(func(ctx context.Context) {
		defer c.firing.end(k)
		if err := c.fire(ctx, s, now); err != nil && ctx.Err() == nil {
			c.log.Error("could not run what is scheduled", "runbook_id", s.RunbookID, "schedule", s.Name, "error", err)
		}
	}) {
		c.firing.end(k)
	}
}

// fire runs the Runbook of a Schedule that is due. Several times that were missed are one run, and none when the last is longer ago than
// lateMost. What the database or the Server cannot do now is tried again until then.
func (c *Control) fire(ctx context.Context, due store.Schedule, now time.Time) error {
	run, err := c.scheduled(ctx, due)
	if err != nil {
		return err
	}
	next, last := time.Time{}, due.NextAt
	if run.Name != "" {
		if next, last, err = around(run.Schedule, due.NextAt, now); err != nil {
			return err
		}
	}
	run.Due = last
	claim := func(tx *store.Tx, jobID, failed string) error {
		ok, err := tx.ClaimSchedule(due, next)
		if err != nil || run.Name == "" {
			return err
		}
		if !ok {
			return errClaimLost
		}
		kind := "runbook.scheduled"
		if failed != "" {
			kind = "runbook.schedule_failed"
		}
		e := ScheduleEvent{Path: run.Runbook.Path(), Schedule: run.Name, Due: last, JobID: jobID, Error: failed}
		return errors.Join(tx.NoteScheduled(due, jobID, failed), c.publish(tx, due.OrganizationID, kind, due.RunbookID, e))
	}
	giveUp := func(reason string) error {
		err := c.store.Update(ctx, func(tx *store.Tx) error { return claim(tx, "", reason) })
		if errors.Is(err, errClaimLost) {
			return nil
		}
		c.signal(due.OrganizationID)
		return err
	}
	switch {
	case run.Name == "":
		return giveUp("")
	case now.Sub(last) > lateMost:
		return giveUp(fmt.Sprintf("no Server was there at %s, nor within %s after it", last.Format(time.RFC3339), lateMost))
	}
	err = c.startRun(ctx, run, func(tx *store.Tx, jobID string) error { return claim(tx, jobID, "") })
	switch {
	case err == nil, errors.Is(err, errClaimLost):
		return nil
	case fault.Is(fault.Of(err), fault.Internal) || fault.Of(err).Retryable():
		return err
	}
	return giveUp(err.Error())
}

// around gives the last time of a Schedule up to now, from one that is due, and the next one after now.
func around(s catalog.Schedule, due, now time.Time) (next, last time.Time, err error) {
	// What was missed is looked for within the time that counts alone: a Schedule of every minute may have been missed for weeks.
	last = due
	from := due
	if begin := now.Add(-lateMost); from.Before(begin) {
		from = begin
	}
	for next, err = catalog.NextRun(s, from); err == nil && !next.After(now); next, err = catalog.NextRun(s, next) {
		last = next
	}
	return next, last, err
}

// scheduled finds what a Schedule runs. Its name is empty when the Runbook has no such Schedule any more, or it is disabled.
func (c *Control) scheduled(ctx context.Context, due store.Schedule) (run scheduledRun, err error) {
	err = c.store.View(ctx, func(tx *store.Tx) error {
		run = scheduledRun{}
		b, err := tx.Runbook(due.OrganizationID, due.RunbookID)
		if err != nil {
			if fault.Is(err, fault.NotFound) {
				err = nil
			}
			return err
		}
		for i, s := range b.Schedules {
			if b.ScheduleName(i) == due.Name && !s.Disabled && b.IsEnabled() {
				run = scheduledRun{Runbook: b, Schedule: s, Name: due.Name}
			}
		}
		return nil
	})
	return run, err
}

// discoverDue begins the refresh of a Node source whose interval has passed.
func (c *Control) discoverDue(ctx context.Context, s catalog.NodeSource, now time.Time) error {
	next := nodes.NextRefresh(s.NodeSourceSpec, now)
	claim := func(tx *store.Tx, _ string) error {
		ok, err := tx.ClaimNodeSource(s.OrganizationID, s.ID, s.NextAt, next)
		if err == nil && !ok {
			err = errClaimLost
		}
		return err
	}
	err := c.startDiscovery(ctx, s, claim)
	switch {
	case err == nil, errors.Is(err, errClaimLost):
		return nil
	case fault.Is(fault.Of(err), fault.Internal) || fault.Of(err).Retryable():
		return err
	}
	reason := err.Error()
	err = c.store.Update(ctx, func(tx *store.Tx) error {
		if err := claim(tx, ""); err != nil {
			return err
		}
		return c.nodes.Failed(tx, s, "", reason)
	})
	if errors.Is(err, errClaimLost) {
		return nil
	}
	c.signal(s.OrganizationID)
	return err
}
