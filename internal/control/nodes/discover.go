package nodes

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
func (n *Nodes) SubmitDiscovery(ctx context.Context, actor catalog.Actor, nodeSource string) (*work.Job, error) {
	if err := actor.Need(catalog.Operate); err != nil {
		return nil, err
	}
	if err := n.book.host.Accepting(); err != nil {
		return nil, err
	}
	var source catalog.NodeSource
	err := n.book.store.View(ctx, func(tx *store.Tx) (err error) {
		if source, err = tx.NodeSource(actor.OrganizationID, nodeSource); fault.Is(err, fault.NotFound) {
			err = fault.New(fault.NotFound, "node_source_not_found", "there is no Node source %q", nodeSource).WithHint("see: legwork node-source list")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return n.book.discover(ctx, actor, source, "", nil)
}

// Refresh asks a Node source whose interval has passed. claim takes that, in the transaction that stores the Job, whose id it is told; its error
// has nothing stored.
func (b *Book) Refresh(ctx context.Context, source catalog.NodeSource, claim func(tx *store.Tx, jobID string) error) error {
	actor := catalog.Actor{OrganizationID: source.OrganizationID, Name: "legwork", Role: catalog.RoleOperator}
	_, err := b.discover(ctx, actor, source, "its interval has passed", claim)
	return err
}

// discover queues a Job that asks a Node source. claim may be nil.
func (b *Book) discover(ctx context.Context, actor catalog.Actor, source catalog.NodeSource, cause string, claim func(*store.Tx, string) error) (*work.Job, error) {
	if source.Type == catalog.FromOutputs {
		return nil, fault.New(fault.Invalid, "source_of_outputs", "the Node source %s is read off the outputs of %s whenever its Nodes are asked for", source.Path(), source.ModulePath()).
			WithHint("run: legwork module apply %s", source.ModulePath())
	}
	var job *work.Job
	err := b.host.Submit(ctx, func(tx *store.Tx, queue func(*work.Job, store.JobSnapshot) error) error {
		tx.Sign(actor, "job.submit")
		open, err := tx.OpenOfLane(source.OrganizationID, source.ID)
		if err != nil {
			return err
		}
		if job = open; job == nil {
			var s store.JobSnapshot
			if job, s, err = b.draft(tx, actor, source, cause); err != nil {
				return err
			}
			if err := queue(job, s); err != nil {
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
	return job, nil
}

// draft makes the Job that asks a Node source.
func (b *Book) draft(tx *store.Tx, actor catalog.Actor, source catalog.NodeSource, cause string) (job *work.Job, s store.JobSnapshot, err error) {
	r, err := tx.Runner(source.OrganizationID, source.Runner)
	if fault.Is(err, fault.NotFound) {
		return nil, s, fault.New(fault.Conflict, "runner_missing", "the Node source %s names the runner %q, which does not exist", source.Path(), source.Runner).WithHint("run: legwork runner create %s", source.Runner)
	}
	if err != nil {
		return nil, s, err
	}
	if err := b.host.Assigned(tx, r, source.StackID, source.Stack); err != nil {
		return nil, s, err
	}
	job = &work.Job{
		OrganizationID: source.OrganizationID, StackID: source.StackID, Kind: work.DiscoveryJob, Runbook: source.Path(), Lane: source.ID, CreatedBy: actor.Name, Cause: cause,
	}
	if source.Source.URL != "" || len(source.Source.Files) > 0 {
		job.Steps = append(job.Steps, work.Step{Kind: work.StepFetch, Status: work.StepPending})
	}
	job.Steps = append(job.Steps, work.Step{Kind: work.StepDiscover, Status: work.StepPending})
	spec := source.NodeSourceSpec
	s = store.JobSnapshot{RunnerID: r.ID, SourceID: source.ID, NodeSource: &spec,
		Module: catalog.ModuleSpec{Stack: source.Stack, Name: source.Name, Engine: discoveryEngine, Runner: r.Name}}
	return job, s, nil
}

// Keep stores what a Node source gave, in the transaction that takes the result of its Job.
func (b *Book) Keep(tx *store.Tx, j *work.Job, result work.StepResult, step int) error {
	if j.Kind != work.DiscoveryJob || step >= len(j.Steps) {
		return nil
	}
	source, there, err := sourceOf(tx, j)
	if err != nil || !there {
		return err
	}
	if result.Status == work.StepSucceeded && j.Steps[step].Kind == work.StepDiscover {
		return b.Found(tx, source, j.ID, result.Nodes)
	}
	return nil
}

// KeepFailed notes at a Node source that the Job failed that asked it.
func (b *Book) KeepFailed(tx *store.Tx, j *work.Job) error {
	if j.Kind != work.DiscoveryJob || j.Status != work.Failed || j.Failure == nil {
		return nil
	}
	source, there, err := sourceOf(tx, j)
	if err != nil || !there {
		return err
	}
	return b.Failed(tx, source, j.ID, fmt.Sprintf("job #%d: %s", j.Number, j.Failure.Message))
}

// sourceOf gives the Node source that a Job asked, if it is there still.
func sourceOf(tx *store.Tx, j *work.Job) (source catalog.NodeSource, there bool, err error) {
	s, err := tx.JobSnapshot(j.OrganizationID, j.ID)
	if err != nil {
		return source, false, err
	}
	source, err = tx.NodeSource(j.OrganizationID, s.SourceID)
	return source, err == nil, unlessGone(err)
}
