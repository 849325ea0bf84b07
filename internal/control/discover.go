package control

import (
	"context"
	"fmt"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// discoveryEngine is what an Instance says it has when it can ask Node sources.
const discoveryEngine catalog.Engine = "discovery"

// SubmitDiscovery queues a Job that asks a Node source, by id or path. One that waits already, or is under way, is given in its place.
func (c *Control) SubmitDiscovery(ctx context.Context, actor catalog.Actor, nodeSource string) (*work.Job, error) {
	if err := actor.Need(catalog.Operate); err != nil {
		return nil, err
	}
	if err := c.refuseWhileDraining(); err != nil {
		return nil, err
	}
	var source catalog.NodeSource
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		if source, err = tx.NodeSource(actor.OrganizationID, nodeSource); fault.Is(err, fault.NotFound) {
			err = fault.New(fault.NotFound, "node_source_not_found", "there is no Node source %q", nodeSource).WithHint("see: legwork node-source list")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.discover(ctx, actor, source, "", nil)
}

// discoverScheduled asks a Node source whose interval has passed.
func (c *Control) discoverScheduled(ctx context.Context, source catalog.NodeSource, claim claimDue) error {
	actor := catalog.Actor{OrganizationID: source.OrganizationID, Name: "legwork", Role: catalog.RoleOperator}
	_, err := c.discover(ctx, actor, source, "its interval has passed", claim)
	return err
}

// discover queues a Job that asks a Node source.
func (c *Control) discover(ctx context.Context, actor catalog.Actor, source catalog.NodeSource, cause string, claim claimDue) (*work.Job, error) {
	if source.Type == catalog.FromOutputs {
		return nil, fault.New(fault.Invalid, "source_of_outputs", "the Node source %s is read off the outputs of %s whenever its Nodes are asked for", source.Path(), source.ModulePath()).
			WithHint("run: legwork module apply %s", source.ModulePath())
	}
	var job *work.Job
	var moves []moved
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		moves = nil
		tx.Sign(actor, "job.submit")
		open, err := tx.OpenOfLane(source.OrganizationID, source.ID)
		if err != nil {
			return err
		}
		if job = open; job == nil {
			if job, err = c.enqueueDiscovery(tx, actor, source, cause, &moves); err != nil {
				return err
			}
		}
		if claim != nil {
			return claim(tx, job.ID)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.carryOut(moves...)
	return job, nil
}

func (c *Control) enqueueDiscovery(tx *store.Tx, actor catalog.Actor, source catalog.NodeSource, cause string, moves *[]moved) (*work.Job, error) {
	r, err := tx.Runner(source.OrganizationID, source.Runner)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.New(fault.Conflict, "runner_missing", "the Node source %s names the runner %q, which does not exist", source.Path(), source.Runner).WithHint("run: legwork runner create %s", source.Runner)
	}
	if err != nil {
		return nil, err
	}
	place := catalog.Module{Identity: catalog.Identity{OrganizationID: source.OrganizationID}, StackID: source.StackID}
	if ok, err := isAssigned(tx, r, place); err != nil || !ok {
		if err == nil {
			err = fault.New(fault.Conflict, notAssigned, "runner %s is not assigned to the whole of stack %s", r.Name, source.Stack).WithHint("%s", howToAssign(r.Name, source.Stack))
		}
		return nil, err
	}
	job := &work.Job{
		OrganizationID: source.OrganizationID, StackID: source.StackID, Kind: work.DiscoveryJob, Runbook: source.Path(), Lane: source.ID, CreatedBy: actor.Name, Cause: cause,
		Priority: work.PriorityNormal, Status: work.Queued, Limits: c.limitsOf(catalog.Limits{}), Wait: work.Wait{Code: work.WaitDispatch, Text: "looking for an instance"},
	}
	if source.Source.URL != "" || len(source.Source.Files) > 0 {
		job.Steps = append(job.Steps, work.Step{Kind: work.StepFetch, Status: work.StepPending})
	}
	job.Steps = append(job.Steps, work.Step{Kind: work.StepDiscover, Status: work.StepPending})
	spec := source.NodeSourceSpec
	s := store.JobSnapshot{RunnerID: r.ID, SourceID: source.ID, NodeSource: &spec,
		Module: catalog.ModuleSpec{Stack: source.Stack, Name: source.Name, Engine: discoveryEngine, Runner: r.Name}}
	if err := tx.InsertJob(job, s); err != nil {
		return nil, err
	}
	*moves = append(*moves, moved{job: job, effects: []work.Effect{work.Dispatch{}}, order: c.order.Add(1), snapshot: &s})
	return job, c.note(tx, job, nil)
}

// keepDiscovered stores what a Node source gave, in the transaction that takes the result of its Job.
func (c *Control) keepDiscovered(tx *store.Tx, j *work.Job, result work.StepResult, step int) error {
	if j.Kind != work.DiscoveryJob || step >= len(j.Steps) {
		return nil
	}
	s, err := tx.JobSnapshot(j.OrganizationID, j.ID)
	if err != nil {
		return err
	}
	source, err := tx.NodeSource(j.OrganizationID, s.SourceID)
	if err != nil {
		return unlessGone(err)
	}
	if result.Status == work.StepSucceeded && j.Steps[step].Kind == work.StepDiscover {
		return c.storeDiscovered(tx, source, j.ID, result.Nodes)
	}
	return nil
}

// keepFailed notes at a Node source that the Job failed that asked it.
func (c *Control) keepFailed(tx *store.Tx, j *work.Job) error {
	if j.Kind != work.DiscoveryJob || j.Status != work.Failed || j.Failure == nil {
		return nil
	}
	s, err := tx.JobSnapshot(j.OrganizationID, j.ID)
	if err != nil {
		return err
	}
	source, err := tx.NodeSource(j.OrganizationID, s.SourceID)
	if err != nil {
		return unlessGone(err)
	}
	return c.discoveryFailed(tx, source, j.ID, fmt.Sprintf("job #%d: %s", j.Number, j.Failure.Message))
}
