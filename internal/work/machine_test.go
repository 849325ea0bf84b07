package work_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

var t0 = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func applyJob(mutate ...func(*work.Job)) work.Job {
	j := work.Job{ID: "job", Number: 7, Kind: work.ModuleJob, Action: work.Apply, Status: work.Queued,
		Steps: work.StepsOf(catalog.OpenTofu, work.Apply, false, false),
		Limits: work.Limits{MaxAttempts: 3, Lease: time.Minute, RecoveryWindow: 10 * time.Minute,
			ApprovalWindow: time.Hour}}
	for _, m := range mutate {
		m(&j)
	}
	return j
}

func withApproval(j *work.Job) {
	j.Steps = work.StepsOf(catalog.OpenTofu, work.Apply, true, false)
}

var bind = work.ClaimedBy{Binding: work.Binding{RunnerID: "r", Runner: "edge", InstanceID: "i", Instance: "edge-1"}}

func ok(attempt, step int) work.StepFinished {
	return work.StepFinished{Attempt: attempt, Step: step, Result: work.StepResult{Status: work.StepSucceeded}}
}

func planned(attempt, step int, digest string, add int) work.StepFinished {
	e := ok(attempt, step)
	e.Result.Plan = &work.PlanSummary{Add: add, Hash: "file-" + digest, Digest: digest}
	return e
}

// drive applies events and fails the test on the first that is refused.
func drive(t *testing.T, j work.Job, events ...work.Event) (work.Job, []work.Effect) {
	t.Helper()
	var effects []work.Effect
	for i, e := range events {
		next, eff, err := work.Next(j, e, t0.Add(time.Duration(i)*time.Second))
		if err != nil {
			t.Fatalf("event %d, %s in %s: %v", i, e.Name(), j.Status, err)
		}
		j, effects = next, eff
	}
	return j, effects
}

func wantStatus(t *testing.T, j work.Job, want work.Status) {
	t.Helper()
	if j.Status != want {
		t.Fatalf("status %s, want %s (failure %+v)", j.Status, want, j.Failure)
	}
}

// toStep drives a Job until the Step with this index is running.
func toStep(t *testing.T, j work.Job, step int) work.Job {
	t.Helper()
	j, _ = drive(t, j, bind)
	for i := range step {
		j, _ = drive(t, j, work.StepStarted{Attempt: j.Attempt, Step: i}, ok(j.Attempt, i))
	}
	j, _ = drive(t, j, work.StepStarted{Attempt: j.Attempt, Step: step})
	return j
}

func TestApplyRunsEveryStepToSuccess(t *testing.T) {
	j, eff := drive(t, applyJob(), bind)
	if got := eff[0]; got != (work.SendStep{Attempt: 1, Step: 0}) {
		t.Fatalf("claim led to %#v", got)
	}
	for i := range j.Steps {
		j, eff = drive(t, j, work.StepStarted{Attempt: 1, Step: i}, ok(1, i))
	}
	wantStatus(t, j, work.Succeeded)
	if len(eff) != 2 || eff[1] != (work.Ended{}) {
		t.Fatalf("end led to %#v", eff)
	}
	if !j.LeaseUntil.IsZero() {
		t.Fatal("a job that is over has a lease")
	}
}

func TestResultToldTwiceCountsOnce(t *testing.T) {
	j := toStep(t, applyJob(), 1)
	j, _ = drive(t, j, ok(1, 1))
	again, eff, err := work.Next(j, ok(1, 1), t0)
	if err != nil || len(eff) != 0 || again.Current() != 2 {
		t.Fatalf("effects %v, error %v, current %d", eff, err, again.Current())
	}
}

func TestStepOutOfOrderIsRefused(t *testing.T) {
	j := toStep(t, applyJob(), 1)
	for _, step := range []int{3, 99, -1} {
		if _, _, err := work.Next(j, ok(1, step), t0); fault.Code(err) != "step_order" {
			t.Fatalf("step %d: %v", step, err)
		}
	}
}

func TestOlderAttemptNeverMovesTheJob(t *testing.T) {
	j := toStep(t, applyJob(), 0)
	j, _ = drive(t, j, work.LeaseLost{Attempt: 1, Reason: "gone"}, bind)
	after, eff, err := work.Next(j, ok(1, 0), t0)
	if fault.Code(err) != "stale_attempt" || len(eff) != 0 || after.Attempt != 2 || after.Current() != 0 {
		t.Fatalf("%v %v %+v", err, eff, after)
	}
}

