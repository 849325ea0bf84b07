package store

// AppliedInputs are the inputs of the last apply of a module that were outputs of others, sealed for a job and its
// attempt.
type AppliedInputs struct {
	JobID   string
	Attempt int
	Sealed  []byte
}

// AppliedInputs returns the inputs that PutAppliedInputs stored for a module. ok is false when there are none.
func (tx *Tx) AppliedInputs(org, moduleID string) (inputs AppliedInputs, ok bool, err error) {
	scan := func(r row) (i AppliedInputs, err error) {
		err = r.Scan(&i.JobID, &i.Attempt, &i.Sealed)
		return i, err
	}
	return find(tx, scan, "SELECT job_id, attempt, sealed FROM applied_inputs WHERE org = $1 AND module_id = $2", org, moduleID)
}

// PutAppliedInputs stores the inputs of the last apply of a module.
func (tx *Tx) PutAppliedInputs(org, moduleID string, i AppliedInputs) error {
	_, err := tx.exec(`INSERT INTO applied_inputs (module_id, org, job_id, attempt, sealed) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (module_id) DO UPDATE SET job_id = excluded.job_id, attempt = excluded.attempt, sealed = excluded.sealed`,
		moduleID, org, i.JobID, i.Attempt, blob(i.Sealed))
	return err
}

// DeleteAppliedInputs forgets the inputs of the last apply of a module.
func (tx *Tx) DeleteAppliedInputs(org, moduleID string) error {
	_, err := tx.exec("DELETE FROM applied_inputs WHERE org = $1 AND module_id = $2", org, moduleID)
	return err
}
