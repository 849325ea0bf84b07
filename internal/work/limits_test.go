package work_test

import (
	"encoding/json"
	"testing"
	"time"

	"legwork/internal/work"
)

func TestLimitsAreWrittenAsText(t *testing.T) {
	limits := work.Limits{MaxAttempts: 5, Lease: time.Minute, RecoveryWindow: 10 * time.Minute, StepTimeout: 90 * time.Second, StallTimeout: 1}
	text, err := json.Marshal(work.Job{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	var shown struct {
		Limits json.RawMessage `json:"limits"`
	}
	if err := json.Unmarshal(text, &shown); err != nil {
		t.Fatal(err)
	}
	const want = `{"max_attempts":5,"lease":"1m0s","recovery_window":"10m0s","approval_window":"0s","step_timeout":"1m30s","stall_timeout":"1ns"}`
	if string(shown.Limits) != want {
		t.Errorf("got  %s\nwant %s", shown.Limits, want)
	}
	var read work.Job
	if err := json.Unmarshal(text, &read); err != nil || read.Limits != limits {
		t.Errorf("read %+v, %v", read.Limits, err)
	}
}

// TestTimeLimitIsKept writes and reads the limits of a job with a time limit.
func TestTimeLimitIsKept(t *testing.T) {
	want := work.Limits{JobTimeout: time.Hour}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got work.Limits
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Errorf("got %+v and %v, want %+v", got, err, want)
	}
}
