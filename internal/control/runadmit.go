package control

import (
	"cmp"
	"fmt"
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/work"
)

// The engines that an Instance says it has when it can do Parts.
const (
	runbookEngine catalog.Engine = "runbook"
	ansibleEngine catalog.Engine = "ansible"
)

// admit begins a Runbook Job that waits, when nothing is in its way, and makes its Parts. What is in the way is noted as why it waits.
func (t *turn) admit() (bool, error) {
	run := t.conduct.Run
	wait, err := t.obstacle()
	if err != nil {
		return false, err
	}
	if wait != (work.Wait{}) {
		m, changed, err := t.c.move(t.tx, run, work.WaitChanged{Wait: wait})
		if changed {
			t.moves = append(t.moves, m)
		}
		return false, err
	}
	if err := t.apply(work.Turn{Event: work.Began{}}); err != nil {
		return false, err
	}
	return true, t.makeParts()
}

// obstacle says why a Runbook Job cannot begin now.
func (t *turn) obstacle() (work.Wait, error) {
	run := t.conduct.Run
	wait, err := paused(t.tx, run.OrganizationID)
	if err != nil || wait != (work.Wait{}) {
		return wait, err
	}
	if run.RunbookID == "" || run.Lane == "" {
		return work.Wait{}, nil
	}
	others, err := t.tx.RunsOf(run.OrganizationID, run.RunbookID)
	return busyRunbook(run, others), err
}

// busyRunbook says which of the Jobs of a Runbook, oldest first, a Job that waits for its turn waits for: the one before it in line, so that what is said
// changes no more than once, or else one that is under way.
func busyRunbook(run *work.Job, others []store.OpenRun) (wait work.Wait) {
	for _, o := range others {
		if o.ID != run.ID && (o.Number < run.Number || wait == (work.Wait{}) && o.Status != work.Queued) {
			wait = work.Wait{Code: work.WaitRunbookBusy, Text: fmt.Sprintf("job #%d of the same runbook is under way or comes first", o.Number)}
		}
	}
	return wait
}

// makeParts stores the Parts of a Job that begins.
func (t *turn) makeParts() error {
	run, p := t.conduct.Run, t.conduct.Plan
	stack, err := t.tx.Stack(run.OrganizationID, run.StackID)
	if err != nil {
		return err
	}
	for i := range p.Parts {
		part := &work.Job{
			OrganizationID: run.OrganizationID, Number: run.Number, ParentID: run.ID, Part: i + 1, Kind: work.PartJob, Runbook: run.Runbook, StackID: run.StackID,
			CreatedBy: run.CreatedBy, CreatedAt: run.CreatedAt, Priority: run.Priority, Status: work.Queued, Limits: run.Limits, Steps: work.StepsOfPart(p, i),
			Wait: work.Wait{Code: work.WaitRound, Text: "waiting for its first round"},
		}
		s := partSnapshot(stack.Name, run.Runbook, p, i)
		if err := t.tx.InsertJob(part, s); err != nil {
			return err
		}
		t.fresh[part.ID] = &s
		t.conduct.Parts = append(t.conduct.Parts, part)
	}
	return nil
}

// partSnapshot says what a Part needs of an Instance.
func partSnapshot(stack, name string, p *runbook.Plan, i int) store.JobSnapshot {
	part := p.Parts[i]
	engine := runbookEngine
	if slices.ContainsFunc(p.Items, func(i runbook.Item) bool { return i.Kind == runbook.AnsibleItem }) {
		engine = ansibleEngine
	}
	return store.JobSnapshot{RunnerID: part.RunnerID, Module: catalog.ModuleSpec{Stack: stack, Name: name, Engine: engine,
		Runner: part.Runner, RunnerLabels: part.Labels, RunnerInstanceName: part.Instance}}
}

// queueLimit refuses a job of a runbook when as many of its jobs wait as it allows; 0 is no limit.
func queueLimit(tx *store.Tx, run *work.Job, maxQueued int) error {
	if run.RunbookID == "" || maxQueued == 0 {
		return nil
	}
	others, err := tx.RunsOf(run.OrganizationID, run.RunbookID)
	if err != nil {
		return err
	}
	waiting := 0
	for _, o := range others {
		if o.Status == work.Queued {
			waiting++
		}
	}
	if waiting < maxQueued {
		return nil
	}
	return fault.New(fault.Conflict, "runbook_queue_full",
		"%d jobs of runbook %s are waiting; max_queued allows %d", waiting, run.Runbook, maxQueued).
		WithHint("wait until one of them has started, or raise max_queued")
}

// makeRoom does what the policy of a Runbook says about its other Jobs, when one more is to be queued. It is called in the transaction that stores it.
func (c *Control) makeRoom(
	tx *store.Tx, run *work.Job, policy catalog.ConcurrencyPolicy, maxQueued int,
) ([]moved, error) {
	if err := queueLimit(tx, run, maxQueued); err != nil {
		return nil, err
	}
	if run.RunbookID == "" || cmp.Or(policy, catalog.AllowConcurrent) == catalog.AllowConcurrent || policy == catalog.QueueConcurrent {
		return nil, nil
	}
	others, err := tx.RunsOf(run.OrganizationID, run.RunbookID)
	if err != nil || len(others) == 0 {
		return nil, err
	}
	if policy == catalog.RefuseConcurrent {
		return nil, fault.New(fault.Conflict, "runbook_busy", "job #%d of runbook %s is not over, and the runbook refuses another one meanwhile", others[0].Number, run.Runbook).
			WithHint("wait until it is over, or cancel it: legwork job cancel %d", others[0].Number)
	}
	var moves []moved
	for _, other := range others {
		o, err := tx.JobForUpdate(run.OrganizationID, other.ID)
		if err != nil {
			return nil, err
		}
		m, changed, err := c.move(tx, o, work.CancelRequested{Mode: work.Graceful, By: "legwork", Reason: "a newer job of the runbook takes its place"})
		if err != nil && !movedOn(err) {
			return nil, err
		}
		if changed {
			moves = append(moves, m)
		}
	}
	return moves, nil
}
