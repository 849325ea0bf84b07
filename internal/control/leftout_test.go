package control

import (
	"slices"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/node"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

// leftOutPlan has three nodes and three items, of which the second is about the last node only.
func leftOutPlan() *runbook.Plan {
	item := func(set int) runbook.Item {
		return runbook.Item{Kind: runbook.CommandItem, Step: catalog.RunbookStep{Each: catalog.EachNode}, NodeSet: set}
	}
	return &runbook.Plan{
		Items: []runbook.Item{item(1), item(2), item(1)}, Nodes: make([]node.Node, 3), NodeSets: [][]int{{0, 1, 2}, {2}},
		Parts: []runbook.Part{{Nodes: []int{0, 2}}, {Nodes: []int{1}}},
	}
}

// TestNodesThatAReferenceLeavesOut are skipped, in order and page by page.
func TestNodesThatAReferenceLeavesOut(t *testing.T) {
	said := func(item, node, part int) NodeResult {
		return NodeResult{Part: part, NodeEvent: work.NodeEvent{Item: item, Node: node, Status: work.NodeSucceeded}}
	}
	skipped := func(item, node, part int) NodeResult {
		r := said(item, node, part)
		r.Status = work.NodeSkipped
		return r
	}
	for name, c := range map[string]struct {
		filter NodeResultFilter
		said   []NodeResult
		want   []NodeResult
	}{
		"all": {NodeResultFilter{}, []NodeResult{said(0, 0, 1), said(2, 0, 1)},
			[]NodeResult{said(0, 0, 1), skipped(1, 0, 1), skipped(1, 1, 2), said(2, 0, 1)}},
		"first page":    {NodeResultFilter{Limit: 2}, []NodeResult{said(0, 0, 1), said(2, 0, 1)}, []NodeResult{said(0, 0, 1), skipped(1, 0, 1)}},
		"full page":     {NodeResultFilter{Limit: 1}, []NodeResult{said(0, 0, 1)}, []NodeResult{said(0, 0, 1)}},
		"second page":   {NodeResultFilter{Limit: 2, After: true, AfterItem: 1, AfterPart: 1}, []NodeResult{said(2, 0, 1)}, []NodeResult{skipped(1, 1, 2), said(2, 0, 1)}},
		"another node":  {NodeResultFilter{Nodes: []int{2}}, nil, nil},
		"a part":        {NodeResultFilter{Part: 2}, nil, []NodeResult{skipped(1, 1, 2)}},
		"other item":    {NodeResultFilter{Items: []int{0}}, nil, nil},
		"other status":  {NodeResultFilter{Statuses: []work.NodeStatus{work.NodeFailed}}, nil, nil},
		"those skipped": {NodeResultFilter{Statuses: []work.NodeStatus{work.NodeSkipped}, Nodes: []int{0}}, nil, []NodeResult{skipped(1, 0, 1)}},
	} {
		got := withLeftOut(leftOutPlan(), c.filter, c.said)
		if !slices.EqualFunc(got, c.want, func(a, b NodeResult) bool { return compareResults(a, b) == 0 && a.Status == b.Status }) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}