func TestLossBeforeAChangingStepQueuesAgain(t *testing.T) {
	for step := range 4 {
		j := toStep(t, applyJob(), step)
		j, eff := drive(t, j, work.LeaseLost{Attempt: 1, Reason: "no sign of life"})
		wantStatus(t, j, work.Queued)
		if j.Binding != nil || j.Current() != 0 || len(j.Losses) != 1 || j.Losses[0].Changing || eff[0] != (work.Dispatch{}) {
			t.Fatalf("step %d: %+v %v", step, j, eff)
		}
	}
}

func TestLossDuringAChangingStepWaitsForItsInstance(t *testing.T) {
	j := toStep(t, applyJob(), 4)
	j, _ = drive(t, j, work.LeaseLost{Attempt: 1, Reason: "no sign of life"})
	wantStatus(t, j, work.Interrupted)
	if want := t0.Add(10 * time.Minute); !j.RecoverUntil.Equal(want) {
		t.Fatalf("recovers until %s, want %s", j.RecoverUntil, want)
	}
	back, _ := drive(t, j, work.Resumed{Attempt: 1}, ok(1, 4))
	wantStatus(t, back, work.Running)
	direct, _ := drive(t, j, ok(1, 4))
	wantStatus(t, direct, work.Running)
	late, _ := drive(t, j, work.RecoveryOver{})
	wantStatus(t, late, work.Queued)
	if !late.Losses[0].Changing || late.Losses[0].Step != work.StepApply {
		t.Fatalf("loss %+v", late.Losses[0])
	}
}

// TestInterruptedJobExplainsItself checks the reason, the deadline, what happens then, and what a person can do.
func TestInterruptedJobExplainsItself(t *testing.T) {
	j := toStep(t, applyJob(), 4)
	j, _ = drive(t, j, work.LeaseLost{Attempt: 1, Reason: "nothing was heard of its instance for too long"})
	wait := work.Wait{Code: work.WaitInstanceAway,
		Text: "interrupted during step apply: nothing was heard of its instance for too long. Waiting until 2026-11-01 12:10:00 UTC " +
			"for instance edge/edge-1 to return and report; otherwise the job is queued again and begins with its first step",
		Hint: "start the runner on its host again, in the same working directory. To prevent another attempt, " +
			"cancel the job: legwork job cancel 7; with --mode kill it ends now"}
	if j.Wait != wait {
		t.Errorf("wait: got %+v, want %+v", j.Wait, wait)
	}
	if !j.InterruptedAt.Equal(t0) {
		t.Errorf("interrupted at: got %s, want %s", j.InterruptedAt, t0)
	}
	canceled, _ := drive(t, j, work.CancelRequested{Mode: work.Graceful, By: "ann"})
	if !strings.Contains(canceled.Wait.Text, "otherwise the job ends as canceled") || !strings.Contains(canceled.Wait.Text, "for too long") {
		t.Errorf("canceled: %s", canceled.Wait.Text)
	}
	j.Attempt, j.Limits.MaxAttempts = 3, 3
	last, _ := drive(t, j, work.LeaseLost{Attempt: 3, Reason: "it is away again"})
	if !strings.Contains(last.Wait.Text, "otherwise the job fails: 3 attempts are all that it may take") {
		t.Errorf("last attempt: %s", last.Wait.Text)
	}
	back, _ := drive(t, j, work.Resumed{Attempt: 3})
	if back.Wait != (work.Wait{}) || !back.InterruptedAt.IsZero() || back.InterruptedReason != "" {
		t.Errorf("after its return: wait %+v, since %s, reason %q", back.Wait, back.InterruptedAt, back.InterruptedReason)
	}
}

func TestLossIsFinalWithoutRecoveryWindowOrJournal(t *testing.T) {
	j := toStep(t, applyJob(), 4)
	gone, _ := drive(t, j, work.LeaseLost{Attempt: 1, Gone: true, Reason: "its folder is gone"})
	wantStatus(t, gone, work.Queued)
	j.Limits.RecoveryWindow = 0
	none, _ := drive(t, j, work.LeaseLost{Attempt: 1})
	wantStatus(t, none, work.Queued)
}

