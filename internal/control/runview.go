package control

import (
	"context"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/work"
)

// The records about Nodes that control answers with are those of the store.
type (
	NodeResult       = store.NodeResult       // how an Item went on a Node
	NodeResultFilter = store.NodeResultFilter // narrows NodeResults
	RunSnapshot      = store.RunSnapshot      // what a Runbook Job was asked for
)

// RunView is a Runbook Job with all that a page shows of it.
type RunView struct {
	Job   *work.Job
	Plan  *runbook.Plan // holds names of Secrets and never a value; it is not to be changed
	Asked RunSnapshot
	Parts []*work.Job // by number: with Runner, Instance, status and why one waits
	// Counts are the Nodes of each Item, by its index, by status. NodePending are those that nothing was said of yet. Of an Item that is done once per
	// Runner they count Parts.
	Counts []map[work.NodeStatus]int
}

// NodePending counts what nothing was said of.
const NodePending work.NodeStatus = "pending"

// RunView gives a Runbook Job, by id or number, with its Plan, its Parts and how many Nodes are where.
func (c *Control) RunView(ctx context.Context, actor catalog.Actor, idOrNumber string) (RunView, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (v RunView, err error) {
		if v.Job, err = runByID(tx, actor, idOrNumber); err != nil {
			return v, err
		}
		s, err := tx.JobSnapshot(v.Job.OrganizationID, v.Job.ID)
		if err != nil {
			return v, err
		}
		if v.Plan = s.Plan; s.Run != nil {
			v.Asked = *s.Run
		}
		if v.Parts, err = tx.Parts(v.Job.OrganizationID, v.Job.ID); err != nil {
			return v, err
		}
		v.Job = noticeParts(v.Job, v.Parts)
		counts, err := tx.CountNodeResults(v.Job.ID)
		v.Counts = countsOf(v.Job, v.Plan, counts)
		return v, err
	})
}

func runByID(tx *store.Tx, actor catalog.Actor, idOrNumber string) (*work.Job, error) {
	j, err := tx.Job(actor.OrganizationID, idOrNumber)
	if err == nil && !j.IsRun() {
		err = fault.New(fault.NotFound, "no_runbook_job", "job #%d is not of a runbook: it has no nodes", j.Number).WithHint("see legwork job show %d", j.Number)
	}
	return j, err
}

// countsOf adds how many were not heard of: once the Job is over they are not run.
func countsOf(j *work.Job, p *runbook.Plan, said map[int]map[work.NodeStatus]int) []map[work.NodeStatus]int {
	counts := make([]map[work.NodeStatus]int, len(p.Items))
	for i, item := range p.Items {
		counts[i] = map[work.NodeStatus]int{}
		all := p.PartsOf(item)
		switch {
		case item.OnNodes(), item.Kind == runbook.AnsibleItem && len(p.Nodes) > 0:
			all = p.NodesOf(item)
		case item.Kind == runbook.ModuleItem, item.Kind == runbook.ApprovalItem:
			all = 0
		}
		for status, n := range said[i] {
			counts[i][status] = n
			all -= n
		}
		if all <= 0 {
			continue
		}
		if rest := NodePending; j.Status.Terminal() {
			counts[i][work.NodeNotRun] += all
		} else {
			counts[i][rest] += all
		}
	}
	return counts
}

// NodeResults lists how Items of a Runbook Job, by id or number, went on Nodes, by Item, Node and Part. Nodes that a
// reference leaves out are skipped there; other pairs without a result are missing.
func (c *Control) NodeResults(ctx context.Context, actor catalog.Actor, idOrNumber string, f NodeResultFilter) ([]NodeResult, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]NodeResult, error) {
		j, err := runByID(tx, actor, idOrNumber)
		if err != nil {
			return nil, err
		}
		said, err := tx.NodeResults(j.ID, f)
		if err != nil {
			return nil, err
		}
		s, err := tx.JobSnapshot(j.OrganizationID, j.ID)
		if err != nil || s.Plan == nil {
			return said, err
		}
		return withLeftOut(s.Plan, f, said), nil
	})
}
