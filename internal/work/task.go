package work

import (
	"time"

	"legwork/internal/catalog"
)

// The actions of Runner Jobs (RunnerJob): what is done to the processes of a Runner. Apply, Plan and their like are of Modules.
const (
	Deploy Action = "deploy" // makes what the launcher needs, and a first Instance
	Update Action = "update" // takes a hosted Runner, or one Instance of a self-hosted one, to another release
	Remove Action = "remove" // of a hosted Runner: drains it, and leaves nothing behind
	Launch Action = "launch" // starts further Instances of a hosted Runner
	Tidy   Action = "tidy"   // ends processes that nobody knows of
)

// The kinds of Steps of Runner Jobs.
const (
	StepCheck    StepKind = "check"    // whether the launcher may do what it will have to
	StepPrepare  StepKind = "prepare"  // what the Instances share: roles, log groups, task definitions
	StepLaunch   StepKind = "launch"   //
	StepOnline   StepKind = "online"   // the Server's own: the Instances are connected
	StepRoll     StepKind = "roll"     // the Server's own: every Instance of an older release gave way to a new one
	StepDrain    StepKind = "drain"    // the Server's own: no Job of the Runner is under way
	StepTeardown StepKind = "teardown" //
	StepTidy     StepKind = "tidy"     //
	StepInstall  StepKind = "install"  // at the Instance itself: it goes on as another release, or as it was
)

// Own tells whether the Server itself performs a Step: the Instance that the Job is bound to is not told of it, and waits. No Job begins
// with such a Step, because its first one is what has the Instance know the Job.
func (k StepKind) Own() bool { return k == StepOnline || k == StepRoll || k == StepDrain }

// ByLauncher tells whether a launcher performs a Step, on the host of the Instance that the Job is bound to.
func (k StepKind) ByLauncher() bool {
	switch k {
	case StepCheck, StepPrepare, StepLaunch, StepTeardown, StepTidy:
		return true
	}
	return false
}

// StepsOfRunner gives the Steps of a Runner Job, all pending. hosted tells an update of a hosted Runner from one of a self-hosted one.
// None of them is a changing Step: each can be done again from the first, and finishes what the one before began.
func StepsOfRunner(action Action, hosted bool) []Step {
	var kinds []StepKind
	switch {
	case action == Deploy:
		kinds = []StepKind{StepCheck, StepPrepare, StepLaunch, StepOnline}
	case action == Launch:
		kinds = []StepKind{StepLaunch, StepOnline}
	case action == Update && hosted:
		kinds = []StepKind{StepCheck, StepPrepare, StepRoll}
	case action == Update:
		kinds = []StepKind{StepInstall}
	case action == Remove:
		kinds = []StepKind{StepCheck, StepDrain, StepTeardown}
	case action == Tidy:
		kinds = []StepKind{StepTidy}
	}
	steps := make([]Step, len(kinds))
	for i, k := range kinds {
		steps[i] = Step{Kind: k, Status: StepPending}
	}
	return steps
}

// RunnerTask is what an Instance needs to perform a Runner Job.
type RunnerTask struct {
	OrganizationID string `cbor:"1,keyasint" json:"organization_id"`
	RunnerID       string `cbor:"2,keyasint" json:"runner_id"`
	Runner         string `cbor:"3,keyasint" json:"runner"`                      // its name
	Owner          string `cbor:"4,keyasint" json:"owner"`                       // of all that is launched: this installation. It stands in every tag
	ServerURL      string `cbor:"5,keyasint" json:"server_url"`                  // that the processes connect to
	Version        string `cbor:"6,keyasint,omitempty" json:"version,omitempty"` // to launch; empty: that of the program which launches
	// Hosting with every default filled in; nil for an update of a self-hosted Runner.
	Hosting  *catalog.Hosting           `cbor:"7,keyasint,omitempty" json:"hosting,omitempty"`
	Identity *catalog.CloudIdentitySpec `cbor:"8,keyasint,omitempty" json:"identity,omitempty"`
	Units    []Unit                     `cbor:"9,keyasint,omitempty" json:"units,omitempty"`    // to launch; in a tidy, to stop
	Known    []string                   `cbor:"10,keyasint,omitempty" json:"known,omitempty"`   // of a tidy: the Units that are no orphans, by name
	Release  *ReleaseRef                `cbor:"11,keyasint,omitempty" json:"release,omitempty"` // to install, or to launch where the launcher starts programs
	// Asked is when a tidy was asked for, by the Server's clock. It ends no orphan that was entered in the ledger later: one that hangs
	// beyond its Lease may wake when others have launched. Zero, of an older Server: it ends all.
	Asked time.Time `cbor:"12,keyasint,omitempty" json:"asked,omitzero"`
	// Lost are, in a tidy, the Units whose Instances have a Job and no Session. A launcher whose processes work in
	// folders that outlive them starts the ended ones again, so that they report the results of their supervisors.
	Lost []Unit `cbor:"13,keyasint,omitempty" json:"lost,omitempty"`
}

// Unit is one process that a launcher starts: an Instance to be.
type Unit struct {
	Name string `cbor:"1,keyasint" json:"name"` // of the Instance, unique within its Runner for ever
	// Token is what the process registers itself with, once. It goes into its environment alone.
	Token   string    `cbor:"2,keyasint,omitempty" json:"-"`
	Expires time.Time `cbor:"3,keyasint,omitempty" json:"expires,omitzero"` // of Token
}

// MaxUnits bounds the processes that a launcher reports: those of a hosted runner, and orphans.
const MaxUnits = 10_000

// UnitReport is what a launcher says of one process.
type UnitReport struct {
	Name  string    `cbor:"1,keyasint" json:"name"`
	ID    string    `cbor:"2,keyasint,omitempty" json:"id,omitempty"` // what the launcher calls it: a process id, a container, the ARN of a task
	State UnitState `cbor:"3,keyasint" json:"state"`
	Note  string    `cbor:"4,keyasint,omitempty" json:"note,omitempty"` // a sentence: why it stopped or does not start
}

// UnitState is where a process is, as its launcher sees it.
type UnitState string

// The states of processes.
const (
	UnitStarting UnitState = "starting"
	UnitRunning  UnitState = "running"
	UnitStopped  UnitState = "stopped"
)

// ReleaseRef is a release of this program, as an Instance gets it.
type ReleaseRef struct {
	Version   string `cbor:"1,keyasint" json:"version"`
	Manifest  []byte `cbor:"2,keyasint" json:"manifest"`  // the bytes that are signed; see package release
	Signature []byte `cbor:"3,keyasint" json:"signature"` // minisign
	Path      string `cbor:"4,keyasint" json:"path"`      // at the Server, below its URL, of the assets: the name of the asset follows
}
