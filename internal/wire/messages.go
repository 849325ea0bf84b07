package wire

import (
	"time"

	"legwork/internal/work"
)

// Capability is the version of what the two ends say to one another. A Server speaks this one and the
// one before (OldestCapability) and closes a Session of any other with CloseCapability.
//
// History:
//
//	1  2026-11  Jobs of Modules: hello, offers, steps, logs, cancel, drain.
//	2  2026-11  Parts of Runbook Jobs: Spec.Run, RunStep.Round, LogBatch.Nodes, records of the stream Progress.
//	3  2026-11  Runner Jobs: Spec.Task, Drain.Leave, Hello.Updates.
//	4  2026-11  State of modules: Spec.State, StepResult.State, StepResult.Warnings.
//	           RunnerTask.Lost: a cleanup restarts processes in their folders, and reports none as stopped that still works.
//	           Spec.KeepPlan, Spec.Plan, StepResult.SavedPlan: an approved plan goes to another Instance.
//	           Failure.Excerpt, RoundResult.Excerpt: the lines of the log that explain a failure.
//	           A hello has at most MaxHello bytes.
//	           Heartbeat.Unavailable: why an instance takes no new job for now.
//	           RunbookStep.Copy: files for nodes. An older runner refuses the step.
//	           RunbookStep.Fetch: files of nodes. An older runner refuses the step.
//	           Item.Handlers: error handlers of references. An older runner ignores them.
const (
	Capability       = 4
	OldestCapability = 3
)

// ReportsLost is the capability since which the report of a cleanup about a lost Instance can be relied on: nothing
// of a process that it reports as stopped works any more.
const ReportsLost = 4

// Message is one of the messages below. On the wire it is a type byte and the CBOR of the struct;
// a frame holds one message or several, one behind the other. Fields are keyed by small
// integers; unknown ones are ignored, and so are messages of an unknown type.
type Message interface{ kind() byte }

// The type bytes. They are never given to another message.
const (
	kindHello        byte = 1
	kindHeartbeat    byte = 2
	kindAccept       byte = 3
	kindRefuse       byte = 4
	kindStepStarted  byte = 5
	kindStepFinished byte = 6
	kindLogBatch     byte = 7
	kindDraining     byte = 8
	kindWelcome      byte = 64
	kindOffer        byte = 65
	kindWithdrawn    byte = 66
	kindRunStep      byte = 67
	kindCancel       byte = 68
	kindLogAck       byte = 69
	kindDrain        byte = 70
	kindConfigure    byte = 71
	kindDrop         byte = 72
	kindStepAck      byte = 73
	kindNotice       byte = 74
	kindDrainAck     byte = 75
	kindGoodbye      byte = 127 // either way
)

// Ref names one Attempt of a Job.
type Ref struct {
	Job     string `cbor:"1,keyasint"`
	Attempt int    `cbor:"2,keyasint"`
}

// Hello is the first message of a Runner: who this Instance is, what it can do, and which Jobs lie
// in its journal.
type Hello struct {
	Capability int               `cbor:"1,keyasint"`
	Version    string            `cbor:"2,keyasint"` // of the program, for people
	Instance   string            `cbor:"3,keyasint"`
	Key        string            `cbor:"4,keyasint"` // random, kept in the working directory under its lock: whoever has it is this Instance
	OS         string            `cbor:"5,keyasint"`
	Arch       string            `cbor:"6,keyasint"`
	Engines    map[string]string `cbor:"7,keyasint"` // catalog.Engine -> version found
	Labels     map[string]string `cbor:"8,keyasint,omitempty"`
	Capacity   int               `cbor:"9,keyasint"`
	Draining   bool              `cbor:"10,keyasint,omitempty"`
	Journal    []Held            `cbor:"11,keyasint,omitempty"`
	Updates    string            `cbor:"12,keyasint,omitempty"` // release.Consent of the host's owner; empty: this program cannot be replaced there
}

// Held is one Attempt in a Runner's journal.
type Held struct {
	Ref
	Step    int  `cbor:"3,keyasint"`           // index of the last Step that was begun; -1 when none
	Running bool `cbor:"4,keyasint,omitempty"` // that Step is not over
}

// Heartbeat says that the Instance lives and what it works on. It renews the Leases of the Jobs it names.
type Heartbeat struct {
	Working  []Ref     `cbor:"1,keyasint,omitempty"`
	Draining bool      `cbor:"2,keyasint,omitempty"`
	Blocked  []Blocked `cbor:"3,keyasint,omitempty"` // of Working
	Version  string    `cbor:"4,keyasint,omitempty"` // of the program
	Active   int       `cbor:"5,keyasint,omitempty"` // places taken: Jobs under way and accepted Offers
	Capacity int       `cbor:"6,keyasint,omitempty"` // places in all
	// Unavailable is why the instance takes no new job for now, a clause such as "the disk of its working directory has less than
	// 256 MiB free". The instance also refuses offers, because a server of an earlier version ignores this field.
	Unavailable string `cbor:"7,keyasint,omitempty"`
}

