package store

import (
	"cmp"
	"slices"
	"time"

	"legwork/internal/work"
)

// QueueMark is a place in the queue. The zero mark is before all.
type QueueMark struct {
	rank, number int64
	id           string
}

// QueuedJobs gives what waits for an Instance, in all Organizations, behind a place, in the order of work.Rank, and the place of the last of them. It is
// told by the columns that the order goes by, so that a page always goes on where the one before ended. limit is at most 1000, 0 =
// 1000.
func (tx *Tx) QueuedJobs(after QueueMark, limit int) (jobs []*work.Job, last QueueMark, err error) {
	last = after
	scan := func(r row) (*work.Job, error) {
		var doc []byte
		if err := r.Scan(&doc, &last.rank, &last.number, &last.id); err != nil {
			return nil, err
		}
		return readJob(doc)
	}
	// the first page has a statement of its own: marks of Jobs from before an upgrade may be lower than zero's
	if after == (QueueMark{}) {
		jobs, err = list(tx, scan, "SELECT doc, rank_at, number, id FROM jobs WHERE phase = 0 AND kind NOT IN ('runbook', 'command') ORDER BY rank_at, number, id LIMIT $1", bounded(limit, 1000, 1000))
		return jobs, last, err
	}
	jobs, err = list(tx, scan, `SELECT doc, rank_at, number, id FROM jobs WHERE phase = 0 AND kind NOT IN ('runbook', 'command') AND (rank_at, number, id) > ($1, $2, $3)
		ORDER BY rank_at, number, id LIMIT $4`, after.rank, after.number, after.id, bounded(limit, 1000, 1000))
	return jobs, last, err
}

// UnarchivedLogs gives Jobs that are over, created before a time, whose log or the end of it still lies in the database, in
// the order of their ids, after the one named last ("" to begin), of all Organizations. limit is at most 1000, 0 = 1000.
func (tx *Tx) UnarchivedLogs(before time.Time, last string, limit int) ([]*work.Job, error) {
	limit = bounded(limit, 1000, 1000)
	var all []*work.Job
	for _, which := range []string{"l.archive = ''", "l.late"} { // one index each
		some, err := list(tx, scanJob, `SELECT j.doc, j.due_at FROM log_jobs l JOIN jobs j ON j.id = l.job_id
			WHERE l.job_id > $1 AND `+which+` AND j.phase = 2 AND j.queued_at < $2 ORDER BY l.job_id LIMIT $3`, last, micros(before), limit)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b *work.Job) int { return cmp.Compare(a.ID, b.ID) })
	return all[:min(limit, len(all))], nil
}
