package work

import (
	"fmt"
	"slices"
	"time"

	"legwork/internal/fault"
)

// transition is one row of the table: in one of the states From, the event On leads to one of the
// states To. do changes the Job; Next checks that it ended up in To.
type transition struct {
	From []Status
	On   EventName
	To   []Status
	do   func(m *move)
}

// table is the whole state machine. What is not in it is refused. The diagram in docs/STATES.md is
// generated from it.
var table = []transition{
	{From: []Status{Queued}, On: onBegan, To: []Status{Running}, do: began},
	{From: []Status{Queued}, On: onRoundOpened, To: []Status{Queued}, do: roundOpened},
	{From: []Status{Queued}, On: onFinished, To: []Status{Succeeded}, do: partFinished},
	{From: []Status{Queued}, On: onClaimed, To: []Status{Claimed}, do: claimed},
	{From: []Status{Queued}, On: onWaitChanged, To: []Status{Queued}, do: waitChanged},
	{From: []Status{Queued}, On: onReplaced, To: []Status{Superseded}, do: replaced},
	{From: []Status{Queued}, On: onCannotRun, To: []Status{Failed}, do: cannotRun},
	{From: []Status{Queued}, On: onCancelRequested, To: []Status{Canceled, Failed}, do: cancelUnbound},
	{From: []Status{Queued}, On: onResumed, To: []Status{Running}, do: resumedFromQueue},

	{From: []Status{Claimed}, On: onRefused, To: []Status{Queued, Failed}, do: refused},
	{From: []Status{Claimed, Running}, On: onStepStarted, To: []Status{Running}, do: stepStarted},
	{From: []Status{Claimed, Running}, On: onStepFinished,
		To: []Status{Running, Waiting, AwaitingApproval, Succeeded, Failed, Canceled}, do: stepFinished},
	{From: []Status{Claimed, Running}, On: onLeaseLost, To: []Status{Queued, Interrupted, Failed}, do: leaseLost},
	{From: []Status{Claimed, Running}, On: onResumed, To: []Status{Claimed, Running}, do: renewed},
	{From: []Status{Claimed, Running}, On: onCancelRequested, To: []Status{Canceling, Canceled, Failed}, do: cancelBound},

	{From: []Status{Claimed}, On: onNoticed, To: []Status{Claimed}, do: noticed},
	{From: []Status{Running}, On: onNoticed, To: []Status{Running}, do: noticed},
	{From: []Status{Canceling}, On: onNoticed, To: []Status{Canceling}, do: noticed},

	{From: []Status{Running}, On: onRoundOpened, To: []Status{Running, AwaitingApproval}, do: roundOpened},
	{From: []Status{Running, Canceling}, On: onRoundFinished, To: []Status{Running, Canceling}, do: roundFinished},
	{From: []Status{Running}, On: onModuleSubmitted, To: []Status{Running}, do: moduleSubmitted},
	{From: []Status{Running, Canceling}, On: onModuleEnded, To: []Status{Running, Canceling}, do: moduleEnded},
	{From: []Status{Running}, On: onSourcePinned, To: []Status{Running}, do: sourcePinned},
	{From: []Status{Running}, On: onRunStopped, To: []Status{Running}, do: func(m *move) { m.stopRun(m.event.(RunStopped).Failure) }},
	{From: []Status{Running, Canceling}, On: onRunEnded, To: []Status{Succeeded, Failed, Canceled, Declined, Expired}, do: runEnded},

	{From: []Status{Waiting}, On: onRoundOpened, To: []Status{Running}, do: roundOpened},
	{From: []Status{Waiting}, On: onFinished, To: []Status{Succeeded}, do: partFinished},
	{From: []Status{Waiting}, On: onCancelRequested, To: []Status{Canceled}, do: cancelUnbound},
	{From: []Status{Waiting}, On: onResumed, To: []Status{Waiting}, do: nothing},
	{From: []Status{Waiting}, On: onLeaseLost, To: []Status{Queued, Failed}, do: leaseLost},
	{From: []Status{Waiting}, On: onStepStarted, To: []Status{Waiting}, do: stepStarted},
	{From: []Status{Waiting}, On: onStepFinished, To: []Status{Waiting}, do: stepFinished},

	{From: []Status{AwaitingApproval}, On: onApproved, To: []Status{Running}, do: approved},
	{From: []Status{AwaitingApproval}, On: onDeclined, To: []Status{Declined, Running}, do: declined},
	{From: []Status{AwaitingApproval}, On: onApprovalExpired, To: []Status{Expired, Running}, do: approvalExpired},
	{From: []Status{AwaitingApproval}, On: onCancelRequested, To: []Status{Canceled, Canceling, Failed}, do: cancelUnbound},
	{From: []Status{AwaitingApproval}, On: onResumed, To: []Status{AwaitingApproval}, do: nothing},
	{From: []Status{AwaitingApproval}, On: onLeaseLost, To: []Status{Queued, Failed}, do: leaseLost},

	{From: []Status{Canceling}, On: onStepStarted, To: []Status{Canceling}, do: stepStarted},
	{From: []Status{Canceling}, On: onStepFinished,
		To: []Status{Canceling, Canceled, Succeeded, Failed}, do: stepFinishedCanceling},
	{From: []Status{Canceling}, On: onRefused, To: []Status{Canceled, Failed}, do: refusedCanceling},
	{From: []Status{Canceling}, On: onLeaseLost, To: []Status{Interrupted, Canceled, Failed}, do: leaseLostCanceling},
	{From: []Status{Canceling}, On: onResumed, To: []Status{Canceling}, do: renewed},
	{From: []Status{Canceling}, On: onCancelRequested, To: []Status{Canceling}, do: cancelHarder},

	{From: []Status{Interrupted}, On: onResumed, To: []Status{Running, Canceling}, do: resumed},
	{From: []Status{Interrupted}, On: onStepStarted, To: []Status{Running, Canceling}, do: resumedByStart},
	{From: []Status{Interrupted}, On: onStepFinished,
		To: []Status{Running, Canceling, Waiting, AwaitingApproval, Succeeded, Failed, Canceled}, do: resumedByFinish},
	{From: []Status{Interrupted}, On: onLeaseLost, To: []Status{Interrupted, Queued, Failed, Canceled}, do: lostAgain},
	{From: []Status{Interrupted}, On: onRecoveryOver, To: []Status{Queued, Failed, Canceled}, do: recoveryOver},
	{From: []Status{Interrupted}, On: onCancelRequested, To: []Status{Interrupted, Canceled, Failed}, do: cancelInterrupted},

	{From: []Status{Queued}, On: onRestored, To: []Status{Queued, Failed}, do: restored},
	{From: []Status{Waiting}, On: onRestored, To: []Status{Waiting}, do: restored},
	{From: []Status{AwaitingApproval}, On: onRestored, To: []Status{Running, Failed}, do: restored},
	{From: []Status{Claimed, Interrupted}, On: onRestored, To: []Status{Interrupted}, do: restored},
	{From: []Status{Running}, On: onRestored, To: []Status{Running, Interrupted}, do: restored},
	{From: []Status{Canceling}, On: onRestored, To: []Status{Canceling, Interrupted}, do: restored},
	{From: []Status{Interrupted}, On: onRestoreOver, To: []Status{Interrupted, Failed, Canceled}, do: restoreOver},
}