// Blocked says why an Attempt cannot go on, though nothing is wrong with it: it waits, for example for room on a full disk.
type Blocked struct {
	Ref
	Reason string `cbor:"3,keyasint"` // a sentence
}

// Accept takes an Offer. The Instance keeps a place free until it is answered by RunStep or Withdrawn.
type Accept struct{ Ref }

// Refuse turns down an Offer or a Step, with the reason.
type Refuse struct {
	Ref
	Code    string `cbor:"3,keyasint"`
	Message string `cbor:"4,keyasint"`
}

// StepStarted says that a Step has begun. That of a Part's Round is said again when its source was fetched, with the commit: the other Parts wait for it.
type StepStarted struct {
	Ref
	Step   int       `cbor:"3,keyasint"`
	At     time.Time `cbor:"4,keyasint"`
	Commit string    `cbor:"5,keyasint,omitempty"`
}

// StepFinished reports the result of a Step. It follows the last LogBatch of the Step on the wire, and
// is sent again in every new Session until a StepAck answers it.
type StepFinished struct {
	Ref
	Step    int             `cbor:"3,keyasint"`
	LastSeq uint64          `cbor:"4,keyasint"` // of the Step's log; 0 when it printed nothing
	Result  work.StepResult `cbor:"5,keyasint"`
}

// LogBatch carries records of one Step with rising, gapless sequence numbers from First on.
// Records holds their times, streams and bytes as PackRecords writes them (an array of
// [Unix nanoseconds, stream, partial, data]), zstd-compressed when Packed.
type LogBatch struct {
	Ref
	Step    int    `cbor:"3,keyasint"`
	First   uint64 `cbor:"4,keyasint"`
	Count   int    `cbor:"5,keyasint"`
	Packed  bool   `cbor:"6,keyasint,omitempty"`
	Records []byte `cbor:"7,keyasint"`
	// Nodes says that every record bears Node and Item. Without it, as from a peer of capability 1, all of them are 0.
	Nodes bool `cbor:"8,keyasint,omitempty"`
}

// Draining says that the Instance takes no further Job and ends when its Jobs are over. DrainAck answers it.
type Draining struct{}

// Welcome answers Hello: the Session, and what to do with every Job of the journal.
type Welcome struct {
	Capability int           `cbor:"1,keyasint"`
	Session    string        `cbor:"2,keyasint"`
	Heartbeat  time.Duration `cbor:"3,keyasint"`
	Lease      time.Duration `cbor:"4,keyasint"`
	Runner     string        `cbor:"5,keyasint"` // name of the Runner record
	Jobs       []Verdict     `cbor:"6,keyasint,omitempty"`
}

// Fate is what a Server says of a Job in a journal.
type Fate string

// The fates.
const (
	Continue   Fate = "continue"   // it is still yours: go on, resend what is not acked
	Superseded Fate = "superseded" // a later Attempt exists, or the Job is over: end what is not changing anything, ship log and result, forget
	Unknown    Fate = "unknown"    // no such Job: forget it
)

// Verdict is a Server's word on one Attempt of the journal. With Continue the Instance goes on with the
// Step that it had begun, but it begins no other on the word of a Verdict: a Step that the Server
// wants and that the journal does not show as begun needs a RunStep again.
type Verdict struct {
	Ref
	Fate   Fate            `cbor:"3,keyasint"`
	Spec   *work.Spec      `cbor:"4,keyasint,omitempty"` // with Continue: needed for what is left to do
	Acks   []StepLog       `cbor:"5,keyasint,omitempty"`
	Next   int             `cbor:"6,keyasint"` // with Continue: the Step the Server waits for; the results of all before it are stored
	Cancel work.CancelMode `cbor:"7,keyasint,omitempty"`
}

// StepLog says how much of a Step's log is stored: every record before Next.
type StepLog struct {
	Step int    `cbor:"1,keyasint"`
	Next uint64 `cbor:"2,keyasint"`
}

// Offer asks an Instance whether it takes a Job. Ref.Attempt is the number the Attempt will bear.
type Offer struct {
	Ref
	Engine string `cbor:"3,keyasint"`
	Module string `cbor:"4,keyasint"`
}

// Withdrawn takes an Offer back: another Instance was faster, or the Job is gone.
type Withdrawn struct{ Ref }

