package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

// JobSnapshot is what a Job was created with; it never changes.
type JobSnapshot struct {
	Module      catalog.ModuleSpec `json:"module"` // effective: the Namespace's defaults are in it
	NamespaceID string             `json:"namespace_id,omitempty"`
	RunnerID    string             `json:"runner_id,omitempty"`
	// Plan and Run are those of a Runbook Job. In the snapshot of a Part, as of every Job without a Module, Module says what it needs of an
	// Instance and nothing else.
	Plan       *runbook.Plan           `json:"plan,omitempty"`
	Run        *RunSnapshot            `json:"run,omitempty"`
	NodeSource *catalog.NodeSourceSpec `json:"node_source,omitempty"` // of a discovery Job
	Release    string                  `json:"release,omitempty"`     // of an update of a self-hosted Runner: the version
	SourceID   string                  `json:"source_id,omitempty"`   // likewise
	Where      string                  `json:"where,omitempty"`       // of a Job that lists where Secrets can be had: a reference, see internal/reference.List
	Task       *TaskSnapshot           `json:"task,omitempty"`        // of a Runner Job
	// Holder is the instance that holds the local state of the module now. It is not stored with the job, because it
	// changes.
	Holder work.StateHolder `json:"-"`
}

// TaskSnapshot says what a Runner Job is about. What it needs beside that is read when it is bound.
type TaskSnapshot struct {
	RunnerID string `json:"runner_id"`         // whose processes
	Runner   string `json:"runner"`            // its name
	Version  string `json:"version,omitempty"` // of an update: the release
	Hosted   bool   `json:"hosted,omitempty"`  // a launcher performs it; else the Instance that the Job is pinned to
}

// JobRef names one Attempt of a Job.
type JobRef struct {
	JobID   string
	Attempt int
}

// phase is what the indexes of Jobs know of their status.
func phase(s work.Status) int {
	switch {
	case s == work.Queued:
		return 0
	case s.Bound():
		return 1
	}
	return 2
}

// leased tells whether a Job of this status is held by a Lease.
func leased(s work.Status) bool {
	return s == work.Claimed || s == work.Running || s == work.Canceling
}

// due is when the sweeper has to look at a Job: the end of what its status waits for.
func due(j *work.Job) any {
	var at time.Time
	switch {
	case leased(j.Status):
		at = j.LeaseUntil
	case j.Status == work.Interrupted:
		at = j.RecoverUntil
	case j.Status == work.AwaitingApproval:
		at = j.ApproveUntil
	}
	if at.IsZero() {
		return nil
	}
	return micros(at)
}

// deadline is when the time limit of a job ends it.
func deadline(j *work.Job) any {
	at := j.Deadline()
	if at.IsZero() {
		return nil
	}
	return micros(at)
}

// selectJob and scanJob read a Job: its document, and its Lease out of the column that RenewLeases writes.
const selectJob = "SELECT doc, due_at FROM jobs"

func scanJob(r row) (*work.Job, error) {
	var doc []byte
	var due *int64
	if err := r.Scan(&doc, &due); err != nil {
		return nil, err
	}
	j, err := readJob(doc)
	if err == nil && due != nil && leased(j.Status) {
		j.LeaseUntil = moment(*due)
	}
	return j, err
}

func readJob(doc []byte) (*work.Job, error) {
	j := new(work.Job)
	if err := json.Unmarshal(doc, j); err != nil {
		return nil, fmt.Errorf("read the document of a Job: %w", err)
	}
	return j, nil
}

// binding gives the Runner and the Instance of a Job for their columns.
func binding(j *work.Job) (runner, instance string) {
	if j.Binding == nil {
		return "", ""
	}
	return j.Binding.RunnerID, j.Binding.InstanceID
}

// InsertJob stores a new Job with its snapshot and gives it ID, Number and times. A Part bears the Number and the time of its Runbook Job.
func (tx *Tx) InsertJob(j *work.Job, s JobSnapshot) error {
	id, err := newID()
	if err != nil {
		return err
	}
	if j.IsPart() {
		j.ID, j.QueuedAt = id, tx.now
		return tx.insertJob(j, s)
	}
	number, err := need(tx, absent("Organization", "organization", j.OrganizationID), value[int64],
		"UPDATE organizations SET last_number = last_number + 1 WHERE id = $1 RETURNING last_number", j.OrganizationID)
	if err != nil {
		return err
	}
	j.ID, j.Number, j.CreatedAt, j.QueuedAt = id, number, tx.now, tx.now
	return tx.insertJob(j, s)
}

func (tx *Tx) insertJob(j *work.Job, s JobSnapshot) error {
	doc, err := document(j)
	if err != nil {
		return err
	}
	snapshot, err := document(s)
	if err != nil {
		return err
	}
	runner, instance := binding(j)
	_, err = tx.exec(`INSERT INTO jobs (id, org, number, module_id, action, phase, status, attempt, runner_id, instance_id, queued_at, rank_at, due_at, doc,
			module_path, created_by, created_at, kind, lane, parent_id, runbook_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)`,
		j.ID, j.OrganizationID, numberColumn(j), j.ModuleID, string(j.Action), phase(j.Status), string(j.Status), j.Attempt, runner, instance,
		micros(j.QueuedAt), rank(j), due(j), doc, cmp.Or(j.Module, j.Runbook), j.CreatedBy, micros(j.CreatedAt),
		string(cmp.Or(j.Kind, work.ModuleJob)), j.LaneID(), j.ParentID, j.RunbookID)
	if err != nil {
		return err
	}
	_, err = tx.exec("INSERT INTO job_snapshots (job_id, doc) VALUES ($1, $2)", j.ID, snapshot)
	return err
}

