package work

import (
	"slices"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/node"
	"legwork/internal/runbook"
)

// RunSpec is what an Instance needs to execute its Part of a Runbook Job. It travels in Spec.Run. Values of Secrets are
// in Spec.Inputs: of kind Env, sensitive, named as Plan.Secrets and Scope.Secrets name them.
type RunSpec struct {
	Parent      string                 `cbor:"1,keyasint"` // id of the Runbook Job
	Part        int                    `cbor:"2,keyasint"` // its number, from 1
	Items       []runbook.Item         `cbor:"3,keyasint"`
	Scopes      []runbook.Scope        `cbor:"4,keyasint"`
	Nodes       map[int]node.Node      `cbor:"5,keyasint"` // those of the Part, by their index in the Job
	Strategy    catalog.Strategy       `cbor:"6,keyasint"`
	Concurrency int                    `cbor:"7,keyasint"`
	OnFailure   catalog.OnFailure      `cbor:"8,keyasint"`
	Connection  catalog.ConnectionSpec `cbor:"9,keyasint"`
	// Settled is what is known of (Node, Item) pairs of the first Round of this Attempt that an earlier one did: they are not done again.
	Settled []NodeEvent `cbor:"10,keyasint,omitempty"`
	// Past is what earlier Attempts did in the Rounds before: what templates and conditions may name.
	Past []PastResult `cbor:"11,keyasint,omitempty"`
}

// PastResult says how an Item went on Nodes on which it went alike, in short.
type PastResult struct {
	Item     int               `cbor:"1,keyasint"`
	Nodes    []int             `cbor:"2,keyasint"` // by index, rising; -1 for what is done once per Runner
	Status   NodeStatus        `cbor:"3,keyasint"`
	ExitCode int               `cbor:"4,keyasint,omitempty"`
	Values   map[string]string `cbor:"5,keyasint,omitempty"`
}

// Round tells what a Step of a Part is to do. It travels with RunStep.
type Round struct {
	Index       int   `cbor:"1,keyasint"` // into Plan.Rounds
	First       int   `cbor:"2,keyasint"` // Items from First to before End
	End         int   `cbor:"3,keyasint"`
	Nodes       []int `cbor:"4,keyasint,omitempty"` // by index: those that are still in; nil when the Items are done once per Runner
	MaxFailures int   `cbor:"5,keyasint,omitempty"` // of these Nodes, before nothing further begins
	// Values are those that Items of other Parts and of the Server passed on so far: "step.key" -> value.
	Values map[string]string `cbor:"6,keyasint,omitempty"`
}

// NodeStatus is how an Item went on a Node.
type NodeStatus string

// The states of an Item on a Node. A missing one is pending.
const (
	NodeRunning   NodeStatus = "running"
	NodeSucceeded NodeStatus = "succeeded"
	NodeFailed    NodeStatus = "failed"
	NodeRecovered NodeStatus = "recovered" // failed, and its error handler set it right
	NodeIgnored   NodeStatus = "ignored"   // failed, and the step ignores errors
	NodeSkipped   NodeStatus = "skipped"   // its condition was false
	NodeNotRun    NodeStatus = "not_run"   // something before it failed, or the Job ended
	NodeCanceled  NodeStatus = "canceled"
	NodeUnknown   NodeStatus = "unknown" // it was begun, and nobody knows how it ended
)

// Done tells whether the Item is over on the Node.
func (s NodeStatus) Done() bool { return s != "" && s != NodeRunning }

// Bad tells whether the Node drops out because of it.
func (s NodeStatus) Bad() bool { return s == NodeFailed || s == NodeCanceled || s == NodeUnknown }

