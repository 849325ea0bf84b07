package control

import (
	"context"
	"time"

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
	var state store.LogState
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		state, err = tx.LogState(j.ID)
		return err
	})
	if err != nil {
		return err
	}
	keys := []string{logPrefix(j.ID)}
	if state.Archive != "" && state.Archive != keys[0] {
		keys = append(keys, state.Archive)
	}
	for attempt := 1; attempt <= j.Attempt; attempt++ {
		keys = append(keys, planKey(j.ID, attempt))
	}
	for _, key := range keys {
		if err := c.blobs.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}
