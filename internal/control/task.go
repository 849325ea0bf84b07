package control

import (
	"context"

	"legwork/internal/catalog"
	"legwork/internal/fault"
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

// tasks has Jobs done by a Runner for a whole Stack.
type tasks struct{ c *Control }

// Accepting is the error of a Server that takes no more Jobs.
func (t tasks) Accepting() error { return t.c.refuseWhileDraining() }

// Assigned is the error of a Runner that may not work for the whole of a Stack.
func (t tasks) Assigned(tx *store.Tx, r catalog.Runner, stackID, stack string) error {
	whole := catalog.Module{Identity: catalog.Identity{OrganizationID: r.OrganizationID}, StackID: stackID}
	ok, err := isAssigned(tx, r, whole)
	if err != nil || ok {
		return err
	}
	return fault.New(fault.Conflict, notAssigned, "runner %s is not assigned to the whole of stack %s", r.Name, stack).WithHint("%s", catalog.HowToAssign(r.Name, stack))
}

// Submit runs a transaction that may queue Jobs, which get the limits of the Server, and has them dispatched after it.
func (t tasks) Submit(ctx context.Context, fn func(tx *store.Tx, queue func(*work.Job, store.JobSnapshot) error) error) error {
	return t.c.withJobs(ctx, func(tx *store.Tx, do *changes) error {
		return fn(tx, func(job *work.Job, s store.JobSnapshot) error {
			job.Priority, job.Status, job.Limits = work.PriorityNormal, work.Queued, t.c.limitsOf(catalog.Limits{})
			job.Wait = work.Wait{Code: work.WaitDispatch, Text: "looking for an instance"}
			return do.Enqueue(job, s)
		})
	})
}
