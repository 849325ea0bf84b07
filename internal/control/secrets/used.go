package secrets

import (
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/work"
)

// UsedEvent is the data of the event "secret.used", as JSON: an Attempt of a Job was given Secrets.
type UsedEvent struct {
	JobID    string `json:"job_id"`
	Number   int64  `json:"number"`
	Attempt  int    `json:"attempt"`
	Runner   string `json:"runner"`
	Instance string `json:"instance"`
	Secrets  []Used `json:"secrets"`
	By       string `json:"by"` // who asked for the Job
}

// Used names a Secret.
type Used struct {
	Name  string             `json:"name"`
	Scope string             `json:"scope"`
	Kind  catalog.SecretKind `json:"kind"`
}

// UsedBy tells which Secrets an Attempt is given; nil: none.
func UsedBy(tx *store.Tx, j *work.Job, m catalog.Module, spec *work.Spec) (*UsedEvent, error) {
	names, place := catalog.SecretNames(m.Inputs), OfModule(m)
	if spec.Run != nil {
		run, err := tx.Job(j.OrganizationID, j.ParentID)
		if err != nil {
			return nil, err
		}
		place = Place{StackID: run.StackID, RunbookID: run.RunbookID}
		for _, in := range spec.Inputs {
			if !isGiven(in.Name) {
				names = append(names, in.Name)
			}
		}
	}
	if len(names) == 0 || j.Binding == nil {
		return nil, nil
	}
	seen, err := seenFrom(tx, j.OrganizationID, place, names)
	if err != nil {
		return nil, err
	}
	e := &UsedEvent{JobID: j.ID, Number: j.Number, Attempt: j.Attempt, Runner: j.Binding.Runner, Instance: j.Binding.Instance, By: j.CreatedBy}
	for _, name := range names {
		e.Secrets = append(e.Secrets, Used{name, seen[name].Scope, seen[name].Kind})
	}
	return e, nil
}

// isGiven tells whether what a Runbook Job takes was given for it, and is no Secret that is kept.
func isGiven(name string) bool { return strings.HasPrefix(name, runbook.GivenSecret("")) }

// Have is a fault that names the Secrets that a Runbook Job at a place is about to take and that are missing.
func Have(tx *store.Tx, org string, place Place, plan *runbook.Plan) error {
	var names []string
	for _, name := range plan.Secrets {
		if !isGiven(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	_, err := seenFrom(tx, org, place, names)
	return err
}
