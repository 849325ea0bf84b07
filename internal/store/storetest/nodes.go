package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/node"
	"legwork/internal/store"
)

// nodes: declared Nodes, Node sources and what these give are their Organization's alone; what is found goes with its source.
func nodes(t *testing.T, w *world) {
	declare := func(o tenant, address string) (n catalog.Node, s catalog.NodeSource) {
		id := catalog.Identity{OrganizationID: o.org.ID}
		n = catalog.Node{Identity: id, NodeSpec: catalog.NodeSpec{Stack: "prod", Node: node.Node{Name: "web-1", Address: address, Tags: []string{"web"}}}}
		s = catalog.NodeSource{Identity: id, NodeSourceSpec: catalog.NodeSourceSpec{Stack: "prod", Name: "cloud", Type: catalog.FromEC2, Runner: "edge"}}
		w.update(func(tx *store.Tx) error { return errors.Join(tx.PutNode(&n), tx.PutNodeSource(&s)) })
		return n, s
	}
	n, s := declare(w.a, "10.0.0.1")
	_, theirs := declare(w.b, "10.0.0.2")
	w.fails(fault.Conflict, "a second Node of the name", func(tx *store.Tx) error { again := n; again.ID = ""; return tx.PutNode(&again) })
	w.fails(fault.Conflict, "the Stack is not empty", func(tx *store.Tx) error { return tx.DeleteStack(w.a.org.ID, w.a.stack.ID) })
	w.fails(fault.NotFound, "the neighbour's Node", func(tx *store.Tx) error { _, err := tx.Node(w.b.org.ID, n.ID); return err })
	w.fails(fault.NotFound, "the neighbour's source", func(tx *store.Tx) error { return tx.ReplaceDiscovered(w.b.org.ID, s.ID, nil) })
	w.fails(fault.NotFound, "the neighbour deletes", func(tx *store.Tx) error { return tx.DeleteNodeSource(w.b.org.ID, s.ID) })
	w.view(func(tx *store.Tx) error {
		byPath, err := tx.Node(w.a.org.ID, "prod/web-1")
		sameText(t, "by path", byPath, n)
		byID, idErr := tx.Node(w.a.org.ID, n.ID)
		sameText(t, "by id", byID, n)
		all, listErr := tx.Nodes(w.a.org.ID, w.a.stack.ID)
		sameText(t, "all", all, []catalog.Node{n})
		none, noneErr := tx.Nodes(w.b.org.ID, w.a.stack.ID)
		same(t, "of the neighbour's Stack", len(none), 0)
		return errors.Join(err, idErr, listErr, noneErr)
	})
	foundNodes(t, w, s, theirs)
	w.update(func(tx *store.Tx) error {
		return errors.Join(tx.DeleteNode(w.a.org.ID, n.ID), tx.DeleteNodeSource(w.a.org.ID, s.ID))
	})
	w.view(func(tx *store.Tx) error {
		found, err := tx.Discovered(w.a.org.ID, s.ID)
		same(t, "found by what is gone", len(found), 0)
		return err
	})
}

// foundNodes: what a source gives replaces what it gave before, whole, and its state is kept beside.
func foundNodes(t *testing.T, w *world, s, theirs catalog.NodeSource) {
	t.Helper()
	give := func(o string, s catalog.NodeSource, n int) (nodes []node.Node) {
		for i := range n {
			nodes = append(nodes, node.Node{Name: fmt.Sprintf("n%04d", i), Attributes: map[string]string{"i": fmt.Sprint(i)}})
		}
		w.update(func(tx *store.Tx) error { return tx.ReplaceDiscovered(o, s.ID, nodes) })
		return nodes
	}
	give(w.b.org.ID, theirs, 3)
	give(w.a.org.ID, s, 1001)
	few := give(w.a.org.ID, s, 7)
	now := time.Now().UTC().Truncate(time.Microsecond)
	state := catalog.NodeSourceState{RefreshedAt: now, SucceededAt: now.Add(-time.Hour), LastError: "no", LastJobID: "j"}
	w.update(func(tx *store.Tx) error {
		return errors.Join(tx.SaveNodeSource(w.a.org.ID, s.ID, state), tx.PlanNodeSource(w.a.org.ID, s.ID, now.Add(time.Minute)))
	})
	w.fails(fault.NotFound, "the state of a neighbour's", func(tx *store.Tx) error { return tx.SaveNodeSource(w.b.org.ID, s.ID, state) })
	w.view(func(tx *store.Tx) error {
		found, err := tx.Discovered(w.a.org.ID, s.ID)
		sameText(t, "found", found, few)
		foreign, foreignErr := tx.Discovered(w.b.org.ID, s.ID)
		same(t, "found, to the neighbour", len(foreign), 0)
		got, getErr := tx.NodeSource(w.a.org.ID, "prod/cloud")
		state.Nodes, state.NextAt = 7, now.Add(time.Minute)
		sameText(t, "state", got.NodeSourceState, state)
		early, earlyErr := tx.DueNodeSources(now, 10)
		same(t, "due early", len(early), 0)
		due, dueErr := tx.DueNodeSources(now.Add(time.Minute), 10)
		sameText(t, "due", due, []catalog.NodeSource{got})
		return errors.Join(err, foreignErr, getErr, earlyErr, dueErr)
	})
	claimed := oneOf(t, w, func(tx *store.Tx) (bool, error) {
		return tx.ClaimNodeSource(w.a.org.ID, s.ID, state.NextAt, now.Add(time.Hour))
	})
	same(t, "claims of a Node source", claimed, 1)
	w.update(func(tx *store.Tx) error { s := s; s.Description = "changed"; return tx.PutNodeSource(&s) })
	w.view(func(tx *store.Tx) error {
		got, err := tx.NodeSource(w.a.org.ID, s.ID)
		same(t, "kept when it is declared anew", got.LastError+got.Description+fmt.Sprint(got.Nodes, got.NextAt.Equal(now.Add(time.Hour))), "nochanged7 true")
		return err
	})
}

