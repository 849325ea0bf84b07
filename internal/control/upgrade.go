package control

import (
	"cmp"
	"context"
	"fmt"

	"legwork/internal/catalog"
	"legwork/internal/control/releases"
	"legwork/internal/fault"
	"legwork/internal/release"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// updateEngine is the engine that an instance announces when it can go on as another release.
const updateEngine catalog.Engine = "update"

const upToDate = "runner_up_to_date"

// updateLane is what the updates of a self-hosted Runner hold one after the other: the rest of its Instances stay online.
func updateLane(runnerID string) string { return "update:" + runnerID }

// updatesOf is what an Instance says of updates; a text that is none of the consents is no consent.
func updatesOf(hello *wire.Hello) string {
	if c := release.Consent(hello.Updates); c.Valid() {
		return hello.Updates
	}
	return ""
}

// UpgradeRunner queues the Jobs that take a Runner to a release; empty: for each Instance the newest one that its host's owner lets it go to.
// A hosted Runner has one Job, a
// self-hosted one a Job for each Instance that is online and outdated, which are done one after the other; when one fails, those that wait are
// canceled. Jobs that are queued or under way are given in their place. Where no Instance can be updated the fault says why:
// "runner_up_to_date", "runner_offline", "update_refused", "release_platform", "update_unsupported", "release_not_found".
func (c *Control) UpgradeRunner(ctx context.Context, actor catalog.Actor, runner, version string) (jobs []*work.Job, err error) {
	if err := actor.Need(catalog.Operate); err != nil {
		return nil, err
	}
	if err := c.refuseWhileDraining(); err != nil {
		return nil, err
	}
	r, err := c.Runner(ctx, actor, runner)
	if err != nil {
		return nil, err
	}
	if r.Hosting != nil {
		return c.upgradeHosted(ctx, actor, r, version)
	}
	var moves []moved
	err = c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "runner.upgrade")
		jobs, moves, err = c.upgradeHere(tx, actor, r.ID, version)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.carryOut(moves...)
	return jobs, nil
}

// upgradeHosted queues the Job of a hosted Runner.
func (c *Control) upgradeHosted(ctx context.Context, actor catalog.Actor, r catalog.Runner, version string) ([]*work.Job, error) {
	if c.updateHosted == nil {
		return nil, fault.New(fault.Unsupported, "update_unsupported", "runner %s is hosted, and this Server hosts none", r.Name).
			WithHint("deploy it anew")
	}
	j, err := c.updateHosted(ctx, actor, r.ID, version)
	if err != nil {
		return nil, err
	}
	return []*work.Job{j}, nil
}

// UpgradeRunners does UpgradeRunner for every outdated Runner. skipped says, by Runner, why one was left out.
func (c *Control) UpgradeRunners(ctx context.Context, actor catalog.Actor) (jobs []*work.Job, skipped map[string]string, err error) {
	if err := actor.Need(catalog.Operate); err != nil {
		return nil, nil, err
	}
	runners, err := c.Runners(ctx, actor)
	if err != nil {
		return nil, nil, err
	}
	versions, err := c.RunnerVersions(ctx, actor)
	if err != nil {
		return nil, nil, err
	}
	skipped = map[string]string{}
	for _, r := range runners {
		if !versions[r.ID].Outdated {
			continue
		}
		more, err := c.UpgradeRunner(ctx, actor, r.ID, "")
		var f *fault.Fault
		if f = fault.Of(err); err != nil && (f.Kind == fault.Internal || f.Kind == fault.Unavailable) {
			return jobs, skipped, err
		}
		if err != nil {
			skipped[r.Name] = f.Message
			continue
		}
		jobs = append(jobs, more...)
	}
	return jobs, skipped, nil
}

// upgradeHere queues the updates of a self-hosted Runner.
func (c *Control) upgradeHere(tx *store.Tx, actor catalog.Actor, runnerID, version string) (jobs []*work.Job, moves []moved, err error) {
	if err := tx.LockCatalog(runnerID); err != nil {
		return nil, nil, err
	}
	r, err := tx.Runner(actor.OrganizationID, runnerID)
	if err != nil {
		return nil, nil, err
	}
	instances, err := tx.Instances(r.OrganizationID, r.ID)
	if err != nil {
		return nil, nil, err
	}
	target, err := targetOf(tx, instances, version)
	if err != nil {
		return nil, nil, err
	}
	open, err := openUpdates(tx, r)
	if err != nil {
		return nil, nil, err
	}
	var refused error
	online := false
	for _, i := range instances {
		if !i.Connected {
			continue
		}
		online = true
		if j := open[i.Name]; j != nil {
			jobs = append(jobs, j)
			continue
		}
		to, manifest, err := target.of(i)
		if err != nil {
			return nil, nil, err
		}
		if release.Compare(i.Version, to) == 0 && version == "" {
			continue
		}
		if err := mayUpdate(i, to, manifest); err != nil {
			refused = cmp.Or(refused, err)
			continue
		}
		m, err := c.enqueueUpdate(tx, actor, r, i, to)
		if err != nil {
			return nil, nil, err
		}
		jobs, moves = append(jobs, m.job), append(moves, m)
	}
	switch {
	case len(jobs) > 0:
		return jobs, moves, nil
	case refused != nil:
		return nil, nil, refused
	case !online:
		return nil, nil, fault.New(fault.Conflict, "runner_offline", "no instance of runner %s is online, and each updates itself", r.Name).
			WithHint("start one, or update it on its host")
	}
	return nil, nil, fault.New(fault.Conflict, upToDate, "every instance of runner %s that is online is %s already", r.Name, target.newest)
}

