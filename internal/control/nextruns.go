package control

import (
	"context"

	"legwork/internal/catalog"
)

// NextRuns returns the next n times, 1 to 100, at which each schedule of a runbook runs it. The runbook is given by id or path.
func (c *Control) NextRuns(ctx context.Context, actor catalog.Actor, idOrPath string, n int) ([]ScheduleView, error) {
	b, err := c.runbookSchedules(ctx, actor, idOrPath)
	if err != nil {
		return nil, err
	}
	return b.views(ctx, min(max(n, 1), 100))
}
