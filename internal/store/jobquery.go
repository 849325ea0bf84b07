package store

import (
	"slices"
	"time"

	"legwork/internal/work"
)

// bounded gives n between 1 and most; 0 and less mean usual.
func bounded(n, usual, most int) int {
	if n <= 0 {
		n = usual
	}
	return min(n, most)
}

// BoundJobs gives the Jobs that are bound to an Instance, oldest first.
func (tx *Tx) BoundJobs(org, instanceID string) ([]*work.Job, error) {
	return list(tx, scanJob, selectBoundJobs, instanceID, org)
}

// ModuleBusy gives the Job that is bound for the Module, or nil; for another lane, the Job that holds it. In an Update the Module's queue and Binding
// stay as they are until its end, as far as others ask first, too.
func (tx *Tx) ModuleBusy(org, moduleID string) (*work.Job, error) {
	if err := tx.lock("module " + moduleID); err != nil {
		return nil, err
	}
	j, _, err := find(tx, scanJob, selectModuleBusy, moduleID, org)
	return j, err
}

// QueuedOf gives the oldest queued Job of the Module with the same action, or nil. It locks as ModuleBusy does.
func (tx *Tx) QueuedOf(org, moduleID string, a work.Action) (*work.Job, error) {
	if err := tx.lock("module " + moduleID); err != nil {
		return nil, err
	}
	j, _, err := find(tx, scanJob, selectQueuedOf, moduleID, string(a), org)
	return j, err
}

// ReplaceableOf returns the oldest queued job of a module with the same action that a newer one may supersede, or nil.
// It locks as ModuleBusy does.
func (tx *Tx) ReplaceableOf(org, moduleID string, a work.Action) (*work.Job, error) {
	if err := tx.lock("module " + moduleID); err != nil {
		return nil, err
	}
	queued, err := list(tx, scanJob, selectQueuedOf, moduleID, string(a), org)
	if i := slices.IndexFunc(queued, (*work.Job).Replaceable); i >= 0 {
		return queued[i], err
	}
	return nil, err
}

// DueJobs gives bound Jobs whose lease, recovery window or approval window is over, the longest over first, of all Organizations. limit is at
// most 1000, 0 = 1000.
func (tx *Tx) DueJobs(now time.Time, limit int) ([]*work.Job, error) {
	return list(tx, scanJob, selectJob+" WHERE due_at <= $1 ORDER BY due_at LIMIT $2", micros(now), bounded(limit, 1000, 1000))
}

// OverdueJobs returns jobs whose time limit is over, the longest overdue first.
func (tx *Tx) OverdueJobs(now time.Time, limit int) ([]*work.Job, error) {
	return list(tx, scanJob, selectJob+" WHERE deadline_at <= $1 ORDER BY deadline_at LIMIT $2", micros(now), bounded(limit, 1000, 1000))
}

// CountOpenJobs counts the Jobs that are not over, of all Organizations, by status; a status without Jobs is missing.
func (tx *Tx) CountOpenJobs() (map[work.Status]int, error) {
	counts := map[work.Status]int{}
	scan := func(r row) (struct{}, error) {
		var s work.Status
		var n int
		err := r.Scan(&s, &n)
		counts[s] = n
		return struct{}{}, err
	}
	_, err := list(tx, scan, "SELECT status, count(*) FROM jobs WHERE phase < 2 AND number > 0 GROUP BY status")
	return counts, err
}
