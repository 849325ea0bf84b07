package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control/hosting"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// claim binds a Job to an Instance that accepted the Offer of it, and gives it the first Step. Whoever else was asked
// is told that the Job is gone.
func (c *Control) claim(ctx context.Context, s *session, ref wire.Ref, offered time.Time) {
	m, err := c.tryClaim(ctx, s, ref, offered)
	if err != nil {
		c.claimFailed(ctx, s, ref, err)
		return
	}
	s.adopt(m.job, nil, true)
	c.stats.claims.Add(1)
	c.begins.note(s.runnerID, m.at, m.job)
	c.carryOut(m)
	c.queue.Settle(ref.Job, s.known)
}

func (c *Control) tryClaim(ctx context.Context, s *session, ref wire.Ref, offered time.Time) (m moved, err error) {
	spec, round, module, err := c.specForClaim(ctx, ref, s)
	if err != nil {
		return m, err
	}
	c.addPlan(ctx, s.org, ref.Job, s.instanceID, spec)
	sealed, err := c.safe.SealResolved(ref.Job, ref.Attempt, spec.Inputs)
	if err != nil {
		return m, err
	}
	err = c.store.Update(ctx, func(tx *store.Tx) error {
		if err := c.hosting.Claiming(tx, s.org, spec); err != nil {
			return err
		}
		if err := c.mayTake(tx, s, module, spec.Task != nil); err != nil { // before the Job is locked, as in a hello
			return err
		}
		j, err := tx.JobForUpdate(s.org, ref.Job)
		if err != nil {
			return err
		}
		if !j.Offerable() || j.Attempt+1 != ref.Attempt || j.OrganizationID != s.org {
			return errClaimLost
		}
		m, _, err = c.move(tx, j, work.ClaimedBy{Binding: work.Binding{
			RunnerID: s.runnerID, Runner: s.runner, InstanceID: s.instanceID, Instance: s.instance, OfferedAt: offered.UTC(),
			Fingerprint: s.fingerprint,
		}})
		if err == nil && len(sealed) > 0 {
			err = tx.PutJobInputs(ref.Job, ref.Attempt, sealed)
		}
		if err == nil {
			err = c.noteSecretsUsed(tx, m.job, module, spec)
		}
		if err == nil {
			err = c.hosting.Claimed(tx, m.job, spec)
		}
		return err
	})
	m.spec, m.round, m.to = spec, round, s
	return m, err
}

var errSessionOver = errors.New("the session is over")

// claimFailed takes back the Offer and looks why: what waits is looked at again, what can never run is ended.
func (c *Control) claimFailed(ctx context.Context, s *session, ref wire.Ref, err error) {
	var missing *missingUpstream
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errNoPlace):
		c.full(ctx, s)
	case errors.Is(err, errDrains):
		s.known.Tell(true) // or it would be asked again at once
	case errors.Is(err, errStateElsewhere):
		c.refresh(ctx, s.org, ref.Job)
		c.reloadModuleOf(ctx, s.org, ref.Job)
	case errors.Is(err, errHeldBack):
		c.queue.Stale(s.org)
	case errors.Is(err, hosting.ErrTidying):
		s.known.Refuse(ref, err.Error()) // not again at once
	case errors.Is(err, errClaimLost), errors.Is(err, errSessionOver), errors.Is(err, hosting.ErrOutdated), fault.Is(err, fault.NotFound):
		c.refresh(ctx, s.org, ref.Job)
	case c.brokenPart(ctx, s.org, ref.Job, err):
	case errors.As(err, &missing), fault.Is(err, fault.Conflict), fault.Is(err, fault.Invalid):
		c.queue.Doubt(ref.Job)
	default:
		c.log.Error("could not bind a job", "job_id", ref.Job, "instance", s.instance, "error", err)
		s.known.Refuse(ref, "the Server could not bind the job") // not again at once
	}
	c.queue.Settle(ref.Job, nil)
}

