package control

import (
	"context"

	"legwork/internal/catalog"
	"legwork/internal/store"
)

// NextRuns tells when each Schedule of a Runbook, by id or path, runs it next: the next n times, 1 to 100.
func (c *Control) NextRuns(ctx context.Context, actor catalog.Actor, idOrPath string, n int) ([]ScheduleView, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]ScheduleView, error) {
		b, err := tx.Runbook(actor.OrganizationID, idOrPath)
		if err != nil {
			return nil, unknownRunbook(err, idOrPath)
		}
		return schedulesOf(tx, b, min(max(n, 1), 100))
	})
}
