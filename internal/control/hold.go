package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

const (
	restoredAtOnce = 500 // jobs read at once when a hold begins or ends
	dueSkipped     = 100 // schedules, likewise
)

// Hold is the state of an installation whose database is a copy: a restored backup, or a clone. Nothing is started, launched or removed
// until an operator resumes.
type Hold struct {
	On          bool      `json:"on"`
	Reason      string    `json:"reason,omitempty"`
	Since       time.Time `json:"since,omitzero"`
	Interrupted int       `json:"interrupted" doc:"Jobs that were active in the copy and whose instance has not returned. They fail when you resume."`
	Queued      int       `json:"queued" doc:"Jobs that wait. They are started when you resume."`
}

// HoldReason returns why the installation is on hold, as of the last second; empty when it is not.
func (c *Control) HoldReason() string {
	if h := c.hold.Load(); h != nil {
		return h.Reason
	}
	return ""
}

// PrepareHold finds out whether the installation is on hold. At the beginning of a hold it interrupts the jobs that were active in the copy. It
// is called before the first Runner connects.
func (c *Control) PrepareHold(ctx context.Context) error {
	if err := c.readHold(ctx); err != nil {
		return err
	}
	h := c.hold.Load()
	if h == nil || h.Applied {
		return nil
	}
	c.log.Warn("the server is on hold: nothing is started until legwork server resume", "reason", h.Reason)
	n, err := c.eachOpen(ctx, false, func(j store.OpenJobRef) error {
		_, err := c.apply(ctx, j.OrganizationID, j.ID, work.Restored{Reason: h.Reason})
		return err
	})
	if err != nil {
		return err
	}
	c.log.Warn("jobs that were active in the copy are interrupted", "count", n)
	return c.store.Update(ctx, func(tx *store.Tx) error {
		i, err := tx.InstallationForUpdate()
		if err != nil || i.Hold == nil {
			return err
		}
		i.Hold.Applied = true
		return tx.PutInstallation(i)
	})
}

// readHold brings up to date what this Server knows about the hold.
func (c *Control) readHold(ctx context.Context) error {
	var i store.Installation
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		i, err = tx.Installation()
		return err
	})
	if err != nil {
		return err
	}
	if was := c.hold.Swap(i.Hold); was != nil && i.Hold == nil { // another Server resumed
		return c.afterHold(ctx)
	}
	return nil
}

// eachOpen calls fn for jobs that are not over; see store.OpenJobs. It is not called for jobs that follow an error of fn, except
// that a job has moved on meanwhile.
func (c *Control) eachOpen(ctx context.Context, waiting bool, fn func(j store.OpenJobRef) error) (n int, err error) {
	for after := ""; ; {
		var page []store.OpenJobRef
		err := c.store.View(ctx, func(tx *store.Tx) (err error) {
			page, err = tx.OpenJobs(waiting, after, restoredAtOnce)
			return err
		})
		if err != nil || len(page) == 0 {
			return n, err
		}
		for _, j := range page {
			if err := fn(j); err != nil && !movedOn(err) {
				return n, err
			}
			after = j.ID
			n++
		}
	}
}

// Hold returns whether the installation is on hold, and what resuming would do.
func (c *Control) Hold(ctx context.Context, actor catalog.Actor) (Hold, error) {
	if err := actor.Need(catalog.Read); err != nil {
		return Hold{}, err
	}
	if err := c.readHold(ctx); err != nil {
		return Hold{}, err
	}
	h := c.hold.Load()
	if h == nil {
		return Hold{}, nil
	}
	view := Hold{On: true, Reason: h.Reason, Since: h.Since}
	_, err := c.eachOpen(ctx, false, func(j store.OpenJobRef) error {
		if j.Status == work.Interrupted {
			view.Interrupted++
		}
		return nil
	})
	if err != nil {
		return view, err
	}
	view.Queued, err = c.eachOpen(ctx, true, func(store.OpenJobRef) error { return nil })
	return view, err
}

// ResumeRequest ends a hold.
type ResumeRequest struct {
	CancelQueued bool `json:"cancel_queued,omitempty" doc:"Cancel the jobs that wait, instead of starting them."`
}

