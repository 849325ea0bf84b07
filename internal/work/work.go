// Package work is the heart of the Server's decisions: Jobs, Steps, Bindings and Leases, the state
// machine that moves them (Next), and who is eligible to take a Job (Eligible, Select).
//
// Everything here is pure: no input or output, no clock. The time comes in as an argument and what
// shall happen goes out as Effects, which the Server carries out after its commit.
package work

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/node"
)

// Kind tells what a Job is a run of.
type Kind string

// The kinds of Jobs.
const (
	ModuleJob    Kind = "module"    //
	RunbookJob   Kind = "runbook"   // its work is done by Parts
	CommandJob   Kind = "command"   // a Runbook that was never declared: one command on Nodes
	PartJob      Kind = "part"      // what one Runner does of a Runbook Job; it bears the number of that
	DiscoveryJob Kind = "discovery" // asks a Node source
	SecretsJob   Kind = "secrets"   // lists where Secrets can be had
	RunnerJob    Kind = "runner"    // starts, updates or ends processes of a Runner; see task.go
)

// Action tells what a Module Job does.
type Action string

// The actions of Module Jobs.
const (
	Plan    Action = "plan"    // shows what apply would do; never changes anything
	Apply   Action = "apply"   //
	Destroy Action = "destroy" //
	Run     Action = "run"     // of script engines
)

// Priority tells which of two waiting Jobs goes first; see Rank.
type Priority string

// The priorities, rising. The empty one is PriorityNormal.
const (
	PriorityLow    Priority = "low"
	PriorityNormal Priority = "normal"
	PriorityHigh   Priority = "high"
)

// Status is the state of a Job.
type Status string

// The states of a Job. See the table in machine.go for the ways between them.
const (
	Queued           Status = "queued"
	Claimed          Status = "claimed"
	Running          Status = "running"
	Waiting          Status = "waiting" // a Part between two Rounds: bound, but it takes no place and has no Lease
	AwaitingApproval Status = "awaiting_approval"
	Canceling        Status = "canceling"
	Interrupted      Status = "interrupted"
	Succeeded        Status = "succeeded"
	Failed           Status = "failed"
	Canceled         Status = "canceled"
	Superseded       Status = "superseded" // a newer Job stands in its place
	Declined         Status = "declined"
	Expired          Status = "expired"
)

// Statuses lists every state, in the order in which a Job may meet them.
var Statuses = []Status{Queued, Claimed, Running, Waiting, AwaitingApproval, Canceling, Interrupted,
	Succeeded, Failed, Canceled, Superseded, Declined, Expired}

// Terminal tells whether a Job in this state is over for good.
func (s Status) Terminal() bool {
	switch s {
	case Succeeded, Failed, Canceled, Superseded, Declined, Expired:
		return true
	}
	return false
}

// Bound tells whether a Job in this state has a Binding to an Instance; a Runbook Job, which never has one, is under way in it.
func (s Status) Bound() bool {
	switch s {
	case Claimed, Running, Waiting, AwaitingApproval, Canceling, Interrupted:
		return true
	}
	return false
}

// StepKind names what a Step does.
type StepKind string

// The kinds of Steps of Module Jobs.
const (
	StepFetch       StepKind = "fetch"
	StepInit        StepKind = "init"
	StepValidate    StepKind = "validate"
	StepPlan        StepKind = "plan"
	StepPlanDestroy StepKind = "plan_destroy"
	StepApply       StepKind = "apply"
	StepDestroy     StepKind = "destroy"
	StepOutput      StepKind = "output"
	StepRun         StepKind = "run"
)

// The kinds of Steps of the other Jobs. Those of a Runbook Job are its Items, named as those are.
const (
	StepRound       StepKind = "round"        // of a Part
	StepDiscover    StepKind = "discover"     //
	StepListSecrets StepKind = "list_secrets" //
)

// SetsUp reports whether a step only prepares an instance for the steps after it, so that every attempt needs it.
func (k StepKind) SetsUp() bool { return k == StepFetch || k == StepInit }

// StepStatus is the state of a Step.
type StepStatus string