// oneOf has several Servers claim the same at once, and tells how many got it.
func oneOf(t *testing.T, w *world, claim func(tx *store.Tx) (bool, error)) int {
	t.Helper()
	var won atomic.Int32
	err := together(t.Context(), 8, func(ctx context.Context, _ int) error {
		ok := false
		err := w.s.Update(ctx, func(tx *store.Tx) (err error) { ok, err = claim(tx); return err })
		if ok && err == nil {
			won.Add(1)
		}
		return err
	})
	if err != nil {
		t.Fatal(explain(err))
	}
	return int(won.Load())
}

// runbooks: a Schedule keeps its time as long as its rule is the same, and one Server alone gets it when it is due.
func runbooks(t *testing.T, w *world) {
	var b, theirs catalog.Runbook
	spec := catalog.RunbookSpec{Stack: "prod", Name: "deploy", Steps: []catalog.RunbookStep{{Command: "uptime"}},
		Options: []catalog.Option{{Name: "n", Type: catalog.NumberOption, Default: 1.5}}}
	w.update(func(tx *store.Tx) error {
		b = catalog.Runbook{Identity: catalog.Identity{OrganizationID: w.a.org.ID}, RunbookSpec: spec}
		theirs = catalog.Runbook{Identity: catalog.Identity{OrganizationID: w.b.org.ID}, RunbookSpec: spec}
		return errors.Join(tx.PutRunbook(&b), tx.PutRunbook(&theirs))
	})
	at := time.Now().UTC().Truncate(time.Microsecond).Add(-time.Minute)
	put := func(of catalog.Runbook, all ...store.Schedule) {
		w.update(func(tx *store.Tx) error { return tx.PutSchedules(of.OrganizationID, of.ID, all) })
	}
	put(b, store.Schedule{Name: "a", Rule: "x", NextAt: at}, store.Schedule{Name: "b", Rule: "x", NextAt: at.Add(time.Hour)}, store.Schedule{Name: "off", Rule: "x"})
	put(theirs, store.Schedule{Name: "a", Rule: "x", NextAt: at.Add(time.Second)})
	due := func(now time.Time) (all []store.Schedule) {
		w.view(func(tx *store.Tx) (err error) { all, err = tx.DueSchedules(now, 10); return err })
		return all
	}
	mine := store.Schedule{OrganizationID: w.a.org.ID, RunbookID: b.ID, Name: "a", Rule: "x", NextAt: at}
	first := due(at.Add(time.Minute))
	same(t, "due", len(first), 2)
	sameText(t, "due first", first[0], mine)
	same(t, "claims", oneOf(t, w, func(tx *store.Tx) (bool, error) { return tx.ClaimSchedule(mine, at.Add(2*time.Hour)) }), 1)
	same(t, "due after the claim", len(due(at.Add(time.Minute))), 1)
	w.update(func(tx *store.Tx) error { return tx.NoteScheduled(mine, "j", "") })
	put(b, store.Schedule{Name: "a", Rule: "x", NextAt: at}, store.Schedule{Name: "b", Rule: "y", NextAt: at.Add(3 * time.Hour)})
	w.view(func(tx *store.Tx) error {
		kept, err := tx.Schedules(w.a.org.ID, b.ID)
		mine.NextAt, mine.LastAt, mine.LastJobID = at.Add(2*time.Hour), at, "j"
		other := store.Schedule{OrganizationID: w.a.org.ID, RunbookID: b.ID, Name: "b", Rule: "y", NextAt: at.Add(3 * time.Hour)}
		sameText(t, "kept", kept, []store.Schedule{mine, other})
		foreign, foreignErr := tx.Schedules(w.b.org.ID, b.ID)
		same(t, "seen by the neighbour", len(foreign), 0)
		got, getErr := tx.Runbook(w.a.org.ID, "prod/deploy")
		sameText(t, "the Runbook", got, b)
		return errors.Join(err, foreignErr, getErr)
	})
	w.fails(fault.NotFound, "the neighbour's Runbook", func(tx *store.Tx) error { _, err := tx.Runbook(w.b.org.ID, b.ID); return err })
	put(b)
	w.update(func(tx *store.Tx) error { return tx.DeleteRunbook(w.b.org.ID, theirs.ID) })
	same(t, "due of what is gone", len(due(at.Add(9*time.Hour))), 0)
}
