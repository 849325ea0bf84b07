package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/work"
)

// newRun stores a Runbook Job with that many Parts.
func (w *world) newRun(t tenant, parts int) (run *work.Job, of []*work.Job) {
	w.t.Helper()
	run = &work.Job{OrganizationID: t.org.ID, Kind: work.RunbookJob, RunbookID: "book", Runbook: "prod/deploy", StackID: t.stack.ID, Status: work.Queued, CreatedBy: "ann"}
	w.update(func(tx *store.Tx) error {
		if err := tx.InsertJob(run, store.JobSnapshot{Plan: &runbook.Plan{Strategy: "step_first"}, Run: &store.RunSnapshot{Nodes: "tags: web"}}); err != nil {
			return err
		}
		for i := range parts {
			p := &work.Job{OrganizationID: t.org.ID, Kind: work.PartJob, ParentID: run.ID, Part: i + 1, Number: run.Number, CreatedAt: run.CreatedAt, Status: work.Queued}
			if err := tx.InsertJob(p, store.JobSnapshot{RunnerID: "r"}); err != nil {
				return err
			}
			of = append(of, p)
		}
		return nil
	})
	return run, of
}

func runs(t *testing.T, w *world) {
	org := w.a.org.ID
	module := w.newJob(w.a.vpc)
	run, parts := w.newRun(w.a, 3)
	foreign, _ := w.newRun(w.b, 1)
	t.Run("Parts are no Jobs of a list, and the queue knows them alone", func(t *testing.T) {
		w.view(func(tx *store.Tx) error {
			jobs, err := tx.Jobs(org, store.JobFilter{})
			same(t, "listed", len(jobs), 2)
			alive, aliveErr := tx.CountAlive(org)
			same(t, "alive", alive[work.Queued], 2)
			open, openErr := tx.CountOpenJobs()
			same(t, "open everywhere", open[work.Queued], 3)
			queue, _, queueErr := tx.QueuedJobs(store.QueueMark{}, 0)
			same(t, "in the queue", len(queue), 5) // the Module's, and four Parts
			of, ofErr := tx.Jobs(org, store.JobFilter{RunbookID: "book", Kind: work.RunbookJob})
			same(t, "of the Runbook", len(of), 1)
			_, err2 := tx.Job(org, "-2001")
			same(t, "found by its column", fault.Is(err2, fault.NotFound), true)
			return firstOf(err, aliveErr, openErr, queueErr, ofErr)
		})
	})
	t.Run("found by their Job", func(t *testing.T) {
		w.view(func(tx *store.Tx) error {
			got, err := tx.Parts(org, run.ID)
			if len(got) != 3 || got[0].ID != parts[0].ID || got[2].Part != 3 || got[2].Number != run.Number {
				t.Errorf("%+v", got)
			}
			none, noneErr := tx.Parts(w.b.org.ID, run.ID)
			same(t, "in the other Organization", len(none), 0)
			p, planErr := tx.PlanOf(org, run.ID)
			same(t, "plan", p.Strategy, "step_first")
			of, ofErr := tx.RunsOf(org, "book")
			same(t, "of the Runbook", len(of), 1)
			all, mark, allErr := tx.OpenRuns(store.QueueMark{}, 1)
			rest, mark, restErr := tx.OpenRuns(mark, 0)
			none2, _, endErr := tx.OpenRuns(mark, 0)
			same(t, "open", len(all)+len(rest), 2)
			same(t, "open behind the last", len(none2), 0)
			n, countErr := tx.CountWaitingRuns()
			same(t, "waiting", n, 2)
			states, statesErr := tx.PartStates([]string{run.ID, "none"})
			sameText(t, "states", states, map[string]string{run.ID: "queued 0;queued 0;queued 0;"})
			allErr = firstOf(allErr, restErr, endErr, countErr, statesErr)
			return firstOf(err, noneErr, planErr, ofErr, allErr)
		})
		w.fails(fault.NotFound, "plan in the other Organization", func(tx *store.Tx) error { _, err := tx.PlanOf(w.b.org.ID, run.ID); return err })
	})
	t.Run("each is bound by itself", func(t *testing.T) {
		w.update(func(tx *store.Tx) error {
			for _, p := range parts {
				ok, err := tx.ClaimJob(claimed(p, "i1", tx.Now()))
				if err != nil || !ok {
					t.Errorf("claim: %v %v", ok, err)
				}
			}
			return nil
		})
	})
	t.Run("one of a lane is under way", func(t *testing.T) {
		begin := func(j *work.Job) error {
			return w.s.Update(t.Context(), func(tx *store.Tx) error {
				got, err := tx.JobForUpdate(org, j.ID)
				if err != nil {
					return err
				}
				got.Status = work.Running
				return tx.SaveJob(got)
			})
		}
		one, two := &work.Job{OrganizationID: org, Kind: work.RunbookJob, Lane: "lane", Status: work.Queued}, &work.Job{OrganizationID: org, Kind: work.RunbookJob, Lane: "lane", Status: work.Queued}
		w.update(func(tx *store.Tx) error {
			return firstOf(tx.InsertJob(one, store.JobSnapshot{}), tx.InsertJob(two, store.JobSnapshot{}))
		})
		if err := begin(one); err != nil {
			t.Fatal(err)
		}
		if err := begin(two); fault.Code(err) != "module_busy" {
			t.Fatalf("%v", err)
		}
	})
	t.Run("results of Nodes", func(t *testing.T) { nodeResults(t, w, run.ID) })
	t.Run("deleted together", func(t *testing.T) {
		w.update(func(tx *store.Tx) error {
			for _, j := range []*work.Job{run, module} {
				got, err := tx.JobForUpdate(org, j.ID)
				if err != nil {
					return err
				}
				got.Status = work.Canceled
				if err := tx.SaveJob(got); err != nil {
					return err
				}
			}
			old, err := tx.OldJobs(time.Now().Add(time.Hour), "", 0, 0)
			same(t, "old", len(old), 1) // the Module keeps its newest
			if err != nil {
				return err
			}
			return tx.DeleteJob(org, run.ID)
		})
		w.view(func(tx *store.Tx) error {
			left, err := tx.Parts(org, run.ID)
			same(t, "parts left", len(left), 0)
			results, resultsErr := tx.NodeResults(run.ID, store.NodeResultFilter{})
			same(t, "results left", len(results), 0)
			return firstOf(err, resultsErr)
		})
	})
	t.Run("found by the Runners of their Parts", func(t *testing.T) { runsOfRunner(t, w) })
	_ = foreign
}

