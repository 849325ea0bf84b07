package control

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// moved is one transition of a Job as it was stored, with what is left to do about it after the commit.
type moved struct {
	job      *work.Job          // as it is now
	before   *work.Job          // as it was; nil for a new Job
	event    work.Event         // nil for a new Job
	effects  []work.Effect      //
	order    uint64             // rises with the transitions of one Job, in the order of their commits
	snapshot *store.JobSnapshot // when it is at hand
	spec     *work.Spec         // for the first Step, when it is at hand
}

// errClaimLost says that another Job or Instance was faster.
var errClaimLost = errors.New("the claim was lost")

// move applies an event to a locked Job inside a transaction. changed is false when there was nothing to
// do. Errors of the state machine are faults; see work.Next.
func (c *Control) move(tx *store.Tx, job *work.Job, event work.Event) (m moved, changed bool, err error) {
	next, effects, err := work.Next(*job, event, tx.Now())
	if err != nil {
		return moved{job: job}, false, err
	}
	if len(effects) == 0 && reflect.DeepEqual(*job, next) {
		return moved{job: job}, false, nil
	}
	if err := c.save(tx, &next, event); err != nil {
		return moved{job: job}, false, err
	}
	if job.Status.Bound() && !next.Status.Bound() {
		if err := tx.DropJobInputs(job.ID); err != nil {
			return moved{job: job}, false, err
		}
	}
	if err := c.note(tx, &next, event); err != nil {
		return moved{job: job}, false, err
	}
	return moved{job: &next, before: job, event: event, effects: effects, order: c.order.Add(1)}, true, nil
}

func (c *Control) save(tx *store.Tx, job *work.Job, event work.Event) error {
	if _, claim := event.(work.ClaimedBy); !claim {
		return tx.SaveJob(job)
	}
	ok, err := tx.ClaimJob(job)
	if err == nil && !ok {
		err = errClaimLost
	}
	return err
}

// apply moves one Job in a transaction of its own and does what follows.
func (c *Control) apply(ctx context.Context, org, id string, event work.Event) (*work.Job, error) {
	var m moved
	var changed bool
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		job, err := tx.JobForUpdate(org, id)
		if err != nil {
			return err
		}
		m, changed, err = c.move(tx, job, event)
		return err
	})
	if err != nil {
		return nil, err
	}
	if changed {
		c.carryOut(m)
	}
	return m.job, nil
}

// applyLate is apply for what a timer or a message caused: that the Job has moved on meanwhile is no error.
func (c *Control) applyLate(ctx context.Context, org, id string, event work.Event) {
	if _, err := c.apply(ctx, org, id, event); err != nil && !movedOn(err) {
		c.log.Error("could not move a job", "job_id", id, "event", string(event.Name()), "error", err)
	}
}

// movedOn tells whether an event came too late for its Job, which is no trouble.
func movedOn(err error) bool {
	return fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) || errors.Is(err, errClaimLost)
}

// JobEvent is the data of the events "job.*" in the outbox, as JSON.
type JobEvent struct {
	Number     int64           `json:"number"`
	ModuleID   string          `json:"module_id"`
	Module     string          `json:"module"`
	Action     work.Action     `json:"action"`
	Status     work.Status     `json:"status"`
	Attempt    int             `json:"attempt"`
	Step       work.StepKind   `json:"step,omitempty"` // the Step under way, or the last one
	StepStatus work.StepStatus `json:"step_status,omitempty"`
	Wait       work.Wait       `json:"wait,omitzero"`
	Notice     string          `json:"notice,omitempty"`
	Failure    *work.Failure   `json:"failure,omitempty"`
	Instance   string          `json:"instance,omitempty"` // name
}

// note writes a transition into the outbox, as "job." and the Job's status.
func (c *Control) note(tx *store.Tx, job *work.Job, event work.Event) error {
	e := JobEvent{Number: job.Number, ModuleID: job.ModuleID, Module: job.Module, Action: job.Action, Status: job.Status,
		Attempt: job.Attempt, Wait: job.Wait, Notice: job.Notice, Failure: job.Failure}
	if len(job.Steps) > 0 {
		s := job.Steps[min(eventStep(job, event), len(job.Steps)-1)]
		e.Step, e.StepStatus = s.Kind, s.Status
	}
	if job.Binding != nil {
		e.Instance = job.Binding.Instance
	}
	return c.publish(tx, job.OrganizationID, "job."+string(job.Status), job.ID, e)
}