// refresh brings what the queue knows of a Job in line with the store.
func (c *Control) refresh(ctx context.Context, org, id string) {
	var m moved
	var holder *work.Job
	err := c.store.Update(ctx, func(tx *store.Tx) (err error) {
		m = moved{}
		if m.job, err = tx.JobForUpdate(org, id); err == nil {
			m.order = c.order.Add(1)
		}
		return err
	})
	if err == nil && m.job.Offerable() {
		err = c.store.View(ctx, func(tx *store.Tx) (err error) {
			holder, err = tx.ModuleBusy(org, m.job.LaneID())
			return err
		})
	}
	switch {
	case fault.Is(err, fault.NotFound):
		c.queue.Forget(id)
	case err != nil:
		if ctx.Err() == nil {
			c.log.Error("could not look at a job", "job_id", id, "error", err)
		}
	default:
		c.queue.Observe(m.transition())
		if m.job.Offerable() {
			c.queue.Holds(m.job.LaneID(), holder)
		}
	}
}

// brokenPart ends a Part, or a Runner Job, that can never be bound, because of what only its owner can set right: a Secret that is not there, a
// release that was withdrawn.
func (c *Control) brokenPart(ctx context.Context, org, id string, why error) bool {
	f := fault.Of(why)
	if f == nil || f.Kind != fault.Conflict && f.Kind != fault.Invalid {
		return false
	}
	j, err := c.jobByID(ctx, org, id)
	if err != nil || !j.IsPart() && j.Kind != work.RunnerJob {
		return false
	}
	c.cannotRun(ctx, org, id, why)
	return true
}

// missingUpstream says which Modules must be applied before a Job can run.
type missingUpstream struct {
	module string   // the Module of the Job
	paths  []string // of the Modules to apply first
}

func (e *missingUpstream) Error() string {
	return fmt.Sprintf("%s takes an output of %s, which has none yet", e.module, e.paths[0])
}

// specForClaim resolves the Job's Inputs as they are now, and gives its Module as it was declared. It fails with *missingUpstream when an
// output is not there.
func (c *Control) specForClaim(ctx context.Context, ref wire.Ref, s *session) (
	spec *work.Spec, round *work.Round, module catalog.Module, err error) {
	err = c.store.View(ctx, func(tx *store.Tx) error {
		j, err := tx.Job(s.org, ref.Job)
		if err != nil {
			return err
		}
		if j.IsPart() {
			module = placeOf(j, "")
			inputs, err := c.partInputs(tx, j)
			if err == nil {
				spec, round, err = c.partSpec(tx, j, inputs)
			}
			return err
		}
		if j.Kind != work.ModuleJob {
			module = placeOf(j, "")
			spec, err = c.taskSpec(tx, j)
			return err
		}
		if _, module, err = c.declared(tx, j); err != nil {
			return err
		}
		if awaitsUpstreams(j.Action) {
			path, err := changingUpstream(tx, module)
			if err != nil {
				return err
			}
			if path != "" {
				return &missingUpstream{module: module.Path(), paths: []string{path}}
			}
		}
		inputs, err := c.resolveFor(tx, module, j.Action)
		if err != nil {
			return err
		}
		spec = makeSpec(j, module, inputs)
		spec.State, err = expectState(tx, j, module.Engine, work.StateHolder{RunnerID: s.runnerID, Instance: s.instance})
		return err
	})
	return spec, round, module, err
}

// placeOf is what the rights to use a Runner are asked for, for a Job: its Module, or the whole of its Stack.
func placeOf(j *work.Job, namespaceID string) catalog.Module {
	return catalog.Module{Identity: catalog.Identity{ID: j.ModuleID, OrganizationID: j.OrganizationID}, StackID: j.StackID, NamespaceID: namespaceID}
}

