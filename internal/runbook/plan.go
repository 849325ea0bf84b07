// Package runbook makes of a declared Runbook, the values of its Options and the Nodes it is run on what is executed:
// a Plan of Items and Rounds. It is pure.
package runbook

import (
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/node"
)

// Limits of one Job of a Runbook.
const (
	MaxNodes  = 10_000
	MaxItems  = 500 // steps, those of referenced Runbooks included
	MaxRounds = 20_000
	// MaxPartRounds is in how many Rounds one Part may take part: each is a Step in its record, which is read and written whenever the Part moves, and
	// stays below 100 KB so.
	MaxPartRounds = 500
	MaxDepth      = 10 // of references
)

// ItemKind tells what an Item does.
type ItemKind string

// The kinds of Items.
const (
	CommandItem  ItemKind = "command"
	ScriptItem   ItemKind = "script"
	AnsibleItem  ItemKind = "ansible"
	WaitItem     ItemKind = "wait"
	CopyItem     ItemKind = "copy"
	FetchItem    ItemKind = "fetch"
	ModuleItem   ItemKind = "module"
	ApprovalItem ItemKind = "approval"
)

// Item is one step of a Runbook as it is executed: references are replaced by the steps of the Runbook they name, so that
// an Item is never a reference. Items are known by their index.
type Item struct {
	Name string              `json:"name"` // "restart"; of a reference "deploy/restart"
	Kind ItemKind            `json:"kind"`
	Step catalog.RunbookStep `json:"step"` // Each, Timeout and Sudo are filled in
	// Options are the values that ${option.x} has in this Item; those of a referenced Runbook are its own. It names an
	// entry of Plan.Scopes.
	Scope int `json:"scope,omitempty"`
	// Guards are the conditions of the references that the Item comes from, outermost first: each is to be true as well.
	Guards []Guard `json:"guards,omitempty"`
	// Handlers are the error handlers of the references that the Item comes from, innermost first.
	Handlers []Handler `json:"handlers,omitempty"`
	// NodeSet says which nodes of the Plan the Item is about: NodeSets[NodeSet-1]. 0 is all of them.
	NodeSet int `json:"node_set,omitempty"`
}

// Guard is the condition of a reference.
type Guard struct {
	When  string `json:"when"`
	Scope int    `json:"scope,omitempty"` // whose Options it speaks of
	Item  string `json:"item"`            // name of the reference: beside it stand the steps that it speaks of
}

// Handler is the error handler of a reference.
type Handler struct {
	OnError catalog.ErrorHandler `json:"on_error"`
	Scope   int                  `json:"scope,omitempty"` // the options that it can name
	Item    string               `json:"item"`            // name of the reference
}

// RecoveredBy is the value that a recovered item passes on: the reference whose error handler recovered it. The node
// goes on after that reference.
const RecoveredBy = "recovered_by"

// OnNodes tells whether the Item is done once per Node.
func (i Item) OnNodes() bool { return i.Step.Each == catalog.EachNode }

// Repeatable reports whether the item may be done twice on a node: it was declared so, or its kind is idempotent.
func (i Item) Repeatable() bool {
	return i.Step.Repeatable || i.Kind == WaitItem || i.Kind == CopyItem || i.Kind == FetchItem
}

// Scope holds the values of Options that one Runbook's steps see.
type Scope struct {
	// Values are those of all Options but secrets: string, float64, bool, []string; of a file its contents.
	Values map[string]any `json:"values"`
	// Secrets says, for each secret Option that has a value, the name under which it reaches the Runner.
	Secrets map[string]string `json:"secrets,omitempty"`
	// Files are the names of the file Options that have a value: a command gets a path instead.
	Files []string `json:"files,omitempty"`
	// Env of the Runbook.
	Env map[string]string `json:"env,omitempty"`
}

