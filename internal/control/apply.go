package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"time"

	"legwork/internal/control/queue"
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
	round    *work.Round        // for the Step of a Part, when it is at hand
	at       time.Time          // of the transaction
	more     []moved            // that followed from it in the same transaction
	held     bool               // another instance than before holds the state of the module, or none
	to       *session           // that claimed it: a later one of the same Instance was told at its hello what became of the Job
}

// transition is what the queue takes in of it.
func (m *moved) transition() queue.Transition {
	return queue.Transition{Before: m.before, Job: m.job, Event: m.event, Order: m.order, Snapshot: m.snapshot}
}

// errClaimLost says that another Job or Instance was faster.
var errClaimLost = errors.New("the claim was lost")

// move applies an event to a locked Job inside a transaction. changed is false when there was nothing to
// do. Errors of the state machine are faults; see work.Next.
func (c *Control) move(tx *store.Tx, job *work.Job, event work.Event) (m moved, changed bool, err error) {
	event, lost, err := c.withLoss(tx, job, event)
	if err != nil {
		return moved{job: job}, false, err
	}
	next, effects, err := work.Next(*job, event, tx.Now())
	if err != nil {
		return moved{job: job}, false, err
	}
	if len(effects) == 0 && reflect.DeepEqual(*job, next) {
		return moved{job: job}, false, nil
	}
	if err := c.save(tx, job.Status, &next, event); err != nil {
		return moved{job: job}, false, err
	}
	if err := keepSettled(tx, job, &next, lost); err != nil {
		return moved{job: job}, false, err
	}
	if err := c.keepAppliedInputs(tx, job, &next); err != nil {
		return moved{job: job}, false, err
	}
	held, err := keepStateLocation(tx, job, &next, event)
	if err != nil {
		return moved{job: job}, false, err
	}
	if forgetsInputs(job, &next) {
		if err := tx.DropJobInputs(job.ID); err != nil {
			return moved{job: job}, false, err
		}
	}
	if err := c.nodes.KeepFailed(tx, &next); err != nil {
		return moved{job: job}, false, err
	}
	if c.isNews(tx, job, &next) {
		if err := c.note(tx, &next, event); err != nil {
			return moved{job: job}, false, err
		}
	}
	m = moved{job: &next, before: job, event: event, effects: effects, order: c.order.Add(1), at: tx.Now(), held: held}
	m.more, err = c.endUpdates(tx, &next)
	return m, err == nil, err
}

// forgetsInputs reports whether a transition ends the attempt for which the resolved inputs are kept. They stay while its instance may
// still return with it.
func forgetsInputs(before, after *work.Job) bool {
	if after.Status.Terminal() {
		return true
	}
	return before.Status.Bound() && !after.Status.Bound() && after.Resumable == nil && !before.IsRun()
}

// save stores a job that was in the state from.
func (c *Control) save(tx *store.Tx, from work.Status, job *work.Job, event work.Event) (err error) {
	ok := true
	_, claim := event.(work.ClaimedBy)
	_, resume := event.(work.Resumed)
	switch {
	case claim:
		ok, err = tx.ClaimJob(job)
	case resume && from == work.Queued:
		ok, err = tx.ResumeJob(job)
	default:
		err = tx.SaveJob(job)
	}
	if err == nil && !ok {
		err = errClaimLost
	}
	return err
}

// apply moves one Job in a transaction of its own and does what follows.
func (c *Control) apply(ctx context.Context, org, id string, event work.Event) (*work.Job, error) {
	return c.applyAs(ctx, org, id, event, func(*store.Tx) {})
}