// specOf makes the Spec of a bound Job again. The Inputs are those of the claim, whatever they would be now: an engine refuses
// to apply a plan that was made with others, and a secret that the Attempt may print has to stay masked.
func (c *Control) specOf(ctx context.Context, j *work.Job) (spec *work.Spec, err error) {
	err = c.store.View(ctx, func(tx *store.Tx) error {
		if j.IsPart() {
			spec, _, err = c.specOfPart(tx, j)
			return err
		}
		if j.Kind != work.ModuleJob {
			spec, err = c.taskSpec(tx, j)
			return err
		}
		_, module, err := c.declared(tx, j)
		if err != nil {
			return err
		}
		var inputs []work.InputValue
		if len(module.Inputs) > 0 {
			sealed, err := tx.JobInputs(j.ID, j.Attempt)
			if err != nil {
				return err
			}
			if inputs, err = c.safe.OpenResolved(j.ID, j.Attempt, sealed); err != nil {
				return err
			}
		}
		spec = makeSpec(j, module, inputs)
		spec.State, err = expectState(tx, j, module.Engine, holderOf(j))
		return err
	})
	if err == nil && j.Binding != nil {
		c.addPlan(ctx, j.OrganizationID, j.ID, j.Binding.InstanceID, spec)
	}
	return spec, err
}

// declared gives what a Job was created with, and its Module's record with that Spec. A Module that was deleted
// meanwhile keeps the ids that the Job knows.
func (c *Control) declared(tx *store.Tx, j *work.Job) (store.JobSnapshot, catalog.Module, error) {
	snapshot, err := tx.JobSnapshot(j.OrganizationID, j.ID)
	if err != nil {
		return snapshot, catalog.Module{}, err
	}
	module := catalog.Module{Identity: catalog.Identity{ID: j.ModuleID, OrganizationID: j.OrganizationID},
		StackID: j.StackID, NamespaceID: snapshot.NamespaceID, ModuleSpec: snapshot.Module}
	module.Inputs, err = c.safe.OpenInputs(module.ID, module.Inputs)
	return snapshot, module, err
}

// makeSpec says what the Instance needs to execute a Job.
func makeSpec(j *work.Job, m catalog.Module, inputs []work.InputValue) *work.Spec {
	spec := &work.Spec{
		Module: j.Module, ModuleID: j.ModuleID, Engine: m.Engine, Action: j.Action, Source: m.Source, Commit: j.Commit,
		Script: m.Script, Inputs: inputs, ExtraFiles: m.ExtraFiles, Hooks: m.Hooks,
		StepTimeout: j.Limits.StepTimeout, Stall: j.Limits.StallTimeout, Number: j.Number,
		StackName: m.Stack, Namespace: m.Namespace, Name: m.Name,
	}
	for _, step := range j.Steps {
		spec.Steps, spec.Changing = append(spec.Steps, step.Kind), append(spec.Changing, step.Changing)
	}
	if plan := j.Plan(); plan != nil && j.Approval != nil {
		spec.PlanHash = plan.Hash
	}
	if asksApproval(j) {
		spec.KeepPlan = maxSavedPlan
	}
	return spec
}

// resolve gives the Inputs of a Module their values.
func (c *Control) resolve(tx *store.Tx, m catalog.Module) ([]work.InputValue, error) {
	var broken error
	resolved, missing, err := catalog.ResolveInputs(m, func(path string) (catalog.OutputSet, bool) {
		set, ok, err := c.latestOutputs(tx, m.OrganizationID, path)
		if err != nil {
			broken = err
		}
		return set, ok
	})
	switch {
	case broken != nil:
		return nil, broken
	case err != nil:
		return nil, err
	case len(missing) > 0:
		return nil, &missingUpstream{module: m.Path(), paths: missing}
	}
	values := make([]work.InputValue, len(resolved))
	for i, r := range resolved {
		values[i] = work.InputValue{Name: r.Name, Kind: r.Kind, Value: r.Value, Sensitive: r.Sensitive}
	}
	return values, c.safe.Fill(tx, m, resolved, values)
}
