package control

import (
	"context"
	"errors"
	"sync"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// LogEnd tells where a Job's log ends.
type LogEnd struct {
	Last     int64 // position of the last record, 0 when there is none
	Complete bool  // the Job is over. More follows only if an Instance that was lost brings what it still has of it
}

// ReadLog gives records of a Job's log after a position, in order, at most limit (0 = as many as fit, about 1 MiB), and where
// the log ends. Whether they lie in the database or in the archive makes no difference.
func (c *Control) ReadLog(ctx context.Context, actor catalog.Actor, idOrNumber string, after int64, limit int) ([]store.LogLine, LogEnd, error) {
	j, err := c.Job(ctx, actor, idOrNumber)
	if err != nil {
		return nil, LogEnd{}, err
	}
	end := LogEnd{Complete: j.Status.Terminal()}
	lines, err := c.readLines(ctx, j.ID, after, limit)
	if err != nil {
		return nil, end, err
	}
	err = c.store.View(ctx, func(tx *store.Tx) error {
		state, err := tx.LogState(j.ID)
		end.Last = state.Last
		return err
	})
	return lines, end, err
}

// readLines reads from where the records lie.
func (c *Control) readLines(ctx context.Context, job string, after int64, limit int) ([]store.LogLine, error) {
	if after < 0 {
		after = 0
	}
	for {
		var lines []store.LogLine
		var state store.LogState
		err := c.store.View(ctx, func(tx *store.Tx) (err error) {
			if state, err = tx.LogState(job); err == nil && (state.Archive == "" || after >= state.Archived) {
				lines, err = tx.ReadLog(job, after, limit)
			}
			return err
		})
		if err != nil || state.Archive == "" || after >= state.Archived {
			return lines, err
		}
		lines, err = c.archiver.read(ctx, state, after, limit)
		if err != nil && c.archiveMoved(ctx, job, state) {
			continue
		}
		if err != nil || len(lines) > 0 {
			return lines, err
		}
		after = state.Archived // a damaged archive must not be asked for ever
	}
}

// archiveMoved tells whether a log was archived anew since its state was read.
func (c *Control) archiveMoved(ctx context.Context, job string, was store.LogState) bool {
	var now store.LogState
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		now, err = tx.LogState(job)
		return err
	})
	return err == nil && now.Archive != was.Archive
}

// errWhole ends a following whose log was emitted as a whole.
var errWhole = errors.New("the whole log was emitted")

// FollowLog emits a Job's log after a position, in order and without a gap, as it comes in. It returns nil when the Job is
// over and all there is of its log was emitted (see LogEnd.Complete), else why it ended: ctx, the Server, or the error of emit. While somebody follows a Job,
// its Instance ships every line at once.
func (c *Control) FollowLog(ctx context.Context, actor catalog.Actor, idOrNumber string, after int64, emit func([]store.LogLine) error) error {
	j, err := c.Job(ctx, actor, idOrNumber)
	if err != nil {
		return err
	}
	l, first := c.tails.join(j.ID) // before anything is read, so that nothing falls between
	c.stats.followers.Add(1)
	defer c.stats.followers.Add(-1)
	if first && !j.Status.Terminal() {
		c.tails.watch(j.ID, true)
	}
	leave := sync.OnceFunc(func() {
		if c.tails.quit(l) {
			c.tails.watch(j.ID, false)
		}
	})
	defer leave()
	for err == nil {
		after, err = c.followOn(ctx, l, j, after, emit)
	}
	if errors.Is(err, errWhole) {
		return nil
	}
	return err
}

// followOn emits what there is, or waits for more.
func (c *Control) followOn(ctx context.Context, l *tail, j *work.Job, after int64, emit func([]store.LogLine) error) (int64, error) {
	g := l.look(after)
	lines := g.lines
	if len(lines) == 0 {
		over, err := false, error(nil)
		if !g.more { // looked up before the read, which then finds all that the Job's end found stored
			if over, err = c.isOver(ctx, j, g.ended); err != nil {
				return after, err
			}
		}
		if lines, err = c.catchUp(ctx, l, after); err != nil {
			return after, err
		}
		if len(lines) == 0 && over {
			return after, errWhole
		}
	}
	if len(lines) == 0 {
		return after, c.await(ctx, g.rung)
	}
	if err := emit(lines); err != nil {
		return after, err
	}
	return lines[len(lines)-1].Pos, nil
}

// isOver tells whether the Job is over. What is known already is not looked up.
func (c *Control) isOver(ctx context.Context, j *work.Job, ended bool) (bool, error) {
	if ended || j.Status.Terminal() {
		return true, nil
	}
	now, err := c.jobByID(ctx, j.OrganizationID, j.ID)
	if err == nil && now.Status.Terminal() {
		j.Status = now.Status
	}
	return err == nil && now.Status.Terminal(), err
}

// jobByID reads a Job of an Organization.
func (c *Control) jobByID(ctx context.Context, org, id string) (j *work.Job, err error) {
	err = c.store.View(ctx, func(tx *store.Tx) error {
		j, err = tx.Job(org, id)
		return err
	})
	return j, err
}

// Job gives a Job by its id, its number, or "#number".
func (c *Control) Job(ctx context.Context, actor catalog.Actor, idOrNumber string) (*work.Job, error) {
	if err := actor.Need(catalog.Read); err != nil {
		return nil, err
	}
	j, err := c.jobByID(ctx, actor.OrganizationID, idOrNumber)
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.NotFound, "job_not_found", "there is no job %s", idOrNumber).WithHint("see: legwork job list")
	}
	return j, err
}