// eventStep is the Step that an event is about.
func eventStep(job *work.Job, event work.Event) int {
	switch e := event.(type) {
	case work.StepStarted:
		return e.Step
	case work.StepFinished:
		return e.Step
	}
	return job.Current()
}

// publish appends to the outbox. Followers are told of it after the commit; see signal.
func (c *Control) publish(tx *store.Tx, org, kind, subject string, data any) error {
	b, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return tx.AppendEvent(store.Event{OrganizationID: org, Time: tx.Now(), Kind: kind, Subject: subject, Data: b})
}

// carryOut does what follows from stored transitions. It may be called twice for the same.
func (c *Control) carryOut(all ...moved) {
	orgs := map[string]bool{}
	for _, m := range all {
		c.queue.observe(m)
		c.supersede(m)
		for _, e := range m.effects {
			c.effect(m, e)
		}
		c.hintJob(m)
		c.stats.moved(m)
		orgs[m.job.OrganizationID] = true
	}
	for org := range orgs {
		c.signal(org)
	}
}

func (c *Control) effect(m moved, e work.Effect) {
	switch e := e.(type) {
	case work.SendStep:
		c.sendStep(m.job, e.Step, m.spec)
	case work.SendCancel:
		if s := c.sessions.ofInstance(instanceOf(m.job)); s != nil {
			s.send(&wire.Cancel{Ref: wire.Ref{Job: m.job.ID, Attempt: e.Attempt}, Mode: e.Mode})
		}
	case work.Release:
		if s := c.sessions.ofInstance(e.Binding.InstanceID); s != nil {
			s.drop(wire.Ref{Job: m.job.ID, Attempt: e.Attempt})
		}
	case work.Ended:
		c.archiver.add(m.job.OrganizationID, m.job.ID)
		c.tails.ended(m.job.ID)
	}
}

// supersede ends what is left of a lost Attempt at an Instance that is still connected: what changes nothing is
// stopped, a running changing Step may finish.
func (c *Control) supersede(m moved) {
	switch e := m.event.(type) {
	case work.LeaseLost:
		if e.Gone || m.job.Status == work.Interrupted {
			return
		}
	case work.RecoveryOver:
	default:
		return
	}
	s := c.sessions.ofInstance(m.before.Binding.InstanceID)
	if s == nil {
		return
	}
	mode := work.Graceful
	if i := m.before.Current(); i < len(m.before.Steps) && m.before.Steps[i].Changing {
		mode = work.AfterCurrent
	}
	if asked := m.before.Cancel; asked != nil {
		mode = asked.Mode
	}
	s.send(&wire.Cancel{Ref: wire.Ref{Job: m.job.ID, Attempt: m.before.Attempt}, Mode: mode})
}

func instanceOf(job *work.Job) string {
	if job.Binding == nil {
		return ""
	}
	return job.Binding.InstanceID
}

// sendStep tells the bound Instance to execute a Step, when its Session is here. The Spec goes with the first Step,
// and again with one that was approved, because it bears the approved plan.
func (c *Control) sendStep(job *work.Job, step int, spec *work.Spec) {
	s := c.sessions.ofInstance(instanceOf(job))
	if s == nil {
		return
	}
	msg := &wire.RunStep{Ref: refOf(job), Step: step, Watch: c.tails.watched(job.ID)}
	if step > 0 && !job.Steps[step].Approval {
		s.send(msg)
		return
	}
	if spec != nil {
		msg.Spec = spec
		s.send(msg)
		return
	}
	c.background(func(ctx context.Context) {
		spec, err := c.specOf(ctx, job)
		if err != nil {
			c.log.Error("could not prepare a step", "job_id", job.ID, "step", step, "error", err)
			return // the Session's own check sends it again
		}
		msg.Spec = spec
		s.send(msg)
	})
}

func refOf(job *work.Job) wire.Ref { return wire.Ref{Job: job.ID, Attempt: job.Attempt} }
