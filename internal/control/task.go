package control

import (
	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// taskSpec says what an Instance needs for a Job that is no Module's and no Part: one that asks a Node source, lists where Secrets are, or is done by a launcher.
func (c *Control) taskSpec(tx *store.Tx, j *work.Job) (*work.Spec, error) {
	s, err := tx.JobSnapshot(j.OrganizationID, j.ID)
	if err != nil {
		return nil, err
	}
	spec := makeSpec(j, catalog.Module{ModuleSpec: s.Module}, nil)
	spec.Module, spec.NodeSource, spec.Where = j.Runbook, s.NodeSource, s.Where
	if s.Release != "" {
		spec.Task, err = c.installTask(tx, j, s)
		return spec, err
	}
	if s.Task != nil {
		return spec, c.hosting.Spec(tx, j, s, spec)
	}
	if s.NodeSource != nil {
		spec.Source = s.NodeSource.Source
	}
	return spec, nil
}
