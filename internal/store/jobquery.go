package store

import (
	"fmt"
	"strings"
	"time"

	"legwork/internal/work"
)

// JobFilter narrows a listing of Jobs. Zero fields match all.
type JobFilter struct {
	Statuses     []work.Status
	ModuleID     string
	RunnerID     string
	BeforeNumber int64 // for paging: only Jobs with a smaller number
	Limit        int   // 1 to 1000; 0 = 100
}

// Jobs lists Jobs of an Organization, newest first.
func (tx *Tx) Jobs(org string, f JobFilter) ([]*work.Job, error) {
	where, args := []string{"org = $1"}, []any{org}
	arg := func(condition string, v any) {
		args = append(args, v)
		where = append(where, fmt.Sprintf(condition, len(args)))
	}
	if f.ModuleID != "" {
		arg("module_id = $%d", f.ModuleID)
	}
	if f.RunnerID != "" {
		arg("runner_id = $%d", f.RunnerID)
	}
	if f.BeforeNumber > 0 {
		arg("number < $%d", f.BeforeNumber)
	}
	if len(f.Statuses) > 0 {
		where = append(where, fmt.Sprintf("status IN (%s)", marks(len(args)+1, len(f.Statuses))))
		alive := true
		for _, s := range f.Statuses {
			args = append(args, string(s))
			alive = alive && !s.Terminal()
		}
		if alive { // few among very many: there is an index of those
			where = append(where, "phase < 2")
		}
	}
	args = append(args, bounded(f.Limit, 100, 1000))
	return list(tx, scanJob, fmt.Sprintf("%s WHERE %s ORDER BY number DESC LIMIT $%d", selectJob, strings.Join(where, " AND "), len(args)), args...)
}

// bounded gives n between 1 and most; 0 and less mean usual.
func bounded(n, usual, most int) int {
	if n <= 0 {
		n = usual
	}
	return min(n, most)
}

// QueuedJobs gives what waits in all Organizations, oldest first. limit is at most 1000, 0 = 1000.
func (tx *Tx) QueuedJobs(limit int) ([]*work.Job, error) {
	return list(tx, scanJob, selectJob+" WHERE phase = 0 ORDER BY queued_at, number, id LIMIT $1", bounded(limit, 1000, 1000))
}

// BoundJobs gives the Jobs that are bound to an Instance, oldest first.
func (tx *Tx) BoundJobs(org, instanceID string) ([]*work.Job, error) {
	return list(tx, scanJob, selectJob+" WHERE phase = 1 AND instance_id = $1 AND org = $2 ORDER BY number", instanceID, org)
}

// ModuleBusy gives the Job that is bound for the Module, or nil. In an Update the Module's queue and Binding
// stay as they are until its end, as far as others ask first, too.
func (tx *Tx) ModuleBusy(org, moduleID string) (*work.Job, error) {
	if err := tx.lock("module " + moduleID); err != nil {
		return nil, err
	}
	j, _, err := find(tx, scanJob, selectJob+" WHERE phase = 1 AND module_id = $1 AND org = $2", moduleID, org)
	return j, err
}

// QueuedOf gives the oldest queued Job of the Module with the same action, or nil. It locks as ModuleBusy does.
func (tx *Tx) QueuedOf(org, moduleID string, a work.Action) (*work.Job, error) {
	if err := tx.lock("module " + moduleID); err != nil {
		return nil, err
	}
	j, _, err := find(tx, scanJob, selectJob+" WHERE phase = 0 AND module_id = $1 AND action = $2 AND org = $3 ORDER BY queued_at, number LIMIT 1",
		moduleID, string(a), org)
	return j, err
}

// DueJobs gives bound Jobs whose lease, recovery window or approval window is over, the longest over first, of all Organizations. limit is at
// most 1000, 0 = 1000.
func (tx *Tx) DueJobs(now time.Time, limit int) ([]*work.Job, error) {
	return list(tx, scanJob, selectJob+" WHERE due_at <= $1 ORDER BY due_at LIMIT $2", micros(now), bounded(limit, 1000, 1000))
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
	_, err := list(tx, scan, "SELECT status, count(*) FROM jobs WHERE phase < 2 GROUP BY status")
	return counts, err
}
