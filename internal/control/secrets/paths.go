package secrets

import (
	"context"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// referenceEngine is what an Instance says it has when it can list where Secrets are.
const referenceEngine catalog.Engine = "secrets"

// Search is where a Runner is to look for Secrets.
type Search struct {
	Stack  string // id or name; the Runner must be assigned to the whole of it
	Runner string // id or name
	Where  string // a reference without its end: ${file:/run/secrets}, ${env:APP_}, ${vault:secret/data/app}
}

// Found is what came of looking for Secrets.
type Found struct {
	Job   *work.Job
	Where string
	Paths []string // references, by text; nil until the Job is done
}

// ListSecretPaths queues a Job that lists where Secrets can be had at a Runner: paths, and never values.
func (s *Secrets) ListSecretPaths(ctx context.Context, actor catalog.Actor, p Search) (job *work.Job, err error) {
	if err := actor.Need(catalog.Declare); err != nil {
		return nil, err
	}
	if err := s.host.Accepting(); err != nil {
		return nil, err
	}
	if err := (catalog.SecretSpec{Name: "x", Scope: "x", Kind: catalog.SecretReference, Reference: p.Where}).Check(); err != nil {
		return nil, fault.New(fault.Invalid, "secret_place", "%s", fault.Of(err).Message).
			WithDetails(fault.Problem{Field: "where", Message: "wants a place such as ${file:/run/secrets}, ${env:APP_} or ${vault:secret/data/app}"})
	}
	err = s.host.Submit(ctx, func(tx *store.Tx, queue func(*work.Job, store.JobSnapshot) error) error {
		tx.Sign(actor, "job.submit")
		stack, err := tx.Stack(actor.OrganizationID, p.Stack)
		if err != nil {
			return err
		}
		r, err := tx.Runner(actor.OrganizationID, p.Runner)
		if err != nil {
			return err
		}
		if err := s.host.Assigned(tx, r, stack.ID, stack.Name); err != nil {
			return err
		}
		job = &work.Job{
			OrganizationID: actor.OrganizationID, StackID: stack.ID, Kind: work.SecretsJob, Runbook: stack.Name + "/secrets", CreatedBy: actor.Name,
			Steps: []work.Step{{Kind: work.StepListSecrets, Status: work.StepPending}},
		}
		return queue(job, store.JobSnapshot{RunnerID: r.ID, Where: p.Where,
			Module: catalog.ModuleSpec{Stack: stack.Name, Name: "secrets", Engine: referenceEngine, Runner: r.Name}})
	})
	if err != nil {
		return nil, err
	}
	return job, nil
}

// SecretPaths gives what a Job of ListSecretPaths found, by its id or number.
func (s *Secrets) SecretPaths(ctx context.Context, actor catalog.Actor, job string) (v Found, err error) {
	if err := actor.Need(catalog.Declare); err != nil {
		return v, err
	}
	if v.Job, err = s.host.Job(ctx, actor, job); err != nil {
		return v, err
	}
	err = s.store.View(ctx, func(tx *store.Tx) error {
		asked, err := tx.JobSnapshot(v.Job.OrganizationID, v.Job.ID)
		if err != nil {
			return err
		}
		v.Where = asked.Where
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

// KeepPaths stores what a Runner found, in the transaction that takes the result of its Job.
func KeepPaths(tx *store.Tx, j *work.Job, result work.StepResult) error {
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