// The states of a Step.
const (
	StepPending   StepStatus = "pending"
	StepSent      StepStatus = "sent" // the Instance was told to run it
	StepRunning   StepStatus = "running"
	StepSucceeded StepStatus = "succeeded"
	StepFailed    StepStatus = "failed"
	StepCanceled  StepStatus = "canceled"
	StepSkipped   StepStatus = "skipped"
	StepUnknown   StepStatus = "unknown" // its instance was lost: it may have run to its end
)

// Done tells whether a Step in this state is over.
func (s StepStatus) Done() bool {
	return s == StepSucceeded || s == StepFailed || s == StepCanceled || s == StepSkipped || s == StepUnknown
}

// Step is one part of a Job, executed by the bound Instance. The Steps of a Job are reset when a new
// Attempt begins; what an earlier Attempt did stands in its Loss and in its log.
type Step struct {
	Kind       StepKind     `json:"kind"`
	Changing   bool         `json:"changing,omitempty"` // may have changed something outside once it began
	Approval   bool         `json:"approval,omitempty"` // the Job waits for approval before this Step
	Status     StepStatus   `json:"status"`
	StartedAt  time.Time    `json:"started_at,omitzero"`
	FinishedAt time.Time    `json:"finished_at,omitzero"`
	ExitCode   int          `json:"exit_code,omitempty"`
	Failure    *Failure     `json:"failure,omitempty"`
	Plan       *PlanSummary `json:"plan,omitempty"`
	Name       string       `json:"name,omitempty"`  // of the Item, in a Runbook Job
	Round      int          `json:"round,omitempty"` // in a Part: its index in the Plan
	Result     *RoundResult `json:"result,omitempty"`
	State      *StateReport `json:"state,omitempty"`    // of init: where the module keeps its state
	Warnings   []string     `json:"warnings,omitempty"` // sentences about what the step did not fail for
	Message    string       `json:"message,omitempty"`  // of an approval step of a runbook, set when the approval is requested
	Job        int64        `json:"job,omitempty"`      // of a module step of a runbook: the number of the module's job
}

// PlanSummary counts what a plan would do.
type PlanSummary struct {
	Add     int    `json:"add"`
	Change  int    `json:"change"`
	Destroy int    `json:"destroy"`
	Outputs int    `json:"outputs"` // outputs that would change
	Hash    string `json:"hash"`    // SHA-256 of the plan file, in hex
	// Digest is a SHA-256, in hex, of what the plan would do: equal for two plans with the same changes,
	// even when they were made at different times. An approval holds for a later plan with the same Digest.
	Digest string `json:"digest"`
}

// Empty tells whether the plan would do nothing.
func (p PlanSummary) Empty() bool { return p.Add+p.Change+p.Destroy+p.Outputs == 0 }

// RunnerStopped is the code of the Failure of a Step that was ended because whoever runs the Runner's process stopped it.
const RunnerStopped = "runner_stopped"

// Failure says why a Step or a Job did not succeed: a stable code, a sentence and what to do.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Excerpt quotes the log where it explains the failure.
	Excerpt *Excerpt `json:"excerpt,omitempty"`
}

// WithoutExcerpt returns the failure without what it quotes of the log. f may be nil.
func (f *Failure) WithoutExcerpt() *Failure {
	if f == nil || f.Excerpt == nil {
		return f
	}
	short := *f
	short.Excerpt = nil
	return &short
}

// Excerpt quotes the lines of a log that explain a failure: the first error of the engine, or the last lines. They are
// masked like the log.
type Excerpt struct {
	Summary  string   `json:"summary,omitempty" doc:"First error of the engine. Empty when lines are the last of the log."`
	Location string   `json:"location,omitempty" doc:"File and line that the error names, for example main.tf line 10."`
	Lines    []string `json:"lines" nullable:"false" doc:"Quoted lines, without colors."`
	Shard    int      `json:"shard,omitempty" doc:"Part of the runbook job that printed them, from 1."`
	Attempt  int      `json:"attempt" doc:"Attempt of the log lines."`
	Step     int      `json:"step" doc:"Index of the step of the log lines."`
	Seq      uint64   `json:"seq" doc:"Number of the first quoted line within attempt and step."`
}

