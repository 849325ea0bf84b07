package control

import (
	"context"
	"errors"
	"fmt"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// A module whose code declares no remote backend keeps its state in files of the instance that applied it. Its
// jobs start on that instance only, and a job that would start without the state is refused by the instance: see
// work.StateExpectation. What is stored here is where the state is, never the state itself.

// errStateElsewhere says that another instance holds the state of the module.
var errStateElsewhere = errors.New("another instance holds the state of the module")

// holderOf returns the instance that a job is bound to.
func holderOf(j *work.Job) work.StateHolder {
	if j.Binding == nil {
		return work.StateHolder{}
	}
	return work.StateHolder{RunnerID: j.Binding.RunnerID, Runner: j.Binding.Runner, Instance: j.Binding.Instance}
}

// stateHolder returns the instance that a job has to start on, because it holds the local state of its module.
func stateHolder(tx *store.Tx, j *work.Job, engine catalog.Engine) (work.StateHolder, error) {
	if j.Kind != work.ModuleJob || !work.KeepsState(engine) {
		return work.StateHolder{}, nil
	}
	location, _, err := tx.StateLocation(j.OrganizationID, j.ModuleID)
	return location.Holder(), err
}

// expectState returns what the instance at has to know of the state of a job's module, or errStateElsewhere when
// it must not run the job.
func expectState(tx *store.Tx, j *work.Job, engine catalog.Engine, at work.StateHolder) (*work.StateExpectation, error) {
	if !work.KeepsState(engine) {
		return nil, nil
	}
	location, found, err := tx.StateLocation(j.OrganizationID, j.ModuleID)
	if err != nil {
		return nil, err
	}
	if !location.Holder().Allows(at.RunnerID, at.Instance) {
		return nil, errStateElsewhere
	}
	if !found || !location.State.Local && !location.StartEmpty {
		if location, err = lastApply(tx, j, location); err != nil {
			return nil, err
		}
	}
	runner, err := existing(tx.Runner(j.OrganizationID, at.RunnerID))
	return &work.StateExpectation{
		Known: location.Expected(at), Holder: location.Runner + "/" + location.Instance,
		Ephemeral: runner.Lifetime == catalog.Ephemeral,
	}, err
}

// lastApply completes the location of a state that is in a remote backend, or that no job reported: there is a
// state when the last job that changed the module was an apply.
func lastApply(tx *store.Tx, j *work.Job, location store.StateLocation) (store.StateLocation, error) {
	head, err := existing(tx.ModuleHead(j.OrganizationID, j.ModuleID))
	if err != nil || head.Settled.Action != work.Apply || head.Settled.Status != work.Succeeded {
		return location, err
	}
	location.State.Exists = true
	last, err := tx.JobsNumbered(j.OrganizationID, []int64{head.Settled.Number})
	if err != nil || len(last) == 0 {
		return location, err
	}
	holder := holderOf(last[0])
	location.RunnerID, location.Runner, location.Instance = holder.RunnerID, holder.Runner, holder.Instance
	return location, nil
}

// keepStateLocation stores where a module keeps its state, as a job reports it. A state may be written as soon as
// a changing step starts, so that this is noted then as well. held reports whether another instance than before
// holds the state, or none.
func keepStateLocation(tx *store.Tx, before, after *work.Job, event work.Event) (held bool, err error) {
	if after.Kind != work.ModuleJob || after.Binding == nil {
		return false, nil
	}
	finished, _ := event.(work.StepFinished)
	begins := startsChange(before, after)
	if finished.Result.State == nil && !begins {
		return false, nil
	}
	old, found, err := tx.StateLocation(after.OrganizationID, after.ModuleID)
	if err != nil {
		return false, err
	}
	next, keep := old, found
	if finished.Result.State != nil {
		next, keep = locate(old, found, after, finished)
	}
	if local := stateOfInit(after); begins && local != nil && local.Local {
		next, keep = locationOf(after, *local), true
		next.Changing = true // until the step reports the state
	}
	next.UpdatedAt = old.UpdatedAt
	switch {
	case !keep && found:
		err = tx.DeleteStateLocation(after.OrganizationID, after.ModuleID)
	case keep && (!found || next != old):
		err = tx.PutStateLocation(after.OrganizationID, after.ModuleID, next)
	}
	return next.Holder() != old.Holder() || keep != found, err
}

// locate returns the location that follows from a report. keep is false when there is no state any more.
func locate(old store.StateLocation, found bool, j *work.Job, finished work.StepFinished) (next store.StateLocation, keep bool) {
	report := finished.Result.State.Bounded()
	kind := work.StepKind("")
	if finished.Step >= 0 && finished.Step < len(j.Steps) {
		kind = j.Steps[finished.Step].Kind
	}
	switch {
	case kind == work.StepDestroy && finished.Result.Status == work.StepSucceeded:
		return store.StateLocation{}, false
	case kind == work.StepInit && report.Local && !report.Exists:
		return old, found // nothing is kept here yet
	}
	next = locationOf(j, report)
	if kind == work.StepInit && next.State == old.State && next.Holder() == old.Holder() && !old.Changing {
		return old, true // the job number says who reported it first
	}
	return next, true
}

// locationOf returns the location of a state that the instance of a job reported.
func locationOf(j *work.Job, report work.StateReport) store.StateLocation {
	l := store.StateLocation{State: report, JobNumber: j.Number}
	if report.Local {
		holder := holderOf(j)
		l.RunnerID, l.Runner, l.Instance = holder.RunnerID, holder.Runner, holder.Instance
	}
	return l
}

// stateOfInit returns what the init of the present attempt reported, or nil.
func stateOfInit(j *work.Job) *work.StateReport {
	for _, step := range j.Steps {
		if step.Kind == work.StepInit {
			return step.State
		}
	}
	return nil
}

// startsChange reports whether a changing step was sent to the instance.
func startsChange(before, after *work.Job) bool {
	i := after.Current()
	if i >= len(after.Steps) || !after.Steps[i].Changing || after.Steps[i].Status != work.StepSent {
		return false
	}
	return before.Attempt != after.Attempt || before.Current() != i || before.Steps[i].Status != work.StepSent
}

// reloadModuleOf lets the queue read again where the jobs of a job's module may start.
func (c *Control) reloadModuleOf(ctx context.Context, org, id string) {
	if j, err := c.jobByID(ctx, org, id); err == nil {
		c.queue.Reload(j.ModuleID)
	}
}

// StateLocation says where a module keeps its state.
type StateLocation = store.StateLocation

// StateReleasedEvent is the data of the event "module.state_released".
type StateReleasedEvent struct {
	Module     string `json:"module"`
	Runner     string `json:"runner,omitempty"`   // whose instance held the state
	Instance   string `json:"instance,omitempty"` // its name
	StartEmpty bool   `json:"start_empty"`
}

// ReleaseState lets jobs of a module, by path or id, start on other instances than the one that holds its local
// state. The next job is refused where that state is not found, unless startEmpty allows it to start with whatever
// is there. It returns where the state was.
func (c *Control) ReleaseState(ctx context.Context, actor catalog.Actor, module string, startEmpty bool) (was StateLocation, err error) {
	if err := actor.Need(catalog.Operate); err != nil {
		return was, err
	}
	err = c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "module.release_state")
		m, err := tx.Module(actor.OrganizationID, module)
		if err != nil {
			return unknownModule(err, module)
		}
		if err := refuseWhileBusy(tx, m); err != nil {
			return err
		}
		found := false
		if was, found, err = tx.StateLocation(m.OrganizationID, m.ID); err != nil {
			return err
		}
		if was.Holder().Instance == "" && !startEmpty {
			return fault.New(fault.Conflict, "state_not_pinned", "no instance holds the state of module %s", m.Path()).
				WithHint("if a job is refused because the state is missing, restore it, or use --start-empty")
		}
		next := was
		next.Released = true
		if startEmpty {
			next.StartEmpty = true
		}
		if !found {
			next.State = work.StateReport{Local: true}
		}
		if err := tx.PutStateLocation(m.OrganizationID, m.ID, next); err != nil {
			return err
		}
		return c.publish(tx, m.OrganizationID, "module.state_released", m.ID,
			StateReleasedEvent{Module: m.Path(), Runner: was.Runner, Instance: was.Instance, StartEmpty: startEmpty})
	})
	if err == nil {
		c.redeclared(actor.OrganizationID)
	}
	return was, err
}