// move is one application of the table: the Job being changed, why, when, and what follows.
type move struct {
	job     *Job
	event   Event
	now     time.Time
	effects []Effect
	err     error
}

func (m *move) emit(e ...Effect) { m.effects = append(m.effects, e...) }

// Next applies an event to a Job and gives the Job as it is then, with what shall be done about it.
// The Job that came in is not changed.
//
// It returns a fault.Conflict with code "stale_attempt" for an event of another Attempt than the
// present one, and with code "job_state" for an event that the Job's state does not allow. An event that was
// applied before changes nothing and is no error.
func Next(job Job, event Event, now time.Time) (Job, []Effect, error) {
	if attempt, fenced := attemptOf(event); fenced && attempt != job.Attempt {
		return job, nil, fault.New(fault.Conflict, "stale_attempt",
			"attempt %d of job #%d is over: the present one is %d", attempt, job.Number, job.Attempt)
	}
	row := find(job.Status, event.Name())
	if row == nil || !job.knows(event.Name()) {
		return job, nil, fault.New(fault.Conflict, "job_state", "job #%d is %s: it cannot be %s now", job.Number, job.Status, verb(event)).
			WithHint("%s", stateHint(job))
	}
	changed := job.clone()
	m := &move{job: &changed, event: event, now: now}
	row.do(m)
	if m.err != nil {
		return job, nil, m.err
	}
	if c := changed.Cancel; c != nil && c.TimedOut && changed.Status == Canceled {
		changed.Status, changed.Failure = Failed, changed.timeoutFailure()
	}
	if !slices.Contains(row.To, changed.Status) {
		return job, nil, fmt.Errorf("state machine: %s by %q led to %s, which the table does not allow", job.Status, event.Name(), changed.Status)
	}
	if changed.Status.Terminal() {
		m.finish()
	}
	return changed, m.effects, nil
}