// NodeEvent says how an Item goes on a Node. An Instance writes it, as JSON, as a Record of the stream Progress into the log of
// its Step, so that it is stored once, in order, with what was printed before it. Node is -1 for an Item that is done
// once per Runner.
type NodeEvent struct {
	Node     int               `json:"node" cbor:"1,keyasint"`
	Item     int               `json:"item" cbor:"2,keyasint"`
	Status   NodeStatus        `json:"status" cbor:"3,keyasint"`
	ExitCode int               `json:"exit_code,omitempty" cbor:"4,keyasint,omitempty"`
	Failure  *Failure          `json:"failure,omitempty" cbor:"5,keyasint,omitempty"`
	Tries    int               `json:"tries,omitempty" cbor:"6,keyasint,omitempty"`
	Started  time.Time         `json:"started,omitzero" cbor:"7,keyasint,omitzero"`
	Finished time.Time         `json:"finished,omitzero" cbor:"8,keyasint,omitzero"`
	Values   map[string]string `json:"values,omitempty" cbor:"9,keyasint,omitempty"`  // written to $LEGWORK_OUTPUT
	Detail   string            `json:"detail,omitempty" cbor:"10,keyasint,omitempty"` // "changed 2, ok 5" of Ansible
}

// RoundResult sums up a Round at one Instance. It travels in StepResult.Round.
type RoundResult struct {
	Succeeded int               `json:"succeeded,omitempty" cbor:"1,keyasint,omitempty"` // Nodes that are still in
	Bad       []int             `json:"bad,omitempty" cbor:"2,keyasint,omitempty"`       // Nodes that dropped out, by index
	NotRun    int               `json:"not_run,omitempty" cbor:"3,keyasint,omitempty"`   // Nodes that were not begun because too many failed
	Failed    bool              `json:"failed,omitempty" cbor:"4,keyasint,omitempty"`    // an Item that is done once per Runner failed
	Values    map[string]string `json:"values,omitempty" cbor:"5,keyasint,omitempty"`    // "step.key" of Items that are done once per Runner
	// BadAt are the Items, by index, at which the Nodes of Bad dropped out, one beside each. What is missing, or of no Item of the Round, is the last
	// Item of it: an older executor does not say.
	BadAt []int `json:"bad_at,omitempty" cbor:"6,keyasint,omitempty"`
	// Spans say, for each item of the round, from when to when it was done. An older executor does not say.
	Spans []Span `json:"spans,omitempty" cbor:"7,keyasint,omitempty"`
	// Excerpt quotes the log of the first node that failed.
	Excerpt *Excerpt `json:"excerpt,omitempty" cbor:"8,keyasint,omitempty"`
}

// Span is a range of time. It is empty when Started is zero.
type Span struct {
	Started  time.Time `json:"started,omitzero" cbor:"1,keyasint,omitzero"`
	Finished time.Time `json:"finished,omitzero" cbor:"2,keyasint,omitzero"`
}

// Join returns the range from the earlier start to the later end of both.
func (s Span) Join(other Span) Span {
	switch {
	case other.Started.IsZero():
		return s
	case s.Started.IsZero():
		return other
	}
	if other.Started.Before(s.Started) {
		s.Started = other.Started
	}
	if other.Finished.After(s.Finished) {
		s.Finished = other.Finished
	}
	return s
}

// within returns the part of the range that lies between two times. The clock of a runner's host may be wrong.
func (s Span) within(first, last time.Time) Span {
	clamp := func(at time.Time) time.Time {
		switch {
		case at.Before(first):
			return first
		case at.After(last):
			return last
		}
		return at
	}
	if s.Started.IsZero() {
		return s
	}
	return Span{clamp(s.Started), clamp(s.Finished)}
}

// badAt gives the Item of a Round at which a Node dropped out. r may be nil.
func (r *RoundResult) badAt(n int, round runbook.Round) int {
	if r != nil {
		if i := slices.Index(r.Bad, n); i >= 0 && i < len(r.BadAt) && r.BadAt[i] >= round.First && r.BadAt[i] < round.End {
			return r.BadAt[i]
		}
	}
	return round.End - 1
}