// Binding says which Instance executes all Steps of a Job at a Runner.
type Binding struct {
	RunnerID   string    `json:"runner_id"`
	Runner     string    `json:"runner"`      // its name
	InstanceID string    `json:"instance_id"` //
	Instance   string    `json:"instance"`    // its name
	OfferedAt  time.Time `json:"offered_at,omitzero"`
	ClaimedAt  time.Time `json:"claimed_at"`
	// Fingerprint is that of the key with which the Instance claimed the Job; see Job.HeldBy.
	Fingerprint string `json:"instance_fingerprint,omitempty"`
}

// Loss tells of one Attempt that ended without a result.
type Loss struct {
	Attempt  int       `json:"attempt"`
	Runner   string    `json:"runner"`
	Instance string    `json:"instance"`
	Step     StepKind  `json:"step,omitempty"` // the Step that was under way, empty when none
	Changing bool      `json:"changing,omitempty"`
	Reason   string    `json:"reason"` // a sentence
	At       time.Time `json:"at"`
	// Fingerprint is that of the Binding.
	Fingerprint string `json:"instance_fingerprint,omitempty"`
}

// Resumable is an attempt that was given up because nothing was heard of its instance. Until another attempt begins, the instance
// may return and go on with it, or report how it ended.
type Resumable struct {
	Binding  Binding   `json:"binding"`
	Steps    []Step    `json:"steps"` // as they were when the attempt was given up
	QueuedAt time.Time `json:"queued_at"`
}

// CancelMode tells how a Job is to be ended.
type CancelMode string

// The modes of cancel, rising in force.
const (
	AfterCurrent CancelMode = "after-current" // the Step under way ends by itself; no further one begins
	Graceful     CancelMode = "graceful"      // SIGINT, then SIGTERM, then SIGKILL after the grace times
	Kill         CancelMode = "kill"          // SIGKILL at once
)

// CancelModes lists the modes, rising in force.
var CancelModes = []CancelMode{AfterCurrent, Graceful, Kill}

// stronger tells whether m ends a Job harder than other.
func (m CancelMode) stronger(other CancelMode) bool {
	return slices.Index(CancelModes, m) > slices.Index(CancelModes, other)
}

// Cancel is a request to end a Job.
type Cancel struct {
	Mode   CancelMode `json:"mode"`
	By     string     `json:"by"`
	Reason string     `json:"reason,omitempty"`
	At     time.Time  `json:"at"`
	// TimedOut reports that the time limit of the job ended it. It fails then.
	TimedOut bool `json:"timed_out,omitempty"`
}

// Approval is the decision on a plan.
type Approval struct {
	PlanHash string    `json:"plan_hash"`
	Digest   string    `json:"digest"` // of the plan that was approved
	By       string    `json:"by"`
	Reason   string    `json:"reason,omitempty"`
	At       time.Time `json:"at"`
}

// WaitCode is the stable code of the reason why a queued Job waits.
type WaitCode string

// The reasons why a queued Job waits.
const (
	WaitNone           WaitCode = ""
	WaitDispatch       WaitCode = "dispatching"
	WaitNoAssignment   WaitCode = "no_assignment"
	WaitRunnerDisabled WaitCode = "runner_disabled"
	WaitNoInstance     WaitCode = "no_instance_online"
	WaitPinnedOffline  WaitCode = "pinned_instance_offline"
	WaitBusy           WaitCode = "all_instances_busy"
	WaitRunnerFull     WaitCode = "runner_full" // of its max_parallel_jobs
	WaitDraining       WaitCode = "draining"
	WaitEngineMissing  WaitCode = "engine_missing"
	WaitModuleBusy     WaitCode = "module_busy"
	WaitForModule      WaitCode = "waiting_for_module"
	WaitMaintenance    WaitCode = "maintenance"
	WaitOnHold         WaitCode = "on_hold"
	WaitRefused        WaitCode = "refused_by_instance"
	WaitRunbookBusy    WaitCode = "runbook_busy" // another Job of the Runbook is under way
	WaitRound          WaitCode = "waiting_for_round"
	WaitStarting       WaitCode = "starting_instance"          // of a hosted Runner
	WaitStateInstance  WaitCode = "state_instance_unavailable" // which holds the local state of the module
	WaitInstanceAway   WaitCode = "instance_away"              // of an interrupted job
	WaitUnavailable    WaitCode = "instance_unavailable"       // it takes no new jobs for now
)

