package runbook

import (
	"cmp"
	"fmt"
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/expression"
	"legwork/internal/fault"
	"legwork/internal/node"
)

// dispatch makes the Parts.
func (p *Plan) dispatch(in Input) error {
	onRunners := slices.ContainsFunc(p.Items, func(i Item) bool { return i.Kind != ModuleItem && i.Kind != ApprovalItem })
	if !onRunners {
		return nil
	}
	var err error
	switch in.Spec.Dispatch.Mode {
	case catalog.ManualDispatch:
		err = p.dispatchManually(in)
	case catalog.LocalDispatch:
		err = p.dispatchLocally(in)
	default:
		err = p.dispatchByFilters(in)
	}
	if err == nil && len(p.Parts) > MaxParts {
		return fault.New(fault.Invalid, "too_many_runners", "the Job would take %d Runners, more than %d", len(p.Parts), MaxParts)
	}
	return err
}

// whole assigns all nodes to one runner, with a pinned part for each of its instances whose host is among them.
func (p *Plan) whole(in Input, c Candidate, labels map[string]string) error {
	s := share{candidate: c, labels: labels}
	coverage := CoverageOf(in.Runners, in.Local, in.UncoveredLocal)
	var foreign []string
	for i, n := range p.Nodes {
		if owner, owned := coverage.owner(n); owned && owner.RunnerID != c.RunnerID {
			foreign = append(foreign, fmt.Sprintf("%s (runner %s)", n.Name, owner.Runner))
			continue
		}
		s.add(i, n)
	}
	if len(foreign) > 0 {
		return fault.New(fault.Conflict, "nodes_uncovered", "these nodes are hosts of instances of other runners: %s", some(foreign)).
			WithHint("exclude them with the node filter, or use `dispatch: {mode: automatic}`")
	}
	p.Parts = s.parts()
	if len(p.Parts) == 0 {
		p.Parts = []Part{{RunnerID: c.RunnerID, Runner: c.Runner, Labels: labels}}
	}
	return nil
}

func (p *Plan) dispatchManually(in Input) error {
	d := in.Spec.Dispatch
	if d.Runner == "" {
		labels, err := expandLabels(d.Labels, p.Scopes[0])
		if err != nil {
			return err
		}
		return p.whole(in, Candidate{}, labels)
	}
	for _, c := range in.Runners {
		if c.Runner == d.Runner {
			return p.whole(in, c, nil)
		}
	}
	return fault.New(fault.Conflict, "runner_missing", "the Runner %q is not assigned to the Stack %q", d.Runner, in.Spec.Stack).
		WithHint("declare an Assignment of the Runner whose scope is %q, the whole Stack", in.Spec.Stack)
}

func expandLabels(labels map[string]string, s Scope) (map[string]string, error) {
	expanded := make(map[string]string, len(labels))
	for key, text := range labels {
		value, err := s.expand(text)
		if err != nil {
			return nil, err
		}
		if value == "" || len(value) > 255 {
			return nil, fault.New(fault.Invalid, "dispatch_labels", "the label %q of the Runner would be %s: it wants 1 to 255 bytes", key, brief(value)).
				WithHint("give the option that it is made of")
		}
		expanded[key] = value
	}
	return expanded, nil
}

func (p *Plan) dispatchLocally(in Input) error {
	if in.Local == nil && in.LocalUnassigned {
		return fault.New(fault.Conflict, "runner_missing", "the Runbook is for the Local Runner, which is not assigned to the whole of the Stack %q", in.Spec.Stack).
			WithHint("run: legwork assignment create %s %s", catalog.LocalRunner, in.Spec.Stack)
	}
	if in.Local == nil {
		return fault.New(fault.Conflict, "runner_missing", "the Runbook is for the Local Runner, and the Server has none").
			WithHint("set `local_runner: true` in the Server's settings, or dispatch to a Runner")
	}
	return p.whole(in, *in.Local, nil)
}

// dispatchByFilters gives every Node to the first Runner, by priority and name, whose filter matches it. The own host of an
// Instance belongs to that Instance.
func (p *Plan) dispatchByFilters(in Input) error {
	if len(p.Nodes) == 0 {
		if in.Spec.AllowNoNodes && in.Spec.Nodes != "" {
			return nil
		}
		return fault.New(fault.Conflict, "runner_missing", "the Runbook has steps that a Runner does, and no Nodes that say which Runner").
			WithHint("name a Runner: `dispatch: {mode: manual, runner: NAME}`, or take the Server's own: `dispatch: {mode: local}`")
	}
	coverage := CoverageOf(in.Runners, in.Local, in.UncoveredLocal)
	shares := make([]share, len(coverage.runners))
	for i := range shares {
		shares[i].candidate = coverage.runners[i]
	}
	var uncovered []string
	for i, n := range p.Nodes {
		r := coverage.of(n)
		if r < 0 {
			uncovered = append(uncovered, n.Name)
			continue
		}
		shares[r].add(i, n)
	}
	if len(uncovered) > 0 {
		return fault.New(fault.Conflict, "nodes_uncovered", "%s covered by no Runner: %s", nodesAre(len(uncovered)), some(uncovered)).
			WithHint("give a runner that is assigned to the stack a filter that matches them: "+
				"legwork runner update RUNNER --node-filter '%s=*'; or set `dispatch`", in.Spec.Stack)
	}
	for i := range shares {
		p.Parts = append(p.Parts, shares[i].parts()...)
	}
	return nil
}

