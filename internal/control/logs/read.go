package logs

import (
	"context"
	"slices"

	"legwork/internal/blob"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// End tells where a Job's log ends.
type End struct {
	Last     int64 // position of the last record, 0 when there is none
	Complete bool  // the Job is over. More follows only if an Instance that was lost brings what it still has of it
}

// Read gives the lines of a Job's log after a position that the filter lets through, in order, at most limit (0 = as many as fit, about
// 1 MiB), and where the log ends. None means that none follows. Whether they lie in the database or in the archive makes no difference.
// Of a Part it gives what that Part printed. Positions of lines rise, with gaps where records are left out; the last record of a log
// may be none.
func (l *Logs) Read(ctx context.Context, actor catalog.Actor, idOrNumber string, after int64, limit int, filter store.LogFilter) ([]store.LogLine, End, error) {
	j, err := l.host.Job(ctx, actor, idOrNumber)
	if err != nil {
		return nil, End{}, err
	}
	end := End{Complete: j.Status.Terminal()}
	lines, err := l.readMatching(ctx, j.LogID(), after, limit, filterOf(j, filter))
	if err != nil {
		return nil, end, err
	}
	state, err := l.state(ctx, j.LogID())
	end.Last = state.Last
	return lines, end, err
}

// filterOf narrows a filter to what a Part printed.
func filterOf(j *work.Job, filter store.LogFilter) store.LogFilter {
	if j.Part > 0 && filter.Part == 0 {
		filter.Part = j.Part
	}
	return filter
}

// matching gives the lines that a filter lets through: those given, as they are, when it is all of them.
func matching(lines []store.LogLine, filter store.LogFilter) []store.LogLine {
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

// reader reads logs from where they lie: the database, or the place for blobs.
type reader struct {
	store *store.Store
	blobs *blob.Store
}

// readMatching reads lines. A filter that is not zero may let few of them through: then they are looked for in one pass over the log, and
// what is found is copied, so that a line does not keep the chunk in memory that it came with.
func (r reader) readMatching(ctx context.Context, log string, after int64, limit int, filter store.LogFilter) (lines []store.LogLine, err error) {
	if filter == (store.LogFilter{}) {
		for {
			lines, err := r.readLines(ctx, log, after, limit)
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
	s := &scan{reader: r, log: log, after: max(after, 0), filter: filter, visit: func(l *store.LogLine) bool {
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
func keepable(l *store.LogLine) store.LogLine {
	kept := *l
	kept.Data = slices.Clone(l.Data)
	return kept
}

// readLines reads all records, from where they lie.
func (r reader) readLines(ctx context.Context, job string, after int64, limit int) ([]store.LogLine, error) {
	if after < 0 {
		after = 0
	}
	for {
		var lines []store.LogLine
		var state store.LogState
		err := r.store.View(ctx, func(tx *store.Tx) (err error) {
			if state, err = tx.LogState(job); err == nil && (state.Archive == "" || after >= state.Archived) {
				lines, err = tx.ReadLog(job, after, limit)
			}
			return err
		})
		if err != nil || state.Archive == "" || after >= state.Archived {
			return lines, err
		}
		lines, err = r.readArchive(ctx, state, after, limit)
		if err != nil && r.archiveMoved(ctx, job, state) {
			continue
		}
		if err != nil || len(lines) > 0 {
			return lines, err
		}
		after = state.Archived // a damaged archive must not be asked for ever
	}
}

// archiveMoved tells whether a log was archived anew since its state was read.
func (r reader) archiveMoved(ctx context.Context, job string, was store.LogState) bool {
	now, err := r.state(ctx, job)
	return err == nil && now.Archive != was.Archive
}

// state tells where a log ends and where it lies.
func (r reader) state(ctx context.Context, job string) (state store.LogState, err error) {
	err = r.store.View(ctx, func(tx *store.Tx) (err error) {
		state, err = tx.LogState(job)
		return err
	})
	return state, err
}

func (r reader) open(ctx context.Context, key string) (*store.Archive, error) {
	object, err := r.blobs.Get(ctx, key)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "log_archive_missing", "the archive of this log cannot be read").
			WithHint("check the Server's place for blobs").WithCause(err)
	}
	return store.OpenArchive(object, object.Size)
}

// readArchive gives records out of an archive.
func (r reader) readArchive(ctx context.Context, state store.LogState, after int64, limit int) ([]store.LogLine, error) {
	archive, err := r.open(ctx, state.Archive)
	if err != nil {
		return nil, err
	}
	return archive.Read(after, limit)
}