// Wait is why a queued Job waits: a code for programs and a sentence for people.
type Wait struct {
	Code WaitCode `json:"code"`
	Text string   `json:"text"`
	Hint string   `json:"hint,omitempty"` // what a person can do
}

// WaitForOutput is the Wait of a Job that takes an output of a Module, by its path, which is about to make it.
func WaitForOutput(path string) Wait {
	return Wait{Code: WaitForModule, Text: "waiting for an output of " + path}
}

// Limits are the bounds of one Job, with every default filled in.
type Limits struct {
	MaxAttempts    int           `json:"max_attempts"`
	Lease          time.Duration `json:"lease"`           // how long a Binding holds without a sign of life
	RecoveryWindow time.Duration `json:"recovery_window"` // how long a lost changing Step may come back; 0 = not at all
	ApprovalWindow time.Duration `json:"approval_window"` // how long an approval is waited for; 0 = for ever
	StepTimeout    time.Duration `json:"step_timeout"`    // of one Step; 0 = none
	StallTimeout   time.Duration `json:"stall_timeout"`   // of silence in one Step; 0 = none
	// JobTimeout limits the whole job, from the start of its first step to its end. 0 is none.
	JobTimeout time.Duration `json:"job_timeout,omitempty"`
}

// The defaults of Limits.
const (
	DefaultMaxAttempts    = 5
	DefaultLease          = 60 * time.Second
	DefaultRecoveryWindow = 10 * time.Minute
	DefaultStallTimeout   = 30 * time.Minute
	HeartbeatPeriod       = 15 * time.Second
)

// Job is one run of a Module or a Runbook, or a task of a Runner. It is the truth of what happened to it so far; only Next changes it.
type Job struct {
	ID             string `json:"id"`
	OrganizationID string `json:"organization_id"`
	Number         int64  `json:"number"`              // rising within the Organization; a person writes #42
	ParentID       string `json:"parent_id,omitempty"` // of a Part: the Runbook Job
	Part           int    `json:"part,omitempty"`      // its number there, from 1
	RunbookID      string `json:"runbook_id,omitempty"`
	Runbook        string `json:"runbook,omitempty"` // stack/name at the time the Job was created; of a Node source likewise
	StepOf         string `json:"step_of,omitempty"` // the Runbook Job that waits for this one, which is a step of it
	// Lane is what only one Job at a time may hold, where that is neither its Module nor the Job itself; see LaneID.
	Lane      string   `json:"lane,omitempty"`
	Kind      Kind     `json:"kind"`
	Action    Action   `json:"action"`
	ModuleID  string   `json:"module_id"`
	Module    string   `json:"module"` // stack/namespace/module at the time the Job was created
	StackID   string   `json:"stack_id"`
	CreatedBy string   `json:"created_by"`
	Priority  Priority `json:"priority,omitempty"`
	// Triggered reports that the job was queued because an output that its module takes changed. It waits for outputs
	// that are missing.
	Triggered bool   `json:"triggered,omitempty"`
	Cause     string `json:"cause,omitempty"` // why it was created, when not by a person: "output of prod/network/base changed"

	Status  Status   `json:"status"`
	Wait    Wait     `json:"wait,omitzero"`    // while queued or interrupted
	Notice  string   `json:"notice,omitempty"` // what keeps a Job under way from going on, a sentence
	Attempt int      `json:"attempt"`          // times the Job was bound; the fencing token
	Steps   []Step   `json:"steps"`
	Binding *Binding `json:"binding,omitempty"` // the present or last one
	Losses  []Loss   `json:"losses,omitempty"`
	// Resumable is set while the job is queued again and the instance of its last attempt may still bring that attempt back.
	Resumable *Resumable `json:"resumable,omitempty"`
	// Restored: interrupted because the database was restored, without a deadline. See Restored in restored.go.
	Restored bool `json:"restored,omitempty"`

	Cancel *Cancel   `json:"cancel,omitempty"`
	Limits Limits    `json:"limits"`
	Run    *RunState `json:"run,omitempty"`    // how far a Runbook Job is
	Rounds int       `json:"rounds,omitempty"` // of a Part: those with a lower index were opened

	Commit   string    `json:"commit,omitempty"` // set by the first fetch, the same for every later Attempt
	Approval *Approval `json:"approval,omitempty"`
	Failure  *Failure  `json:"failure,omitempty"`

	// InterruptedReason says, while the Job is interrupted, why nobody knows what its Instance does.
	InterruptedReason string `json:"interrupted_reason,omitempty"`
	// InterruptedAt is when that began.
	InterruptedAt time.Time `json:"interrupted_at,omitzero"`

	LeaseUntil   time.Time `json:"lease_until,omitzero"`   // while claimed, running or canceling
	RecoverUntil time.Time `json:"recover_until,omitzero"` // while interrupted
	ApproveUntil time.Time `json:"approve_until,omitzero"` // while awaiting approval, if bounded
	CreatedAt    time.Time `json:"created_at"`
	QueuedAt     time.Time `json:"queued_at"` // of the present Attempt
	StartedAt    time.Time `json:"started_at,omitzero"`
	FinishedAt   time.Time `json:"finished_at,omitzero"`
}

