package store

import (
	"time"

	"legwork/internal/catalog"
)

const selectRunbook = "SELECT " + identityColumns + `, r.stack_id, s.name, r.name
	FROM runbooks r JOIN stacks s ON s.id = r.stack_id WHERE r.org = $1`

func scanRunbook(r row) (b catalog.Runbook, err error) {
	var stack, name string
	err = identity(r, &b.Identity, &b.RunbookSpec, &b.StackID, &stack, &name)
	b.Stack, b.Name = stack, name
	return b, err
}

// Runbooks gives the Runbooks of a Stack, or of all Stacks when stackID is empty, by path.
func (tx *Tx) Runbooks(org, stackID string, pages ...Page) ([]catalog.Runbook, error) {
	return listPage(tx, scanRunbook, byPath, pages, selectRunbook+" AND ($2 = '' OR r.stack_id = $2)", org, stackID)
}

// Runbook finds a Runbook by its id or its path "stack/name".
func (tx *Tx) Runbook(org, idOrPath string) (catalog.Runbook, error) {
	return inStack(tx, absent("Runbook", "runbook", idOrPath), scanRunbook, selectRunbook, org, idOrPath)
}

// PutRunbook creates the Runbook when its ID is empty, else replaces it. It sets ID and times, and StackID from Stack when that
// alone is given. Its Schedules are stored by PutSchedules.
func (tx *Tx) PutRunbook(b *catalog.Runbook) error {
	return tx.putInStack("Runbook", "runbook", "runbooks", b.Stack, b.Name, &b.Identity, &b.StackID, b.RunbookSpec)
}

// DeleteRunbook deletes a Runbook with its Schedules and Secrets. Its Jobs stay.
func (tx *Tx) DeleteRunbook(org, id string) error {
	if _, err := tx.exec("DELETE FROM secrets WHERE org = $1 AND runbook_id = $2", org, id); err != nil {
		return err
	}
	return tx.remove("Runbook", "runbook", "runbooks", org, id)
}

// Schedule is what is kept of a Schedule of a Runbook beside its declaration.
type Schedule struct {
	OrganizationID string
	RunbookID      string
	Name           string    // catalog.RunbookSpec.ScheduleName
	Rule           string    // what NextAt was made of
	NextAt         time.Time // zero: never
	LastAt         time.Time // when it was due last
	LastJobID      string    // the Job that came of it
	LastError      string    // or why none came of it
}

const selectSchedule = "SELECT org, runbook_id, name, rule, coalesce(next_at, 0), last_at, last_job_id, last_error FROM schedules"

func scanSchedule(r row) (s Schedule, err error) {
	var next, last int64
	err = r.Scan(&s.OrganizationID, &s.RunbookID, &s.Name, &s.Rule, &next, &last, &s.LastJobID, &s.LastError)
	s.NextAt, s.LastAt = moment(next), moment(last)
	return s, err
}

// Schedules gives what is kept of the Schedules of a Runbook, or of all Runbooks when runbookID is empty, by name.
func (tx *Tx) Schedules(org, runbookID string) ([]Schedule, error) {
	return list(tx, scanSchedule, selectSchedule+" WHERE org = $1 AND ($2 = '' OR runbook_id = $2) ORDER BY runbook_id, name", org, runbookID)
}

// PutSchedules stores the Schedules that a Runbook has now. One whose Rule is the one that is stored goes on as it is; the others
// begin with their NextAt, and those that are not among them are gone.
func (tx *Tx) PutSchedules(org, runbookID string, all []Schedule) error {
	names, args := "''", []any{org, runbookID}
	for _, s := range all {
		_, err := tx.exec(`INSERT INTO schedules (org, runbook_id, name, rule, next_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (runbook_id, name) DO UPDATE SET rule = excluded.rule, next_at = excluded.next_at
			WHERE schedules.rule <> excluded.rule`, org, runbookID, s.Name, s.Rule, dueOrNull(s.NextAt))
		if err != nil {
			return err
		}
		args = append(args, s.Name)
	}
	if len(all) > 0 {
		names = marks(3, len(all))
	}
	_, err := tx.exec("DELETE FROM schedules WHERE org = $1 AND runbook_id = $2 AND name NOT IN ("+names+")", args...)
	return err
}

// DueSchedules gives the Schedules, of all Organizations, whose time has come, those first that wait longest.
func (tx *Tx) DueSchedules(now time.Time, most int) ([]Schedule, error) {
	return list(tx, scanSchedule, selectSchedule+" WHERE next_at <= $1 ORDER BY next_at, runbook_id, name LIMIT $2", micros(now), most)
}

// ClaimSchedule moves a Schedule that is due on to its next time, for one Server alone: it tells whether this one did it.
func (tx *Tx) ClaimSchedule(s Schedule, next time.Time) (bool, error) {
	n, err := tx.exec(`UPDATE schedules SET next_at = $5, last_at = $4, last_job_id = '', last_error = ''
		WHERE org = $1 AND runbook_id = $2 AND name = $3 AND next_at = $4`,
		s.OrganizationID, s.RunbookID, s.Name, micros(s.NextAt), dueOrNull(next))
	return n > 0, err
}

// NoteScheduled keeps what came of the last time of a Schedule.
func (tx *Tx) NoteScheduled(s Schedule, jobID, failed string) error {
	_, err := tx.exec("UPDATE schedules SET last_job_id = $5, last_error = $6 WHERE org = $1 AND runbook_id = $2 AND name = $3 AND last_at = $4",
		s.OrganizationID, s.RunbookID, s.Name, micros(s.NextAt), jobID, failed)
	return err
}