// RunStep tells the bound Instance to execute a Step. Spec comes with the first RunStep of a Binding.
// Told twice, a Step is executed once.
type RunStep struct {
	Ref
	Step  int         `cbor:"3,keyasint"`
	Spec  *work.Spec  `cbor:"4,keyasint,omitempty"`
	Watch bool        `cbor:"5,keyasint,omitempty"` // somebody follows the log: ship at once
	Round *work.Round `cbor:"6,keyasint,omitempty"` // of a Part: what the Step is to do
}

// Cancel tells the bound Instance to end a Job. A stronger mode may follow a weaker one.
type Cancel struct {
	Ref
	Mode work.CancelMode `cbor:"3,keyasint"`
}

// LogAck says that every record of the Step before Next is stored.
type LogAck struct {
	Ref
	Step int    `cbor:"3,keyasint"`
	Next uint64 `cbor:"4,keyasint"`
}

// StepAck says that the result of the Step is stored and need not be sent again.
type StepAck struct {
	Ref
	Step int `cbor:"3,keyasint"`
}

// Drain tells the Instance to take no further Job (or, with Resume, to take Jobs again).
type Drain struct {
	Resume bool `cbor:"1,keyasint,omitempty"`
	Leave  bool `cbor:"2,keyasint,omitempty"` // the process ends when its Jobs are over, as after Draining of its own
}

// DrainAck answers Draining and Drain: no Offer and no Job follows it. An Instance that drains may leave once it
// has it and nothing is under way.
type DrainAck struct{}

// Configure changes how logs of a Job are shipped: Watch while somebody follows it.
type Configure struct {
	Ref
	Watch bool `cbor:"3,keyasint"`
}

// Drop tells the Instance that a Job is over for the Server: its folder may go.
type Drop struct{ Ref }

// Notice is a sentence for the log of the Instance, about what its operator cannot see there.
type Notice struct {
	Text    string `cbor:"1,keyasint"`
	Trouble bool   `cbor:"2,keyasint,omitempty"` // somebody should do something about it
}

// Goodbye announces the end of the Session; a close frame follows.
type Goodbye struct {
	Reason string `cbor:"1,keyasint"`
}

func (*Hello) kind() byte        { return kindHello }
func (*Heartbeat) kind() byte    { return kindHeartbeat }
func (*Accept) kind() byte       { return kindAccept }
func (*Refuse) kind() byte       { return kindRefuse }
func (*StepStarted) kind() byte  { return kindStepStarted }
func (*StepFinished) kind() byte { return kindStepFinished }
func (*LogBatch) kind() byte     { return kindLogBatch }
func (*Draining) kind() byte     { return kindDraining }
func (*Welcome) kind() byte      { return kindWelcome }
func (*Offer) kind() byte        { return kindOffer }
func (*Withdrawn) kind() byte    { return kindWithdrawn }
func (*RunStep) kind() byte      { return kindRunStep }
func (*Cancel) kind() byte       { return kindCancel }
func (*LogAck) kind() byte       { return kindLogAck }
func (*StepAck) kind() byte      { return kindStepAck }
func (*Drain) kind() byte        { return kindDrain }
func (*DrainAck) kind() byte     { return kindDrainAck }
func (*Configure) kind() byte    { return kindConfigure }
func (*Drop) kind() byte         { return kindDrop }
func (*Notice) kind() byte       { return kindNotice }
func (*Goodbye) kind() byte      { return kindGoodbye }

// blank makes an empty message of a type byte, nil for an unknown one.
func blank(kind byte) Message {
	switch kind {
	case kindHello:
		return new(Hello)
	case kindHeartbeat:
		return new(Heartbeat)
	case kindAccept:
		return new(Accept)
	case kindRefuse:
		return new(Refuse)
	case kindStepStarted:
		return new(StepStarted)
	case kindStepFinished:
		return new(StepFinished)
	case kindLogBatch:
		return new(LogBatch)
	case kindDraining:
		return new(Draining)
	case kindWelcome:
		return new(Welcome)
	case kindOffer:
		return new(Offer)
	case kindWithdrawn:
		return new(Withdrawn)
	case kindRunStep:
		return new(RunStep)
	case kindCancel:
		return new(Cancel)
	case kindLogAck:
		return new(LogAck)
	case kindStepAck:
		return new(StepAck)
	case kindDrain:
		return new(Drain)
	case kindDrainAck:
		return new(DrainAck)
	case kindConfigure:
		return new(Configure)
	case kindDrop:
		return new(Drop)
	case kindNotice:
		return new(Notice)
	case kindGoodbye:
		return new(Goodbye)
	}
	return nil
}
