package work

import "time"

// EventName names a kind of Event in the table of transitions.
type EventName string

// Event is something that happened to a Job. The types below are all there are.
type Event interface {
	Name() EventName
}

// ClaimedBy binds a queued Job to an Instance. The Attempt rises by one.
type ClaimedBy struct{ Binding Binding }

// StepStarted says that the bound Instance began a Step.
type StepStarted struct {
	Attempt int
	Step    int
	At      time.Time
}

// StepFinished brings the result of a Step.
type StepFinished struct {
	Attempt int
	Step    int
	Result  StepResult
}

// Refused says that the bound Instance cannot execute the Job after all; no Step has begun.
type Refused struct {
	Attempt int
	Reason  string
}

// LeaseLost says that the Binding of an Attempt is over without a result. Gone means that the Instance
// is known to have nothing left of the Job, so that waiting for its return is in vain.
type LeaseLost struct {
	Attempt int
	Reason  string
	Gone    bool
}

// Resumed says that the Instance of an interrupted Attempt is back and still has it.
type Resumed struct{ Attempt int }

// RecoveryOver says that the Instance of an interrupted Job did not come back in time.
type RecoveryOver struct{}

// ApprovedBy lets a Job that awaits approval go on with the plan it has.
type ApprovedBy struct{ By, Reason string }

// DeclinedBy ends a Job that awaits approval.
type DeclinedBy struct{ By, Reason string }

// ApprovalExpired ends a Job that awaited approval for too long.
type ApprovalExpired struct{}

// CancelRequested asks to end a Job.
type CancelRequested struct {
	Mode   CancelMode
	By     string
	Reason string
}

// Replaced ends a queued Job because a newer one of the same kind stands in its place.
type Replaced struct{ ByNumber int64 }

// CannotRun ends a queued Job that will never be able to run.
type CannotRun struct{ Failure Failure }

// WaitChanged notes why a queued Job waits.
type WaitChanged struct{ Wait Wait }

// Noticed says of a Job under way what keeps its Instance from going on, or with no Text that nothing does any more.
type Noticed struct {
	Attempt int
	Text    string // a sentence
}

// The names of the events.
const (
	onClaimed         EventName = "claimed"
	onStepStarted     EventName = "step started"
	onStepFinished    EventName = "step finished"
	onRefused         EventName = "refused"
	onLeaseLost       EventName = "lease lost"
	onResumed         EventName = "resumed"
	onRecoveryOver    EventName = "recovery window over"
	onApproved        EventName = "approved"
	onDeclined        EventName = "declined"
	onApprovalExpired EventName = "approval window over"
	onCancelRequested EventName = "cancel requested"
	onReplaced        EventName = "replaced"
	onCannotRun       EventName = "cannot run"
	onWaitChanged     EventName = "wait reason changed"
	onNoticed         EventName = "noticed"
)

func (ClaimedBy) Name() EventName       { return onClaimed }
func (StepStarted) Name() EventName     { return onStepStarted }
func (StepFinished) Name() EventName    { return onStepFinished }
func (Refused) Name() EventName         { return onRefused }
func (LeaseLost) Name() EventName       { return onLeaseLost }
func (Resumed) Name() EventName         { return onResumed }
func (RecoveryOver) Name() EventName    { return onRecoveryOver }
func (ApprovedBy) Name() EventName      { return onApproved }
func (DeclinedBy) Name() EventName      { return onDeclined }
func (ApprovalExpired) Name() EventName { return onApprovalExpired }
func (CancelRequested) Name() EventName { return onCancelRequested }
func (Replaced) Name() EventName        { return onReplaced }
func (CannotRun) Name() EventName       { return onCannotRun }
func (WaitChanged) Name() EventName     { return onWaitChanged }
func (Noticed) Name() EventName         { return onNoticed }

// attemptOf gives the fencing token of an event that an Instance or its lease caused.
func attemptOf(e Event) (int, bool) {
	switch e := e.(type) {
	case StepStarted:
		return e.Attempt, true
	case StepFinished:
		return e.Attempt, true
	case Refused:
		return e.Attempt, true
	case LeaseLost:
		return e.Attempt, true
	case Resumed:
		return e.Attempt, true
	case Noticed:
		return e.Attempt, true
	}
	return 0, false
}

// Effect is something to be done after a transition is stored. Every effect is safe to carry out twice,
// and the sweeper makes good for one that was lost.
type Effect interface{ effect() }

// Dispatch looks for an Instance for a queued Job.
type Dispatch struct{}

// SendStep tells the bound Instance to execute a Step.
type SendStep struct{ Attempt, Step int }

// SendCancel tells the bound Instance to end the Job.
type SendCancel struct {
	Attempt int
	Mode    CancelMode
}

// Release tells the Instance of an Attempt that it may forget the Job.
type Release struct {
	Attempt int
	Binding Binding
}

// Ended follows a Job into a terminal state: its log is archived, and what waited for its Module
// or its Instance is dispatched.
type Ended struct{}

func (Dispatch) effect()   {}
func (SendStep) effect()   {}
func (SendCancel) effect() {}
func (Release) effect()    {}
func (Ended) effect()      {}
