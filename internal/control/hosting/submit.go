package hosting

import (
	"context"
	"fmt"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// Deploy queues the Job that deploys a hosted Runner, by id or name: it makes what the launcher needs, and starts a first Instance. One that is
// queued or under way is given in its place.
func (h *Hosting) Deploy(ctx context.Context, actor catalog.Actor, runner string) (*work.Job, error) {
	return h.submit(ctx, actor, runner, work.Deploy, func(tx *store.Tx, do Changes, r catalog.Runner, state store.HostingState) (*work.Job, error) {
		if r.IsDisabled {
			return nil, fault.New(fault.Conflict, "runner_disabled", "runner %s is disabled", r.Name).WithHint("run: legwork runner enable %s", r.Name)
		}
		if err := h.stands(tx, &state); err != nil {
			return nil, err
		}
		j, s := h.task(r, work.Deploy, actor.Name, "")
		j.Lane = jobLane(r.ID)
		if err := do.Enqueue(j, s); err != nil {
			return nil, err
		}
		open, err := tx.OpenLaunches(r.OrganizationID, r.ID)
		if err != nil {
			return nil, err
		}
		if len(open) < r.Hosting.Filled().Max { // or what is online shows that it works
			if _, err := enter(tx, r, state, j, 1, fmt.Sprintf("deployed by %s", actor.Name)); err != nil {
				return nil, err
			}
		}
		state.LaunchedAt, state.Engines, state.EnginesAt, state.Torn = tx.Now(), nil, time.Time{}, false
		return j, tx.PutHosting(r.OrganizationID, r.ID, state)
	})
}

// Update queues the Job that has the Instances of a hosted Runner give way to others of a release. One that is queued or under way is given in
// its place, when it takes the Runner to the same.
func (h *Hosting) Update(ctx context.Context, actor catalog.Actor, runner, version string) (*work.Job, error) {
	return h.submit(ctx, actor, runner, work.Update, func(tx *store.Tx, do Changes, r catalog.Runner, state store.HostingState) (*work.Job, error) {
		switch {
		case version == "":
			return nil, fault.New(fault.Invalid, "version_missing", "it is not said to which release runner %s shall be taken", r.Name)
		case state.DeployedAt.IsZero():
			return nil, fault.New(fault.Conflict, "runner_not_deployed", "runner %s is not deployed", r.Name).WithHint("run: legwork runner deploy %s", r.Name)
		case r.IsDisabled:
			return nil, fault.New(fault.Conflict, "runner_disabled", "runner %s is disabled", r.Name).WithHint("run: legwork runner enable %s", r.Name)
		}
		if state.Version == version {
			return nil, fault.New(fault.Conflict, "runner_current", "the instances of runner %s are of release %s already, or are replaced by such", r.Name, version).
				WithHint("see: legwork runner launches %s", r.Name)
		}
		if _, err := h.host.Release(tx, version); err != nil {
			return nil, err
		}
		j, s := h.task(r, work.Update, actor.Name, "")
		j.Lane, s.Task.Version = jobLane(r.ID), version
		return j, do.Enqueue(j, s)
	})
}

// Remove queues the Job that drains a hosted Runner, takes down all that was made for it, and then deletes its record. One that is queued or
// under way is given in its place.
func (h *Hosting) Remove(ctx context.Context, actor catalog.Actor, runner string) (*work.Job, error) {
	return h.submit(ctx, actor, runner, work.Remove, func(tx *store.Tx, do Changes, r catalog.Runner, _ store.HostingState) (*work.Job, error) {
		if err := h.host.Deletable(tx, r); err != nil {
			return nil, err
		}
		return h.enqueueRemoval(tx, do, r, actor.Name, "")
	})
}

// submit queues a Job of which there is one at a time for a Runner.
func (h *Hosting) submit(ctx context.Context, actor catalog.Actor, runner string, action work.Action,
	enqueue func(tx *store.Tx, do Changes, r catalog.Runner, state store.HostingState) (*work.Job, error)) (job *work.Job, err error) {
	need := catalog.Operate
	if action == work.Remove {
		need = catalog.Administer
	}
	if err := actor.Need(need); err != nil {
		return nil, err
	}
	err = h.host.Update(ctx, func(tx *store.Tx, do Changes) error {
		tx.Sign(actor, "runner."+string(action))
		if err := tx.LockHosting(actor.OrganizationID); err != nil {
			return err
		}
		r, err := tx.Runner(actor.OrganizationID, runner)
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.NotFound, "runner_not_found", "there is no runner %q", runner).WithHint("see: legwork runner list")
		}
		if err != nil {
			return err
		}
		if r.Hosting == nil {
			return fault.New(fault.Conflict, "runner_self_hosted", "runner %s is self-hosted: somebody starts its processes", r.Name).
				WithHint("give it `hosting` to have Legwork start them")
		}
		open, err := tx.OpenOfLane(r.OrganizationID, jobLane(r.ID))
		if err != nil {
			return err
		}
		if open != nil {
			job, err = open, same(tx, open, r, action)
			return err
		}
		state, err := tx.Hosting(r.OrganizationID, r.ID)
		if err != nil {
			return err
		}
		job, err = enqueue(tx, do, r, state)
		return err
	})
	if err != nil {
		return nil, err
	}
	h.Redeclared() // it may have been declared at another Server a moment ago
	return job, nil
}

// same refuses another Job of a Runner than the one that is queued or under way.
func same(_ *store.Tx, open *work.Job, r catalog.Runner, action work.Action) error {
	if open.Action == action {
		return nil
	}
	return fault.New(fault.Conflict, "runner_job_open", "job #%d (%s) of runner %s is not over", open.Number, open.Action, r.Name).
		WithHint("wait for it, or run: legwork job cancel %d", open.Number)
}