// Part is what one Runner does of a Job: its Nodes, by index. A Runner has a second Part where Nodes are the own hosts of
// several of its Instances.
type Part struct {
	RunnerID string            `json:"runner_id,omitempty"` // empty: any with Labels
	Runner   string            `json:"runner,omitempty"`    // name
	Labels   map[string]string `json:"labels,omitempty"`
	Instance string            `json:"instance,omitempty"` // pins one, by name
	Nodes    []int             `json:"nodes,omitempty"`    // rising
}

// Round is what the Parts do between two barriers: no Part begins the next Round before all are through this one.
type Round struct {
	// Items are those from First to before End. A Round of several Items is one of Node Items that every Node goes through
	// by itself; see Plan.Strategy.
	First int `json:"first"`
	End   int `json:"end"`
	Batch int `json:"batch"` // index into Plan.Batches; -1 for Rounds that are not about Nodes
}

// Plan is everything that a Job of a Runbook executes. It never changes once the Job is made.
type Plan struct {
	Items  []Item      `json:"items"`
	Scopes []Scope     `json:"scopes"`
	Nodes  []node.Node `json:"nodes,omitempty"` // in their order
	// NodeSets are those of Items that are not about all nodes, by index, rising. The first is that of the runbook
	// itself, and each other one that of a reference with nodes of its own.
	NodeSets [][]int `json:"node_sets,omitempty"`

	Parts       []Part           `json:"parts"`
	Batches     [][]int          `json:"batches,omitempty"` // Nodes by index, in a row: 0, 1, 2; 3, 4; ...
	Rounds      []Round          `json:"rounds"`
	Strategy    catalog.Strategy `json:"strategy"`
	Concurrency int              `json:"concurrency"` // per Part
	// MaxFailures is how many Nodes may fail in each batch before OnFailure holds.
	MaxFailures []int                  `json:"max_failures,omitempty"`
	OnFailure   catalog.OnFailure      `json:"on_failure"`
	Connection  catalog.ConnectionSpec `json:"connection"`
	Source      catalog.Source         `json:"source,omitzero"`
	// Secrets are the names of the Secrets that some Item or the Connection takes.
	Secrets []string `json:"secrets,omitempty"`
}

// Global tells whether a Round is the Server's own: an approval or a Module.
func (p *Plan) Global(round int) bool {
	k := p.Items[p.Rounds[round].First].Kind
	return k == ModuleItem || k == ApprovalItem
}

// RoundNodes gives the Nodes of a Part, by index, that take part in a Round. ok is false when the Part has nothing to do
// in it. A Round that is done once per Runner has all Nodes of the Part, which may be none. The Nodes are not to be changed.
func (p *Plan) RoundNodes(round, part int) (nodes []int, ok bool) {
	r := p.Rounds[round]
	if p.Global(round) {
		return nil, false
	}
	mine := p.Parts[part].Nodes
	if r.Batch < 0 && p.Items[r.First].NodeSet > 0 {
		mine = common(mine, p.NodeSets[p.Items[r.First].NodeSet-1])
		return mine, len(mine) > 0
	}
	if r.Batch < 0 {
		return mine, true
	}
	// Batches are runs of rising indexes without a gap, and the Nodes of a Part rise.
	batch := p.Batches[r.Batch]
	if len(batch) == 0 {
		return nil, false
	}
	from, _ := slices.BinarySearch(mine, batch[0])
	to, _ := slices.BinarySearch(mine, batch[len(batch)-1]+1)
	mine = mine[from:to:to]
	if set := p.Items[r.First].NodeSet; set > 0 {
		mine = common(mine, p.NodeSets[set-1])
	}
	return mine, len(mine) > 0
}

// NodesOf returns how many nodes an item is about.
func (p *Plan) NodesOf(i Item) int {
	if i.NodeSet > 0 {
		return len(p.NodeSets[i.NodeSet-1])
	}
	return len(p.Nodes)
}

// common returns what two rising lists have in common.
func common(a, b []int) []int {
	var both []int
	for _, n := range a {
		if _, ok := slices.BinarySearch(b, n); ok {
			both = append(both, n)
		}
	}
	return both
}