// applyAs is apply in a transaction that sign has signed.
func (c *Control) applyAs(ctx context.Context, org, id string, event work.Event, sign func(*store.Tx)) (*work.Job, error) {
	var all []moved
	var after *work.Job
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		sign(tx)
		job, err := tx.JobForUpdate(org, id)
		if err != nil {
			return err
		}
		all = nil
		m, changed, err := c.move(tx, job, event)
		if err != nil {
			return err
		}
		if after = m.job; !changed {
			return nil
		}
		all = []moved{m}
		if _, approved := event.(work.ApprovedBy); approved {
			lost, err := c.anewIfGone(tx, m.job)
			if err != nil {
				return err
			}
			for _, n := range lost {
				after = n.job
				all[0].effects = nil // or the Instance that is given up would be sent the Step all the same
			}
			all = append(all, lost...)
		}
		if m.job.IsRun() { // what is due then is seen by who caused it
			more, err := c.takeTurns(tx, m.job)
			for _, n := range more {
				if n.job.ID == after.ID {
					after = n.job
				}
			}
			all = append(all, more...)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.carryOut(all...)
	return after, nil
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
	Kind       work.Kind       `json:"kind,omitempty"`
	Part       int             `json:"part,omitempty"`    // of "job.part": which one of the Job
	Runbook    string          `json:"runbook,omitempty"` // stack/name
	StepName   string          `json:"step_name,omitempty"`
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
	RunnerID   string          `json:"runner_id,omitempty"`
	Instance   string          `json:"instance,omitempty"` // name
}

// note writes a transition into the outbox, as "job." and the Job's status.
func (c *Control) note(tx *store.Tx, job *work.Job, event work.Event) error {
	e := JobEvent{Number: job.Number, ModuleID: job.ModuleID, Module: job.Module, Action: job.Action, Status: job.Status,
		Attempt: job.Attempt, Wait: job.Wait, Notice: job.Notice, Failure: job.Failure.WithoutExcerpt(),
		Kind: job.Kind, Part: job.Part, Runbook: job.Runbook}
	if len(job.Steps) > 0 {
		s := job.Steps[min(eventStep(job, event), len(job.Steps)-1)]
		e.Step, e.StepStatus, e.StepName = s.Kind, s.Status, s.Name
	}
	if job.Binding != nil {
		e.RunnerID, e.Instance = job.Binding.RunnerID, job.Binding.Instance
	}
	if job.IsPart() {
		return c.publish(tx, job.OrganizationID, "job.part", job.ParentID, e)
	}
	return c.publish(tx, job.OrganizationID, "job."+string(job.Status), job.ID, e)
}

// isNews tells whether a transition is worth an event. Those of Parts and Rounds are many: of a Part it is where it is and how it ends, of a
// Runbook Job its state and those of its Steps, and now and then that it goes on.
func (c *Control) isNews(tx *store.Tx, before, after *work.Job) bool {
	between := func(s work.Status) bool { return s == work.Running || s == work.Waiting }
	switch {
	case after.IsPart():
		return before.Status != after.Status && !(between(before.Status) && between(after.Status))
	case !after.IsRun() || before.Status != after.Status:
		return true
	}
	return !slices.EqualFunc(before.Steps, after.Steps, func(a, b work.Step) bool { return a.Status == b.Status }) || c.conductor.mayTell(after.ID, tx.Now())
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
		if len(m.more) > 0 { // before the lane of m is free
			c.carryOut(m.more...)
		}
		c.queue.Observe(m.transition())
		if m.held {
			c.queue.Reload(m.job.ModuleID)
		}
		c.supersede(m)
		if m.job.IsRun() {
			c.conductor.isTold(m.job.ID, m.at)
		}
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
	c.hosting.Poke()
}

func (c *Control) effect(m moved, e work.Effect) {
	switch e := e.(type) {
	case work.SendStep:
		if m.to != nil && c.sessions.holder(m.job.Binding) != m.to {
			return
		}
		c.sendStep(m.job, e.Step, m.spec, m.round)
	case work.SendCancel:
		if s := c.sessions.holder(m.job.Binding); s != nil {
			s.send(&wire.Cancel{Ref: wire.Ref{Job: m.job.ID, Attempt: e.Attempt}, Mode: e.Mode})
		}
	case work.Release:
		if s := c.sessions.holder(&e.Binding); s != nil {
			s.drop(wire.Ref{Job: m.job.ID, Attempt: e.Attempt})
		}
	case work.Advance:
		c.conductor.look(m.job.OrganizationID, cmp.Or(m.job.ParentID, m.job.ID))
	case work.Ended:
		c.runEnded(m.job)
		c.dropPlan(m.job)
		if m.job.IsPart() { // its log is its Runbook Job's, which goes on
			c.logs.Stored(m.job.LogID(), nil, 0) // whoever follows the Part alone looks again
			return
		}
		c.logs.ArchiveLater(m.job.OrganizationID, m.job.ID)
		c.logs.Ended(m.job.ID)
	}
}

// supersede ends what is left of an attempt that was given up for good, at an instance that is still connected: what changes nothing
// is stopped, a running mutating step may finish.
func (c *Control) supersede(m moved) {
	binding, steps := givenUp(m)
	if binding == nil {
		return
	}
	s := c.sessions.holder(binding)
	if s == nil {
		return
	}
	mode := work.Graceful
	if i := work.CurrentStep(steps); i < len(steps) && steps[i].Changing {
		mode = work.AfterCurrent
	}
	if asked := m.before.Cancel; asked != nil {
		mode = asked.Mode
	}
	s.send(&wire.Cancel{Ref: wire.Ref{Job: m.job.ID, Attempt: m.before.Attempt}, Mode: mode})
}

// givenUp returns the binding and the steps of the attempt that a transition gave up for good, nil when it gave up none. One that may
// still be resumed is given up when another attempt begins, or when the job ends.
func givenUp(m moved) (*work.Binding, []work.Step) {
	if m.before == nil || m.job.Resumable != nil {
		return nil, nil
	}
	e, lost := m.event.(work.LeaseLost)
	_, over := m.event.(work.RecoveryOver)
	_, resumed := m.event.(work.Resumed)
	switch r := m.before.Resumable; {
	case r != nil && !resumed:
		return &r.Binding, r.Steps
	case over, lost && !e.Gone && m.job.Status != work.Interrupted:
		return m.before.Binding, m.before.Steps
	}
	return nil, nil
}

// runEnded has looked at what waits for the end of a Job: the Runbook Job that it is a step of, and others of its Runbook.
func (c *Control) runEnded(j *work.Job) {
	if j.StepOf != "" {
		c.conductor.look(j.OrganizationID, j.StepOf)
	}
	if !j.IsRun() {
		return
	}
	c.conductor.forget(j.ID)
	if j.Lane != "" {
		c.background(func(ctx context.Context) {
			if err := c.lookAtNext(ctx, j); err != nil && ctx.Err() == nil {
				c.log.Warn("could not look for runbook jobs that wait", "error", err)
			}
		})
	}
}

func instanceOf(job *work.Job) string {
	if job.Binding == nil {
		return ""
	}
	return job.Binding.InstanceID
}

// sendStep tells the bound Instance to execute a Step, when its Session is here. The Spec goes with the first Step,
// and again with one that was approved, because it bears the approved plan.
func (c *Control) sendStep(job *work.Job, step int, spec *work.Spec, round *work.Round) {
	s := c.sessions.holder(job.Binding)
	if s == nil {
		return
	}
	if job.IsPart() {
		c.sendRound(s, job, step, spec, round)
		return
	}
	msg := &wire.RunStep{Ref: refOf(job), Step: step, Watch: c.logs.Followed(job.LogID())}
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
