package control

import (
	"cmp"
	"context"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// referenceEngine is what an Instance says it has when it can list where Secrets are.
const referenceEngine catalog.Engine = "secrets"

// SecretPlace is where a Runner is to look for Secrets.
type SecretPlace struct {
	Stack  string // id or name; the Runner must be assigned to the whole of it
	Runner string // id or name
	Where  string // a reference without its end: ${file:/run/secrets}, ${env:APP_}, ${vault:secret/data/app}
}

// SecretPathsView is what came of looking for Secrets.
type SecretPathsView struct {
	Job   *work.Job
	Where string
	Paths []string // references, by text; nil until the Job is done
}

// ListSecretPaths queues a Job that lists where Secrets can be had at a Runner: paths, and never values.
func (c *Control) ListSecretPaths(ctx context.Context, actor catalog.Actor, p SecretPlace) (job *work.Job, err error) {
	if err := actor.Need(catalog.Declare); err != nil {
		return nil, err
	}
	if err := c.refuseWhileDraining(); err != nil {
		return nil, err
	}
	if err := (catalog.SecretSpec{Name: "x", Scope: "x", Kind: catalog.SecretReference, Reference: p.Where}).Check(); err != nil {
		return nil, fault.New(fault.Invalid, "secret_place", "%s", fault.Of(err).Message).
			WithDetails(fault.Problem{Field: "where", Message: "wants a place such as ${file:/run/secrets}, ${env:APP_} or ${vault:secret/data/app}"})
	}
	var moves []moved
	err = c.store.Update(ctx, func(tx *store.Tx) error {
		moves = nil
		tx.Sign(actor, "job.submit")
		stack, err := tx.Stack(actor.OrganizationID, p.Stack)
		if err != nil {
			return err
		}
		r, err := tx.Runner(actor.OrganizationID, p.Runner)
		if err != nil {
			return err
		}
		place := catalog.Module{Identity: catalog.Identity{OrganizationID: actor.OrganizationID}, StackID: stack.ID}
		if ok, err := isAssigned(tx, r, place); err != nil || !ok {
			return cmp.Or(err, error(fault.New(fault.Conflict, notAssigned, "runner %s is not assigned to the whole of stack %s", r.Name, stack.Name).
				WithHint("%s", howToAssign(r.Name, stack.Name))))
		}
		job = &work.Job{
			OrganizationID: actor.OrganizationID, StackID: stack.ID, Kind: work.SecretsJob, Runbook: stack.Name + "/secrets", CreatedBy: actor.Name,
			Priority: work.PriorityNormal, Status: work.Queued, Limits: c.limitsOf(catalog.Limits{}),
			Wait:  work.Wait{Code: work.WaitDispatch, Text: "looking for an instance"},
			Steps: []work.Step{{Kind: work.StepListSecrets, Status: work.StepPending}},
		}
		s := store.JobSnapshot{RunnerID: r.ID, Where: p.Where,
			Module: catalog.ModuleSpec{Stack: stack.Name, Name: "secrets", Engine: referenceEngine, Runner: r.Name}}
		if err := tx.InsertJob(job, s); err != nil {
			return err
		}
		moves = append(moves, moved{job: job, effects: []work.Effect{work.Dispatch{}}, order: c.order.Add(1), snapshot: &s})
		return c.note(tx, job, nil)
	})
	if err != nil {
		return nil, err
	}
	c.carryOut(moves...)
	return job, nil
}

// SecretPaths gives what a Job of ListSecretPaths found, by its id or number.
func (c *Control) SecretPaths(ctx context.Context, actor catalog.Actor, job string) (v SecretPathsView, err error) {
	if err := actor.Need(catalog.Declare); err != nil {
		return v, err
	}
	if v.Job, err = c.Job(ctx, actor, job); err != nil {
		return v, err
	}
	err = c.store.View(ctx, func(tx *store.Tx) error {
		s, err := tx.JobSnapshot(v.Job.OrganizationID, v.Job.ID)
		if err != nil {
			return err
		}
		v.Where = s.Where
		v.Paths, err = tx.SecretPaths(v.Job.OrganizationID, v.Job.ID)
		return err
	})
	return v, err
}

// What a Job may report of paths.
const (
	maxSecretPaths = 1_000
	maxSecretPath  = catalog.MaxReference
)

// keepSecretPaths stores what a Runner found, in the transaction that takes the result of its Job.
func (c *Control) keepSecretPaths(tx *store.Tx, j *work.Job, result work.StepResult) error {
	if j.Kind != work.SecretsJob || result.Status != work.StepSucceeded {
		return nil
	}
	paths := []string{}
	for _, path := range result.Paths {
		if len(path) <= maxSecretPath && len(paths) < maxSecretPaths {
			paths = append(paths, path)
		}
	}
	return tx.PutSecretPaths(j.ID, paths)
}

// retrySecretPaths looks again where a Job looked.
func (c *Control) retrySecretPaths(ctx context.Context, actor catalog.Actor, j *work.Job) (*work.Job, error) {
	var s store.JobSnapshot
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		s, err = tx.JobSnapshot(j.OrganizationID, j.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.ListSecretPaths(ctx, actor, SecretPlace{Stack: j.StackID, Runner: s.RunnerID, Where: s.Where})
}
