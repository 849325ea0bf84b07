package store

import (
	"encoding/json"
	"fmt"

	"legwork/internal/catalog"
)

// PutOutputSet stores the outputs of an apply, with values as given (sealed by the caller). It sets ID, Serial and CreatedAt.
func (tx *Tx) PutOutputSet(org string, s *catalog.OutputSet) error {
	id, err := newID()
	if err != nil {
		return err
	}
	doc, err := document(s.Values)
	if err != nil {
		return err
	}
	trouble, err := tx.guarded(func() (err error) {
		s.Serial, err = need(tx, absent("Module", "module", s.ModuleID), value[int64],
			`INSERT INTO output_sets (id, org, module_id, job_id, serial, created_at, doc)
			VALUES ($1, $2, $3, $4, (SELECT coalesce(max(serial), 0) + 1 FROM output_sets WHERE module_id = $3), $5, $6) RETURNING serial`,
			id, org, s.ModuleID, s.JobID, micros(tx.now), doc)
		return err
	})
	switch trouble {
	case brokenReference:
		return absent("Module", "module", s.ModuleID).WithCause(err)
	case brokenUnique: // another one took the serial meanwhile
		tx.again = true
		return errAgain
	}
	s.ID, s.CreatedAt = id, tx.now
	return err
}

// LatestOutputs gives the newest Output set of a Module, or fault.NotFound when there is none.
func (tx *Tx) LatestOutputs(org, moduleID string) (catalog.OutputSet, error) {
	scan := func(r row) (s catalog.OutputSet, err error) {
		var created int64
		var doc []byte
		if err = r.Scan(&s.ID, &s.ModuleID, &s.JobID, &s.Serial, &created, &doc); err != nil {
			return s, err
		}
		s.CreatedAt = moment(created)
		if err := json.Unmarshal(doc, &s.Values); err != nil {
			return s, fmt.Errorf("read an Output set: %w", err)
		}
		return s, nil
	}
	return need(tx, absent("Output set of the Module", "outputs", moduleID), scan, `SELECT id, module_id, job_id, serial, created_at, doc
		FROM output_sets WHERE org = $1 AND module_id = $2 ORDER BY serial DESC LIMIT 1`, org, moduleID)
}
