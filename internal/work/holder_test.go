package work_test

import (
	"testing"
	"time"

	"legwork/internal/work"
)

// TestMutatingStepIsNeverRequeuedWhenTheAttemptIsForgotten covers an instance that connects with its key and without
// its journal entry: only the server knows that the attempt began, and its processes may still be running.
func TestMutatingStepIsNeverRequeuedWhenTheAttemptIsForgotten(t *testing.T) {
	j := toStep(t, applyJob(), 4)
	got, _ := drive(t, j, work.Forgotten(&j))
	wantStatus(t, got, work.Interrupted)
	if want := t0.Add(10 * time.Minute); !got.RecoverUntil.Equal(want) {
		t.Errorf("recovery deadline: got %s, want %s", got.RecoverUntil, want)
	}
	if want := "its instance came back without its journal entry"; got.InterruptedReason != want {
		t.Errorf("reason: got %q, want %q", got.InterruptedReason, want)
	}
	over, _ := drive(t, got, work.RecoveryOver{})
	wantStatus(t, over, work.Queued)
	if over.InterruptedReason != "" {
		t.Errorf("reason of a queued job: got %q, want none", over.InterruptedReason)
	}

	canceling, _ := drive(t, j, work.CancelRequested{Mode: work.AfterCurrent, By: "ann"})
	canceling, _ = drive(t, canceling, work.Forgotten(&canceling))
	wantStatus(t, canceling, work.Interrupted)
}

// TestForgottenAttemptKeepsItsLeaseWithoutARecoveryWindow: without a window the lease alone protects the mutating step.
func TestForgottenAttemptKeepsItsLeaseWithoutARecoveryWindow(t *testing.T) {
	j := toStep(t, applyJob(func(j *work.Job) { j.Limits.RecoveryWindow = 0 }), 4)
	if event := work.Forgotten(&j); event != nil {
		t.Errorf("event: got %#v, want none before the lease ends", event)
	}
	lost, _ := drive(t, j, work.LeaseLost{Attempt: 1, Reason: "silent"})
	wantStatus(t, lost, work.Queued)
}

// TestForgottenAttemptThatNeverBeganIsQueuedAgain: the message with the first step was lost with its connection.
func TestForgottenAttemptThatNeverBeganIsQueuedAgain(t *testing.T) {
	first, _ := drive(t, applyJob(func(j *work.Job) { j.Steps = j.Steps[4:] }), bind)
	got, _ := drive(t, first, work.Forgotten(&first))
	wantStatus(t, got, work.Queued)

	began := toStep(t, applyJob(), 3)
	began, _ = drive(t, began, ok(1, 3)) // the mutating step is sent, and the attempt began before
	got, _ = drive(t, began, work.Forgotten(&began))
	wantStatus(t, got, work.Interrupted)

	reading := toStep(t, applyJob(), 2)
	got, _ = drive(t, reading, work.Forgotten(&reading))
	wantStatus(t, got, work.Queued)
}

// TestOtherKeyNeverEndsAMutatingStep: an instance with another key proves nothing about the process that holds the attempt.
func TestOtherKeyNeverEndsAMutatingStep(t *testing.T) {
	running := toStep(t, applyJob(), 4)
	if event := work.Displaced(&running); event != nil {
		t.Errorf("event of a job with a lease: got %#v, want none", event)
	}
	interrupted, _ := drive(t, running, work.LeaseLost{Attempt: 1, Reason: "silent"})
	got, _ := drive(t, interrupted, work.Displaced(&interrupted))
	wantStatus(t, got, work.Interrupted)
	if !got.RecoverUntil.Equal(interrupted.RecoverUntil) {
		t.Errorf("recovery deadline: got %s, want %s", got.RecoverUntil, interrupted.RecoverUntil)
	}
	if want := "another process with another key now uses the name of its instance"; got.InterruptedReason != want {
		t.Errorf("reason: got %q, want %q", got.InterruptedReason, want)
	}
	back, _ := drive(t, got, work.Resumed{Attempt: 1})
	wantStatus(t, back, work.Running)
	if back.InterruptedReason != "" {
		t.Errorf("reason of a running job: got %q, want none", back.InterruptedReason)
	}
}

// TestOtherKeyEndsWhatHasNoStepUnderWay: the plan that waits for approval is in the other working directory.
func TestOtherKeyEndsWhatHasNoStepUnderWay(t *testing.T) {
	j := toStep(t, applyJob(withApproval), 3)
	j, _ = drive(t, j, planned(1, 3, "a", 1))
	wantStatus(t, j, work.AwaitingApproval)
	got, _ := drive(t, j, work.Displaced(&j))
	wantStatus(t, got, work.Queued)
}

func TestHolderIsTheInstanceWithTheKeyOfTheClaim(t *testing.T) {
	j, _ := drive(t, applyJob(), work.ClaimedBy{Binding: work.Binding{InstanceID: "i", Fingerprint: "f"}})
	for _, c := range []struct {
		instance, fingerprint string
		want                  bool
	}{
		{"i", "f", true},
		{"i", "g", false},
		{"i", "", false},
		{"other", "f", false},
	} {
		if got := j.HeldBy(c.instance, c.fingerprint); got != c.want {
			t.Errorf("HeldBy(%q, %q): got %t, want %t", c.instance, c.fingerprint, got, c.want)
		}
	}
	unbound := applyJob()
	if unbound.HeldBy("", "") {
		t.Error("a job without a binding has a holder")
	}
}
