package control

import (
	"context"
	"fmt"
	"testing"
)

// TestOneActionIsOneEntryOfTheAudit: running a runbook queues, begins and splits a job. It is one action of one person, also
// where it ends an earlier job.
func TestOneActionIsOneEntryOfTheAudit(t *testing.T) {
	s := newStage(newWorld(t), 1, Limits{})
	s.declare(s.owner(), "kind: Runbook\nstack: prod\nname: slow\nconcurrency_policy: replace\ndispatch: {mode: manual, runner: r1}\n"+
		"steps: [{command: uptime, each: runner}]\n")
	ctx := context.Background()
	for range 2 {
		_, err := s.c.SubmitRun(ctx, s.owner(), RunRequest{Runbook: "prod/slow"})
		s.must(err)
	}
	entries, err := s.c.Audit(ctx, s.owner(), AuditFilter{Action: "job"})
	s.must(err)
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprintf("%s %s %.12s", e.Actor, e.Action, e.Data))
	}
	if len(got) != 2 {
		t.Errorf("got %d entries for two runs, want 2: %q", len(got), got)
	}
}
