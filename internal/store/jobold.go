package store

import (
	"fmt"
	"time"

	"legwork/internal/work"
)

// idBefore gives a bound below every id that newID makes from a time on: a UUID version 7 begins with the milliseconds.
func idBefore(t time.Time) string {
	ms := uint64(max(t.UnixMilli(), 0))
	return fmt.Sprintf("%08x-%04x-", ms>>16, ms&0xffff)
}

// OldJobs gives Jobs that are over and were created before a time, in the order of their ids, after the one named last (""
// to begin), of all Organizations. Left out are the newest keep Jobs of each Module that is still there, and its newest one of each
// action. limit is at most 1000, 0 = 1000.
func (tx *Tx) OldJobs(before time.Time, last string, keep, limit int) ([]*work.Job, error) {
	return list(tx, scanJob, `SELECT j.doc, j.due_at FROM jobs j WHERE j.id > $1 AND j.id < $2 AND j.phase = 2 AND j.number > 0
		AND (NOT EXISTS (SELECT 1 FROM modules m WHERE m.id = j.module_id)
			OR ((SELECT count(*) FROM (SELECT 1 FROM jobs n WHERE n.org = j.org AND n.module_id = j.module_id AND n.number > j.number LIMIT $3) newer) >= $3
				AND EXISTS (SELECT 1 FROM jobs n WHERE n.org = j.org AND n.module_id = j.module_id AND n.number > j.number AND n.action = j.action AND n.phase = 2)))
		ORDER BY j.id LIMIT $4`, last, idBefore(before), keep, bounded(limit, 1000, 1000))
}

// DeleteJob deletes a Job that is over with all that was stored of it, and its Output set unless that is its Module's newest. What lies
// in the place for blobs is for the caller to delete, before. A Job that is not there, or not over, stays as it is.
func (tx *Tx) DeleteJob(org, id string) error {
	n, err := tx.exec("DELETE FROM jobs WHERE org = $1 AND id = $2 AND phase = 2", org, id)
	if err != nil || n == 0 {
		return err
	}
	if _, err := tx.exec("DELETE FROM jobs WHERE parent_id = $1 AND parent_id <> ''", id); err != nil {
		return err
	}
	_, err = tx.exec(`DELETE FROM output_sets WHERE org = $1 AND job_id = $2
		AND serial < (SELECT max(serial) FROM output_sets o WHERE o.module_id = output_sets.module_id)`, org, id)
	return err
}
