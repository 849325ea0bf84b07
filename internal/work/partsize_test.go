package work

import (
	"encoding/json"
	"testing"
	"time"

	"legwork/internal/runbook"
)

// TestARecordOfAPartStaysSmall: it is read and written whenever the Part moves.
func TestARecordOfAPartStaysSmall(t *testing.T) {
	p := &runbook.Plan{Items: make([]runbook.Item, 1), Parts: []runbook.Part{{}}}
	for range runbook.MaxPartRounds {
		p.Rounds = append(p.Rounds, runbook.Round{End: 1, Batch: -1})
	}
	part := Job{Kind: PartJob, Part: 1, Steps: StepsOfPart(p, 0)}
	if len(part.Steps) != runbook.MaxPartRounds {
		t.Fatal(len(part.Steps))
	}
	at := time.Date(2026, 11, 22, 11, 22, 33, 123456000, time.UTC)
	for i := range part.Steps {
		s := &part.Steps[i]
		s.Status, s.StartedAt, s.FinishedAt, s.Result = StepSucceeded, at, at, &RoundResult{Succeeded: 20, Bad: []int{1000 + i}}
	}
	if data, err := json.Marshal(part); err != nil || len(data) > 100_000 {
		t.Errorf("%d bytes, %v", len(data), err)
	} else {
		t.Logf("%d bytes", len(data))
	}
}
