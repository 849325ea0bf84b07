package work

import (
	"slices"
	"time"

	"legwork/internal/runbook"
)

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
	Commit  string // of a Part's Round: what was fetched for it; empty before, and where nothing is fetched
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

// LeaseLost says that the Binding of an Attempt is over without a result. Gone means that nothing of the Attempt can be
// running any more and its Instance cannot report a result, so that the recovery window would be in vain.
type LeaseLost struct {
	Attempt int
	Reason  string
	Gone    bool
	Unsent  bool       // nobody was told of the Step under way
	Known   *RoundLoss // of a Part in a Round
}

// Resumed says that the Instance of an interrupted Attempt is back and still has it.
type Resumed struct{ Attempt int }

// RecoveryOver says that the Instance of an interrupted Job did not come back in time.
type RecoveryOver struct {
	Known *RoundLoss // of a Part in a Round
}

// RoundLoss says what is settled of the Round in which a Part was lost.
type RoundLoss struct {
	Out    []int             // Nodes, by index, that drop out: they failed, or nobody knows whether an Item was done on them that must not be done twice
	OutAt  []int             // the Items at which they do, one beside each
	Failed bool              // the same of an Item that is done once per Runner
	Over   bool              // nothing of the Round is left to do
	Values map[string]string // what such an Item had passed on
}

// Began has a Runbook Job that was queued go on.
type Began struct{}

// RoundOpened opens a Round: of a Runbook Job, by its index, with those before it that were not opened skipped; and of a Part that
// takes part in it.
type RoundOpened struct {
	Round int
	Plan  *runbook.Plan // of a Runbook Job
	Skip  bool          // likewise: nobody has anything to do in it, so that it is over at once
}

// RoundFinished says that all Parts are through the open Round of a Runbook Job, and how: by their numbers. Without Results nobody took part, or
// the Server skipped a Round of its own.
type RoundFinished struct {
	Round   int
	Plan    *runbook.Plan
	Results map[int]PartResult
}

// ModuleSubmitted says which Job does the open Round of a Module.
type ModuleSubmitted struct {
	Round  int
	Step   int    // index of the module step
	Job    string // id
	Number int64  // of that job
}

// ModuleEnded says how that Job ended; without a Failure it succeeded, and its outputs are Values: "step.output".
type ModuleEnded struct {
	Round   int
	Plan    *runbook.Plan
	Failure *Failure
	Values  map[string]string
}

// SourcePinned notes which commit of the source of a Runbook Job all its Parts take.
type SourcePinned struct{ Commit string }

// RunStopped has a Runbook Job open no further Round, and fail.
type RunStopped struct{ Failure Failure }

// RunEnded ends a Runbook Job, all Parts of which are over.
type RunEnded struct{ Plan *runbook.Plan }

// Finished ends a Part that is not in a Round, because its Runbook Job needs it no more.
type Finished struct{}

// ApprovedBy lets a Job that awaits approval go on with the plan it has. PlanHash is the hash of the plan that was looked at.
// When the Job has another plan, the event is a fault.Conflict "plan_changed". A Job with a plan requires PlanHash.
type ApprovedBy struct{ By, Reason, PlanHash string }

// DeclinedBy ends a Job that awaits approval.
type DeclinedBy struct{ By, Reason string }

// ApprovalExpired ends a Job that awaited approval for too long.
type ApprovalExpired struct{}

// CancelRequested asks to end a Job.
type CancelRequested struct {
	Mode   CancelMode
	By     string
	Reason string
	// TimedOut reports that the time limit of the job is over.
	TimedOut bool
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
	onBegan           EventName = "began"
	onRoundOpened     EventName = "round opened"
	onRoundFinished   EventName = "round finished"
	onModuleSubmitted EventName = "module submitted"
	onModuleEnded     EventName = "module ended"
	onRunStopped      EventName = "stopped"
	onSourcePinned    EventName = "source pinned"
	onRunEnded        EventName = "all parts over"
	onFinished        EventName = "no round left"
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
func (Began) Name() EventName           { return onBegan }
func (RoundOpened) Name() EventName     { return onRoundOpened }
func (RoundFinished) Name() EventName   { return onRoundFinished }
func (ModuleSubmitted) Name() EventName { return onModuleSubmitted }
func (ModuleEnded) Name() EventName     { return onModuleEnded }
func (RunStopped) Name() EventName      { return onRunStopped }
func (SourcePinned) Name() EventName    { return onSourcePinned }
func (RunEnded) Name() EventName        { return onRunEnded }
func (Finished) Name() EventName        { return onFinished }

// ofRun, ofPart and ofBound list the events that only Runbook Jobs, only both they and their Parts, and all but Runbook Jobs know.
var (
	ofRun   = []EventName{onBegan, onRoundFinished, onModuleSubmitted, onModuleEnded, onSourcePinned, onRunStopped, onRunEnded}
	ofPart  = []EventName{onFinished}
	ofBound = []EventName{onClaimed, onStepStarted, onStepFinished, onRefused, onLeaseLost, onResumed, onRecoveryOver, onNoticed}
	ofAsked = []EventName{onApproved, onDeclined, onApprovalExpired} // not of Parts
)

// knows tells whether Jobs of this kind can meet an event at all.
func (j *Job) knows(e EventName) bool {
	switch {
	case slices.Contains(ofRun, e):
		return j.IsRun()
	case slices.Contains(ofPart, e):
		return j.IsPart()
	case slices.Contains(ofBound, e):
		return !j.IsRun()
	case slices.Contains(ofAsked, e):
		return !j.IsPart()
	case e == onRoundOpened:
		return j.IsRun() || j.IsPart()
	}
	return true
}

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

// OwnStep has the Server perform a Step itself; StepFinished ends it as any other. See StepKind.Own.
type OwnStep struct{ Attempt, Step int }

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

// Advance looks what is next about a Runbook Job: this one, or the one that this Part belongs to. See NextTurns.
type Advance struct{}

func (Advance) effect()    {}
func (Dispatch) effect()   {}
func (SendStep) effect()   {}
func (OwnStep) effect()    {}
func (SendCancel) effect() {}
func (Release) effect()    {}
func (Ended) effect()      {}
