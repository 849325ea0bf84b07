package logs

import (
	"context"
	"errors"
	"sync"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// errWhole ends a following whose log was emitted as a whole.
var errWhole = errors.New("the whole log was emitted")

// Follow emits the lines of a Job's log after a position that the filter lets through, in order and without leaving one out, as they
// come in; of a Part as Read does. It returns nil when the Job is
// over and all there is of its log was emitted (see End.Complete), else why it ended: ctx, the Server, or the error of emit. While somebody follows a Job,
// its Instance ships every line at once.
func (l *Logs) Follow(ctx context.Context, actor catalog.Actor, idOrNumber string, after int64, filter store.LogFilter, emit func([]store.LogLine) error) error {
	j, err := l.host.Job(ctx, actor, idOrNumber)
	if err != nil {
		return err
	}
	log := j.LogID()
	filter = filterOf(j, filter)
	end, first := l.tails.join(log) // before anything is read, so that nothing falls between
	l.followers.Add(1)
	defer l.followers.Add(-1)
	if first && !j.Status.Terminal() {
		l.tails.watch(log, true)
	}
	leave := sync.OnceFunc(func() {
		if l.tails.quit(end) {
			l.tails.watch(log, false)
		}
	})
	defer leave()
	if filter != (store.LogFilter{}) {
		after, err = l.emitStored(ctx, log, after, filter, emit)
	}
	for err == nil {
		after, err = l.followOn(ctx, end, j, after, filter, emit)
	}
	if errors.Is(err, errWhole) {
		return nil
	}
	return err
}

// emitStored emits what is stored already of the lines that a filter lets through, in one pass over the log, and gives how far it came.
func (l *Logs) emitStored(ctx context.Context, log string, after int64, filter store.LogFilter, emit func([]store.LogLine) error) (int64, error) {
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
	s := &scan{reader: l.reader, log: log, after: max(after, 0), filter: filter, visit: func(l *store.LogLine) bool {
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
func (l *Logs) followOn(ctx context.Context, end *tail, j *work.Job, after int64, filter store.LogFilter, emit func([]store.LogLine) error) (int64, error) {
	g := end.look(after)
	lines := g.lines
	if len(lines) == 0 {
		over, err := false, error(nil)
		if !g.more { // looked up before the read, which then finds all that the Job's end found stored
			if over, err = l.isOver(ctx, j, g.ended); err != nil {
				return after, err
			}
		}
		if lines, err = l.catchUp(ctx, end, after); err != nil {
			return after, err
		}
		if len(lines) == 0 && over {
			return after, errWhole
		}
	}
	if len(lines) == 0 {
		return after, l.host.Await(ctx, g.rung)
	}
	if some := matching(lines, filter); len(some) > 0 {
		if err := emit(some); err != nil {
			return after, err
		}
	}
	return lines[len(lines)-1].Pos, nil
}

// isOver tells whether the Job is over. What is known already is not looked up.
func (l *Logs) isOver(ctx context.Context, j *work.Job, ended bool) (bool, error) {
	if ended || j.Status.Terminal() {
		return true, nil
	}
	var now *work.Job
	err := l.store.View(ctx, func(tx *store.Tx) (err error) {
		now, err = tx.Job(j.OrganizationID, j.ID)
		return err
	})
	if err == nil && now.Status.Terminal() {
		j.Status = now.Status
	}
	return err == nil && now.Status.Terminal(), err
}