// IsRun tells whether the Job's work is done by Parts: it is never bound to an Instance itself.
func (j *Job) IsRun() bool { return j.Kind == RunbookJob || j.Kind == CommandJob }

// Deadline returns when the time limit of the job ends it. It is zero while the job has not started, once it is over or
// is canceled, and for a job without a limit. The parts of a runbook job end with it.
func (j *Job) Deadline() time.Time {
	if j.Limits.JobTimeout <= 0 || j.StartedAt.IsZero() || j.IsPart() || j.Cancel != nil || j.Status.Terminal() {
		return time.Time{}
	}
	return j.StartedAt.Add(j.Limits.JobTimeout)
}

// timeoutFailure returns why a job failed that its time limit ended.
func (j *Job) timeoutFailure() *Failure {
	return &Failure{Code: "job_timeout", Message: fmt.Sprintf("took longer than its time limit of %s and was ended", j.Limits.JobTimeout),
		Hint: "raise `timeout` of the module or the runbook, or see in the log what it waited for"}
}

// IsPart tells whether the Job is what one Runner does of a Runbook Job.
func (j *Job) IsPart() bool { return j.Kind == PartJob }

// LaneID names what only one Job at a time may hold: the Module of a Module Job, else Lane, else the Job itself.
func (j *Job) LaneID() string {
	if j.Lane == "" && j.ModuleID != "" {
		return j.ModuleID
	}
	return cmp.Or(j.Lane, j.ID)
}

// Offerable tells whether an Instance may be asked to take the Job: it waits, and for nothing but that.
func (j *Job) Offerable() bool {
	return j.Status == Queued && !j.IsRun() && (!j.IsPart() || j.isOpen(j.Current()))
}

// isOpen tells whether the Round of a Part's Step was opened.
func (j *Job) isOpen(step int) bool { return step < len(j.Steps) && j.Steps[step].Round < j.Rounds }

// Current gives the index of the first Step that is not over, or len(Steps) when all are.
func (j *Job) Current() int { return CurrentStep(j.Steps) }

// CurrentStep returns the index of the first step that is not over, or len(steps) when all are.
func CurrentStep(steps []Step) int {
	for i := range steps {
		if !steps[i].Status.Done() {
			return i
		}
	}
	return len(steps)
}

// Plan gives the summary of the present Attempt's plan, nil when there is none.
func (j *Job) Plan() *PlanSummary {
	for i := range j.Steps {
		if j.Steps[i].Plan != nil {
			return j.Steps[i].Plan
		}
	}
	return nil
}