// TestLossAfterTheChangesRepeatsOnlyWhatIsLeft loses the instance in step output, when the apply is known to be complete.
func TestLossAfterTheChangesRepeatsOnlyWhatIsLeft(t *testing.T) {
	j := toStep(t, applyJob(), 5)
	j, _ = drive(t, j, work.LeaseLost{Attempt: 1, Reason: "no sign of life"})
	wantStatus(t, j, work.Queued)
	other := work.ClaimedBy{Binding: work.Binding{RunnerID: "r", Runner: "edge", InstanceID: "k", Instance: "edge-2"}}
	j, effects := drive(t, j, other)
	var sent []int
	for !j.Status.Terminal() {
		step := j.Current()
		sent = append(sent, step)
		if got, want := effects[0], (work.SendStep{Attempt: 2, Step: step}); got != want {
			t.Fatalf("effect: got %#v, want %#v", got, want)
		}
		j, effects = drive(t, j, work.StepStarted{Attempt: 2, Step: step}, ok(2, step))
	}
	wantStatus(t, j, work.Succeeded)
	if want := []int{0, 1, 5}; !slices.Equal(sent, want) { // fetch and init set up the other instance
		t.Errorf("steps of attempt 2: got %v, want %v", sent, want)
	}
}

// TestLossInACanceledOutputEndsTheJob keeps a canceled job from going back to the queue.
func TestLossInACanceledOutputEndsTheJob(t *testing.T) {
	j := toStep(t, applyJob(), 5)
	j, _ = drive(t, j, work.CancelRequested{Mode: work.AfterCurrent, By: "ann"}, work.LeaseLost{Attempt: 1, Reason: "no sign of life"})
	wantStatus(t, j, work.Canceled)
}

// TestLostAttemptIsResumedUntilAnotherBegins returns an instance while its job is queued again.
func TestLostAttemptIsResumedUntilAnotherBegins(t *testing.T) {
	for step := range 6 {
		j := toStep(t, applyJob(), step)
		before := j
		j, _ = drive(t, j, work.LeaseLost{Attempt: 1, Reason: "no sign of life"})
		if j.Status == work.Interrupted {
			j, _ = drive(t, j, work.RecoveryOver{})
		}
		wantStatus(t, j, work.Queued)

		back, _ := drive(t, j, work.Resumed{Attempt: 1})
		wantStatus(t, back, work.Running)
		if len(back.Losses) != 0 || back.Resumable != nil || back.Wait != (work.Wait{}) || back.LeaseUntil.IsZero() {
			t.Errorf("step %d: lost %v, resumable %v, wait %v, lease %s", step, back.Losses, back.Resumable, back.Wait, back.LeaseUntil)
		}
		if !reflect.DeepEqual(back.Steps, before.Steps) {
			t.Errorf("step %d: steps: got %+v, want %+v", step, back.Steps, before.Steps)
		}
		if !reflect.DeepEqual(back.Binding, before.Binding) {
			t.Errorf("step %d: binding: got %+v, want %+v", step, back.Binding, before.Binding)
		}

		taken, _ := drive(t, j, bind)
		if _, _, err := work.Next(taken, work.Resumed{Attempt: 1}, t0); fault.Code(err) != "stale_attempt" {
			t.Errorf("step %d: after another attempt began: %v", step, err)
		}
		if taken.Resumable != nil {
			t.Errorf("step %d: still resumable in attempt 2", step)
		}
	}
}

// TestAttemptThatIsOverForItsInstanceIsNotResumed lists the losses after which an instance has nothing to bring back.
func TestAttemptThatIsOverForItsInstanceIsNotResumed(t *testing.T) {
	running := toStep(t, applyJob(), 2)
	settled := &work.RoundLoss{Out: []int{1}}
	for name, c := range map[string]struct {
		job   work.Job
		event work.Event
	}{
		"its journal is gone": {running, work.LeaseLost{Attempt: 1, Gone: true}},
		"nobody told it":      {running, work.LeaseLost{Attempt: 1, Unsent: true}},
		"it refused":          {toClaimed(t, applyJob()), work.Refused{Attempt: 1, Reason: "busy"}},
		"a runner job":        {toStep(t, applyJob(func(j *work.Job) { j.Kind = work.RunnerJob }), 2), work.LeaseLost{Attempt: 1}},
		"nodes dropped out":   {running, work.LeaseLost{Attempt: 1, Known: settled}},
	} {
		j, _ := drive(t, c.job, c.event)
		if j.Status != work.Queued || j.Resumable != nil {
			t.Errorf("%s: status %s, resumable %+v", name, j.Status, j.Resumable)
			continue
		}
		if _, _, err := work.Next(j, work.Resumed{Attempt: 1}, t0); fault.Code(err) != "job_state" {
			t.Errorf("%s: resumed with %v", name, err)
		}
	}
}