func find(from Status, on EventName) *transition {
	for i := range table {
		if table[i].On == on && slices.Contains(table[i].From, from) {
			return &table[i]
		}
	}
	return nil
}

// verb says an event as what was meant to be done to the Job.
func verb(e Event) string {
	switch e.(type) {
	case CancelRequested:
		return "canceled"
	case ApprovedBy:
		return "approved"
	case DeclinedBy:
		return "declined"
	}
	return string(e.Name())
}

// clone copies a Job so that a change of the copy leaves the original as it is.
func (j Job) clone() Job {
	j.Steps = slices.Clone(j.Steps)
	j.Losses = slices.Clone(j.Losses)
	j.Run = j.Run.clone()
	if j.Binding != nil {
		b := *j.Binding
		j.Binding = &b
	}
	return j
}

// finish sets what every terminal state has in common. Steps that never ran are skipped.
func (m *move) finish() {
	j := m.job
	j.FinishedAt, j.Wait, j.Notice = m.now, Wait{}, ""
	j.Resumable = nil
	j.LeaseUntil, j.RecoverUntil, j.ApproveUntil = time.Time{}, time.Time{}, time.Time{}
	j.endInterruption()
	m.endSteps()
	if j.Binding != nil {
		m.emit(Release{Attempt: j.Attempt, Binding: *j.Binding})
	}
	m.emit(Ended{})
	if j.IsPart() && !slices.Contains(m.effects, Effect(Advance{})) {
		m.emit(Advance{})
	}
}

func (m *move) renewLease() { m.job.LeaseUntil = m.now.Add(m.job.Limits.Lease) }

func nothing(*move) {}

// noticed holds for the Step under way: its end, like the loss of the Attempt, takes the notice away.
func noticed(m *move) { m.job.Notice = m.event.(Noticed).Text }

func waitChanged(m *move) { m.job.Wait = m.event.(WaitChanged).Wait }

func claimed(m *move) {
	j := m.job
	if !j.Offerable() {
		m.err = fault.New(fault.Conflict, "job_state", "the next round of job #%d is not open", j.Number)
		return
	}
	b := m.event.(ClaimedBy).Binding
	b.ClaimedAt = m.now
	j.Status, j.Binding, j.Wait = Claimed, &b, Wait{}
	j.Resumable = nil
	j.Attempt++
	m.sendStep(j.Current())
}

// sendStep marks a Step as given to the Instance and renews the lease for it. One that is the Server's own is under way at once.
func (m *move) sendStep(i int) {
	m.renewLease()
	if s := &m.job.Steps[i]; s.Kind.Own() {
		s.Status, s.StartedAt = StepRunning, m.now
		if m.job.StartedAt.IsZero() {
			m.job.StartedAt = m.now
		}
		m.emit(OwnStep{Attempt: m.job.Attempt, Step: i})
		return
	}
	m.job.Steps[i].Status = StepSent
	m.emit(SendStep{Attempt: m.job.Attempt, Step: i})
}

