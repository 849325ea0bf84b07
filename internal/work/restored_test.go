package work

import (
	"testing"
	"time"
)

// copied returns a Job as it is in a copy of the database.
func copied(status Status, attempt int) Job {
	j := Job{Number: 7, Kind: ModuleJob, Status: status, Attempt: attempt, Limits: Limits{MaxAttempts: 5, RecoveryWindow: time.Minute},
		Steps: []Step{{Kind: StepRun, Changing: true, Status: StepPending}}}
	if status.Bound() {
		j.Binding = &Binding{RunnerID: "r", InstanceID: "i", Runner: "edge", Instance: "edge-1"}
		j.Steps[0].Status, j.LeaseUntil = StepRunning, time.Unix(50, 0)
	}
	return j
}

func TestRestoredJobIsNeverStartedAgainByItself(t *testing.T) {
	now := time.Unix(100, 0)
	for _, c := range []struct {
		name     string
		job      Job
		want     Status
		restored bool
		resumed  Status // after the operator resumed and no Instance returned
	}{
		{"queued for the first time", copied(Queued, 0), Queued, false, Queued},
		{"queued after a lost attempt", copied(Queued, 1), Failed, false, Failed},
		{"claimed", copied(Claimed, 1), Interrupted, true, Failed},
		{"running", copied(Running, 1), Interrupted, true, Failed},
		{"interrupted", copied(Interrupted, 1), Interrupted, true, Failed},
		{"awaiting approval", copied(AwaitingApproval, 1), Failed, false, Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := Next(c.job, Restored{Reason: "the database is a copy"}, now)
			if err != nil {
				t.Fatal(err)
			}
			if got.Status != c.want || got.Restored != c.restored {
				t.Errorf("after the restore: got %s, restored %v; want %s, %v", got.Status, got.Restored, c.want, c.restored)
			}
			if !got.RecoverUntil.IsZero() || !got.LeaseUntil.IsZero() {
				t.Errorf("deadlines: got %v and %v, want none", got.LeaseUntil, got.RecoverUntil)
			}
			if got.Restored {
				got = afterRestore(t, got, now)
			}
			if got.Status != c.resumed {
				t.Errorf("after resuming: got %s, want %s", got.Status, c.resumed)
			}
			if got.Status == Failed && (got.Failure == nil || got.Failure.Code != "restored" || got.Failure.Hint == "") {
				t.Errorf("failure: got %+v, want code restored with a hint", got.Failure)
			}
		})
	}
}

// afterRestore checks that an Instance without the Attempt changes nothing, and lets the operator resume.
func afterRestore(t *testing.T, j Job, now time.Time) Job {
	t.Helper()
	same, _, err := Next(j, LeaseLost{Attempt: j.Attempt, Reason: "gone", Gone: true}, now)
	if err != nil || same.Status != Interrupted {
		t.Errorf("its instance returns without it: got %s, %v; want interrupted", same.Status, err)
	}
	over, _, err := Next(j, RestoreOver{}, now)
	if err != nil {
		t.Fatal(err)
	}
	return over
}

func TestInstanceThatReturnsKeepsItsJobAfterARestore(t *testing.T) {
	now := time.Unix(100, 0)
	held, _, err := Next(copied(Running, 1), Restored{Reason: "the database is a copy"}, now)
	if err != nil {
		t.Fatal(err)
	}
	back, _, err := Next(held, Resumed{Attempt: 1}, now)
	if err != nil || back.Status != Running || back.Restored {
		t.Fatalf("its instance returns: got %s, restored %v, %v; want running", back.Status, back.Restored, err)
	}
	over, _, err := Next(back, StepFinished{Attempt: 1, Result: StepResult{Status: StepSucceeded}}, now)
	if err != nil || over.Status != Succeeded {
		t.Fatalf("its result: got %s, %v; want succeeded", over.Status, err)
	}
	if _, _, err := Next(back, RestoreOver{}, now); err == nil {
		t.Error("resuming ended a running job")
	}
}

func TestRestoredRunbookJobOpensNoFurtherRound(t *testing.T) {
	run := Job{Number: 8, Kind: RunbookJob, Status: Running, Run: &RunState{Opened: 1}}
	got, _, err := Next(run, Restored{Reason: "the database is a copy"}, time.Unix(100, 0))
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != Running || !got.Run.Stop || got.Run.Failure == nil {
		t.Errorf("got %s, %+v; want running without a further round", got.Status, got.Run)
	}
}

// TestCancelKeepsWhatARestoredJobWaitsFor cancels a restored job, which has no deadline to name.
func TestCancelKeepsWhatARestoredJobWaitsFor(t *testing.T) {
	now := time.Unix(100, 0)
	restored, _, err := Next(copied(Running, 1), Restored{Reason: "the database is a copy"}, now)
	if err != nil {
		t.Fatal(err)
	}
	canceled, _, err := Next(restored, CancelRequested{Mode: Graceful, By: "ann"}, now)
	if err != nil {
		t.Fatal(err)
	}
	if canceled.Wait != restored.Wait {
		t.Errorf("got %+v, want %+v", canceled.Wait, restored.Wait)
	}
}
