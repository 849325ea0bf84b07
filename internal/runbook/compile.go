package runbook

import (
	"fmt"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/node"
)

// MaxParts is how many Runners one Job may take.
const MaxParts = 1_000

// Input is what a Plan is made of.
type Input struct {
	Spec    catalog.RunbookSpec
	Options Values
	Nodes   []node.Node // those that the filter matched, in any order, names unique
	Runners []Candidate // those assigned to the Stack
	Local   *Candidate  // the Local Runner; nil: there is none, or
	// LocalUnassigned says that there is one that is not assigned to the Stack.
	LocalUnassigned bool
	// UncoveredLocal gives Nodes that no Runner covers to the Local Runner.
	UncoveredLocal bool
	// Match returns those nodes of the stack that a filter of a reference matches.
	Match func(node.Filter) []node.Node
	// Partial says that Nodes and what Match returns are only some of those that the filters match.
	Partial bool
	// Lookup finds a Runbook of the same Stack for a reference. The error of one that is not there is a NotFound Fault.
	Lookup func(name string) (catalog.RunbookSpec, error)
}

// Candidate is a Runner that may take Nodes.
type Candidate struct {
	RunnerID string
	Runner   string // name
	Priority int    // lower is asked first, then the name decides
	Filter   node.Filter
	// Hosts are the Instances whose own hosts are Nodes of the Stack: name of the Node -> name of the Instance.
	Hosts map[string]string
}

// Compile makes the Plan of a Job. What stands in its way is a Fault: an Invalid one of code `runbook_cycle`, `runbook_deep`, `runbook_reference`,
// `options_invalid`, `template`, `no_nodes`, `too_many_nodes`, `too_many_items`, `too_many_rounds`, `too_many_runners` or `dispatch_labels`,
// or a Conflict of code `nodes_uncovered` or `runner_missing`.
func Compile(in Input) (*Plan, error) {
	if len(in.Nodes) > MaxNodes {
		return nil, tooManyNodes(len(in.Nodes))
	}
	spec := in.Spec
	p := &Plan{
		Nodes: slices.Clone(in.Nodes), Connection: spec.Connection,
		Strategy: or(spec.Strategy, catalog.NodeFirst), OnFailure: or(spec.OnFailure, catalog.StopOnFailure),
		Concurrency: or(spec.Concurrency, catalog.DefaultConcurrency),
	}
	if err := node.Sort(p.Nodes, spec.OrderBy); err != nil {
		return nil, err
	}
	if err := p.inline(in); err != nil {
		return nil, err
	}
	if err := p.wantNodes(spec, len(in.Nodes) > 0 || in.Partial && len(p.Nodes) > 0); err != nil {
		return nil, err
	}
	if err := p.dispatch(in); err != nil {
		return nil, err
	}
	if err := p.roll(spec); err != nil {
		return nil, err
	}
	secrets, err := p.secrets()
	p.Secrets = secrets
	return p, err
}

func or[T comparable](value, standard T) T {
	var zero T
	if value == zero {
		return standard
	}
	return value
}

// wantNodes tells whether the Job lacks Nodes.
func (p *Plan) wantNodes(spec catalog.RunbookSpec, some bool) error {
	onNodes := slices.ContainsFunc(p.Items, func(i Item) bool { return i.OnNodes() && i.NodeSet <= 1 })
	if some || spec.AllowNoNodes || !onNodes && spec.Nodes == "" {
		return nil
	}
	if spec.Nodes == "" {
		return fault.New(fault.Invalid, "no_nodes", "the Runbook %s has steps on Nodes, and no filter says which", spec.Path()).
			WithHint("give one with --nodes, or write `nodes` into the Runbook")
	}
	return fault.New(fault.Invalid, "no_nodes", "the filter %s matches no Node", p.Scopes[0].shown(spec.Nodes)).
		WithHint("`legwork node list` shows what a filter matches; `allow_no_nodes: true` in the Runbook makes it no error")
}

// roll makes the batches and the Rounds.
func (p *Plan) roll(spec catalog.RunbookSpec) error {
	sizes, err := node.Batches(spec.Batches, len(p.Nodes))
	if err != nil {
		return err
	}
	next := 0
	for _, size := range sizes {
		batch := make([]int, size)
		for i := range batch {
			batch[i], next = next, next+1
		}
		most, err := node.MaxFailures(spec.MaxFailures, size)
		if err != nil {
			return err
		}
		p.Batches, p.MaxFailures = append(p.Batches, batch), append(p.MaxFailures, most)
	}
	return p.rounds()
}

// rounds goes through the sections: Items on Nodes that stand together, over which the batches roll, and each other Item by
// itself. Rounds that no Part would take part in are left out.
func (p *Plan) rounds() error {
	for first := 0; first < len(p.Items); {
		if !p.Items[first].OnNodes() {
			r := Round{First: first, End: first + 1, Batch: -1}
			if p.serverDoes(first) || len(p.Parts) > 0 {
				p.Rounds = append(p.Rounds, r)
			}
			first++
			continue
		}
		end := first + 1
		for end < len(p.Items) && p.Items[end].OnNodes() && p.Items[end].NodeSet == p.Items[first].NodeSet {
			end++
		}
		step := end - first
		if p.Strategy == catalog.StepFirst {
			step = 1
		}
		if count := len(p.Rounds) + len(p.Batches)*((end-first)/step); count > MaxRounds {
			return fault.New(fault.Invalid, "too_many_rounds", "%d batches of %d steps make more than %d rounds", len(p.Batches), end-first, MaxRounds).
				WithHint("make the batches larger, or take the strategy node_first")
		}
		for batch := range p.Batches {
			for i := first; i < end; i += step {
				p.Rounds = append(p.Rounds, Round{First: i, End: i + step, Batch: batch})
			}
		}
		first = end
	}
	if len(p.Rounds) > MaxRounds {
		return fault.New(fault.Invalid, "too_many_rounds", "the Job has %d rounds, more than %d", len(p.Rounds), MaxRounds)
	}
	return p.boundParts()
}

// boundParts refuses a Plan in which one Runner would take part in too many Rounds.
func (p *Plan) boundParts() error {
	if len(p.Rounds) <= MaxPartRounds {
		return nil
	}
	all, of := 0, make([]int, len(p.Batches)) // Rounds that every Part takes part in, and those of each batch
	for i, r := range p.Rounds {
		switch {
		case r.Batch >= 0:
			of[r.Batch]++
		case !p.Global(i):
			all++
		}
	}
	batch := make([]int, len(p.Nodes))
	for b, nodes := range p.Batches {
		for _, n := range nodes {
			batch[n] = b
		}
	}
	for _, part := range p.Parts {
		count, last := all, -1
		for _, n := range part.Nodes { // which rise, and so do their batches
			if batch[n] != last {
				last = batch[n]
				count += of[last]
			}
		}
		if count > MaxPartRounds {
			return fault.New(fault.Invalid, "too_many_rounds", "%s would take part in %d rounds, more than %d", or(part.Runner, "one Runner"), count, MaxPartRounds).
				WithHint("make the batches larger, take the strategy node_first, or spread the Nodes over more Runners")
		}
	}
	return nil
}

func (p *Plan) serverDoes(item int) bool {
	k := p.Items[item].Kind
	return k == ModuleItem || k == ApprovalItem
}

// some lists names for a sentence, the first 20 of them.
func some(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
