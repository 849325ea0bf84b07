package store

import "legwork/internal/work"

// NodeSum counts the Items of a Runbook Job on one Node by how they went.
type NodeSum struct {
	Node   int // by index
	Part   int // that said so last, from 1
	Counts map[work.NodeStatus]int
}

// SumNodeResults counts the Items on each Node by status, by Node. Nodes that nothing was said of are missing, and so is what is done once per Runner.
func (tx *Tx) SumNodeResults(parentID string) (sums []NodeSum, err error) {
	_, err = list(tx, func(r row) (struct{}, error) {
		var node, part, n int
		var status work.NodeStatus
		err := r.Scan(&node, &status, &part, &n)
		if last := len(sums) - 1; last < 0 || sums[last].Node != node {
			sums = append(sums, NodeSum{Node: node, Counts: map[work.NodeStatus]int{}})
		}
		sum := &sums[len(sums)-1]
		sum.Part = max(sum.Part, part)
		sum.Counts[status] += n
		return struct{}{}, err
	}, "SELECT node, status, max(part), count(*) FROM node_results WHERE job_id = $1 AND node >= 0 GROUP BY node, status ORDER BY node", parentID)
	return sums, err
}