// mayUpdate tells why an Instance cannot go to a release, or nil.
func mayUpdate(i store.Instance, to string, m release.Manifest) error {
	who := func(err error) error {
		f := fault.Of(err)
		return fault.New(f.Kind, f.Code, "instance %s: %s", i.Name, f.Message).WithHint("%s", f.Hint)
	}
	switch {
	case i.Updates == "":
		return fault.New(fault.Unsupported, "update_unsupported", "instance %s is part of another program, or ends with its Job", i.Name).
			WithHint("update the program that it is part of")
	case i.OS == "windows":
		return fault.New(fault.Unsupported, "update_unsupported", "instance %s runs on windows, where a Runner cannot replace its own program", i.Name).
			WithHint("install %s by hand", to)
	}
	if err := release.Consent(i.Updates).Allows(i.Version, to); err != nil {
		return who(err)
	}
	if _, err := m.Program(release.Platform{OS: i.OS, Arch: i.Arch}); err != nil {
		return who(err)
	}
	return nil
}

// enqueueUpdate stores the Job that takes one Instance to a release.
func (c *Control) enqueueUpdate(tx *store.Tx, actor catalog.Actor, r catalog.Runner, i store.Instance, to string) (m moved, err error) {
	job := &work.Job{
		OrganizationID: r.OrganizationID, Kind: work.RunnerJob, Action: work.Update, Runbook: r.Name, Lane: updateLane(r.ID), CreatedBy: actor.Name,
		Priority: work.PriorityNormal, Status: work.Queued, Limits: c.limitsOf(catalog.Limits{}),
		Cause: fmt.Sprintf("instance %s from %s to %s", i.Name, i.Version, to),
		Wait:  work.Wait{Code: work.WaitDispatch, Text: "looking for an instance"}, Steps: work.StepsOfRunner(work.Update, false),
	}
	s := store.JobSnapshot{RunnerID: r.ID, Release: to,
		Module: catalog.ModuleSpec{Name: r.Name, Engine: updateEngine, Runner: r.Name, RunnerInstanceName: i.Name}}
	if err := tx.InsertJob(job, s); err != nil {
		return m, err
	}
	return moved{job: job, effects: []work.Effect{work.Dispatch{}}, order: c.order.Add(1), snapshot: &s}, c.note(tx, job, nil)
}

// openUpdates gives the updates of a Runner that wait or are under way, by the names of the Instances.
func openUpdates(tx *store.Tx, r catalog.Runner) (map[string]*work.Job, error) {
	open := map[string]*work.Job{}
	all, err := tx.OpenInLane(r.OrganizationID, updateLane(r.ID))
	if err != nil {
		return nil, err
	}
	for _, j := range all {
		s, err := tx.JobSnapshot(j.OrganizationID, j.ID)
		if err != nil {
			return nil, err
		}
		open[s.Module.RunnerInstanceName] = j
	}
	return open, nil
}

// endUpdates cancels the updates that wait behind one that failed: the release does no good there either, or the Runner is in trouble.
func (c *Control) endUpdates(tx *store.Tx, j *work.Job) ([]moved, error) {
	if j.Kind != work.RunnerJob || j.Action != work.Update || j.Status != work.Failed || j.Steps[0].Kind != work.StepInstall {
		return nil, nil
	}
	behind, err := tx.OpenInLane(j.OrganizationID, j.Lane)
	if err != nil {
		return nil, err
	}
	var moves []moved
	for _, b := range behind {
		if b.ID == j.ID || b.Status != work.Queued {
			continue
		}
		locked, err := tx.JobForUpdate(b.OrganizationID, b.ID)
		if err != nil {
			return nil, err
		}
		m, changed, err := c.move(tx, locked, work.CancelRequested{Mode: work.Graceful, By: "Legwork", Reason: fmt.Sprintf("the update before it, job #%d, failed", j.Number)})
		if err != nil && !movedOn(err) {
			return nil, err
		}
		if changed {
			moves = append(moves, m)
		}
	}
	return moves, nil
}

// installTask says what an Instance needs to go on as a release.
func (c *Control) installTask(tx *store.Tx, j *work.Job, s store.JobSnapshot) (*work.RunnerTask, error) {
	v, err := releases.Published(tx, s.Release)
	if f := fault.Of(err); err != nil && f.Kind == fault.NotFound { // it is the Job that cannot go on, not one that is not there
		err = fault.New(fault.Conflict, f.Code, "%s", f.Message).WithHint("%s", f.Hint)
	}
	if err != nil {
		return nil, err
	}
	return &work.RunnerTask{OrganizationID: j.OrganizationID, RunnerID: s.RunnerID, Runner: j.Runbook, Version: v.Version,
		Release: releases.RefOf(v)}, nil
}
