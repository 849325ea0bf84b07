package store

import "legwork/internal/work"

// OpenInLane gives the Jobs that hold a lane or wait for it, by their numbers. In an Update nobody else takes the lane until its end, as far as
// they ask first, too.
func (tx *Tx) OpenInLane(org, lane string) ([]*work.Job, error) {
	if err := tx.lock("module " + lane); err != nil {
		return nil, err
	}
	return list(tx, scanJob, selectJob+" WHERE phase IN (0, 1) AND lane = $1 AND "+ofOrg+"$2 ORDER BY number", lane, org)
}
