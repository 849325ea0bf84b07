package control

import (
	"fmt"
	"slices"

	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// extent is what a Part may speak of: its own Nodes, by rising index, and so many Items of the Plan.
type extent struct {
	nodes []int
	items int
}

// node tells why a Node, from 0, is none that a Part may speak of; nil when it may.
func (e extent) node(n int) error {
	if _, own := slices.BinarySearch(e.nodes, n); own {
		return nil
	}
	return fmt.Errorf("the Node %d, from 0, is none of the %d of this Part", n, len(e.nodes))
}

// item is node for an Item, from 0.
func (e extent) item(i int) error {
	if i < e.items {
		return nil
	}
	return fmt.Errorf("the Item is %d of %d, from 0", i, e.items)
}

// extentOf looks up what a Job may speak of; of a Job that is no Part that is nothing.
func (l *lane) extentOf(tx *store.Tx, j *work.Job) (extent, error) {
	if l.extent == nil && j.Part > 0 {
		plan, err := tx.PlanOf(j.OrganizationID, j.ParentID)
		if err != nil {
			return extent{}, err
		}
		if j.Part > len(plan.Parts) {
			return extent{}, fmt.Errorf("the plan of job #%d has no part %d", j.Number, j.Part)
		}
		l.extent = &extent{plan.Parts[j.Part-1].Nodes, len(plan.Items)}
	}
	if l.extent == nil {
		l.extent = &extent{}
	}
	return *l.extent, nil
}

// says tells why a record is about what the Part may not speak of.
func (e extent) says(r *work.Record) error {
	if r.Node > 0 {
		if err := e.node(r.Node - 1); err != nil {
			return err
		}
	}
	return e.item(r.Item - 1)
}

// recordProgress notes what records that were just stored say of Nodes, in the same transaction. A record about what is not of the Job
// ends the Session, and nothing of the batch is stored.
func (l *lane) recordProgress(tx *store.Tx, j *work.Job, fresh []work.Record) error {
	var events []work.NodeEvent
	for i := range fresh {
		r := &fresh[i]
		if r.Node|r.Item == 0 && r.Stream != work.Progress {
			continue
		}
		of, err := l.extentOf(tx, j)
		if err != nil {
			return err
		}
		if err := of.says(r); err != nil {
			return progressFault(r, err)
		}
		if r.Stream != work.Progress {
			continue
		}
		e, err := work.ParseNodeEvent(r.Data)
		if err == nil && e.Node >= 0 { // else it is of an Item that is done once per Runner
			err = of.node(e.Node)
		}
		if err == nil {
			err = of.item(e.Item)
		}
		if err != nil {
			return progressFault(r, err)
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return nil
	}
	return l.s.c.nodeEvents(tx, j, l.ref.Attempt, events)
}

func progressFault(r *work.Record, err error) error {
	return &wire.CloseError{Code: wire.CloseProtocol, Reason: fmt.Sprintf("record %d of a log is not right: %v", r.Seq, err)}
}

// nodeEvents takes what an Attempt of a Part said of Nodes.
func (c *Control) nodeEvents(tx *store.Tx, j *work.Job, attempt int, events []work.NodeEvent) error {
	return tx.PutNodeResults(j.ParentID, j.Part, attempt, events)
}
