package store

import (
	"fmt"
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

// RunSnapshot is what a Runbook Job was asked for.
type RunSnapshot struct {
	Options map[string]any `json:"options,omitempty"` // as they were given, but for secrets
	Secrets []string       `json:"secrets,omitempty"` // Options that were given and are secret
	Nodes   string         `json:"nodes,omitempty"`   // filter, in place of the Runbook's
	Names   []string       `json:"names,omitempty"`   // of Nodes, in place of all that match
	Check   bool           `json:"check,omitempty"`
	// Spec is the Runbook as it was declared.
	Spec   *catalog.RunbookSpec      `json:"spec,omitempty"`
	Policy catalog.ConcurrencyPolicy `json:"policy,omitempty"`
}

// partsOfNumber is how many numbers there are for the Parts of one Job.
const partsOfNumber = 1000

// numberColumn is what a Job's column number holds: of a Part a number below zero, so that no list of Jobs shows it.
func numberColumn(j *work.Job) int64 {
	if j.IsPart() {
		return -(j.Number*partsOfNumber + int64(j.Part))
	}
	return j.Number
}

// PlanOf gives the Plan of a Runbook Job, which never changes.
func (tx *Tx) PlanOf(org, jobID string) (*runbook.Plan, error) {
	s, err := tx.JobSnapshot(org, jobID)
	if err == nil && s.Plan == nil {
		err = fault.New(fault.Internal, "plan_missing", "the Job %s has no plan", jobID)
	}
	return s.Plan, err
}

const (
	openRuns     = "phase < 2 AND kind IN ('runbook', 'command')"
	selectParts  = selectJob + " WHERE parent_id = $1 AND parent_id <> '' AND " + ofOrg + "$2 ORDER BY number DESC"
	openRunPage  = "SELECT doc, rank_at, number, id FROM jobs WHERE " + openRuns
	openRunOrder = " ORDER BY rank_at, number, id LIMIT "
	selectRunsOf = "SELECT id, number, status FROM jobs WHERE " + openRuns + " AND runbook_id || '' = $1 AND " + ofOrg + "$2 ORDER BY number"
	countWaiting = "SELECT count(*) FROM jobs WHERE " + openRuns + " AND status = 'queued'"
)

// Parts gives the Parts of a Runbook Job by their numbers; in an Update they are locked.
func (tx *Tx) Parts(org, parentID string) ([]*work.Job, error) {
	return list(tx, scanJob, selectParts+tx.forUpdate(), parentID, org)
}

// OpenRuns gives Runbook Jobs that are not over, of all Organizations, behind a place, those first that stand first in line, and the place of the last
// of them. limit is at most 1000, 0 = 1000.
func (tx *Tx) OpenRuns(after QueueMark, limit int) (runs []*work.Job, last QueueMark, err error) {
	last = after
	scan := func(r row) (*work.Job, error) {
		var doc []byte
		if err := r.Scan(&doc, &last.rank, &last.number, &last.id); err != nil {
			return nil, err
		}
		return readJob(doc)
	}
	limit = bounded(limit, 1000, 1000)
	if after == (QueueMark{}) {
		runs, err = list(tx, scan, openRunPage+openRunOrder+"$1", limit)
		return runs, last, err
	}
	runs, err = list(tx, scan, openRunPage+" AND (rank_at, number, id) > ($1, $2, $3)"+openRunOrder+"$4", after.rank, after.number, after.id, limit)
	return runs, last, err
}

// CountWaitingRuns counts the Runbook Jobs of all Organizations that are queued.
func (tx *Tx) CountWaitingRuns() (int, error) {
	n, _, err := find(tx, func(r row) (n int, err error) { return n, r.Scan(&n) }, countWaiting)
	return n, err
}

// PartStates tells, for each of some Runbook Jobs by id, how its Parts stand: a text that is another one as soon as one of them is in another state or
// another Attempt. Those without Parts are missing.
func (tx *Tx) PartStates(parents []string) (map[string]string, error) {
	states := map[string]string{}
	for some := range slices.Chunk(parents, 500) {
		args := make([]any, len(some))
		for i, id := range some {
			args[i] = id
		}
		_, err := list(tx, func(r row) (struct{}, error) {
			var parent, status string
			var attempt int
			err := r.Scan(&parent, &status, &attempt)
			states[parent] += fmt.Sprintf("%s %d;", status, attempt)
			return struct{}{}, err
		}, "SELECT parent_id, status, attempt FROM jobs WHERE parent_id <> '' AND parent_id IN ("+marks(1, len(some))+") ORDER BY parent_id, number", args...)
		if err != nil {
			return nil, err
		}
	}
	return states, nil
}

// OpenRun is a Runbook Job that is not over.
type OpenRun struct {
	ID     string
	Number int64
	Status work.Status
}

// LockRunbook makes Updates that ask for the Jobs of a Runbook run one after the other. Who locks such a Job as well does so afterwards.
func (tx *Tx) LockRunbook(runbookID string) error { return tx.lock("runbook " + runbookID) }

// RunsOf gives the Jobs of a Runbook that are not over, oldest first. In an Update no other is added or begun until its end, as far as others ask
// first, too: see LockRunbook.
func (tx *Tx) RunsOf(org, runbookID string) ([]OpenRun, error) {
	if err := tx.LockRunbook(runbookID); err != nil || runbookID == "" {
		return nil, err
	}
	return list(tx, func(r row) (o OpenRun, err error) { return o, r.Scan(&o.ID, &o.Number, &o.Status) }, selectRunsOf, runbookID, org)
}

// OpenOfLane gives the oldest Job of a lane that is not over, nil for none. In an Update no other is added until its end, as far as others ask first,
// too.
func (tx *Tx) OpenOfLane(org, lane string) (*work.Job, error) {
	j, err := tx.ModuleBusy(org, lane)
	if err != nil || j != nil {
		return j, err
	}
	j, _, err = find(tx, scanJob, selectJob+" WHERE phase = 0 AND lane = $1 AND org = $2 ORDER BY number LIMIT 1", lane, org)
	return j, err
}
