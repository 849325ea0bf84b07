package control

import (
	"encoding/json"
	"fmt"

	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/work"
)

// submitModule queues the Job of a Module that is a step, in the transaction that opens its Round.
func (t *turn) submitModule(round int) error {
	run, p := t.conduct.Run, t.conduct.Plan
	item := p.Items[p.Rounds[round].First]
	if item.Kind != runbook.ModuleItem || run.Status != work.Running {
		return nil
	}
	moves, err := t.c.draftStep(t.tx, run, item)
	if f := fault.Of(err); err != nil {
		if f.Kind == fault.Internal || f.Kind == fault.Unavailable {
			return err
		}
		return t.apply(work.Turn{Event: work.ModuleEnded{Round: round, Plan: p,
			Failure: &work.Failure{Code: f.Code, Message: fmt.Sprintf("step %s: %s", item.Name, f.Message), Hint: f.Hint}}})
	}
	t.moves = append(t.moves, moves...)
	return t.apply(work.Turn{Event: work.ModuleSubmitted{Round: round, Step: p.Rounds[round].First, Job: moves[0].job.ID, Number: moves[0].job.Number}})
}

// draftStep queues the Job of a Module for a step of a Runbook Job.
func (c *Control) draftStep(tx *store.Tx, run *work.Job, item runbook.Item) ([]moved, error) {
	stack, err := tx.Stack(run.OrganizationID, run.StackID)
	if err != nil {
		return nil, err
	}
	path := stack.Name + "/" + item.Step.Module.Module
	m, err := tx.Module(run.OrganizationID, path)
	if err != nil {
		return nil, unknownModule(err, path)
	}
	sub, err := c.draft(tx, m, work.Action(item.Step.Module.Action), run.CreatedBy, fmt.Sprintf("step %s of job #%d", item.Name, run.Number))
	if err != nil {
		return nil, err
	}
	sub.job.Priority, sub.job.StepOf = run.Priority, run.ID
	return c.enqueue(tx, sub)
}

// lookAtModule finds out how the Job ended that the open Round waits for, and cancels it with the Runbook Job.
func (t *turn) lookAtModule() error {
	run := t.conduct.Run
	t.conduct.Module = nil
	if run.Run == nil {
		return nil
	}
	round, open := run.Run.Open()
	if !open || !t.conduct.Plan.Global(round) {
		return nil
	}
	if run.Run.Module == "" {
		return t.submitModule(round)
	}
	j, err := t.tx.JobForUpdate(run.OrganizationID, run.Run.Module)
	switch {
	case fault.Is(err, fault.NotFound):
		t.conduct.Module = &work.ModuleEnded{Failure: &work.Failure{Code: "job_gone", Message: "the job of the module is not there any more"}}
	case err != nil:
		return err
	case j.Status.Terminal():
		return t.moduleOver(round, j)
	case run.Status == work.Canceling && (j.Cancel == nil || j.Cancel.Mode != run.Cancel.Mode):
		m, changed, err := t.c.move(t.tx, j, work.CancelRequested{Mode: run.Cancel.Mode, By: run.Cancel.By, Reason: fmt.Sprintf("job #%d is canceled", run.Number)})
		if err != nil && !movedOn(err) {
			return err
		}
		if changed {
			t.moves = append(t.moves, m)
			return t.lookAtModule()
		}
	}
	return nil
}

// moduleOver notes how the Job of a Module ended. One that was replaced by a newer one of the same kind is followed there.
func (t *turn) moduleOver(round int, j *work.Job) error {
	t.conduct.Module = &work.ModuleEnded{}
	item := t.conduct.Plan.Items[t.conduct.Plan.Rounds[round].First]
	if j.Status == work.Succeeded {
		values, err := t.outputValues(item.Name, j)
		t.conduct.Module.Values = values
		return err
	}
	if j.Status == work.Superseded && t.conduct.Run.Status == work.Running {
		other, err := t.replacement(j)
		if err != nil {
			return err
		}
		if other != nil {
			t.conduct.Module = nil
			event := work.ModuleSubmitted{Round: round, Step: t.conduct.Plan.Rounds[round].First, Job: other.ID, Number: other.Number}
			return t.apply(work.Turn{Event: event})
		}
	}
	f := work.Failure{Code: "module_" + string(j.Status), Message: fmt.Sprintf("step %s: job #%d of %s is %s", item.Name, j.Number, j.Module, j.Status), Hint: fmt.Sprintf("see legwork job show %d", j.Number)}
	if j.Failure != nil {
		f.Message += ": " + j.Failure.Message
	}
	t.conduct.Module.Failure = &f
	return nil
}

// replacement gives the Job that stands in the place of one that was replaced, nil when it is not there.
func (t *turn) replacement(j *work.Job) (*work.Job, error) {
	other, err := t.tx.ReplaceableOf(j.OrganizationID, j.ModuleID, j.Action)
	if err != nil || other != nil {
		return other, err
	}
	other, err = t.tx.ModuleBusy(j.OrganizationID, j.ModuleID)
	if err != nil || other == nil || other.Action != j.Action {
		return nil, err
	}
	return other, nil // the sweeper finds its end
}

// outputValues gives the outputs of a Module that later steps may use: "step.output". Sensitive ones are left out, because they would
// lie in the Job in clear.
func (t *turn) outputValues(step string, j *work.Job) (map[string]string, error) {
	set, err := t.tx.LatestOutputs(j.OrganizationID, j.ModuleID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	values := map[string]string{}
	for name, v := range set.Values {
		if v.Sensitive {
			continue
		}
		text := ""
		if json.Unmarshal(v.Value, &text) != nil {
			text = string(v.Value)
		}
		values[step+"."+name] = text
	}
	return values, err
}