// refuseWhileBusy refuses what cannot be done while a job of a module runs.
func refuseWhileBusy(tx *store.Tx, m catalog.Module) error {
	holder, err := tx.ModuleBusy(m.OrganizationID, m.ID)
	if err != nil || holder == nil {
		return err
	}
	return fault.New(fault.Conflict, "module_busy", "job #%d of module %s is under way", holder.Number, m.Path()).
		WithHint("wait for it, or run: legwork job cancel %d", holder.Number)
}

// DescribeState returns where a state is, for people.
func DescribeState(l store.StateLocation) string {
	instance := fmt.Sprintf("instance %s of runner %s", l.Instance, l.Runner)
	switch {
	case !l.State.Local:
		return "in backend " + l.State.Backend
	case l.StartEmpty:
		return "released: the next job may start without a state"
	case l.Released:
		return fmt.Sprintf("released from %s: the next job needs the state with serial %d", instance, l.State.Serial)
	case !l.State.Exists && !l.Changing:
		return "none yet"
	case l.Changing:
		return "on " + instance + ", which is changing it or did not report the end of a change"
	}
	resources := fmt.Sprintf("%d resources", l.State.Resources)
	if l.State.Resources == 1 {
		resources = "1 resource"
	}
	return fmt.Sprintf("on %s (serial %d, %s)", instance, l.State.Serial, resources)
}
