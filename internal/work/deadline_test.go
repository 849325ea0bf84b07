package work_test

import (
	"testing"
	"time"

	"legwork/internal/runbook"
	"legwork/internal/work"
)

// TestTimeLimitOfARunbookJob ends a runbook job whose time limit is over. It fails, and says why.
func TestTimeLimitOfARunbookJob(t *testing.T) {
	c := beginRun(t, stepPlan(1, runbook.ApprovalItem))
	c.Run.Limits.JobTimeout = time.Hour
	if got, want := c.Run.Deadline(), c.Run.StartedAt.Add(time.Hour); !got.Equal(want) {
		t.Errorf("the deadline is %s, want %s", got, want)
	}
	if err := c.apply(0, work.CancelRequested{Mode: work.Graceful, By: "legwork", TimedOut: true}); err != nil {
		t.Fatal(err)
	}
	if got := c.Run.Deadline(); !got.IsZero() {
		t.Errorf("once it is canceled the deadline is %s, want none", got)
	}
	c.turn()
	wantStatus(t, *c.Run, work.Failed)
	if f := c.Run.Failure; f == nil || f.Code != "job_timeout" {
		t.Errorf("got %+v, want job_timeout", f)
	}
}

// TestTimeLimitOfAQueuedJob ends a job that is queued again after a loss.
func TestTimeLimitOfAQueuedJob(t *testing.T) {
	j := work.Job{Status: work.Queued, StartedAt: time.Unix(1, 0), Limits: work.Limits{JobTimeout: time.Minute}}
	next, _, err := work.Next(j, work.CancelRequested{Mode: work.Graceful, By: "legwork", TimedOut: true}, time.Unix(100, 0))
	if err != nil || next.Status != work.Failed || next.Failure.Code != "job_timeout" {
		t.Errorf("got %s %+v %v, want failed with job_timeout", next.Status, next.Failure, err)
	}
	next, _, err = work.Next(j, work.CancelRequested{Mode: work.Graceful, By: "ann"}, time.Unix(100, 0))
	if err != nil || next.Status != work.Canceled {
		t.Errorf("got %s %v, want canceled", next.Status, err)
	}
}