func toClaimed(t *testing.T, j work.Job) work.Job {
	t.Helper()
	j, _ = drive(t, j, bind)
	return j
}

func TestSentChangingStepCountsAsBegun(t *testing.T) {
	j := toStep(t, applyJob(), 3)
	j, _ = drive(t, j, ok(1, 3), work.LeaseLost{Attempt: 1})
	wantStatus(t, j, work.Interrupted)
}

func TestPoisonFailsAfterMaxAttempts(t *testing.T) {
	j := applyJob()
	for i := 1; i <= 3; i++ {
		j, _ = drive(t, j, bind, work.LeaseLost{Attempt: i, Reason: "the host died"})
	}
	wantStatus(t, j, work.Failed)
	if j.Failure.Code != "too_many_attempts" || len(j.Losses) != 3 || !strings.Contains(j.Failure.Message, "the host died") {
		t.Fatalf("%+v %+v", j.Failure, j.Losses)
	}
}

func TestRefusalPutsTheJobBack(t *testing.T) {
	j, _ := drive(t, applyJob(), bind, work.Refused{Attempt: 1, Reason: "engine missing"})
	wantStatus(t, j, work.Queued)
}

func TestApproval(t *testing.T) {
	to := func(t *testing.T, j work.Job, digest string, add int) work.Job {
		j = toStep(t, j, 3)
		j, _ = drive(t, j, planned(j.Attempt, 3, digest, add))
		return j
	}
	waiting := to(t, applyJob(withApproval), "a", 1)
	wantStatus(t, waiting, work.AwaitingApproval)
	if waiting.HoldsSlot() || !waiting.LeaseUntil.IsZero() {
		t.Fatal("a job that waits for a person holds its instance")
	}
	if _, _, err := work.Next(waiting, work.ApprovedBy{By: "ann"}, t0); fault.Code(err) != "plan_hash_missing" {
		t.Errorf("approval without the hash of the plan: got %v, want plan_hash_missing", err)
	}
	going, eff := drive(t, waiting, work.ApprovedBy{By: "ann", PlanHash: "file-a"})
	wantStatus(t, going, work.Running)
	if eff[0] != (work.SendStep{Attempt: 1, Step: 4}) || going.Approval.PlanHash != "file-a" {
		t.Fatalf("%v %+v", eff, going.Approval)
	}
	no, _ := drive(t, waiting, work.DeclinedBy{By: "bob", Reason: "too big"})
	wantStatus(t, no, work.Declined)
	late, _ := drive(t, waiting, work.ApprovalExpired{})
	wantStatus(t, late, work.Expired)
	empty := to(t, applyJob(withApproval), "a", 0)
	wantStatus(t, empty, work.Running)

	lost, _ := drive(t, going, work.LeaseLost{Attempt: 1, Gone: true})
	same := to(t, lost, "a", 1)
	wantStatus(t, same, work.Running)
	other := to(t, lost, "b", 2)
	wantStatus(t, other, work.AwaitingApproval)
}