// Resume ends a hold. Jobs that were active in the copy and whose instance has not returned fail first; times of schedules that have
// passed are skipped, because the original server may have run them. It returns what the hold was.
func (c *Control) Resume(ctx context.Context, actor catalog.Actor, r ResumeRequest) (Hold, error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return Hold{}, err
	}
	if err := c.administersInstallation(ctx, actor); err != nil {
		return Hold{}, err
	}
	was, err := c.Hold(ctx, actor)
	if err != nil || !was.On {
		return was, err
	}
	_, err = c.eachOpen(ctx, false, func(j store.OpenJobRef) error {
		if j.Status != work.Interrupted {
			return nil
		}
		_, err := c.apply(ctx, j.OrganizationID, j.ID, work.RestoreOver{})
		return err
	})
	if err != nil {
		return was, err
	}
	if r.CancelQueued {
		if err := c.cancelQueued(ctx, actor); err != nil {
			return was, err
		}
	}
	if err := c.skipDue(ctx); err != nil {
		return was, err
	}
	err = c.store.Update(ctx, func(tx *store.Tx) error {
		i, err := tx.InstallationForUpdate()
		if err != nil {
			return err
		}
		i.Hold = nil
		if err := tx.PutInstallation(i); err != nil {
			return err
		}
		tx.Sign(actor, "server.resume")
		return c.publish(tx, actor.OrganizationID, "server.resumed", i.ID, was)
	})
	if err != nil {
		return was, err
	}
	c.log.Info("the server was resumed", "by", actor.Name)
	if c.hold.Swap(nil) == nil {
		return was, nil
	}
	return was, c.afterHold(ctx)
}

// administersInstallation refuses owners of other Organizations than the first, who must not decide for all.
func (c *Control) administersInstallation(ctx context.Context, actor catalog.Actor) error {
	return c.store.View(ctx, func(tx *store.Tx) error {
		all, err := tx.Organizations()
		if err != nil || len(all) == 0 {
			return err
		}
		first := slices.MinFunc(all, func(a, b catalog.Organization) int { return a.CreatedAt.Compare(b.CreatedAt) })
		if first.ID == actor.OrganizationID {
			return nil
		}
		return fault.New(fault.Forbidden, "not_allowed", "only owners of organization %s may resume the server", first.Name).
			WithHint("ask an owner of %s: the hold is of the whole installation", first.Name)
	})
}

func (c *Control) cancelQueued(ctx context.Context, actor catalog.Actor) error {
	event := work.CancelRequested{Mode: work.Graceful, By: actor.Name, Reason: "canceled when the server was resumed"}
	_, err := c.eachOpen(ctx, true, func(j store.OpenJobRef) error {
		_, err := c.applyAs(ctx, j.OrganizationID, j.ID, event, func(tx *store.Tx) { tx.Sign(actor, "job.cancel") })
		return err
	})
	return err
}

// skipDue moves the schedules that are due to their next time.
func (c *Control) skipDue(ctx context.Context) error {
	for {
		now, err := c.store.Now(ctx)
		if err != nil {
			return err
		}
		var due []store.Schedule
		err = c.store.View(ctx, func(tx *store.Tx) (err error) {
			due, err = tx.DueSchedules(now, dueSkipped)
			return err
		})
		if err != nil || len(due) == 0 {
			return err
		}
		for _, s := range due {
			if err := c.skipSchedule(ctx, s, now); err != nil {
				return fmt.Errorf("skip the schedule %s: %w", s.Name, err)
			}
		}
	}
}

func (c *Control) skipSchedule(ctx context.Context, due store.Schedule, now time.Time) error {
	run, err := c.scheduled(ctx, due)
	if err != nil {
		return err
	}
	var next time.Time
	if run.Name != "" {
		if next, err = catalog.NextRun(run.Schedule, now); err != nil {
			return err
		}
	}
	return c.store.Update(ctx, func(tx *store.Tx) error {
		ok, err := tx.ClaimSchedule(due, next)
		if err != nil || !ok {
			return err
		}
		return tx.NoteScheduled(due, "", "skipped: the server was on hold")
	})
}

// afterHold starts what waited for the end of the hold.
func (c *Control) afterHold(ctx context.Context) error {
	var all []catalog.Organization
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		all, err = tx.Organizations()
		return err
	})
	for _, o := range all {
		c.redeclared(o.ID)
	}
	c.queue.Wake()
	c.hosting.Poke()
	c.tellReleases()
	return err
}

// paused returns why no job of an Organization may be started; it is zero when jobs may.
func paused(tx *store.Tx, org string) (work.Wait, error) {
	i, err := tx.Installation()
	if err != nil {
		return work.Wait{}, err
	}
	if i.Hold != nil {
		return work.Wait{Code: work.WaitOnHold, Text: fmt.Sprintf("the server is on hold (%s): nothing is started until legwork server resume", i.Hold.Reason)}, nil
	}
	m, err := tx.Maintenance(org)
	if err != nil || m == nil {
		return work.Wait{}, err
	}
	return work.Wait{Code: work.WaitMaintenance, Text: maintenanceText(m)}, nil
}
