package store

// PutJobInputs keeps the resolved Inputs of an Attempt, sealed by the caller, in place of those of an earlier one.
func (tx *Tx) PutJobInputs(jobID string, attempt int, sealed []byte) error {
	_, err := tx.exec(`INSERT INTO job_inputs (job_id, attempt, sealed) VALUES ($1, $2, $3)
		ON CONFLICT (job_id) DO UPDATE SET attempt = excluded.attempt, sealed = excluded.sealed`, jobID, attempt, blob(sealed))
	return err
}

// JobInputs gives what PutJobInputs kept for an Attempt, or fault.NotFound.
func (tx *Tx) JobInputs(jobID string, attempt int) ([]byte, error) {
	return need(tx, absent("record of the Inputs of the Job", "job_inputs", jobID), value[[]byte],
		"SELECT sealed FROM job_inputs WHERE job_id = $1 AND attempt = $2", jobID, attempt)
}

// DropJobInputs forgets the resolved Inputs of a Job, if there are any.
func (tx *Tx) DropJobInputs(jobID string) error {
	_, err := tx.exec("DELETE FROM job_inputs WHERE job_id = $1", jobID)
	return err
}
