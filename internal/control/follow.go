package control

import (
	"context"
	"errors"
	"slices"
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

// ReadLog gives the lines of a Job's log after a position that the filter lets through, in order, at most limit (0 = as many as fit, about
// 1 MiB), and where the log ends. None means that none follows. Whether they lie in the database or in the archive makes no difference.
// Of a Part it gives what that Part printed. Positions of lines rise, with gaps where records are left out; the last record of a log
// may be none.
func (c *Control) ReadLog(ctx context.Context, actor catalog.Actor, idOrNumber string, after int64, limit int, filter LogFilter) ([]store.LogLine, LogEnd, error) {
	j, err := c.Job(ctx, actor, idOrNumber)
	if err != nil {
		return nil, LogEnd{}, err
	}
	end := LogEnd{Complete: j.Status.Terminal()}
	lines, err := c.readMatching(ctx, j.LogID(), after, limit, filterOf(j, filter))
	if err != nil {
		return nil, end, err
	}
	err = c.store.View(ctx, func(tx *store.Tx) error {
		state, err := tx.LogState(j.LogID())
		end.Last = state.Last
		return err
	})
	return lines, end, err
}

// filterOf narrows a filter to what a Part printed.
func filterOf(j *work.Job, filter LogFilter) LogFilter {
	if j.Part > 0 && filter.Part == 0 {
		filter.Part = j.Part
	}
	return filter
}

// matching gives the lines that a filter lets through: those given, as they are, when it is all of them.
func matching(lines []store.LogLine, filter LogFilter) []store.LogLine {
	for i := range lines {
		if filter.Matches(&lines[i]) {
			continue
		}
		some := slices.Clone(lines[:i]) // others have the lines, too
		for _, l := range lines[i+1:] {
			if filter.Matches(&l) {
				some = append(some, l)
			}
		}
		return some
	}
	return lines
}

// readMatching reads lines. A filter that is not zero may let few of them through: then they are looked for in one pass over the log, and
// what is found is copied, so that a line does not keep the chunk in memory that it came with.
func (c *Control) readMatching(ctx context.Context, log string, after int64, limit int, filter LogFilter) (lines []store.LogLine, err error) {
	if filter == (LogFilter{}) {
		for {
			lines, err := c.readLines(ctx, log, after, limit)
			if err != nil || len(lines) == 0 {
				return lines, err
			}
			after = lines[len(lines)-1].Pos
			if some := matching(lines, filter); len(some) > 0 {
				return some, nil
			}
		}
	}
	room := matchMost
	s := &scan{c: c, log: log, after: max(after, 0), filter: filter, visit: func(l *LogLine) bool {
		lines = append(lines, keepable(l))
		room -= len(l.Data) + lineBytes
		return room > 0 && (limit <= 0 || len(lines) < limit)
	}}
	return lines, s.run(ctx)
}

const (
	matchMost = 1 << 20 // bytes of lines that are gathered at once
	lineBytes = 128     // of a line in memory, beside its data
)

// keepable gives a line of a scan that can be kept.
func keepable(l *LogLine) LogLine {
	kept := *l
	kept.Data = slices.Clone(l.Data)
	return kept
}

// readLines reads all records, from where they lie.
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

// FollowLog emits the lines of a Job's log after a position that the filter lets through, in order and without leaving one out, as they
// come in; of a Part as ReadLog does. It returns nil when the Job is
// over and all there is of its log was emitted (see LogEnd.Complete), else why it ended: ctx, the Server, or the error of emit. While somebody follows a Job,
// its Instance ships every line at once.
func (c *Control) FollowLog(ctx context.Context, actor catalog.Actor, idOrNumber string, after int64, filter LogFilter, emit func([]store.LogLine) error) error {
	j, err := c.Job(ctx, actor, idOrNumber)
	if err != nil {
		return err
	}
	log := j.LogID()
	filter = filterOf(j, filter)
	l, first := c.tails.join(log) // before anything is read, so that nothing falls between
	c.stats.followers.Add(1)
	defer c.stats.followers.Add(-1)
	if first && !j.Status.Terminal() {
		c.tails.watch(log, true)
	}
	leave := sync.OnceFunc(func() {
		if c.tails.quit(l) {
			c.tails.watch(log, false)
		}
	})
	defer leave()
	if filter != (LogFilter{}) {
		after, err = c.emitStored(ctx, log, after, filter, emit)
	}
	for err == nil {
		after, err = c.followOn(ctx, l, j, after, filter, emit)
	}
	if errors.Is(err, errWhole) {
		return nil
	}
	return err
}

// emitStored emits what is stored already of the lines that a filter lets through, in one pass over the log, and gives how far it came.
func (c *Control) emitStored(ctx context.Context, log string, after int64, filter LogFilter, emit func([]store.LogLine) error) (int64, error) {
	var lines []store.LogLine
	var failed error
	room := matchMost
	flush := func() bool {
		if len(lines) > 0 {
			failed = emit(lines)
		}
		lines, room = nil, matchMost // whom they were given to may keep them
		return failed == nil
	}
	s := &scan{c: c, log: log, after: max(after, 0), filter: filter, visit: func(l *LogLine) bool {
		lines = append(lines, keepable(l))
		room -= len(l.Data) + lineBytes
		return room > 0 || flush()
	}}
	for !s.over {
		if err := s.some(ctx); err != nil {
			return s.after, err
		}
		if failed == nil {
			flush()
		}
	}
	return s.after, failed
}

// followOn emits what there is, or waits for more.
func (c *Control) followOn(ctx context.Context, l *tail, j *work.Job, after int64, filter LogFilter, emit func([]store.LogLine) error) (int64, error) {
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
	if some := matching(lines, filter); len(some) > 0 {
		if err := emit(some); err != nil {
			return after, err
		}
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
	if err != nil || !j.IsRun() || j.Status != work.Running || j.Notice != "" {
		return j, err
	}
	var parts []*work.Job
	err = c.store.View(ctx, func(tx *store.Tx) (err error) {
		parts, err = tx.Parts(j.OrganizationID, j.ID)
		return err
	})
	return noticeParts(j, parts), err
}