func replaced(m *move) {
	if !m.job.Replaceable() {
		m.err = fault.New(fault.Conflict, "job_state", "job #%d was begun: its result may still come", m.job.Number)
		return
	}
	m.job.Status = Superseded
	m.job.Failure = &Failure{Code: "superseded", Message: fmt.Sprintf("superseded by the newer job #%d", m.event.(Replaced).ByNumber)}
}

func cannotRun(m *move) {
	f := m.event.(CannotRun).Failure
	m.job.Status, m.job.Failure = Failed, &f
}

// refused puts a Job back that its Instance could not begin.
func refused(m *move) { m.requeue(m.event.(Refused).Reason, true) }

func refusedCanceling(m *move) { m.job.Status = Canceled }

func stepStarted(m *move) {
	e := m.event.(StepStarted)
	if m.job.Status == Claimed {
		m.job.Status = Running
	}
	if m.job.StartedAt.IsZero() {
		m.job.StartedAt = m.now
	}
	if m.job.IsPart() && m.job.Commit == "" && e.Commit != "" {
		m.job.Commit = e.Commit
		m.emit(Advance{})
	}
	if m.job.Status == Waiting && e.Step == m.job.Current() { // which was not sent
		m.isCurrent(len(m.job.Steps))
		return
	}
	if !m.isCurrent(e.Step) {
		return
	}
	s := &m.job.Steps[e.Step]
	if s.Status != StepRunning {
		s.Status, s.StartedAt = StepRunning, m.now
	}
}

// isCurrent tells whether a Step is the one under way. An earlier one was reported before: nothing to do. A later
// one cannot be.
func (m *move) isCurrent(step int) bool {
	current := m.job.Current()
	if step > current || step < 0 || step >= len(m.job.Steps) {
		m.err = fault.New(fault.Invalid, "step_order", "step %d of job #%d was reported while step %d is under way", step, m.job.Number, current)
		return false
	}
	return step == current
}

// record writes a result into its Step. It returns false when there is nothing left to decide.
func (m *move) record() (Step, bool) {
	e := m.event.(StepFinished)
	if m.job.Status == Waiting && e.Step == m.job.Current() {
		e.Step = len(m.job.Steps) // it was not sent
	}
	if !m.isCurrent(e.Step) {
		return Step{}, false
	}
	if !e.Result.Status.Done() {
		m.err = fault.New(fault.Invalid, "step_result", "step %d of job #%d was reported as %q, which is no result", e.Step, m.job.Number, e.Result.Status)
		return Step{}, false
	}
	j, r := m.job, e.Result
	s := &j.Steps[e.Step]
	if s.StartedAt.IsZero() {
		s.StartedAt = m.now
	}
	j.Notice = ""
	s.Status, s.FinishedAt, s.ExitCode, s.Failure, s.Plan = r.Status, m.now, r.ExitCode, r.Failure, r.Plan
	s.State, s.Warnings = nil, boundedWarnings(r.Warnings)
	if r.State != nil {
		state := r.State.Bounded()
		s.State = &state
	}
	if j.IsPart() {
		s.Result = merge(s.Result, r.Round)
	}
	if j.Commit == "" {
		j.Commit = r.Commit
	}
	if j.StartedAt.IsZero() {
		j.StartedAt = m.now
	}
	return *s, true
}

func stepFinished(m *move) {
	s, ok := m.record()
	if !ok {
		if m.job.Status == Claimed && m.err == nil {
			m.job.Status = Running
		}
		return
	}
	if m.job.IsPart() {
		m.through(s)
		return
	}
	switch s.Status {
	case StepSucceeded, StepSkipped:
		m.advance()
	default:
		if s.Status == StepCanceled && s.Failure != nil && s.Failure.Code == RunnerStopped {
			m.stoppedAtHost(*s.Failure)
			return
		}
		m.fail(s)
	}
}