func TestCancel(t *testing.T) {
	graceful := work.CancelRequested{Mode: work.Graceful, By: "ann"}
	queued, _ := drive(t, applyJob(), graceful)
	wantStatus(t, queued, work.Canceled)

	running := toStep(t, applyJob(), 2)
	asked, eff := drive(t, running, graceful)
	wantStatus(t, asked, work.Canceling)
	if eff[0] != (work.SendCancel{Attempt: 1, Mode: work.Graceful}) {
		t.Fatalf("%v", eff)
	}
	if _, eff := drive(t, asked, work.CancelRequested{Mode: work.AfterCurrent}); len(eff) != 0 {
		t.Fatal("a weaker cancel was sent after a stronger one")
	}
	if _, eff := drive(t, asked, work.CancelRequested{Mode: work.Kill}); eff[0] != (work.SendCancel{Attempt: 1, Mode: work.Kill}) {
		t.Fatalf("kill was not sent: %v", eff)
	}
	done, _ := drive(t, asked, ok(1, 2))
	wantStatus(t, done, work.Canceled)
	lost, _ := drive(t, asked, work.LeaseLost{Attempt: 1})
	wantStatus(t, lost, work.Canceled)

	changing, _ := drive(t, toStep(t, applyJob(), 4), graceful)
	won, eff := drive(t, changing, ok(1, 4))
	wantStatus(t, won, work.Canceling)
	if eff[0] != (work.SendStep{Attempt: 1, Step: 5}) {
		t.Fatalf("the outputs of a finished apply are not read: %v", eff)
	}
	won, _ = drive(t, won, ok(1, 5))
	wantStatus(t, won, work.Succeeded)
	unknown, _ := drive(t, changing, work.LeaseLost{Attempt: 1, Gone: true})
	if unknown.Failure == nil || unknown.Failure.Code != "outcome_unknown" {
		t.Fatalf("%+v", unknown.Failure)
	}
}

func TestCanceledJobWaitsForItsLostInstance(t *testing.T) {
	graceful := work.CancelRequested{Mode: work.Graceful, By: "ann"}
	lost := work.LeaseLost{Attempt: 1, Reason: "no sign of life"}
	canceling, _ := drive(t, toStep(t, applyJob(), 4), graceful)
	afterLoss, _ := drive(t, toStep(t, applyJob(), 4), lost, graceful)
	withoutWindow, _ := drive(t, toStep(t, applyJob(func(j *work.Job) { j.Limits.RecoveryWindow = 0 }), 4), graceful, lost)
	wantStatus(t, withoutWindow, work.Canceled)

	canceling, _ = drive(t, canceling, lost)
	for name, j := range map[string]work.Job{"before the loss": canceling, "after the loss": afterLoss} {
		t.Run(name, func(t *testing.T) {
			wantStatus(t, j, work.Interrupted)
			if j.Cancel == nil || j.Cancel.Mode != work.Graceful || j.RecoverUntil.IsZero() {
				t.Fatalf("%+v", j)
			}
			for _, e := range []work.Event{work.Resumed{Attempt: 1}, work.StepStarted{Attempt: 1, Step: 4}} {
				back, eff := drive(t, j, e)
				wantStatus(t, back, work.Canceling)
				if len(eff) != 1 || eff[0] != (work.SendCancel{Attempt: 1, Mode: work.Graceful}) || back.LeaseUntil.IsZero() {
					t.Fatalf("%s: the instance is told %v", e.Name(), eff)
				}
			}
			won, eff := drive(t, j, ok(1, 4))
			wantStatus(t, won, work.Canceling)
			if eff[0] != (work.SendStep{Attempt: 1, Step: 5}) {
				t.Fatalf("%v", eff)
			}
			stopped, _ := drive(t, j, work.StepFinished{Attempt: 1, Step: 4, Result: work.StepResult{Status: work.StepCanceled}})
			wantStatus(t, stopped, work.Canceled)
			for _, e := range []work.Event{work.RecoveryOver{}, work.LeaseLost{Attempt: 1, Gone: true}, work.CancelRequested{Mode: work.Kill, By: "bob"}} {
				over, _ := drive(t, j, e)
				wantStatus(t, over, work.Canceled)
				if over.Failure == nil || over.Failure.Code != "outcome_unknown" || len(over.Losses) != 1 || !over.Losses[0].Changing {
					t.Fatalf("%s: %+v %+v", e.Name(), over.Failure, over.Losses)
				}
			}
			weaker, eff := drive(t, j, work.CancelRequested{Mode: work.AfterCurrent})
			if wantStatus(t, weaker, work.Interrupted); weaker.Cancel.Mode != work.Graceful || len(eff) != 0 {
				t.Fatalf("%+v %v", weaker.Cancel, eff)
			}
		})
	}
}

