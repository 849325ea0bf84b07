package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/work"
)

// conductor has Runbook Jobs go on: it opens a Round when all Parts are through the one before, submits the Jobs of Modules and ends what is over.
// What is due is told by work.Conduct out of what is stored, with the Job locked, so that any Server may do it at any time and twice.
type conductor struct {
	c *Control

	mu     sync.Mutex
	busy   map[string]bool // Jobs that are looked at; true when they are to be looked at again
	plans  map[string]*keptPlan
	used   uint64          // counts uses of plans
	told   map[string]told // the last events about Jobs
	sweeps int
	stood  map[string]string // how Jobs stood in which nothing was due; see sweepRuns
}

// keptPlan is a Plan in memory.
type keptPlan struct {
	plan *runbook.Plan
	size int    // Nodes, Items and Rounds
	used uint64 // rises
}

// told is when an event about a Job was published that says no more than that it goes on. One that is not sure counts in its own transaction alone, which
// may come to nothing.
type told struct {
	at, before time.Time
	sure       bool
}

func newConductor(c *Control) *conductor {
	return &conductor{c: c, busy: map[string]bool{}, plans: map[string]*keptPlan{}, told: map[string]told{}}
}

const (
	plansKept     = 1000                   // in memory, and
	plansSize     = 200_000                // of their Nodes, Items and Rounds: some 100 MB
	toldKept      = 1000                   // as long as they matter
	runEventPause = 500 * time.Millisecond // between two events about a Runbook Job that say no more than that it goes on
	turnsMost     = 100_000

	sweepsRemembered = 15
)

// look has a Runbook Job looked at, soon. Many looks that meet are few.
func (d *conductor) look(org, id string) {
	d.mu.Lock()
	_, busy := d.busy[id]
	d.busy[id] = busy
	d.mu.Unlock()
	if busy {
		return
	}
	d.c.background(func(ctx context.Context) {
		for {
			if err := d.c.conduct(ctx, org, id); err != nil && !movedOn(err) && ctx.Err() == nil {
				d.c.log.Error("could not have a runbook job go on", "job_id", id, "error", err)
			}
			d.mu.Lock()
			again := d.busy[id] && ctx.Err() == nil
			if again {
				d.busy[id] = false
			} else {
				delete(d.busy, id)
			}
			d.mu.Unlock()
			if !again {
				return
			}
		}
	})
}

// plan gives the Plan of a Runbook Job. It is not to be changed.
func (d *conductor) plan(tx *store.Tx, org, id string) (*runbook.Plan, error) {
	if p := d.kept(id); p != nil {
		return p, nil
	}
	p, err := tx.PlanOf(org, id)
	if err != nil {
		return nil, err
	}
	d.keep(id, p)
	return p, nil
}

func (d *conductor) kept(id string) *runbook.Plan {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.plans[id]
	if k == nil {
		return nil
	}
	d.used++
	k.used = d.used
	return k.plan
}

// keep puts a Plan into memory, and those out that were not used for the longest time.
func (d *conductor) keep(id string, p *runbook.Plan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used++
	d.plans[id] = &keptPlan{p, len(p.Nodes) + len(p.Items) + len(p.Rounds), d.used}
	size := 0
	for _, k := range d.plans {
		size += k.size
	}
	for len(d.plans) > 1 && (len(d.plans) > plansKept || size > plansSize) {
		oldest := ""
		for other, k := range d.plans {
			if oldest == "" || k.used < d.plans[oldest].used {
				oldest = other
			}
		}
		size -= d.plans[oldest].size
		delete(d.plans, oldest)
	}
}

// forget drops what is known of a Job that is over.
func (d *conductor) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.plans, id)
	delete(d.told, id)
}

