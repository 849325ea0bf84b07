package control

import (
	"context"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

const (
	retirePeriod = time.Hour              // how often Jobs are looked for that are too old
	retireAtOnce = 20                     // Jobs deleted in one transaction
	retirePause  = 100 * time.Millisecond // between two of them: what is old is no hurry
	keptOfModule = 20                     // newest Jobs of each Module that stay, however old
)

// retireLoop deletes Jobs that ended too long ago, until ctx ends.
func (c *Control) retireLoop(ctx context.Context) {
	if c.limits.JobsKept == 0 {
		return
	}
	for ctx.Err() == nil {
		n, err := c.retire(ctx, c.limits.JobsKept, keptOfModule)
		if err != nil && ctx.Err() == nil {
			c.log.Error("could not delete old jobs", "error", err)
		}
		if n > 0 {
			c.log.Info("old jobs deleted", "count", n)
		}
		sleep(ctx, retirePeriod)
	}
}

// retire deletes the Jobs that ended longer ago than kept, but for some of each Module, and tells how many.
func (c *Control) retire(ctx context.Context, kept time.Duration, ofModule int) (n int, err error) {
	if c.hold.Load() != nil {
		return 0, nil
	}
	now, err := c.store.Now(ctx)
	if err != nil {
		return 0, err
	}
	before, last := now.Add(-kept), ""
	for {
		var old []*work.Job
		err := c.store.View(ctx, func(tx *store.Tx) (err error) {
			old, err = tx.OldJobs(before, last, ofModule, retireAtOnce)
			return err
		})
		if err != nil || len(old) == 0 {
			return n, err
		}
		last = old[len(old)-1].ID
		some, err := c.deleteJobs(ctx, old, before)
		if n += some; err != nil {
			return n, err
		}
		sleep(ctx, retirePause)
	}
}

// deleteJobs deletes those that ended before a time: first their bytes, so that none are left that nothing points to.
func (c *Control) deleteJobs(ctx context.Context, jobs []*work.Job, before time.Time) (n int, err error) {
	var over []*work.Job
	for _, j := range jobs {
		if !j.FinishedAt.Before(before) {
			continue
		}
		if err := c.deleteBytes(ctx, j); err != nil {
			return 0, err
		}
		over = append(over, j)
	}
	if len(over) == 0 {
		return 0, nil
	}
	return len(over), c.store.Update(ctx, func(tx *store.Tx) error {
		for _, j := range over {
			if err := tx.DeleteJob(j.OrganizationID, j.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

// deleteBytes deletes a Job's plans and the archive of its log.
func (c *Control) deleteBytes(ctx context.Context, j *work.Job) error {
	if err := c.logs.Delete(ctx, j.ID); err != nil {
		return err
	}
	if asksApproval(j) {
		if err := c.blobs.Delete(ctx, savedPlanKey(j.ID)); err != nil {
			return err
		}
	}
	for attempt := 1; attempt <= j.Attempt; attempt++ {
		if err := c.blobs.Delete(ctx, planKey(j.ID, attempt)); err != nil {
			return err
		}
	}
	return nil
}

const (
	forgetPeriod = 20 * time.Second // how often ephemeral Instances are looked for that are gone
	forgetAtOnce = 200              // forgotten in one transaction
)

// forgetLoop forgets ephemeral Instances that are gone, until ctx ends.
func (c *Control) forgetLoop(ctx context.Context) {
	for ctx.Err() == nil {
		if err := c.forgetGone(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("could not forget instances that are gone", "error", err)
		}
		sleep(ctx, min(forgetPeriod, c.limits.Ephemeral))
	}
}

// forgetGone forgets the ephemeral Instances that were last heard of too long ago. Those stay to which a Job is bound: it may be
// a changing Step that comes back.
func (c *Control) forgetGone(ctx context.Context) error {
	if c.hold.Load() != nil {
		return nil
	}
	var some []catalog.Runner
	err := c.store.View(ctx, func(tx *store.Tx) error { // mostly nobody is gone, and then nothing is locked
		some = nil
		runners, err := tx.AllRunners()
		for n := 0; n < len(runners) && err == nil; n++ {
			if r := runners[n]; r.Lifetime == catalog.Ephemeral {
				var gone []store.Instance
				if gone, err = tx.GoneInstances(r.OrganizationID, r.ID, tx.Now().Add(-c.limits.Ephemeral), 1); len(gone) > 0 {
					some = append(some, r)
				}
			}
		}
		return err
	})
	for n := 0; n < len(some) && err == nil; n++ {
		err = c.forgetOf(ctx, some[n])
	}
	return err
}

func (c *Control) forgetOf(ctx context.Context, r catalog.Runner) error {
	n := 0
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		before := tx.Now().Add(-c.limits.Ephemeral)
		gone, err := tx.GoneInstances(r.OrganizationID, r.ID, before, forgetAtOnce)
		n = 0
		for at := 0; at < len(gone) && err == nil; at++ {
			var i store.Instance
			i, err = tx.InstanceForUpdate(gone[at].OrganizationID, gone[at].ID)
			switch {
			case fault.Is(err, fault.NotFound):
				err = nil
			case err == nil && i.Offline && !i.Connected && i.LastSeen.Before(before):
				err = c.forgetInstance(tx, i)
				n++
			}
		}
		return err
	})
	if err == nil && n > 0 {
		c.log.Info("ephemeral instances forgotten", "runner", r.Name, "count", n)
		c.signal(r.OrganizationID)
	}
	return err
}