// Warnings returns what the steps of the present attempt warned about.
func (j *Job) Warnings() (all []string) {
	for i := range j.Steps {
		all = append(all, j.Steps[i].Warnings...)
	}
	return all
}

// HoldsSlot tells whether the Job takes a place of its Instance's capacity. Runner Jobs take none: they are what makes places, and wait for
// the Server's own Steps besides.
func (j *Job) HoldsSlot() bool { return j.HasLease() && j.Kind != RunnerJob }

// HasLease tells whether the Job is lost when nothing is heard of its Instance.
func (j *Job) HasLease() bool {
	return !j.IsRun() && (j.Status == Claimed || j.Status == Running || j.Status == Canceling)
}

// NeedsApproval tells whether a Job with this action waits for approval before it changes anything.
func NeedsApproval(a catalog.Approval, action Action) bool {
	return a == catalog.ApproveAlways || (a == catalog.ApproveOnDestroy && action == Destroy)
}

// StepsOf gives the Steps of a Module Job, all pending. approval asks for a decision before the
// changing Step, and before a script's run in any case; repeatable makes a script's run no changing Step.
func StepsOf(engine catalog.Engine, action Action, approval, repeatable bool) []Step {
	var kinds []StepKind
	switch {
	case engine == catalog.Script:
		kinds = []StepKind{StepFetch, StepRun}
	case action == Plan:
		kinds = []StepKind{StepFetch, StepInit, StepValidate, StepPlan}
	case action == Apply:
		kinds = []StepKind{StepFetch, StepInit, StepValidate, StepPlan, StepApply, StepOutput}
	case action == Destroy:
		kinds = []StepKind{StepFetch, StepInit, StepPlanDestroy, StepDestroy}
	}
	steps := make([]Step, len(kinds))
	for i, k := range kinds {
		changing := k == StepApply || k == StepDestroy || (k == StepRun && !repeatable)
		steps[i] = Step{Kind: k, Status: StepPending, Changing: changing, Approval: (changing || k == StepRun) && approval}
	}
	return steps
}

// Actions gives the actions that an engine knows.
func Actions(engine catalog.Engine) []Action {
	if engine == catalog.Script {
		return []Action{Run}
	}
	return []Action{Plan, Apply, Destroy}
}

// Spec is what an Instance needs to execute a Job. The values of its Inputs are resolved for each Binding and hold for all of
// its Attempt, because a plan can be applied with those alone that it was made with. Until the Attempt ends the Server keeps
// them, sealed.
type Spec struct {
	Module      string              `cbor:"1,keyasint"` // stack/namespace/module
	ModuleID    string              `cbor:"2,keyasint"`
	Engine      catalog.Engine      `cbor:"3,keyasint"`
	Action      Action              `cbor:"4,keyasint"`
	Source      catalog.Source      `cbor:"5,keyasint"`
	Commit      string              `cbor:"6,keyasint,omitempty"` // pinned by an earlier Attempt
	Script      *catalog.ScriptSpec `cbor:"7,keyasint,omitempty"`
	Inputs      []InputValue        `cbor:"8,keyasint,omitempty"`
	ExtraFiles  []catalog.ExtraFile `cbor:"9,keyasint,omitempty"`
	Hooks       []catalog.Hook      `cbor:"10,keyasint,omitempty"`
	Steps       []StepKind          `cbor:"11,keyasint"`
	Changing    []bool              `cbor:"12,keyasint"` // beside Steps
	StepTimeout time.Duration       `cbor:"13,keyasint,omitempty"`
	Stall       time.Duration       `cbor:"14,keyasint,omitempty"`
	Number      int64               `cbor:"15,keyasint"`
	StackName   string              `cbor:"16,keyasint"`
	Namespace   string              `cbor:"17,keyasint"`
	Name        string              `cbor:"18,keyasint"` // the Module's own name
	// PlanHash is the hash of the approved plan; the Instance refuses to apply another. Empty without approval.
	PlanHash string   `cbor:"19,keyasint,omitempty"`
	Run      *RunSpec `cbor:"20,keyasint,omitempty"` // of a Part
	// NodeSource is what a discovery Job asks.
	NodeSource *catalog.NodeSourceSpec `cbor:"21,keyasint,omitempty"`
	// Where is the place, written as a reference, in which a Job of kind secrets lists what Secrets can be had.
	Where string `cbor:"22,keyasint,omitempty"`
	// Task is what a Runner Job does.
	Task *RunnerTask `cbor:"23,keyasint,omitempty"`
	// State is what the Server knows of the state of a module, which init compares with what is on the instance.
	State *StateExpectation `cbor:"24,keyasint,omitempty"`
	// KeepPlan bounds, in bytes, the plan file that the Instance sends with the result of its plan; 0: it sends none.
	KeepPlan int `cbor:"25,keyasint,omitempty"`
	// Plan is the approved plan of an earlier Attempt, which an Instance takes instead of a new one where it fits.
	Plan *SavedPlan `cbor:"26,keyasint,omitempty"`
}