func nodesAre(n int) string {
	if n == 1 {
		return "1 Node is"
	}
	return fmt.Sprintf("%d Nodes are", n)
}

// Coverage tells to which Runner a Node belongs. Make it by CoverageOf.
type Coverage struct {
	runners []Candidate
	owners  map[string]int // of the own hosts of Instances, by the name of the Node
	rest    int            // who takes what nobody covers, or -1
}

// CoverageOf asks Runners by priority and name, and the Local Runner (nil: there is none) after all of them; uncoveredLocal gives it what no filter
// matches. The own host of an Instance belongs to the first Runner that has it.
func CoverageOf(runners []Candidate, local *Candidate, uncoveredLocal bool) Coverage {
	c := Coverage{runners: slices.Clone(runners), owners: map[string]int{}, rest: -1}
	slices.SortStableFunc(c.runners, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Runner, b.Runner))
	})
	if local != nil {
		if c.runners = append(c.runners, *local); uncoveredLocal {
			c.rest = len(c.runners) - 1
		}
	}
	for i := len(c.runners) - 1; i >= 0; i-- {
		for name := range c.runners[i].Hosts {
			c.owners[name] = i
		}
	}
	return c
}

// Of gives the Runner that a Node belongs to; ok is false when no Runner covers it.
func (c Coverage) Of(n node.Node) (of Candidate, ok bool) {
	if i := c.of(n); i >= 0 {
		return c.runners[i], true
	}
	return of, false
}

// owner returns the runner of the instance whose host a node is. ok is false for every other node.
func (c Coverage) owner(n node.Node) (owner Candidate, ok bool) {
	i, ok := c.owners[n.Name]
	if !ok || n.Connection != node.Local {
		return owner, false
	}
	return c.runners[i], true
}

func (c Coverage) of(n node.Node) int {
	if i, ok := c.owners[n.Name]; ok && n.Connection == node.Local {
		return i
	}
	for i := range c.runners {
		if c.runners[i].Filter.Match(n) {
			return i
		}
	}
	return c.rest
}

// share is what one Runner gets.
type share struct {
	candidate Candidate
	labels    map[string]string
	free      []int            // any Instance may take these
	pinned    map[string][]int // by Instance
}

// add adds a node: the host of an instance is pinned to that instance, any other node may go to any instance.
func (s *share) add(i int, n node.Node) {
	instance, own := s.candidate.Hosts[n.Name]
	if !own || n.Connection != node.Local {
		s.free = append(s.free, i)
		return
	}
	if s.pinned == nil {
		s.pinned = map[string][]int{}
	}
	s.pinned[instance] = append(s.pinned[instance], i)
}

// parts gives one Part, and a further one for every Instance after the first whose own host is among the Nodes.
func (s *share) parts() []Part {
	part := Part{RunnerID: s.candidate.RunnerID, Runner: s.candidate.Runner, Labels: s.labels}
	if len(s.pinned) == 0 {
		if len(s.free) == 0 {
			return nil
		}
		part.Nodes = s.free
		return []Part{part}
	}
	var parts []Part
	for i, instance := range sorted(s.pinned) {
		part.Instance, part.Nodes = instance, s.pinned[instance]
		if i == 0 {
			part.Nodes = append(part.Nodes, s.free...)
			slices.Sort(part.Nodes)
		}
		parts = append(parts, part)
	}
	return parts
}

// expand puts the values of Options into a text; nothing else is known before a Job runs.
func (s Scope) expand(text string) (string, error) {
	t, err := expression.Parse(text)
	if err != nil {
		return "", err
	}
	return t.Expand(func(r expression.Ref) (string, error) {
		if r.Root != expression.Option {
			return "", fault.New(fault.Invalid, "template", "${%s} is not known before the Job runs: here only ${option.NAME} can stand", r)
		}
		if _, secret := s.Secrets[r.Name]; secret {
			return "", fault.New(fault.Invalid, "template", "${%s} is a secret, and would be stored in clear here", r)
		}
		return Text(s.Values[r.Name]), nil
	})
}
