package control

import (
	"context"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// JobCounts is how many Jobs there are: those that are not over, by status, and those that failed of the ones created since a time.
type JobCounts struct {
	Alive  map[work.Status]int
	Failed int
}

// CountJobs counts the Jobs, and gives those that wait for longest, at most limit.
func (c *Control) CountJobs(ctx context.Context, actor catalog.Actor, since time.Time, limit int) (n JobCounts, waiting []*work.Job, err error) {
	n, err = read(ctx, c, actor, func(tx *store.Tx) (n JobCounts, err error) {
		if n.Alive, err = tx.CountAlive(actor.OrganizationID); err != nil {
			return n, err
		}
		if n.Failed, err = tx.CountOver(actor.OrganizationID, work.Failed, since); err != nil {
			return n, err
		}
		waiting, err = tx.LongestWaiting(actor.OrganizationID, limit)
		return n, err
	})
	return n, waiting, err
}
