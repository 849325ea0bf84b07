package control

import (
	"slices"

	"legwork/internal/node"
	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/work"
)

// settlement is what is known of a Round in which a Part was lost.
type settlement struct {
	loss    work.RoundLoss
	unknown []work.NodeEvent // to be noted
}

// settle looks what is left of the Round in which a Part is: what was reported stays; what was not, and must not be done twice, may have been done.
func (c *Control) settle(tx *store.Tx, part *work.Job) (s settlement, err error) {
	run, p, err := c.runOf(tx, part)
	if err != nil {
		return s, err
	}
	round := roundOf(p, run, part)
	if round == nil || part.Steps[part.Current()].Status == work.StepPending {
		return s, nil
	}
	known, err := resultsOf(tx, part, round)
	if err != nil {
		return s, err
	}
	said := map[[2]int]work.NodeEvent{}
	for _, r := range known {
		said[[2]int{r.Node, r.Item}] = r.NodeEvent
	}
	items := p.Items[round.First:round.End]
	left := false
	if items[0].OnNodes() {
		for _, n := range round.Nodes {
			left = s.settleNode(n, round.First, items, said, tx) || left
		}
	} else {
		left = s.settleOnce(round, items[0], said, tx)
	}
	s.loss.Over = !left
	return s, nil
}

// settleNode tells whether something is left to do on a Node.
func (s *settlement) settleNode(n, first int, items []runbook.Item, said map[[2]int]work.NodeEvent, tx *store.Tx) (left bool) {
	var open []int
	doubtful := false
	for i := range items {
		e := said[[2]int{n, first + i}]
		switch {
		case e.Status == work.NodeNotRun: // so it was not begun
			open = append(open, i)
		case !holds(e.Status, items[i]):
			open = append(open, i)
			doubtful = doubtful || !items[i].Repeatable()
		case e.Status.Bad():
			s.out(n, first+i)
			return false
		}
	}
	if !doubtful {
		return len(open) > 0
	}
	s.out(n, first+open[slices.IndexFunc(open, func(i int) bool { return !items[i].Repeatable() })])
	for _, i := range open { // the keeper may have gone on through all of them before the host was lost
		e := work.NodeEvent{Node: n, Item: first + i, Status: work.NodeUnknown}
		if said[[2]int{n, first + i}].Status == work.NodeNotRun {
			e.Status = work.NodeNotRun
		}
		s.note(e, said, tx)
	}
	return false
}

// out notes that a Node drops out at an Item.
func (s *settlement) out(n, item int) {
	s.loss.Out, s.loss.OutAt = append(s.loss.Out, n), append(s.loss.OutAt, item)
}

// settleOnce is settleNode for an Item that is done once per Runner.
func (s *settlement) settleOnce(round *work.Round, item runbook.Item, said map[[2]int]work.NodeEvent, tx *store.Tx) (left bool) {
	whole := said[[2]int{-1, round.First}]
	for _, n := range round.Nodes {
		if said[[2]int{n, round.First}].Status.Bad() {
			s.out(n, round.First)
		}
	}
	switch {
	case whole.Status.Done():
		s.loss.Failed = whole.Status.Bad()
		for k, v := range whole.Values {
			if s.loss.Values == nil {
				s.loss.Values = map[string]string{}
			}
			s.loss.Values[item.Name+"."+k] = v
		}
		return false
	case item.Repeatable():
		s.loss.Out, s.loss.OutAt = nil, nil // it is done anew, on all of them
		return true
	}
	s.loss.Failed = true
	s.note(work.NodeEvent{Node: -1, Item: round.First, Status: work.NodeUnknown}, said, tx)
	return false
}

// holds tells whether what an Attempt said of a pair is the last word on it. That it was not run, or ended because the Attempt was, is none: another Attempt
// may do it.
func holds(s work.NodeStatus, i runbook.Item) bool {
	return s.Done() && s != work.NodeNotRun && !(s == work.NodeCanceled && i.Repeatable())
}

func (s *settlement) note(e work.NodeEvent, said map[[2]int]work.NodeEvent, tx *store.Tx) {
	e.Started, e.Finished = said[[2]int{e.Node, e.Item}].Started, tx.Now()
	if e.Status == work.NodeUnknown {
		e.Failure = &work.Failure{Code: "outcome_unknown", Message: "its runner was lost: nobody knows whether it was done", Hint: "look at the node before it is run again"}
	}
	s.unknown = append(s.unknown, e)
}

// withLoss tells the state machine what is known of the Round in which a Part is lost.
func (c *Control) withLoss(tx *store.Tx, j *work.Job, event work.Event) (work.Event, settlement, error) {
	if !j.IsPart() {
		return event, settlement{}, nil
	}
	switch e := event.(type) {
	case work.LeaseLost:
		s, err := c.settle(tx, j)
		e.Known = &s.loss
		return e, s, err
	case work.RecoveryOver:
		s, err := c.settle(tx, j)
		e.Known = &s.loss
		return e, s, err
	}
	return event, settlement{}, nil
}

// keepSettled notes, for a Part that is back in the queue or over, what nobody will ever say.
func keepSettled(tx *store.Tx, before, after *work.Job, s settlement) error {
	if !before.IsPart() || before.Attempt == 0 || after.Status != work.Queued && !after.Status.Terminal() {
		return nil
	}
	events := s.unknown
	if after.Status == work.Failed || after.Status == work.Canceled {
		running, err := tx.NodeResults(before.ParentID, store.NodeResultFilter{Part: before.Part, Statuses: []work.NodeStatus{work.NodeRunning}, Limit: settledMost})
		if err != nil {
			return err
		}
		for _, r := range running {
			r.Status, r.Finished = work.NodeUnknown, tx.Now()
			events = append(events, r.NodeEvent)
		}
	}
	return tx.PutNodeResults(before.ParentID, before.Part, before.Attempt, events)
}

// nodesOfPart gives the Nodes of a Part by their index in the Job.
func nodesOfPart(p *runbook.Plan, part runbook.Part) map[int]node.Node {
	nodes := make(map[int]node.Node, len(part.Nodes))
	for _, n := range part.Nodes {
		nodes[n] = p.Nodes[n]
	}
	return nodes
}
