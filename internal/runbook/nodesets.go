package runbook

import (
	"slices"

	"legwork/internal/fault"
	"legwork/internal/node"
)

// nodeSets collects the nodes of references that have their own, while a Plan is made.
type nodeSets struct {
	sets [][]node.Node // the first is that of the runbook itself
}

// own adds the nodes that a reference chooses, and returns the number of their set.
func (r *inliner) own(filter, name string, s Scope) (set int, err error) {
	chosen, err := node.ParseFilterTemplate(filter, s.literal)
	if err != nil {
		return 0, within(name, "nodes", err)
	}
	if r.in.Match == nil {
		return 0, fault.New(fault.Internal, "internal", "a plan was asked for without the nodes of its references")
	}
	nodes := r.in.Match(chosen)
	if len(nodes) == 0 && !r.in.Partial && !r.in.Spec.AllowNoNodes {
		return 0, fault.New(fault.Invalid, "no_nodes", "the filter %s of step %s matches no node", s.shown(filter), name).
			WithHint("`legwork node list` shows what a filter matches; `allow_no_nodes: true` in the runbook accepts that")
	}
	if len(r.sets.sets) == 0 {
		r.sets.sets = append(r.sets.sets, r.in.Nodes)
	}
	r.sets.sets = append(r.sets.sets, nodes)
	return len(r.sets.sets), nil
}

// literal returns the value of an option as one literal of a node filter, "" when it has none.
func (s Scope) literal(option string) (string, error) {
	return Values{Plain: s.Values}.Literal(option)
}

// join makes the nodes of all sets those of the Plan, in order, and lets items speak of them by index.
func (p *Plan) join(all nodeSets, orderBy string) error {
	if len(all.sets) == 0 {
		return nil
	}
	known := map[string]bool{}
	for _, n := range p.Nodes {
		known[n.Name] = true
	}
	for _, set := range all.sets {
		for _, n := range set {
			if !known[n.Name] {
				known[n.Name] = true
				p.Nodes = append(p.Nodes, n)
			}
		}
	}
	if len(p.Nodes) > MaxNodes {
		return tooManyNodes(len(p.Nodes))
	}
	if err := node.Sort(p.Nodes, orderBy); err != nil {
		return err
	}
	index := make(map[string]int, len(p.Nodes))
	for i, n := range p.Nodes {
		index[n.Name] = i
	}
	for _, set := range all.sets {
		indexes := make([]int, 0, len(set))
		for _, n := range set {
			indexes = append(indexes, index[n.Name])
		}
		slices.Sort(indexes)
		p.NodeSets = append(p.NodeSets, indexes)
	}
	for i := range p.Items {
		p.Items[i].NodeSet = max(p.Items[i].NodeSet, 1)
	}
	return nil
}

func tooManyNodes(n int) error {
	return fault.New(fault.Invalid, "too_many_nodes", "the Job has %d Nodes, more than %d", n, MaxNodes).
		WithHint("narrow the filter, and start one Job after the other")
}

// IsAbout reports whether an item is about a node, by index. A reference with nodes of its own leaves out the others.
func (p *Plan) IsAbout(i Item, n int) bool {
	if i.NodeSet == 0 {
		return true
	}
	_, ok := slices.BinarySearch(p.NodeSets[i.NodeSet-1], n)
	return ok
}

// PartsOf returns how many parts take part in an item.
func (p *Plan) PartsOf(i Item) int {
	if i.NodeSet == 0 {
		return len(p.Parts)
	}
	count := 0
	for _, part := range p.Parts {
		if len(common(part.Nodes, p.NodeSets[i.NodeSet-1])) > 0 {
			count++
		}
	}
	return count
}

// shown returns a filter for a message, with the values of its options.
func (s Scope) shown(filter string) string {
	parsed, err := node.ParseFilterTemplate(filter, s.literal)
	if err != nil || parsed.String() == filter {
		return brief(filter)
	}
	return brief(filter) + ", which means " + brief(parsed.String()) + ","
}