// runsOfRunner lists the Jobs of a Runner: its Modules' and the Runbook Jobs of which it has Parts, each once, in pages.
func runsOfRunner(t *testing.T, w *world) {
	org, want := w.a.org.ID, ""
	bind := func(j *work.Job, runner string) {
		w.update(func(tx *store.Tx) error {
			c := claimed(j, "i-"+j.ID, tx.Now())
			c.Binding.RunnerID = runner
			ok, err := tx.ClaimJob(c)
			if err == nil && !ok {
				t.Error("not claimed")
			}
			if err == nil && ok {
				c.Status, c.LeaseUntil = work.Succeeded, time.Time{}
				err = tx.SaveJob(c)
			}
			return err
		})
	}
	for i := range 9 {
		var number int64
		if i%3 == 0 {
			j := w.newJob(w.a.vpc)
			number = j.Number
			bind(j, "mixed")
		} else {
			run, parts := w.newRun(w.a, 3)
			number = run.Number
			bind(parts[0], "mixed")
			bind(parts[1], "mixed")
			bind(parts[2], "another")
		}
		want = fmt.Sprint(number, " ", want)
	}
	all := func(org string, f store.JobFilter) (got string) {
		w.view(func(tx *store.Tx) error {
			for {
				jobs, next, err := tx.JobPage(org, f)
				for _, j := range jobs {
					got += fmt.Sprint(j.Number, " ")
				}
				if f.OldestFirst {
					f.AfterNumber = next
				} else {
					f.BeforeNumber = next
				}
				if err != nil || next == 0 {
					return err
				}
			}
		})
		return got
	}
	same(t, "of a Runner", all(org, store.JobFilter{RunnerID: "mixed"}), want)
	same(t, "in pages", all(org, store.JobFilter{RunnerID: "mixed", Limit: 2}), want)
	oldest := strings.Fields(want)
	slices.Reverse(oldest)
	backwards := store.JobFilter{RunnerID: "mixed", OldestFirst: true, Limit: 2}
	sameText(t, "oldest first", strings.Fields(all(org, backwards)), oldest)
	same(t, "by status", all(org, store.JobFilter{RunnerID: "mixed", Limit: 2, Statuses: []work.Status{work.Queued, work.Succeeded}}), want)
	same(t, "of other kinds", len(strings.Fields(all(org, store.JobFilter{RunnerID: "mixed", Kind: work.RunbookJob, Limit: 2}))), 6)
	same(t, "found", len(strings.Fields(all(org, store.JobFilter{RunnerID: "mixed", Search: "deploy"}))), 6)
	same(t, "of the other Runner", len(strings.Fields(all(org, store.JobFilter{RunnerID: "another", Limit: 4}))), 6)
	same(t, "in the other Organization", all(w.b.org.ID, store.JobFilter{RunnerID: "mixed"}), "")
}

func firstOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func nodeResults(t *testing.T, w *world, job string) {
	put := func(part, attempt int, events ...work.NodeEvent) {
		t.Helper()
		w.update(func(tx *store.Tx) error { return tx.PutNodeResults(job, part, attempt, events) })
	}
	status := func(item, node int) work.NodeStatus {
		t.Helper()
		var got []store.NodeResult
		w.view(func(tx *store.Tx) (err error) {
			got, err = tx.NodeResults(job, store.NodeResultFilter{Items: []int{item}, Nodes: []int{node}})
			return err
		})
		if len(got) != 1 {
			t.Fatalf("%d results of item %d on node %d", len(got), item, node)
		}
		return got[0].Status
	}
	event := func(item, node int, s work.NodeStatus) work.NodeEvent {
		return work.NodeEvent{Item: item, Node: node, Status: s}
	}
	put(1, 1, event(0, 1, work.NodeRunning), event(0, 0, work.NodeRunning), event(0, 1, work.NodeSucceeded))
	same(t, "done in the same batch", status(0, 1), work.NodeSucceeded)
	put(1, 1, event(0, 1, work.NodeRunning))
	same(t, "told again that it runs", status(0, 1), work.NodeSucceeded)
	put(1, 2, event(0, 0, work.NodeFailed), event(0, 1, work.NodeRunning))
	same(t, "done is not undone by a later attempt", status(0, 1), work.NodeSucceeded)
	put(1, 1, event(0, 0, work.NodeSucceeded))
	same(t, "an earlier attempt over a later one's end", status(0, 0), work.NodeFailed)
	put(2, 1, event(0, -1, work.NodeSucceeded))
	put(3, 1, event(0, -1, work.NodeFailed))
	many := make([]work.NodeEvent, 1000)
	for i := range many {
		many[i] = work.NodeEvent{Item: 1, Node: i, Status: work.NodeSucceeded, Values: map[string]string{"k": "v"}, Started: time.Unix(5, 0).UTC()}
	}
	put(1, 1, many...)
	w.view(func(tx *store.Tx) error {
		counts, err := tx.CountNodeResults(job)
		same(t, "counted", counts[1][work.NodeSucceeded], 1000)
		same(t, "failed, of an item that has results on nodes and once per runner", counts[0][work.NodeFailed], 1)
		page, pageErr := tx.NodeResults(job, store.NodeResultFilter{After: true, AfterItem: 1, AfterNode: 989, AfterPart: 1})
		same(t, "the last page", len(page), 10)
		same(t, "values", len(page[0].Values), 0)
		with, withErr := tx.NodeResults(job, store.NodeResultFilter{WithValues: true, Nodes: []int{999}, Statuses: []work.NodeStatus{work.NodeSucceeded}, Part: 1})
		same(t, "value", with[0].Values["k"], "v")
		same(t, "time", with[0].Started.Unix(), int64(5))
		return firstOf(err, pageErr, withErr)
	})
}