// SavedPlan is a plan file with its origin. It contains secrets.
type SavedPlan struct {
	File   []byte `cbor:"1,keyasint"`
	Lock   string `cbor:"2,keyasint,omitempty"` // digest of the selected providers
	Commit string `cbor:"3,keyasint,omitempty"` // of the source
}

// InputValue is one resolved Input.
type InputValue struct {
	Name      string            `cbor:"1,keyasint"`
	Kind      catalog.InputKind `cbor:"2,keyasint"`
	Value     []byte            `cbor:"3,keyasint"` // JSON
	Sensitive bool              `cbor:"4,keyasint,omitempty"`
	// Reference says that Value is the text of a reference, such as ${vault:...}, in whose place the Instance puts what stands behind it, on its own host.
	Reference bool `cbor:"5,keyasint,omitempty"`
}

// StepResult is what an Instance reports of a finished Step.
type StepResult struct {
	Status     StepStatus                     `cbor:"1,keyasint"` // succeeded, failed, canceled or skipped
	ExitCode   int                            `cbor:"2,keyasint,omitempty"`
	Failure    *Failure                       `cbor:"3,keyasint,omitempty"`
	StartedAt  time.Time                      `cbor:"4,keyasint"`
	FinishedAt time.Time                      `cbor:"5,keyasint"`
	Commit     string                         `cbor:"6,keyasint,omitempty"` // of fetch
	Plan       *PlanSummary                   `cbor:"7,keyasint,omitempty"` // of plan and plan_destroy
	Changes    []byte                         `cbor:"8,keyasint,omitempty"` // of plan: JSON of []ResourceChange, redacted
	Outputs    map[string]catalog.OutputValue `cbor:"9,keyasint,omitempty"` // of output
	HasOutputs bool                           `cbor:"10,keyasint,omitempty"`
	Round      *RoundResult                   `cbor:"11,keyasint,omitempty"` // of a Part's Step
	Nodes      []node.Node                    `cbor:"12,keyasint,omitempty"` // of discover
	Paths      []string                       `cbor:"13,keyasint,omitempty"` // of list_secrets: where Secrets are, never their values
	Units      []UnitReport                   `cbor:"14,keyasint,omitempty"` // of launch, teardown and tidy: every process it knows of
	State      *StateReport                   `cbor:"15,keyasint,omitempty"` // of init, apply and destroy
	Warnings   []string                       `cbor:"16,keyasint,omitempty"` // sentences about what the step did not fail for
	// SavedPlan is of a plan that may wait for approval. It stays out of the journal, because it holds secrets.
	SavedPlan *SavedPlan `cbor:"17,keyasint,omitempty" json:"-"`
}

// ResourceChange is one resource in a plan. Before and After are JSON values in which everything
// sensitive was replaced before it left the host.
type ResourceChange struct {
	Address string   `json:"address"`
	Type    string   `json:"type"`
	Actions []string `json:"actions"` // create, update, delete, read, no-op
	Before  any      `json:"before,omitempty"`
	After   any      `json:"after,omitempty"`
}

// UnmarshalJSON keeps the digits of numbers: Before and After hold json.Number in place of float64.
func (c *ResourceChange) UnmarshalJSON(data []byte) error {
	type plain ResourceChange
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return decoder.Decode((*plain)(c))
}
