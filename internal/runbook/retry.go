package runbook

import "slices"

// Outcome is how an Item ended on a Node, as the store knows it: one for each pair.
type Outcome struct {
	Part   int    // from 1
	Node   int    // by index; -1: done once per Runner
	Item   int    // by index
	Status string // as work.NodeStatus
}

// Failed gives the Nodes, rising, that a retry of the Job takes: those on which some Item failed, was canceled, or ended nobody knows
// how, those on which some Item was not done at all, and all those of a Part in which an Item that is done once per
// Runner failed.
func (p *Plan) Failed(outcomes []Outcome) []int {
	due := make([]int, len(p.Nodes)) // items that are done on each node
	for _, i := range p.Items {
		for n := range p.Nodes {
			if i.OnNodes() && p.IsAbout(i, n) {
				due[n]++
			}
		}
	}
	good, bad := make([]int, len(p.Nodes)), make([]bool, len(p.Nodes))
	for _, o := range outcomes {
		fine := slices.Contains([]string{"succeeded", "recovered", "ignored", "skipped"}, o.Status)
		switch {
		case o.Item < 0 || o.Item >= len(p.Items):
		case o.Node < 0 && !fine && o.Part >= 1 && o.Part <= len(p.Parts):
			for _, n := range p.Parts[o.Part-1].Nodes {
				bad[n] = true
			}
		case o.Node < 0 || o.Node >= len(p.Nodes):
		case !fine:
			bad[o.Node] = true
		case p.Items[o.Item].OnNodes():
			good[o.Node]++
		}
	}
	var nodes []int
	for n := range p.Nodes {
		if bad[n] || good[n] < due[n] {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