// Job finds a Job by its id, its number, or "#number".
func (tx *Tx) Job(org, idOrNumber string) (*work.Job, error) {
	missing := absent("Job", "job", idOrNumber)
	if number, err := strconv.ParseInt(strings.TrimPrefix(idOrNumber, "#"), 10, 64); err == nil {
		if number <= 0 {
			return nil, missing
		}
		return need(tx, missing, scanJob, selectJob+" WHERE org = $1 AND number = $2", org, number)
	}
	return need(tx, missing, scanJob, selectJob+" WHERE org = $1 AND id = $2", org, idOrNumber)
}

// JobForUpdate is Job by id, locked until the end of the transaction.
func (tx *Tx) JobForUpdate(org, id string) (*work.Job, error) {
	return need(tx, absent("Job", "job", id), scanJob, selectJob+" WHERE id = $1 AND org = $2"+tx.forUpdate(), id, org)
}

// SaveJob writes what Next changed, of a Job that JobForUpdate gave.
func (tx *Tx) SaveJob(j *work.Job) error {
	doc, err := document(j)
	if err != nil {
		return err
	}
	runner, instance := binding(j)
	n, err := tx.exec(`UPDATE jobs SET phase = $2, status = $3, attempt = $4, runner_id = $5, instance_id = $6, queued_at = $7,
		rank_at = $8, due_at = $9, doc = $10, deadline_at = $11 WHERE id = $1`,
		j.ID, phase(j.Status), string(j.Status), j.Attempt, runner, instance, micros(j.QueuedAt), rank(j), due(j), doc, deadline(j))
	if tx.d.trouble(err) == brokenUnique {
		return fault.New(fault.Conflict, "module_busy", "another Job of %s is under way", cmp.Or(j.Module, j.Runbook)).WithCause(err)
	}
	if err == nil && n == 0 {
		return absent("Job", "job", j.ID)
	}
	return err
}

// ClaimJob writes a Job that Next moved from queued to claimed, on the condition that it is still queued
// with the attempt before and that no other Job holds its lane (a unique index). ok is false when it lost.
func (tx *Tx) ClaimJob(j *work.Job) (ok bool, err error) { return tx.bindJob(j, j.Attempt-1) }

// ResumeJob writes a job that Next moved from queued back to the instance of its last attempt, on the condition that it is still
// queued after that attempt and that no other job holds its lane. ok is false when another claim was faster.
func (tx *Tx) ResumeJob(j *work.Job) (ok bool, err error) { return tx.bindJob(j, j.Attempt) }

// bindJob writes a job that was queued after the given attempt and is bound now.
func (tx *Tx) bindJob(j *work.Job, queuedAfter int) (ok bool, err error) {
	doc, err := document(j)
	if err != nil {
		return false, err
	}
	runner, instance := binding(j)
	n, err := tx.exec(`UPDATE jobs SET phase = 1, status = $2, attempt = $3, runner_id = $4, instance_id = $5, due_at = $6, doc = $7
		WHERE id = $1 AND phase = 0 AND attempt = $8
		AND NOT EXISTS (SELECT 1 FROM jobs b WHERE b.lane = jobs.lane AND b.phase = 1)`,
		j.ID, string(j.Status), j.Attempt, runner, instance, due(j), doc, queuedAfter)
	if tx.d.trouble(err) == brokenUnique {
		// Another claim was committed since this statement began. Run anew, it will be seen.
		tx.again = true
		return false, errAgain
	}
	return n == 1, err
}

// JobSnapshot gets what a Job was created with.
func (tx *Tx) JobSnapshot(org, jobID string) (s JobSnapshot, err error) {
	doc, err := need(tx, absent("Job", "job", jobID), value[[]byte], `SELECT s.doc FROM job_snapshots s
		JOIN jobs j ON j.id = s.job_id WHERE s.job_id = $1 AND j.org = $2`, jobID, org)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(doc, &s); err != nil {
		return s, fmt.Errorf("read the snapshot of a Job: %w", err)
	}
	return s, nil
}

// RenewLeases moves the lease of those Jobs that are still held by one under that attempt, of all Organizations: the Server says
// which, of its own knowledge of its Sessions.
func (tx *Tx) RenewLeases(refs []JobRef, until time.Time) error {
	const most = 64
	for len(refs) > 0 {
		n := min(most, len(refs))
		size := rounded(n, most)
		which := make([]string, size)
		args := []any{micros(until)}
		for i := range size {
			ref := refs[min(i, n-1)]
			which[i] = fmt.Sprintf("(id = $%d AND attempt = $%d)", 2*i+2, 2*i+3)
			args = append(args, ref.JobID, ref.Attempt)
		}
		_, err := tx.exec("UPDATE jobs SET due_at = $1 WHERE ("+strings.Join(which, " OR ")+
			") AND status IN ('claimed', 'running', 'canceling')", args...)
		if err != nil {
			return err
		}
		refs = refs[n:]
	}
	return nil
}

// rounded gives the next power of two from n on, at most most: a list in a statement is filled up to such
// a length by repeating its last member, so that there are few statements to prepare.
func rounded(n, most int) int {
	size := 1
	for size < n {
		size *= 2
	}
	return min(size, most)
}
