package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/node"
)

const selectNode = "SELECT " + identityColumns + `, r.stack_id, s.name, r.name
	FROM nodes r JOIN stacks s ON s.id = r.stack_id WHERE r.org = $1`

func scanNode(r row) (n catalog.Node, err error) {
	var stack, name string
	err = identity(r, &n.Identity, &n.NodeSpec, &n.StackID, &stack, &name)
	n.Stack, n.Name = stack, name
	return n, err
}

// Nodes gives the declared Nodes of a Stack, or of all Stacks when stackID is empty, by path.
func (tx *Tx) Nodes(org, stackID string) ([]catalog.Node, error) {
	return list(tx, scanNode, selectNode+" AND ($2 = '' OR r.stack_id = $2) ORDER BY s.name, r.name", org, stackID)
}

// Node finds a declared Node by its id or its path "stack/name".
func (tx *Tx) Node(org, idOrPath string) (catalog.Node, error) {
	return inStack(tx, absent("Node", "node", idOrPath), scanNode, selectNode, org, idOrPath)
}

// inStack finds what lies in a Stack by its id or its path "stack/name".
func inStack[T any](tx *Tx, missing error, scan func(row) (T, error), query, org, idOrPath string) (v T, err error) {
	where, args := " AND r.id = $2", []any{org, idOrPath}
	if stack, name, ok := strings.Cut(idOrPath, "/"); ok {
		where, args = " AND s.name = $2 AND r.name = $3", []any{org, stack, name}
	}
	v, ok, err := find(tx, scan, query+where, args...)
	if err == nil && !ok {
		err = missing
	}
	return v, err
}

// putInStack creates or replaces what lies in a Stack. It sets ID and times, and stackID from the name of the Stack when it is
// empty.
func (tx *Tx) putInStack(what, code, table, stack, name string, id *catalog.Identity, stackID *string, spec any) error {
	if *stackID == "" {
		s, err := tx.Stack(id.OrganizationID, stack)
		if err != nil {
			return err
		}
		*stackID = s.ID
	}
	doc, err := document(spec)
	if err != nil {
		return err
	}
	return tx.put(record{
		what: what, code: code, table: table, name: stack + "/" + name, id: id,
		columns: []string{"stack_id", "name", "doc"}, values: []any{*stackID, name, doc},
	})
}

// PutNode creates the Node when its ID is empty, else replaces it. It sets ID and times, and StackID from Stack when that alone
// is given.
func (tx *Tx) PutNode(n *catalog.Node) error {
	return tx.putInStack("Node", "node", "nodes", n.Stack, n.Name, &n.Identity, &n.StackID, n.NodeSpec)
}

// DeleteNode deletes a declared Node.
func (tx *Tx) DeleteNode(org, id string) error { return tx.remove("Node", "node", "nodes", org, id) }

const selectNodeSource = "SELECT " + identityColumns + `, r.stack_id, s.name, r.name, r.refreshed_at, r.succeeded_at, r.last_error,
	r.last_job_id, r.found, coalesce(r.next_at, 0) FROM node_sources r JOIN stacks s ON s.id = r.stack_id WHERE `

func scanNodeSource(r row) (n catalog.NodeSource, err error) {
	var stack, name, failed, job string
	var found int
	var refreshed, succeeded, next int64
	err = identity(r, &n.Identity, &n.NodeSourceSpec, &n.StackID, &stack, &name, &refreshed, &succeeded, &failed, &job, &found, &next)
	n.Stack, n.Name = stack, name
	n.NodeSourceState = catalog.NodeSourceState{
		RefreshedAt: moment(refreshed), SucceededAt: moment(succeeded), LastError: failed, LastJobID: job, Nodes: found, NextAt: moment(next),
	}
	return n, err
}

// NodeSources gives the Node sources of a Stack, or of all Stacks when stackID is empty, by path.
func (tx *Tx) NodeSources(org, stackID string, pages ...Page) ([]catalog.NodeSource, error) {
	return listPage(tx, scanNodeSource, byPath, pages, selectNodeSource+"r.org = $1 AND ($2 = '' OR r.stack_id = $2)", org, stackID)
}

// NodeSource finds a Node source by its id or its path "stack/name".
func (tx *Tx) NodeSource(org, idOrPath string) (catalog.NodeSource, error) {
	return inStack(tx, absent("Node source", "node_source", idOrPath), scanNodeSource, selectNodeSource+"r.org = $1", org, idOrPath)
}