// stoppedAtHost ends a Job that nobody canceled at the Server, but an operator did at the host of its Runner.
func (m *move) stoppedAtHost(f Failure) {
	j := m.job
	if b := j.Binding; b != nil {
		f.Message = fmt.Sprintf("canceled at the host of Instance %s of runner %s: %s", b.Instance, b.Runner, f.Message)
	}
	j.Status, j.Failure = Canceled, &f
}

// advance goes on with the next Step, waits for approval before it, or ends the Job.
func (m *move) advance() {
	j := m.job
	next := j.Current()
	if next == len(j.Steps) {
		j.Status = Succeeded
		return
	}
	if j.Steps[next].Approval && !m.isApproved() {
		j.Status = AwaitingApproval
		j.LeaseUntil = time.Time{}
		if j.Limits.ApprovalWindow > 0 {
			j.ApproveUntil = m.now.Add(j.Limits.ApprovalWindow)
		}
		return
	}
	j.Status = Running
	m.sendStep(next)
}

// isApproved tells whether the plan at hand needs no (further) approval: it would do nothing, or an
// earlier Attempt's plan with the same changes was approved.
func (m *move) isApproved() bool {
	p := m.job.Plan()
	if p == nil {
		return m.job.Approval != nil
	}
	return p.Empty() || (m.job.Approval != nil && m.job.Approval.Digest == p.Digest && p.Digest != "")
}

func (m *move) fail(s Step) {
	m.job.Status = Failed
	m.job.Failure = s.Failure
	if m.job.Failure == nil {
		m.job.Failure = &Failure{Code: "step_failed", Message: fmt.Sprintf("step %s failed with exit status %d", s.Kind, s.ExitCode), Hint: "read the log of the step"}
		switch { // the Runbook Job names the step
		case s.Kind == StepRound && s.Status == StepCanceled:
			m.job.Failure.Message = "it was canceled"
		case s.Kind == StepRound:
			m.job.Failure.Message = fmt.Sprintf("it failed with exit status %d", s.ExitCode)
		}
	}
}

// stepFinishedCanceling lets a finished Step win: a Job whose last changing Step is done goes on to
// its end, so that what was changed is also recorded.
func stepFinishedCanceling(m *move) {
	s, ok := m.record()
	if !ok {
		return
	}
	j := m.job
	switch {
	case j.IsPart():
		m.throughCanceling(s)
	case s.Status == StepFailed:
		m.fail(s)
	case s.Status == StepCanceled:
		j.Status, j.Failure = Canceled, s.Failure
	case j.Current() == len(j.Steps):
		j.Status = Succeeded
	case j.changedAll() && j.Cancel.Mode != Kill:
		m.sendStep(j.Current())
	default:
		j.Status = Canceled
	}
}

// changedAll tells whether every changing Step of a Job that has one is over.
func (j *Job) changedAll() bool {
	changed := false
	for _, s := range j.Steps {
		if s.Changing {
			changed = true
			if !s.Status.Done() {
				return false
			}
		}
	}
	return changed
}

func approved(m *move) {
	e := m.event.(ApprovedBy)
	a := Approval{By: e.By, Reason: e.Reason, At: m.now}
	if p := m.job.Plan(); p != nil {
		a.PlanHash, a.Digest = p.Hash, p.Digest
	}
	if e.PlanHash == "" && a.PlanHash != "" {
		m.err = fault.New(fault.Invalid, "plan_hash_missing", "the approval does not say which plan was looked at").
			WithHint("look at the plan and give its hash: legwork job plan %d", m.job.Number).
			WithDetails(fault.Problem{Field: "plan_hash", Message: "is required: this Job has a plan"})
		return
	}
	if e.PlanHash != "" && e.PlanHash != a.PlanHash {
		m.err = fault.New(fault.Conflict, "plan_changed", "job #%d has another plan by now than the one that was looked at", m.job.Number).
			WithHint("look at it again: legwork job plan %d", m.job.Number)
		return
	}
	m.job.Approval, m.job.ApproveUntil, m.job.Status = &a, time.Time{}, Running
	if m.job.IsRun() {
		m.settleApproval("", nil)
		return
	}
	m.sendStep(m.job.Current())
}

