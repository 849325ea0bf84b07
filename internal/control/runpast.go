package control

import (
	"slices"

	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/work"
)

// What is said of the past of a Part, beside which everything else has to fit in a frame.
const (
	pastMost  = 3 << 20 // bytes, and as many of what is settled of the Round at hand
	pastLines = 100_000 // PastResults
)

// pastOf gives what earlier Attempts of a Part did in the Rounds before that at hand, on Nodes that are still in. What this Attempt did, its Instance has
// written down itself.
func pastOf(tx *store.Tx, run, part *work.Job, round *work.Round) ([]work.PastResult, error) {
	if part.Attempt == 0 || part.Binding != nil && part.Attempt == 1 || part.Current() == 0 {
		return nil, nil
	}
	var past pastResults
	inRound := map[int]bool{-1: true}
	for _, n := range round.Nodes {
		inRound[n] = true
	}
	filter := store.NodeResultFilter{Part: part.Part, Limit: settledMost, WithValues: true}
	for {
		page, err := tx.NodeResults(part.ParentID, filter)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			_, out := slices.BinarySearch(run.Run.Out, r.Node)
			mine := part.Binding != nil && r.Attempt == part.Attempt
			here := round.First <= r.Item && r.Item < round.End && inRound[r.Node]
			if !out && !mine && !here && r.Status.Done() && r.Status != work.NodeNotRun {
				past.add(r.NodeEvent)
			}
		}
		if len(page) < settledMost || past.size > pastMost {
			return past.list()
		}
		last := page[len(page)-1]
		filter.After, filter.AfterItem, filter.AfterNode, filter.AfterPart = true, last.Item, last.Node, last.Part
	}
}

// pastResults gathers what Nodes did, those that went alike together.
type pastResults struct {
	results []work.PastResult
	at      map[pastKind]int // of those without values
	size    int              // no less than the bytes on the wire
}

// pastKind is how an Item went, where nothing was passed on.
type pastKind struct {
	item   int
	status work.NodeStatus
	exit   int
}

func (p *pastResults) add(e work.NodeEvent) {
	const perNode, perResult, perValue = 4, 40, 6
	p.size += perNode
	kind := pastKind{e.Item, e.Status, e.ExitCode}
	if i, known := p.at[kind]; known && len(e.Values) == 0 {
		p.results[i].Nodes = append(p.results[i].Nodes, e.Node)
		return
	}
	if len(e.Values) == 0 {
		if p.at == nil {
			p.at = map[pastKind]int{}
		}
		p.at[kind] = len(p.results)
	}
	p.size += perResult
	for name, value := range e.Values {
		p.size += perValue + len(name) + len(value)
	}
	p.results = append(p.results, work.PastResult{Item: e.Item, Nodes: []int{e.Node}, Status: e.Status, ExitCode: e.ExitCode, Values: e.Values})
}

// list gives all of it. More than fits is a fault: a step that misses what it names would do another thing than it should.
func (p *pastResults) list() ([]work.PastResult, error) {
	if p.size > pastMost || len(p.results) > pastLines {
		return nil, pastTooLarge()
	}
	return p.results, nil
}

func pastTooLarge() error {
	return fault.New(fault.Conflict, "past_too_large", "what the steps so far passed on, more than %d MiB, is too much to tell another instance", pastMost>>20).
		WithHint("pass less on by LEGWORK_OUTPUT, or leave it in a file on the node; legwork job retry runs the job again")
}

// settledOf gives what is known of a Round that an earlier Attempt was in, as far as whoever goes on needs it.
func settledOf(tx *store.Tx, p *runbook.Plan, part *work.Job, round *work.Round) ([]work.NodeEvent, error) {
	known, err := resultsOf(tx, part, round)
	if err != nil {
		return nil, err
	}
	var settled []work.NodeEvent
	var size pastResults
	for _, r := range known {
		if holds(r.Status, p.Items[r.Item]) {
			e := work.NodeEvent{Node: r.Node, Item: r.Item, Status: r.Status, ExitCode: r.ExitCode, Values: r.Values}
			size.add(e)
			settled = append(settled, e)
		}
	}
	if size.size > pastMost {
		return nil, pastTooLarge()
	}
	return settled, nil
}
