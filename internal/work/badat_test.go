package work_test

import (
	"reflect"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

// TestEveryItemOfARoundHasItsOwnResult: a Round of several Items tells of each which Nodes dropped out at it, and not only of the last.
func TestEveryItemOfARoundHasItsOwnResult(t *testing.T) {
	const good, bad, skipped = work.StepSucceeded, work.StepFailed, work.StepSkipped
	for name, c := range map[string]struct {
		said     work.RoundResult
		strategy catalog.Strategy
		want     [3]work.StepStatus
		bad      [3][]int
		ok       [3]int
	}{
		"none":           {work.RoundResult{Succeeded: 2}, catalog.NodeFirst, [3]work.StepStatus{good, good, good}, [3][]int{}, [3]int{2, 2, 2}},
		"at the first":   {work.RoundResult{Succeeded: 1, Bad: []int{1}, BadAt: []int{0}}, catalog.NodeFirst, [3]work.StepStatus{bad, good, good}, [3][]int{{1}}, [3]int{1, 1, 1}},
		"at two":         {work.RoundResult{Bad: []int{0, 1}, BadAt: []int{1, 0}}, catalog.NodeFirst, [3]work.StepStatus{bad, bad, skipped}, [3][]int{{1}, {0}}, [3]int{1, 0, 0}},
		"all at once":    {work.RoundResult{Bad: []int{0, 1}, BadAt: []int{1, 0}}, catalog.Parallel, [3]work.StepStatus{bad, bad, good}, [3][]int{{1}, {0}}, [3]int{1, 0, 0}},
		"older executor": {work.RoundResult{Succeeded: 1, Bad: []int{0}}, catalog.NodeFirst, [3]work.StepStatus{good, good, bad}, [3][]int{2: {0}}, [3]int{2, 2, 1}},
		"out of bounds":  {work.RoundResult{Succeeded: 1, Bad: []int{0}, BadAt: []int{9}}, catalog.NodeFirst, [3]work.StepStatus{good, good, bad}, [3][]int{2: {0}}, [3]int{2, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			p := stepPlan(1, command, command, command)
			p.Strategy, p.OnFailure, p.Rounds = c.strategy, catalog.ContinueOnFailure, []runbook.Round{{First: 0, End: 3}}
			run := beginRun(t, p)
			run.claimAll()
			e := ok(1, 0)
			e.Result.Round = &c.said
			if err := run.apply(1, e); err != nil {
				t.Fatal(err)
			}
			run.turn()
			for i, s := range run.Run.Steps {
				var got work.RoundResult
				if s.Result != nil {
					got = *s.Result
				}
				if s.Status != c.want[i] || !reflect.DeepEqual(got.Bad, c.bad[i]) || got.Succeeded != c.ok[i] {
					t.Errorf("item %d is %s with %+v", i, s.Status, got)
				}
			}
		})
	}
}

// TestWhatWasSettledKeepsItsItems: of a Round whose Part was lost in the middle, both halves tell at which Items Nodes dropped out.
func TestWhatWasSettledKeepsItsItems(t *testing.T) {
	p := stepPlan(1, command, command)
	p.Strategy, p.OnFailure, p.Rounds = catalog.NodeFirst, catalog.ContinueOnFailure, []runbook.Round{{First: 0, End: 2}}
	run := beginRun(t, p)
	run.claimAll()
	for _, e := range []work.Event{work.StepStarted{Attempt: 1}, work.LeaseLost{Attempt: 1, Gone: true, Known: &work.RoundLoss{Out: []int{1}, OutAt: []int{0}}}, bind} {
		if err := run.apply(1, e); err != nil {
			t.Fatal(err)
		}
	}
	e := ok(2, 0)
	e.Result.Round = &work.RoundResult{Bad: []int{0}, BadAt: []int{1}}
	if err := run.apply(1, e); err != nil {
		t.Fatal(err)
	}
	run.turn()
	if s := run.Run.Steps; !reflect.DeepEqual(s[0].Result.Bad, []int{1}) || !reflect.DeepEqual(s[1].Result.Bad, []int{0}) {
		t.Errorf("%+v %+v", s[0].Result, s[1].Result)
	}
}

// TestAJobThatWentOnNamesAllThatDroppedOut, with a hint that can be copied.
func TestAJobThatWentOnNamesAllThatDroppedOut(t *testing.T) {
	p := stepPlan(2, command, command)
	p.OnFailure = catalog.ContinueOnFailure
	run := beginRun(t, p)
	run.claimAll()
	run.finish(1, 0)
	run.finish(2)
	run.turn()
	run.finish(1)
	run.finish(2, 3)
	run.turn()
	f := run.Run.Failure
	if f == nil || f.Message != "2 nodes failed, more than max_failures allows: n0, n3" || f.Hint != "read the log of these nodes; legwork job retry --failed 7 runs the job on them alone" {
		t.Fatalf("%+v", f)
	}
}

// TestNoSentenceSpeaksOfRounds: people know steps.
func TestNoSentenceSpeaksOfRounds(t *testing.T) {
	run := beginRun(t, stepPlan(1, command))
	run.claimAll()
	e := ok(1, 0)
	e.Result.Status, e.Result.ExitCode = work.StepFailed, 3
	if err := run.apply(1, e); err != nil {
		t.Fatal(err)
	}
	run.turn()
	if f := run.Run.Failure; f == nil || f.Message != "in the step s1 on runner r1: it failed with exit status 3" {
		t.Fatalf("%+v", f)
	}
}

// TestAFailureNamesTheStepsThatFailed: a round of several steps fails at some of them, and quotes the log of the first part.
func TestAFailureNamesTheStepsThatFailed(t *testing.T) {
	quoted := &work.Excerpt{Lines: []string{"boom"}, Attempt: 1, Seq: 7}
	for name, c := range map[string]struct {
		said work.RoundResult
		want string
	}{
		"one":            {work.RoundResult{Succeeded: 1, Bad: []int{0}, BadAt: []int{1}, Excerpt: quoted}, "failed on 1 node in step s2; max_failures allows 0: n0"},
		"two":            {work.RoundResult{Bad: []int{0, 1}, BadAt: []int{2, 0}, Excerpt: quoted}, "failed on 2 nodes in steps s1, s3; max_failures allows 0: n0, n1"},
		"once per shard": {work.RoundResult{Failed: true, Excerpt: quoted}, "steps s1 to s3 failed at runner r1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := stepPlan(1, command, command, command)
			p.Strategy, p.Rounds = catalog.NodeFirst, []runbook.Round{{First: 0, End: 3}}
			run := beginRun(t, p)
			run.claimAll()
			e := ok(1, 0)
			e.Result.Round = &c.said
			if err := run.apply(1, e); err != nil {
				t.Fatal(err)
			}
			run.turn()
			f := run.Run.Run.Failure
			if f == nil || f.Message != c.want || f.Excerpt == nil || f.Excerpt.Shard != 1 || f.Excerpt.Seq != 7 {
				t.Errorf("got %+v, want %q with what part 1 quotes", f, c.want)
			}
		})
	}
}
