package store

import (
	"cmp"
	"slices"
	"time"

	"legwork/internal/work"
)

// QueuedJobsAfter is QueuedJobs from where an earlier call ended: what was queued later than the Job after, or all when it
// is nil.
func (tx *Tx) QueuedJobsAfter(after *work.Job, limit int) ([]*work.Job, error) {
	if after == nil {
		return tx.QueuedJobs(limit)
	}
	return list(tx, scanJob, selectJob+" WHERE phase = 0 AND (queued_at, number, id) > ($1, $2, $3) ORDER BY queued_at, number, id LIMIT $4",
		micros(after.QueuedAt), after.Number, after.ID, bounded(limit, 1000, 1000))
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
