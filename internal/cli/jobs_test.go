package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"legwork/internal/api"
	"legwork/internal/work"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// endedJob waited for a minute and worked for a second.
func endedJob(status work.Status) *work.Job {
	return &work.Job{Number: 1, Status: status, Attempt: 1, CreatedAt: noon, FinishedAt: noon.Add(61 * time.Second),
		Steps: []work.Step{{Kind: work.StepFetch, Status: work.StepSucceeded, StartedAt: noon.Add(time.Minute), FinishedAt: noon.Add(time.Minute)},
			{Kind: work.StepRun, Status: work.StepSucceeded, StartedAt: noon.Add(time.Minute), FinishedAt: noon.Add(61 * time.Second)}}}
}

func shown(t *testing.T, table *table) string {
	t.Helper()
	var b bytes.Buffer
	if err := table.write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTimeOfWorkIsNotTimeOfWaiting(t *testing.T) {
	job := endedJob(work.Succeeded)
	now := noon.Add(time.Hour)
	if got := shown(t, jobTable([]*work.Job{job}, now)); !strings.HasSuffix(got, " 1s\n") {
		t.Error(got)
	}
	if got := shown(t, jobDetails(job, now)); !strings.Contains(got, "waited    1m0s\n") || !strings.Contains(got, "took      1s\n") {
		t.Error(got)
	}
	waiting := &work.Job{Number: 2, Status: work.Queued, CreatedAt: noon}
	if got := shown(t, jobDetails(waiting, now)); !strings.Contains(got, "waited    1h0m\n") || strings.Contains(got, "took") {
		t.Error(got)
	}
}

func TestReplacedAndCanceledJobs(t *testing.T) {
	replaced := &work.Job{Number: 2, Status: work.Superseded, CreatedAt: noon, FinishedAt: noon.Add(time.Minute),
		Failure: &work.Failure{Code: "superseded", Message: "superseded by the newer job #3"}}
	if got := shown(t, jobTable([]*work.Job{replaced}, noon)); !strings.Contains(got, "superseded: superseded by the newer job #3") || !strings.HasSuffix(got, " -\n") {
		t.Error(got)
	}
	canceled := endedJob(work.Canceled)
	canceled.Cancel = &work.Cancel{Mode: work.Graceful, By: "admin", Reason: "because"}
	if got := shown(t, jobDetails(canceled, noon)); !strings.Contains(got, "graceful, by admin (because)\n") {
		t.Error(got)
	}
}

// TestFailureIsSaidOnce looks at the details of a Job, and at what is said behind its log.
func TestFailureIsSaidOnce(t *testing.T) {
	job := endedJob(work.Failed)
	job.Failure = &work.Failure{Code: "exit", Message: "the script ended with status 1", Hint: "read its log"}
	failure := *job.Failure
	job.Steps[1].Failure = &failure
	if got := shown(t, jobDetails(job, noon)); strings.Count(got, "with status 1") != 1 {
		t.Error(got)
	}
	if job.Steps[1].Failure == nil {
		t.Error("the Job itself was changed")
	}
	p := &logPrinter{w: &bytes.Buffer{}, style: &terminal{}, steps: job.Steps, streams: map[string]*logCleaner{}}
	if p.told(job.Failure) || !strings.Contains(jobFault(job, false).Error(), "with status 1") {
		t.Error("a failure that nobody told of is left out")
	}
	lines := []api.LogLine{{Attempt: 1, Step: 1, Stream: "system", Text: "run failed: the script ended with status 1 (read its log)"}}
	if err := p.print(lines); err != nil {
		t.Fatal(err)
	}
	if !p.told(job.Failure) || strings.Contains(jobFault(job, true).Error(), "status 1") {
		t.Error("a failure is told twice")
	}
	p.raw, p.system = true, ""
	if err := p.print(lines); err != nil || p.told(job.Failure) {
		t.Error("a raw log tells nothing of the Runner itself")
	}
}

func TestSummaryOfAPlanHasOneForm(t *testing.T) {
	job := endedJob(work.Succeeded)
	job.Steps[0].Plan = &work.PlanSummary{Add: 1, Destroy: 2}
	for action, want := range map[work.Action]string{
		work.Plan: ": 1 to add, 0 to change, 2 to destroy", work.Apply: ": 1 added, 0 changed, 2 destroyed",
	} {
		if job.Action = action; planned(job) != want {
			t.Errorf("%s: %q", action, planned(job))
		}
	}
}

// TestInterruptedJobShowsItsDeadline checks that job show says why an interrupted job waits, since when, until when, and what to do.
func TestInterruptedJobShowsItsDeadline(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	job := &work.Job{Number: 5, Status: work.Interrupted, CreatedAt: now.Add(-time.Hour), InterruptedAt: now.Add(-21 * time.Second),
		RecoverUntil: now.Add(9*time.Minute + 39*time.Second),
		Wait:         work.Wait{Code: work.WaitInstanceAway, Text: "interrupted during step apply", Hint: "start the runner again"}}
	got := map[string]string{}
	for _, row := range jobDetails(job, now).rows {
		got[row[0]] = row[1]
	}
	want := map[string]string{
		"waits":          "interrupted during step apply (instance_away)",
		"interrupted":    "2026-11-01T11:59:39Z (21s ago)",
		"recovery until": "2026-11-01T12:09:39Z (in 9m39s)",
		"hint":           "start the runner again",
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: got %q, want %q", name, got[name], text)
		}
	}
}

// TestStepsOfARunCountNodes checks that a step of a runbook job shows its nodes by status.
func TestStepsOfARunCountNodes(t *testing.T) {
	job := &work.Job{Kind: work.RunbookJob, Status: work.Succeeded, Steps: []work.Step{{Name: "one", Status: work.StepSucceeded}}}
	run := api.Run{Items: []api.RunItem{{Counts: map[work.NodeStatus]int{work.NodeSucceeded: 2, work.NodeIgnored: 1}}}}
	if got := shown(t, runDetails(job, run, time.Now())); !strings.Contains(got, "succeeded (2 ok, 1 ignored)") {
		t.Errorf("got %q, want the counts of the step", got)
	}
}