// TestAStepThatTheHostStoppedCancelsTheJob: nobody canceled it at the Server, an operator did at the host.
func TestAStepThatTheHostStoppedCancelsTheJob(t *testing.T) {
	stopped := work.StepFinished{Attempt: 1, Step: 2, Result: work.StepResult{Status: work.StepCanceled,
		Failure: &work.Failure{Code: work.RunnerStopped, Message: "the Runner was stopped while plan ran", Hint: "run the Job again"}}}
	j := toStep(t, applyJob(), 2)
	away, _ := drive(t, toStep(t, applyJob(), 4), work.LeaseLost{Attempt: 1})
	wantStatus(t, away, work.Interrupted)
	back := stopped
	back.Step = 4
	for name, c := range map[string]struct {
		job   work.Job
		event work.Event
	}{"running": {j, stopped}, "interrupted": {away, back}} {
		over, _ := drive(t, c.job, c.event)
		wantStatus(t, over, work.Canceled)
		if f := over.Failure; f.Code != work.RunnerStopped || !strings.HasPrefix(f.Message, "canceled at the host of Instance ") || f.Hint == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestAScriptRunsOnceWhereThatIsAsked: with max_attempts 1 one that is lost is not run again.
func TestAScriptRunsOnceWhereThatIsAsked(t *testing.T) {
	script := func(attempts int) work.Job {
		return applyJob(func(j *work.Job) {
			j.Action, j.Steps, j.Limits.MaxAttempts = work.Run, work.StepsOf(catalog.Script, work.Run, false, false), attempts
		})
	}
	lose := []work.Event{work.LeaseLost{Attempt: 1}, work.RecoveryOver{}}
	again, _ := drive(t, toStep(t, script(2), 1), lose...)
	wantStatus(t, again, work.Queued)
	once, effects := drive(t, toStep(t, script(1), 1), lose...)
	wantStatus(t, once, work.Failed)
	if f := once.Failure; f.Code != "too_many_attempts" || !strings.Contains(f.Message, "after 1 attempt;") {
		t.Errorf("%+v", f)
	}
	for _, e := range effects {
		if _, ok := e.(work.Dispatch); ok {
			t.Error("it is looked for an Instance")
		}
	}
}

func TestStepCanceledByItsLimitFailsTheJob(t *testing.T) {
	j := toStep(t, applyJob(), 2)
	e := work.StepFinished{Attempt: 1, Step: 2, Result: work.StepResult{Status: work.StepCanceled, Failure: &work.Failure{Code: "step_timed_out", Message: "took too long"}}}
	j, _ = drive(t, j, e)
	wantStatus(t, j, work.Failed)
	if j.Failure.Code != "step_timed_out" {
		t.Fatalf("%+v", j.Failure)
	}
}

func TestNextLeavesItsArgumentAlone(t *testing.T) {
	j := toStep(t, applyJob(), 0)
	before := j.Steps[0].Status
	if _, _, err := work.Next(j, ok(1, 0), t0); err != nil {
		t.Fatal(err)
	}
	if j.Steps[0].Status != before {
		t.Fatal("the job that came in was changed")
	}
}

// anyEvent draws an event that may or may not fit the Job.
func anyEvent(t *rapid.T, j work.Job) work.Event {
	attempt := rapid.IntRange(max(0, j.Attempt-1), j.Attempt).Draw(t, "attempt")
	step := rapid.IntRange(-1, len(j.Steps)).Draw(t, "step")
	switch rapid.IntRange(0, 14).Draw(t, "event") {
	case 0:
		return bind
	case 1:
		return work.StepStarted{Attempt: attempt, Step: step}
	case 2:
		s := rapid.SampledFrom([]work.StepStatus{work.StepSucceeded, work.StepFailed, work.StepCanceled, work.StepSkipped, work.StepRunning, ""}).Draw(t, "result")
		e := work.StepFinished{Attempt: attempt, Step: step, Result: work.StepResult{Status: s}}
		if rapid.Bool().Draw(t, "plan") {
			e.Result.Plan = &work.PlanSummary{Add: rapid.IntRange(0, 1).Draw(t, "add"), Digest: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "digest")}
		}
		return e
	case 3:
		return work.Refused{Attempt: attempt}
	case 4:
		return work.LeaseLost{Attempt: attempt, Gone: rapid.Bool().Draw(t, "gone")}
	case 5:
		return work.Resumed{Attempt: attempt}
	case 6:
		return work.RecoveryOver{}
	case 7:
		return work.ApprovedBy{By: "ann"}
	case 8:
		return work.DeclinedBy{By: "ann"}
	case 9:
		return work.ApprovalExpired{}
	case 10:
		return work.CancelRequested{Mode: rapid.SampledFrom(work.CancelModes).Draw(t, "mode")}
	case 11:
		return work.Replaced{ByNumber: 9}
	case 12:
		return work.CannotRun{Failure: work.Failure{Code: "output_missing", Message: "it takes an output that is not there"}}
	}
	if rapid.Bool().Draw(t, "notice") {
		return work.Noticed{Attempt: attempt, Text: "the disk is full"}
	}
	return work.WaitChanged{Wait: work.Wait{Code: work.WaitBusy}}
}

// TestNotice: what keeps a Step from going on is said of the Job until it does, or the Step is over.
func TestNotice(t *testing.T) {
	const full = "the disk is full"
	next := func(j work.Job, e work.Event) work.Job {
		t.Helper()
		j, _, err := work.Next(j, e, t0)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	running := next(toStep(t, applyJob(), 0), work.StepStarted{Attempt: 1, Step: 0})
	stalled := next(running, work.Noticed{Attempt: 1, Text: full})
	if stalled.Notice != full || stalled.Status != work.Running {
		t.Fatalf("got %s %q", stalled.Status, stalled.Notice)
	}
	for _, e := range []work.Event{work.Noticed{Attempt: 1}, ok(1, 0), work.LeaseLost{Attempt: 1}} {
		if j := next(stalled, e); j.Notice != "" {
			t.Errorf("after %q it says %q", e.Name(), j.Notice)
		}
	}
	if _, _, err := work.Next(stalled, work.Noticed{Attempt: 2, Text: "late"}, t0); err == nil {
		t.Error("a notice of another attempt was taken")
	}
}

// step draws one event, applies it and checks what holds for every Job.
func checkStep(t *rapid.T, j work.Job) work.Job {
	e := anyEvent(t, j)
	next, effects, err := work.Next(j, e, t0)
	if err != nil {
		if !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Invalid) {
			t.Fatalf("%s in %s: %v", e.Name(), j.Status, err)
		}
		return j
	}
	switch {
	case j.Status.Terminal():
		t.Fatalf("%s moved a job that was %s", e.Name(), j.Status)
	case next.Attempt < j.Attempt || next.Attempt > j.Attempt+1:
		t.Fatalf("attempt %d became %d", j.Attempt, next.Attempt)
	case next.Status.Bound() && next.Binding == nil:
		t.Fatalf("%s without a binding", next.Status)
	case next.Status == work.Queued && next.Binding != nil:
		t.Fatal("queued with a binding")
	case next.HoldsSlot() && next.LeaseUntil.IsZero():
		t.Fatalf("%s without a lease", next.Status)
	case next.Status == work.Interrupted && next.RecoverUntil.IsZero():
		t.Fatal("interrupted for ever")
	case next.Status == work.Canceling && next.Cancel == nil, next.Status == work.Running && next.Cancel != nil:
		t.Fatalf("%s with the cancel %+v", next.Status, next.Cancel)
	case next.Status == work.Canceled && mayChange(j) && !saysSo(e, j):
		t.Fatalf("%s canceled a job whose changing step may be under way", e.Name())
	case next.Attempt > next.Limits.MaxAttempts:
		t.Fatalf("attempt %d of %d", next.Attempt, next.Limits.MaxAttempts)
	case next.Status == work.Failed && next.Failure == nil:
		t.Fatal("failed without a reason")
	}
	for i := range next.Steps {
		if i > next.Current() && next.Steps[i].Status != work.StepPending {
			t.Fatalf("step %d is %s while step %d is under way", i, next.Steps[i].Status, next.Current())
		}
	}
	ended := 0
	for _, eff := range effects {
		if s, is := eff.(work.SendStep); is && (s.Attempt != next.Attempt || s.Step != next.Current()) {
			t.Fatalf("%+v while attempt %d is at step %d", s, next.Attempt, next.Current())
		}
		if _, is := eff.(work.Ended); is {
			ended++
		}
	}
	if (ended == 1) != next.Status.Terminal() {
		t.Fatalf("%d ends of a job that is %s", ended, next.Status)
	}
	return next
}

// mayChange tells whether a lost or canceled Job may still be changing something.
func mayChange(j work.Job) bool {
	i := j.Current()
	return j.Status != work.Queued && j.Status != work.AwaitingApproval && i < len(j.Steps) && j.Steps[i].Changing &&
		(j.Steps[i].Status == work.StepSent || j.Steps[i].Status == work.StepRunning)
}

// saysSo tells whether an event ends a changing Step, or the wait for it, for good.
func saysSo(e work.Event, j work.Job) bool {
	switch e := e.(type) {
	case work.StepFinished, work.Refused, work.RecoveryOver:
		return true
	case work.LeaseLost:
		return e.Gone || j.Limits.RecoveryWindow == 0
	case work.CancelRequested:
		return e.Mode == work.Kill
	}
	return false
}

func checkWalk(t *rapid.T) {
	j := applyJob()
	if rapid.Bool().Draw(t, "approval") {
		withApproval(&j)
	}
	for range rapid.IntRange(1, 60).Draw(t, "length") {
		j = checkStep(t, j)
	}
}

func TestEveryWalkKeepsTheRules(t *testing.T) { rapid.Check(t, checkWalk) }

func FuzzMachine(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkWalk)) }

