package control

import (
	"context"
	"fmt"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/work"
)

// TestTheSweeperGoesThroughAllRunbookJobs: behind more than a page of them that wait for their turn there is one that has lost its hint. Those that wait are
// left alone once it is said what they wait for.
func TestTheSweeperGoesThroughAllRunbookJobs(t *testing.T) {
	w := newWorld(t)
	c, ctx := w.still(), context.Background()
	plan := &runbook.Plan{Items: []runbook.Item{{Name: "s", Kind: runbook.ApprovalItem, Step: catalog.RunbookStep{Approval: &catalog.ApprovalStep{}}}},
		Scopes: []runbook.Scope{{}}, Rounds: []runbook.Round{{End: 1, Batch: -1}}}
	var last, first *work.Job
	w.must(w.store.Update(ctx, func(tx *store.Tx) error {
		stack := catalog.Stack{}
		stack.OrganizationID = w.org
		stack.Name = "prod"
		if err := tx.PutStack(&stack); err != nil {
			return err
		}
		for i := range 1002 {
			j := &work.Job{OrganizationID: w.org, Kind: work.RunbookJob, RunbookID: "book", Lane: "book", Runbook: "prod/book", StackID: stack.ID, Status: work.Queued, Steps: work.StepsOfRun(plan)}
			j.Wait = work.Wait{Code: work.WaitRunbookBusy, Text: fmt.Sprintf("job #%d of the same runbook is under way or comes first", i)}
			switch i {
			case 0:
				j.Status, j.Run = work.AwaitingApproval, &work.RunState{Opened: 1}
			case 1:
				first = j
				j.Wait = work.Wait{}
			case 1001:
				last = j
				j.RunbookID, j.Lane = "", ""
				j.Kind = work.CommandJob
			}
			if err := tx.InsertJob(j, store.JobSnapshot{Plan: plan, Run: &store.RunSnapshot{}}); err != nil {
				return err
			}
		}
		return nil
	}))
	job := func(id string) (j *work.Job) {
		w.must(w.store.View(ctx, func(tx *store.Tx) (err error) { j, err = tx.Job(w.org, id); return err }))
		return j
	}
	looking := func() int {
		c.conductor.mu.Lock()
		defer c.conductor.mu.Unlock()
		return len(c.conductor.busy)
	}
	w.must(c.sweepRuns(ctx, time.Time{}))
	eventually(t, "the last one is begun", func() bool { return job(last.ID).Status == work.AwaitingApproval })
	eventually(t, "all are looked at", func() bool { return looking() == 0 })
	if j := job(first.ID); j.Status != work.Queued || j.Wait.Code != work.WaitRunbookBusy || j.Wait.Text != "job #1 of the same runbook is under way or comes first" {
		t.Errorf("%s %+v", j.Status, j.Wait)
	}
	w.must(c.sweepRuns(ctx, time.Time{}))
	if n := looking(); n > 0 {
		t.Errorf("%d Jobs in which nothing is due are looked at again", n)
	}
	w.must(w.store.Update(ctx, func(tx *store.Tx) error { // the first in line is given up
		j, err := tx.JobForUpdate(w.org, first.ID)
		if err != nil {
			return err
		}
		j.Status = work.Canceled
		return tx.SaveJob(j)
	}))
	w.must(c.sweepRuns(ctx, time.Time{}))
	if n := looking(); n > 1 {
		t.Errorf("%d Jobs are looked at since one of them ended", n)
	}
	eventually(t, "all are looked at", func() bool { return looking() == 0 })
}

// TestRunbookJobsUnderWayAreLookedAtWhenTheyChanged: nothing is read of one that stands as it stood.
func TestRunbookJobsUnderWayAreLookedAtWhenTheyChanged(t *testing.T) {
	s := newStage(newWorld(t), 1, Limits{})
	j := s.start(s.plan(1, commandItem, commandItem))
	f := s.hosts[0]
	m := f.take()
	f.start(m.Ref, 0)
	s.untilPart(j.ID, 1, work.Running)
	stood := func() string {
		s.c.conductor.mu.Lock()
		defer s.c.conductor.mu.Unlock()
		return s.c.conductor.stood[j.ID]
	}
	eventually(t, "it is known how it stands", func() bool { return stood() != "" })
	before := stood()
	f.finish(m.Ref, 0, 0, work.StepResult{Round: &work.RoundResult{}})
	f.start(f.round(1).Ref, 1)
	eventually(t, "it stands otherwise", func() bool { now := stood(); return now != "" && now != before })
}

// TestRunbookJobsThatWaitFillTheQueue: of a Runbook whose Jobs wait for one another there are no more than may wait at all.
func TestRunbookJobsThatWaitFillTheQueue(t *testing.T) {
	w := newWorld(t)
	s := newStage(w, 1, Limits{QueuedJobs: 3})
	s.declare(s.owner(), "kind: Runbook\nstack: prod\nname: slow\nconcurrency_policy: queue\ndispatch: {mode: manual, runner: r1}\nsteps: [{command: uptime, each: runner}]\n")
	run := func() error {
		_, err := s.c.SubmitRun(context.Background(), s.owner(), RunRequest{Runbook: "prod/slow"})
		return err
	}
	s.must(run())
	s.hosts[0].take() // it waits for an Instance no more
	for i := range 3 {
		if err := run(); err != nil {
			t.Fatalf("the Job %d that waits: %v", i, err)
		}
	}
	if err := run(); fault.Code(err) != "queue_full" {
		t.Errorf("one too many: %v", err)
	}
}

func TestAnEventThatWasNotStoredIsPublishedAgain(t *testing.T) {
	d := newConductor(nil)
	at := time.Now()
	if !d.mayTell("j", at) || d.mayTell("j", at) {
		t.Error("one event of a transaction")
	}
	again := at.Add(time.Millisecond) // its transaction came to nothing
	if !d.mayTell("j", again) {
		t.Error("an event that came to nothing counts")
	}
	d.isTold("j", again)
	if d.mayTell("j", again.Add(runEventPause/2)) {
		t.Error("an event that was stored does not count")
	}
	if !d.mayTell("j", again.Add(runEventPause)) {
		t.Error("none is published after the pause")
	}
	for i := range 3 * toldKept {
		d.mayTell(fmt.Sprint(i), at.Add(time.Duration(i)*runEventPause))
	}
	if len(d.told) > toldKept {
		t.Errorf("%d Jobs are remembered", len(d.told))
	}
}

func TestPlansThatAreUsedStayInMemory(t *testing.T) {
	d := newConductor(nil)
	big := &runbook.Plan{Rounds: make([]runbook.Round, plansSize/4)}
	for i := range 4 {
		d.keep(fmt.Sprint(i), big)
	}
	if d.kept("0") == nil {
		t.Fatal("it does not fit")
	}
	d.keep("4", big)
	if d.kept("0") == nil || d.kept("1") != nil || d.kept("4") == nil || len(d.plans) != 4 {
		t.Errorf("%d are kept", len(d.plans))
	}
}