// mayTell tells whether an event about a Runbook Job is due that says no more than that it goes on. at is the time of the transaction that is to publish
// it; once that is stored, isTold is to be called.
func (d *conductor) mayTell(id string, at time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := d.told[id]
	if !last.sure {
		if last.at.Equal(at) && !at.IsZero() {
			return false
		}
		last.at = last.before
	}
	if at.Sub(last.at) < runEventPause {
		return false
	}
	if len(d.told) >= toldKept { // Jobs that end elsewhere are not forgotten here
		maps.DeleteFunc(d.told, func(_ string, t told) bool { return at.Sub(t.at) >= runEventPause })
	}
	d.told[id] = told{at: at, before: last.at}
	return true
}

// isTold notes that the transaction of a time is stored, in which mayTell was asked.
func (d *conductor) isTold(id string, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last, ok := d.told[id]; ok && last.at.Equal(at) {
		last.sure = true
		d.told[id] = last
	}
}

// stands tells whether a Job stands as it did when nothing was due in it.
func (d *conductor) stands(id, how string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return how != "" && d.stood[id] == how
}

// remember keeps how Jobs stand in which nothing is due, in place of what was known. Now and then it keeps nothing, so that what the text does not tell is
// seen, too.
func (d *conductor) remember(stood map[string]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sweeps++; d.sweeps%sweepsRemembered == 0 {
		stood = nil
	}
	d.stood = stood
}

// conduct does what is due in a Runbook Job now.
func (c *Control) conduct(ctx context.Context, org, id string) error {
	var moves []moved
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		moves = nil
		run, err := lockRun(tx, org, id)
		if err != nil {
			return err
		}
		moves, err = c.takeTurns(tx, run)
		return err
	})
	if err != nil {
		return err
	}
	c.carryOut(moves...)
	return nil
}

// lockRun gives a Runbook Job, locked. One that waits for others of its Runbook is locked after these, as makeRoom does: the other way round two
// transactions would wait for each other.
func lockRun(tx *store.Tx, org, id string) (*work.Job, error) {
	seen, err := tx.Job(org, id)
	if err != nil {
		return nil, err
	}
	if seen.Status == work.Queued && seen.Lane != "" && seen.IsRun() {
		if err := tx.LockRunbook(seen.RunbookID); err != nil {
			return nil, err
		}
	}
	return tx.JobForUpdate(org, id)
}

// turn is a Runbook Job in a transaction that does what is due in it.
type turn struct {
	c       *Control
	tx      *store.Tx
	conduct work.Conduct
	fresh   map[string]*store.JobSnapshot // of Parts that are new
	moves   []moved
}

// takeTurns does what is due in a Runbook Job that is locked: it is admitted, its Rounds are opened and closed, it ends.
func (c *Control) takeTurns(tx *store.Tx, run *work.Job) ([]moved, error) {
	if run.Status.Terminal() || run.Status == work.AwaitingApproval {
		return nil, nil
	}
	t := &turn{c: c, tx: tx, fresh: map[string]*store.JobSnapshot{}}
	plan, err := c.conductor.plan(tx, run.OrganizationID, run.ID)
	if err != nil {
		return nil, err
	}
	t.conduct = work.Conduct{Plan: plan, Run: run, Skip: func(round int) (bool, *work.Failure) { return skips(plan, t.conduct.Run, round) }}
	if run.Status == work.Queued {
		if admitted, err := t.admit(); err != nil || !admitted {
			return t.moves, err
		}
	} else if t.conduct.Parts, err = tx.Parts(run.OrganizationID, run.ID); err != nil {
		return nil, err
	}
	for range turnsMost {
		more, err := t.once()
		if err != nil || !more {
			return t.moves, err
		}
	}
	return nil, fmt.Errorf("job #%d comes to no end of turns", run.Number)
}

// once does what is due now, together. more is false when nothing was.
func (t *turn) once() (more bool, err error) {
	if err := t.lookAtModule(); err != nil {
		return false, err
	}
	turns := t.conduct.Turns()
	held, err := t.prepare(turns)
	if err != nil || held {
		return false, err
	}
	for _, next := range turns {
		if err := t.apply(next); err != nil {
			return false, err
		}
	}
	return len(turns) > 0, nil
}