func TestDiagramInTheDocsIsTheTable(t *testing.T) {
	const path = "../../docs/STATES.md"
	want := "# States of a Job\n\nGenerated from the table of transitions in `internal/work/machine.go` by `make generate`.\n\n```mermaid\n" + work.Diagram() + "```\n"
	if os.Getenv("LEGWORK_GENERATE") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Fatalf("%s is not what the table says (%v): run make generate", path, err)
	}
}

func TestEligibleSaysTheFirstBarThatNobodyPasses(t *testing.T) {
	tofu := map[string]string{"opentofu": "1.12.6"}
	fit := work.Candidate{Runner: "edge", Instance: "a", Online: true, Free: 1, Engines: tofu}
	with := func(f func(*work.Candidate)) work.Candidate { c := fit; f(&c); return c }
	need := work.Need{Runner: "edge", Engine: catalog.OpenTofu}
	for name, c := range map[string]struct {
		need work.Need
		have []work.Candidate
		want work.WaitCode
	}{
		"nobody":           {need, nil, work.WaitNoInstance},
		"fit":              {need, []work.Candidate{fit}, work.WaitNone},
		"disabled":         {need, []work.Candidate{with(func(c *work.Candidate) { c.Disabled = true })}, work.WaitRunnerDisabled},
		"offline":          {need, []work.Candidate{with(func(c *work.Candidate) { c.Online = false })}, work.WaitNoInstance},
		"pinned elsewhere": {work.Need{Runner: "edge", Engine: catalog.OpenTofu, Instance: "b"}, []work.Candidate{fit}, work.WaitPinnedOffline},
		"engine":           {work.Need{Runner: "edge", Engine: catalog.Terraform}, []work.Candidate{fit}, work.WaitEngineMissing},
		"draining":         {need, []work.Candidate{with(func(c *work.Candidate) { c.Draining = true })}, work.WaitDraining},
		"busy":             {need, []work.Candidate{with(func(c *work.Candidate) { c.Free = 0 })}, work.WaitBusy},
		"one of two":       {need, []work.Candidate{with(func(c *work.Candidate) { c.Free = 0 }), fit}, work.WaitNone},
	} {
		t.Run(name, func(t *testing.T) {
			got, wait := work.Eligible(c.need, c.have)
			if wait.Code != c.want || (c.want == work.WaitNone) != (len(got) > 0) {
				t.Fatalf("%v, %+v", got, wait)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	three := []work.Candidate{{Instance: "a", Active: 2}, {Instance: "b", Active: 1, IdleSince: t0}, {Instance: "c", Active: 1, IdleSince: t0.Add(-time.Hour)}}
	last := func(n int) int { return n - 1 }
	if got := work.Select(catalog.FirstResponse, three, last); len(got) != 3 {
		t.Fatalf("first_response asks %d", len(got))
	}
	if got := work.Select(catalog.LeastLoaded, three, last); len(got) != 1 || got[0].Instance != "c" {
		t.Fatalf("least_loaded chose %+v", got)
	}
	if got := work.Select(catalog.Random, three, last); len(got) != 1 || got[0].Instance != "c" {
		t.Fatalf("random chose %+v", got)
	}
	if got := work.Select(catalog.Random, nil, last); got != nil {
		t.Fatalf("chose %+v of nobody", got)
	}
}