// PutNodeSource creates the Node source when its ID is empty, else replaces it. It sets ID and times, and StackID from Stack when
// that alone is given. Its state stays as it is, see SaveNodeSource.
func (tx *Tx) PutNodeSource(n *catalog.NodeSource) error {
	return tx.putInStack("Node source", "node_source", "node_sources", n.Stack, n.Name, &n.Identity, &n.StackID, n.NodeSourceSpec)
}

// SaveNodeSource stores the state of a Node source, but for NextAt and the number of its Nodes.
func (tx *Tx) SaveNodeSource(org, id string, s catalog.NodeSourceState) error {
	n, err := tx.exec(`UPDATE node_sources SET refreshed_at = $3, succeeded_at = $4, last_error = $5, last_job_id = $6 WHERE org = $1 AND id = $2`,
		org, id, micros(s.RefreshedAt), micros(s.SucceededAt), s.LastError, s.LastJobID)
	if err == nil && n == 0 {
		err = absent("Node source", "node_source", id)
	}
	return err
}

// DeleteNodeSource deletes a Node source with what it gave.
func (tx *Tx) DeleteNodeSource(org, id string) error {
	return tx.remove("Node source", "node_source", "node_sources", org, id)
}

// PlanNodeSource sets when a Node source is refreshed next; the zero time for never.
func (tx *Tx) PlanNodeSource(org, id string, next time.Time) error {
	_, err := tx.exec("UPDATE node_sources SET next_at = $3 WHERE org = $1 AND id = $2", org, id, dueOrNull(next))
	return err
}

// DueNodeSources gives the Node sources, of all Organizations, that are to be refreshed, those first that wait longest.
func (tx *Tx) DueNodeSources(now time.Time, most int) ([]catalog.NodeSource, error) {
	return list(tx, scanNodeSource, selectNodeSource+"r.next_at <= $1 ORDER BY r.next_at, r.id LIMIT $2", micros(now), most)
}

// ClaimNodeSource puts off a Node source that is due, for one Server alone: it tells whether this one did it.
func (tx *Tx) ClaimNodeSource(org, id string, due, next time.Time) (bool, error) {
	n, err := tx.exec("UPDATE node_sources SET next_at = $4 WHERE org = $1 AND id = $2 AND next_at = $3", org, id, micros(due), dueOrNull(next))
	return n > 0, err
}

// discoveredAtOnce is how many Nodes one statement writes.
const discoveredAtOnce = 200

// ReplaceDiscovered stores what a Node source gave, instead of what it gave before. Names are unique.
func (tx *Tx) ReplaceDiscovered(org, sourceID string, nodes []node.Node) error {
	n, err := tx.exec("UPDATE node_sources SET found = $3 WHERE org = $1 AND id = $2", org, sourceID, len(nodes))
	switch {
	case err != nil:
		return err
	case n == 0:
		return absent("Node source", "node_source", sourceID)
	}
	if _, err := tx.exec("DELETE FROM discovered_nodes WHERE org = $1 AND source_id = $2", org, sourceID); err != nil {
		return err
	}
	for len(nodes) > 0 {
		some := nodes[:min(discoveredAtOnce, len(nodes))]
		nodes = nodes[len(some):]
		var rows []string
		args := []any{org, sourceID}
		for _, n := range some {
			doc, err := document(n)
			if err != nil {
				return err
			}
			rows = append(rows, fmt.Sprintf("($2, $1, $%d, $%d)", len(args)+1, len(args)+2))
			args = append(args, n.Name, doc)
		}
		if _, err := tx.exec("INSERT INTO discovered_nodes (source_id, org, name, doc) VALUES "+strings.Join(rows, ", "), args...); err != nil {
			return err
		}
	}
	return nil
}

// Discovered gives what a Node source gave last, by name.
func (tx *Tx) Discovered(org, sourceID string) ([]node.Node, error) {
	scan := func(r row) (n node.Node, err error) {
		var doc []byte
		if err := r.Scan(&doc); err != nil {
			return n, err
		}
		err = json.Unmarshal(doc, &n)
		return n, err
	}
	return list(tx, scan, "SELECT doc FROM discovered_nodes WHERE org = $1 AND source_id = $2 ORDER BY name", org, sourceID)
}