// prepare looks whether the Instances of Parts that a Round is to be opened for are there. A Part whose Instance is gone goes back to the queue, where
// another Instance takes it up with the Round; for one that is away for a moment it is waited, or the Round would count as begun there.
func (t *turn) prepare(turns []work.Turn) (held bool, err error) {
	var lost []*work.Job
	for _, next := range turns {
		if _, opens := next.Event.(work.RoundOpened); !opens || next.Part == 0 {
			continue
		}
		p := t.part(next.Part)
		if p.Status != work.Waiting {
			continue
		}
		i, err := t.tx.Instance(p.OrganizationID, instanceOf(p))
		switch {
		case fault.Is(err, fault.NotFound):
			lost = append(lost, p)
		case err != nil:
			return false, err
		case t.c.living(i, t.tx.Now()):
		case t.tx.Now().Sub(i.LastSeen) >= t.c.limits.Lease:
			lost = append(lost, p)
		default:
			held = true
		}
	}
	for _, p := range lost {
		if err := t.apply(work.Turn{Part: p.Part, Event: work.LeaseLost{Attempt: p.Attempt, Gone: true, Reason: "its instance was not there when its next round was to begin"}}); err != nil {
			return false, err
		}
	}
	return held, nil
}

func (t *turn) part(number int) *work.Job {
	for _, p := range t.conduct.Parts {
		if p.Part == number {
			return p
		}
	}
	return nil
}

// apply does one turn, and what has to be stored with it.
func (t *turn) apply(next work.Turn) error {
	j := t.conduct.Run
	if next.Part > 0 {
		if j = t.part(next.Part); j == nil {
			return fmt.Errorf("job #%d has no part %d", t.conduct.Run.Number, next.Part)
		}
	}
	m, changed, err := t.c.move(t.tx, j, next.Event)
	if err != nil || !changed {
		return err
	}
	m.effects = slices.DeleteFunc(m.effects, func(e work.Effect) bool { return e == work.Effect(work.Advance{}) })
	if next.Part == 0 {
		t.conduct.Run = m.job
	} else {
		for i, p := range t.conduct.Parts {
			if p.Part == next.Part {
				t.conduct.Parts[i] = m.job
			}
		}
		m.snapshot = t.fresh[m.job.ID]
		m.round = roundOf(t.conduct.Plan, t.conduct.Run, m.job)
	}
	t.moves = append(t.moves, m)
	if opened, is := next.Event.(work.RoundOpened); is && next.Part == 0 && !opened.Skip {
		return t.submitModule(opened.Round)
	}
	return nil
}

// skips tells whether the condition of an Item that the Server does itself is false.
func skips(p *runbook.Plan, run *work.Job, round int) (bool, *work.Failure) {
	item := p.Items[p.Rounds[round].First]
	if item.Step.When == "" && len(item.Guards) == 0 {
		return false, nil
	}
	view := runbook.View{Item: item, Scopes: p.Scopes, Results: map[string]runbook.Result{}}
	for i, s := range run.Steps {
		if s.Status.Done() {
			view.Results[p.Items[i].Name] = runbook.Result{Status: string(s.Status), Values: valuesOf(run.Run, p.Items[i].Name)}
		}
	}
	holds, err := view.When()
	if err != nil {
		f := fault.Of(err)
		return false, &work.Failure{Code: f.Code, Message: fmt.Sprintf("the condition of step %s: %s", item.Name, f.Message), Hint: f.Hint}
	}
	return !holds, nil
}

// valuesOf gives what a step passed on.
func valuesOf(r *work.RunState, step string) map[string]string {
	values := map[string]string{}
	for k, v := range r.Values {
		if len(k) > len(step)+1 && k[:len(step)] == step && k[len(step)] == '.' {
			values[k[len(step)+1:]] = v
		}
	}
	return values
}