func declined(m *move) {
	e := m.event.(DeclinedBy)
	f := &Failure{Code: "declined", Message: "declined by " + e.By + because(e.Reason)}
	if m.job.IsRun() {
		m.settleApproval(Declined, f)
		return
	}
	m.job.Status, m.job.Failure = Declined, f
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func approvalExpired(m *move) {
	if m.job.IsRun() {
		m.settleApproval(Expired, &Failure{Code: "approval_expired", Message: "nobody approved in time", Hint: "run it again"})
		return
	}
	m.job.Status = Expired
	m.job.Failure = &Failure{Code: "approval_expired", Message: "nobody approved the plan in time", Hint: "submit the job again"}
}

// stateHint says what can be done with a Job that is in another state than was thought.
func stateHint(job Job) string {
	if job.Status.Terminal() {
		return "it is over: queue a new one if its work is wanted"
	}
	return fmt.Sprintf("look at it again: legwork job show %d", job.Number)
}

func (m *move) noteCancel() CancelRequested {
	e := m.event.(CancelRequested)
	if m.job.Cancel != nil && e.Reason == "" {
		e.Reason = m.job.Cancel.Reason // a harder way does not take back why
	}
	timedOut := e.TimedOut || m.job.Cancel != nil && m.job.Cancel.TimedOut
	m.job.Cancel = &Cancel{Mode: e.Mode, By: e.By, Reason: e.Reason, At: m.now, TimedOut: timedOut}
	return e
}

func cancelUnbound(m *move) {
	if m.job.IsRun() && m.job.Status != Queued { // its Parts are to end first
		cancelRun(m)
		return
	}
	m.noteCancel()
	m.job.Status = Canceled
}

func cancelBound(m *move) {
	if m.job.IsRun() {
		cancelRun(m)
		return
	}
	e := m.noteCancel()
	if s := m.job.underWay(); s != nil && s.Kind.Own() { // there is nobody to wait for
		s.Status, s.FinishedAt = StepCanceled, m.now
		m.job.Status = Canceled
		return
	}
	m.job.Status = Canceling
	m.emit(SendCancel{Attempt: m.job.Attempt, Mode: e.Mode})
}

func cancelHarder(m *move) {
	if m.job.IsRun() {
		cancelRun(m)
		return
	}
	e := m.event.(CancelRequested)
	if e.Mode.stronger(m.job.Cancel.Mode) {
		m.noteCancel()
		m.emit(SendCancel{Attempt: m.job.Attempt, Mode: e.Mode})
	}
}

// cancelInterrupted notes what the Instance will be told when it comes back. Until then the changing Step may be under way, and
// the Job holds its Module; a kill alone gives it up.
func cancelInterrupted(m *move) {
	e := m.event.(CancelRequested)
	if m.job.Cancel == nil || e.Mode.stronger(m.job.Cancel.Mode) {
		m.noteCancel()
	}
	m.job.Wait = m.job.instanceAway()
	if e.Mode != Kill {
		return
	}
	m.emit(SendCancel{Attempt: m.job.Attempt, Mode: Kill})
	m.giveUp("canceled while its instance was away")
}

// giveUp ends a Job that was to be canceled and whose Instance will not say how it ended.
func (m *move) giveUp(why string) {
	m.loss(why)
	m.job.Status = Canceled
	m.job.Failure = m.unknownOutcome(why)
}

// unknownOutcome says which Step may have changed something that nobody reported.
func (m *move) unknownOutcome(what string) *Failure {
	f := &Failure{Code: "outcome_unknown", Message: what}
	if i := m.job.Current(); i < len(m.job.Steps) && m.job.Steps[i].Changing {
		f.Message += fmt.Sprintf("; step %s may have changed something", m.job.Steps[i].Kind)
		if m.job.Steps[i].Kind == StepRound {
			f.Message = what + "; the step may have changed something"
		}
		f.Hint = LookAgain(m.job.Steps[i].Kind)
	}
	return f
}

// LookAgain says how to find out what a changing Step whose end nobody knows has done. Scripts have no plan.
func LookAgain(kind StepKind) string {
	switch kind {
	case StepRound:
		return "look at what the step has done on its nodes before it is run again"
	case StepRun:
		return "look at what the script has done before it is run again"
	}
	return "a new plan shows what is left to do"
}

// underWay gives the Step that the Instance may be executing, or nil. A Step that was sent counts: word
// of its start may have been lost.
func (j *Job) underWay() *Step {
	if i := j.Current(); i < len(j.Steps) && (j.Steps[i].Status == StepSent || j.Steps[i].Status == StepRunning) {
		return &j.Steps[i]
	}
	return nil
}

// interrupt has a Job whose Instance was lost wait for its return, if that may come: it had a changing Step under way, which
// nobody else may begin meanwhile.
func (m *move) interrupt(e LeaseLost) bool {
	j := m.job
	s := j.underWay()
	if s == nil || !s.Changing || e.Gone || j.Limits.RecoveryWindow <= 0 {
		return false
	}
	j.Status, j.Notice = Interrupted, ""
	j.LeaseUntil = time.Time{}
	j.RecoverUntil, j.InterruptedAt = m.now.Add(j.Limits.RecoveryWindow), m.now
	j.InterruptedReason = e.Reason
	j.Wait = j.instanceAway()
	return true
}

func leaseLost(m *move) {
	e := m.event.(LeaseLost)
	if i := m.job.Current(); e.Unsent && i < len(m.job.Steps) {
		m.job.Steps[i].Status = StepPending
	}
	if !m.interrupt(e) {
		m.requeue(e.Reason, false)
	}
}

func leaseLostCanceling(m *move) {
	if !m.interrupt(m.event.(LeaseLost)) {
		m.giveUp("its instance was lost while the job was being canceled")
	}
}

func lostAgain(m *move) {
	e := m.event.(LeaseLost)
	if m.job.Restored { // it waits for the operator
		return
	}
	if e.Gone {
		m.notComingBack(e.Reason)
		return
	}
	m.job.InterruptedReason = e.Reason
	m.job.Wait = m.job.instanceAway()
}

func recoveryOver(m *move) {
	m.notComingBack("its instance did not come back within the recovery window")
}

// notComingBack ends an interrupted Attempt.
func (m *move) notComingBack(reason string) {
	if m.job.Cancel != nil {
		m.giveUp("canceled, and " + reason)
		return
	}
	m.requeue(reason, false)
}

// loss notes how the present Attempt ended.
func (m *move) loss(reason string) {
	l := Loss{Attempt: m.job.Attempt, Reason: reason, At: m.now}
	if b := m.job.Binding; b != nil {
		l.Runner, l.Instance, l.Fingerprint = b.Runner, b.Instance, b.Fingerprint
	}
	if s := m.job.underWay(); s != nil {
		l.Step, l.Changing = s.Kind, s.Changing
	}
	m.job.Losses, m.job.Notice = append(m.job.Losses, l), ""
}

// requeue ends the present Attempt: the Job starts over with the first Step, or fails when it was
// lost too often. release tells the Instance, which is there, that it may forget the Attempt.
func (m *move) requeue(reason string, release bool) {
	j := m.job
	m.loss(reason)
	if release && j.Binding != nil {
		m.emit(Release{Attempt: j.Attempt, Binding: *j.Binding})
	}
	if j.Attempt >= j.Limits.MaxAttempts {
		j.Status = Failed
		j.Failure = &Failure{Code: "too_many_attempts",
			Message: fmt.Sprintf("given up after %s; the last one ended because %s", count(j.Attempt, "attempt", "attempts"), reason),
			Hint:    "look at the losses of the job and at the hosts that they name"}
		return
	}
	j.Resumable = m.resumable(release)
	j.Status, j.Binding, j.QueuedAt = Queued, nil, m.now
	j.Wait = Wait{Code: WaitDispatch, Text: "looking for an instance again"}
	j.LeaseUntil, j.RecoverUntil, j.ApproveUntil = time.Time{}, time.Time{}, time.Time{}
	j.endInterruption()
	if j.IsPart() {
		m.keepRounds(m.knownLoss())
		if !j.Offerable() {
			j.Wait = Wait{Code: WaitRound, Text: "waiting for its next round"}
			m.emit(Advance{})
			return
		}
	} else {
		j.resetSteps()
	}
	m.emit(Dispatch{})
}

// resetSteps prepares the steps for another attempt. When every mutating step is complete, nothing before it is repeated, and
// neither are its hooks: only what sets up an instance, and the steps that are left.
func (j *Job) resetSteps() {
	complete := j.changedAll()
	for i, s := range j.Steps {
		if complete && s.Status.Done() && !s.Kind.SetsUp() {
			continue
		}
		j.Steps[i] = Step{Kind: s.Kind, Changing: s.Changing, Approval: s.Approval, Status: StepPending, Name: s.Name}
	}
	if complete {
		j.Wait.Text = "all changes are made; looking for an instance for the steps that are left"
	}
}

// resumable returns the present attempt if its instance may bring it back later: it has a step of it, was not told to forget it, and
// nothing was settled in its place. Nil otherwise.
func (m *move) resumable(released bool) *Resumable {
	j := m.job
	if released || j.Binding == nil || j.underWay() == nil || j.Kind == RunnerJob || m.isSettled() {
		return nil
	}
	if e, lost := m.event.(LeaseLost); lost && (e.Gone || e.Unsent) {
		return nil
	}
	return &Resumable{Binding: *j.Binding, Steps: slices.Clone(j.Steps), QueuedAt: j.QueuedAt}
}

// isSettled reports whether the loss of a part decided something about its round that an instance cannot take back.
func (m *move) isSettled() bool {
	known := m.knownLoss()
	return known != nil && (known.Over || known.Failed || len(known.Out) > 0 || len(known.Values) > 0)
}

// knownLoss is what the event says of the Round in which a Part was lost.
func (m *move) knownLoss() *RoundLoss {
	switch e := m.event.(type) {
	case LeaseLost:
		return e.Known
	case RecoveryOver:
		return e.Known
	}
	return nil
}

func renewed(m *move) { m.renewLease() }

// back has an interrupted Job go on, or go on being canceled.
func (m *move) back() {
	m.job.Status = Running
	if m.job.Cancel != nil {
		m.job.Status = Canceling
	}
	m.job.RecoverUntil, m.job.Wait = time.Time{}, Wait{}
	m.job.endInterruption()
	m.renewLease()
}

// resumed tells the Instance of a cancel, too, which it may never have heard.
func resumed(m *move) {
	m.back()
	if m.job.Cancel != nil {
		m.emit(SendCancel{Attempt: m.job.Attempt, Mode: m.job.Cancel.Mode})
	}
}

// resumedFromQueue returns a job to the instance of its last attempt, which no other attempt has followed.
func resumedFromQueue(m *move) {
	j := m.job
	r := j.Resumable
	if r == nil {
		m.err = fault.New(fault.Conflict, "job_state", "attempt %d of job #%d cannot be resumed any more", j.Attempt, j.Number)
		return
	}
	b := r.Binding
	j.Binding, j.Steps, j.QueuedAt = &b, slices.Clone(r.Steps), r.QueuedAt
	j.Losses = j.Losses[:len(j.Losses)-1] // the attempt is not lost after all
	j.Resumable, j.Wait = nil, Wait{}
	m.back()
}

func resumedByStart(m *move) {
	resumed(m)
	stepStarted(m)
}

func resumedByFinish(m *move) {
	m.back()
	if m.job.Cancel != nil {
		stepFinishedCanceling(m)
		return
	}
	stepFinished(m)
}
