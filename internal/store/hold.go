package store

import "legwork/internal/work"

// OpenJobRef names a Job that is not over.
type OpenJobRef struct {
	OrganizationID string
	ID             string
	Status         work.Status
}

// OpenJobs returns the Jobs of all Organizations that are not over and whose ids follow after, in the order of their ids: those that
// were begun or, with waiting, those that still wait for the first time. Parts are among the former only.
func (tx *Tx) OpenJobs(waiting bool, after string, limit int) ([]OpenJobRef, error) {
	which := "(phase = 1 OR phase = 0 AND attempt > 0)"
	if waiting {
		which = "phase = 0 AND parent_id = ''"
	}
	scan := func(r row) (j OpenJobRef, err error) {
		err = r.Scan(&j.OrganizationID, &j.ID, &j.Status)
		return j, err
	}
	return list(tx, scan, "SELECT org, id, status FROM jobs WHERE "+which+" AND id > $1 ORDER BY id LIMIT $2", after, limit)
}
