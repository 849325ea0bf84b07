package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"legwork/internal/work"
)

// NodeResult is how an Item of a Runbook Job went on a Node, as far as is known.
type NodeResult struct {
	Part    int // that said so, from 1
	Attempt int // of the Part
	work.NodeEvent
}

// NodeResultFilter narrows a listing of NodeResults. Zero fields match all.
type NodeResultFilter struct {
	Part       int // 0 for all
	Items      []int
	Nodes      []int // by index; -1 for what is done once per Runner
	Statuses   []work.NodeStatus
	AfterItem  int // for paging, with After: those behind this Item,
	AfterNode  int // this Node
	AfterPart  int // and this Part
	After      bool
	Limit      int  // 1 to 100,000; 0 = 1000
	WithValues bool // what was written to $LEGWORK_OUTPUT, too
}

// resultsAtOnce bounds the rows of one statement. SQLite's driver takes for each argument a time that rises with their number: with 256 rows that was
// half of all that a large Runbook Job cost.
const resultsAtOnce = 32

// PutNodeResults notes what an Attempt of a Part said of Items and Nodes, in the order in which it was said. What is done never becomes running again,
// and an earlier Attempt says nothing about what a later one has done. Told twice, it is noted once.
func (tx *Tx) PutNodeResults(parentID string, part, attempt int, events []work.NodeEvent) error {
	events = lastOfEach(events)
	for len(events) > 0 {
		n := resultsAtOnce
		for n > len(events) { // powers of two, so that there are few statements to prepare
			n /= 2
		}
		if err := tx.putNodeResults(parentID, part, attempt, events[:n]); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// lastOfEach gives the newest event of each Item and Node, in the order of the table.
func lastOfEach(events []work.NodeEvent) []work.NodeEvent {
	type pair struct{ item, node int }
	at := map[pair]int{}
	var last []work.NodeEvent
	for _, e := range events {
		key := pair{e.Item, e.Node}
		i, known := at[key]
		switch {
		case !known:
			at[key] = len(last)
			last = append(last, e)
		case e.Status.Done() || !last[i].Status.Done():
			last[i] = e
		}
	}
	slices.SortFunc(last, func(a, b work.NodeEvent) int { return cmp.Or(a.Item-b.Item, a.Node-b.Node) })
	return last
}

func (tx *Tx) putNodeResults(parentID string, part, attempt int, events []work.NodeEvent) error {
	args := []any{parentID, part, attempt}
	rows := make([]string, len(events))
	for i, e := range events {
		doc, err := document(e)
		if err != nil {
			return err
		}
		done := 0
		if e.Status.Done() {
			done = 1
		}
		n := len(args)
		rows[i] = fmt.Sprintf("($1, $%d, $%d, $2, $3, $%d, $%d, $%d, $%d, $%d, $%d)", n+1, n+2, n+3, n+4, n+5, n+6, n+7, n+8)
		args = append(args, e.Item, e.Node, string(e.Status), done, e.ExitCode, micros(e.Started), micros(e.Finished), doc)
	}
	_, err := tx.exec(`INSERT INTO node_results (job_id, item, node, part, attempt, status, done, exit_code, started_at, finished_at, doc) VALUES `+
		strings.Join(rows, ", ")+` ON CONFLICT (job_id, item, node, part) DO UPDATE SET attempt = excluded.attempt, status = excluded.status,
		done = excluded.done, exit_code = excluded.exit_code, started_at = excluded.started_at, finished_at = excluded.finished_at, doc = excluded.doc
		WHERE (excluded.attempt >= node_results.attempt AND (excluded.done = 1 OR node_results.done = 0))
			OR (excluded.done = 1 AND node_results.done = 0)`, args...)
	return err
}

// NodeResults lists them by Item, Node and Part, of a Job that was found in its Organization.
func (tx *Tx) NodeResults(parentID string, f NodeResultFilter) ([]NodeResult, error) {
	q := &jobQuery{where: []string{"job_id = $1"}, args: []any{parentID}}
	if f.Part > 0 {
		q.add("part = $%[1]d", f.Part)
	}
	addIn(q, "item", f.Items)
	addIn(q, "node", f.Nodes)
	addIn(q, "status", f.Statuses)
	if f.After {
		n := len(q.args)
		q.args = append(q.args, f.AfterItem, f.AfterNode, f.AfterPart)
		q.where = append(q.where, fmt.Sprintf("(item, node, part) > ($%d, $%d, $%d)", n+1, n+2, n+3))
	}
	q.args = append(q.args, bounded(f.Limit, 1000, 100_000))
	scan := func(r row) (n NodeResult, err error) {
		var doc []byte
		if err = r.Scan(&n.Part, &n.Attempt, &doc); err != nil {
			return n, err
		}
		if err = json.Unmarshal(doc, &n.NodeEvent); err != nil {
			return n, fmt.Errorf("read the result of a Node: %w", err)
		}
		if !f.WithValues {
			n.Values = nil
		}
		return n, nil
	}
	return list(tx, scan, fmt.Sprintf("SELECT part, attempt, doc FROM node_results WHERE %s ORDER BY item, node, part LIMIT $%d",
		strings.Join(q.where, " AND "), len(q.args)), q.args...)
}

func addIn[T any](q *jobQuery, column string, values []T) {
	if len(values) == 0 {
		return
	}
	q.where = append(q.where, column+" IN ("+marks(len(q.args)+1, len(values))+")")
	for _, v := range values {
		if s, is := any(v).(work.NodeStatus); is {
			q.args = append(q.args, string(s))
			continue
		}
		q.args = append(q.args, v)
	}
}

// CountNodeResults counts the nodes of each item by status; of an item that has no results on nodes, what was done once per runner.
// Those without any result are missing.
func (tx *Tx) CountNodeResults(parentID string) (map[int]map[work.NodeStatus]int, error) {
	counts := map[int]map[work.NodeStatus]int{}
	onNodes := map[int]bool{}
	_, err := list(tx, func(r row) (struct{}, error) {
		var item, n, once int
		var status work.NodeStatus
		err := r.Scan(&item, &status, &once, &n)
		if once > 0 && onNodes[item] { // an Ansible step has both
			return struct{}{}, err
		}
		onNodes[item] = once == 0
		if counts[item] == nil {
			counts[item] = map[work.NodeStatus]int{}
		}
		counts[item][status] = n
		return struct{}{}, err
	}, `SELECT item, status, once, count(*)
		FROM (SELECT item, status, CASE WHEN node < 0 THEN 1 ELSE 0 END AS once FROM node_results WHERE job_id = $1) AS results
		GROUP BY item, status, once ORDER BY item, once`, parentID)
	return counts, err
}
