package control

import (
	"cmp"
	"slices"

	"legwork/internal/runbook"
	"legwork/internal/work"
)

// withLeftOut adds the pairs that a plan leaves out, as skipped, to a page of results. Both are ordered by item, node
// and part.
func withLeftOut(p *runbook.Plan, f NodeResultFilter, said []NodeResult) []NodeResult {
	if len(p.NodeSets) == 0 || !anyOf(f.Statuses, work.NodeSkipped) {
		return said
	}
	limit := cmp.Or(f.Limit, 1000)
	out := leftOut(p, f, limit)
	if len(said) >= limit { // the rest belongs to the next page
		last := said[len(said)-1]
		out = slices.DeleteFunc(out, func(r NodeResult) bool { return compareResults(r, last) > 0 })
	}
	all := append(said, out...)
	slices.SortFunc(all, compareResults)
	return all[:min(limit, len(all))]
}

// leftOut lists the first pairs of a plan that its items leave out and a filter selects.
func leftOut(p *runbook.Plan, f NodeResultFilter, limit int) (out []NodeResult) {
	after := NodeResult{Part: f.AfterPart, NodeEvent: work.NodeEvent{Item: f.AfterItem, Node: f.AfterNode}}
	parts := partsOfNodes(p)
	for i, item := range p.Items {
		if !anyOf(f.Items, i) || !item.OnNodes() && item.Kind != runbook.AnsibleItem {
			continue
		}
		for n := range p.Nodes {
			r := NodeResult{Part: parts[n], NodeEvent: work.NodeEvent{Item: i, Node: n, Status: work.NodeSkipped}}
			switch {
			case p.IsAbout(item, n), !anyOf(f.Nodes, n), f.Part > 0 && f.Part != r.Part, f.After && compareResults(r, after) <= 0:
				continue
			}
			if out = append(out, r); len(out) == limit {
				return out
			}
		}
	}
	return out
}

// partsOfNodes returns the part of each node, from 1.
func partsOfNodes(p *runbook.Plan) []int {
	parts := make([]int, len(p.Nodes))
	for i, part := range p.Parts {
		for _, n := range part.Nodes {
			parts[n] = i + 1
		}
	}
	return parts
}

func compareResults(a, b NodeResult) int {
	return cmp.Or(cmp.Compare(a.Item, b.Item), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Part, b.Part))
}

// anyOf reports whether a filter selects a value. An empty filter selects all.
func anyOf[T comparable](filter []T, value T) bool {
	return len(filter) == 0 || slices.Contains(filter, value)
}
