package work_test

import (
	"testing"
	"time"

	"legwork/internal/runbook"
	"legwork/internal/work"
)

// TestStepsHaveTimesOfTheirOwn finishes a round of two steps. Each shows when it was done, not when its round was.
func TestStepsHaveTimesOfTheirOwn(t *testing.T) {
	p := stepPlan(1, command, command)
	p.Rounds = []runbook.Round{{First: 0, End: 2, Batch: 0}}
	c := beginRun(t, p)
	c.claimAll()
	opened := c.Run.Steps[0].StartedAt
	spans := []work.Span{
		{Started: opened.Add(-time.Minute), Finished: opened}, // by a clock that is slow
		{Started: opened, Finished: opened.Add(time.Hour)},    // by one that is fast
	}
	e := through(c.Parts[0])
	e.Result.Round.Spans = spans
	if err := c.apply(1, e); err != nil {
		t.Fatal(err)
	}
	c.turn()
	wantStatus(t, *c.Run, work.Succeeded)
	first, second := c.Run.Steps[0], c.Run.Steps[1]
	if got := first.FinishedAt.Sub(first.StartedAt); got != 0 {
		t.Errorf("the first step took %s, want 0s", got)
	}
	if !second.FinishedAt.Equal(c.Run.FinishedAt) {
		t.Errorf("the second step finished at %s, want %s", second.FinishedAt, c.Run.FinishedAt)
	}
}

// TestStepThatIsSkippedEverywhere finishes a round in which the condition of a step was false on every node.
func TestStepThatIsSkippedEverywhere(t *testing.T) {
	p := stepPlan(1, command, command)
	p.Rounds = []runbook.Round{{First: 0, End: 2, Batch: 0}}
	c := beginRun(t, p)
	c.claimAll()
	opened := c.Run.Steps[0].StartedAt
	e := through(c.Parts[0])
	e.Result.Round.Spans = []work.Span{{Started: opened, Finished: opened}, {}}
	if err := c.apply(1, e); err != nil {
		t.Fatal(err)
	}
	c.turn()
	wantStatus(t, *c.Run, work.Succeeded)
	for i, want := range []work.StepStatus{work.StepSucceeded, work.StepSkipped} {
		if got := c.Run.Steps[i]; got.Status != want {
			t.Errorf("step %d: got %s, want %s", i, got.Status, want)
		}
	}
	if got := c.Run.Steps[1].StartedAt; !got.IsZero() {
		t.Errorf("got %s as the start of a skipped step, want none", got)
	}
}
