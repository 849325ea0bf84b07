package store

import "legwork/internal/work"

const selectRunnerJobsWaiting = selectJob + " WHERE phase = 0 AND kind = 'runner' AND lane = $1 AND " + ofOrg + "$2 ORDER BY number"

// OpenInLane gives the Runner Jobs that hold a lane or wait for it, the one that holds it first, the others by their numbers. In an Update
// nobody else takes the lane until its end, as far as they ask first, too.
func (tx *Tx) OpenInLane(org, lane string) ([]*work.Job, error) {
	holder, err := tx.ModuleBusy(org, lane)
	if err != nil {
		return nil, err
	}
	waiting, err := list(tx, scanJob, selectRunnerJobsWaiting, lane, org)
	if holder != nil {
		waiting = append([]*work.Job{holder}, waiting...)
	}
	return waiting, err
}
