package nodes

import (
	"sync"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/node"
	"legwork/internal/store"
)

// foundKept bounds the Nodes that are kept read, of all Node sources together.
const foundKept = 50_000

// foundNodes keeps what Node sources found last, so that a preview at every key that is pressed does not read thousands of Nodes
// again. What is stored counts: it is asked for whenever the Node source gave Nodes since.
type foundNodes struct {
	mu    sync.Mutex
	known map[string]foundBy // by the id of the Node source
	total int
}

// foundBy is what a Node source gave at a time. Nobody changes its Nodes.
type foundBy struct {
	at    time.Time
	nodes []node.Node
}

// of gives the Nodes of a Node source as it was read in this transaction. They belong to all who ask.
func (f *foundNodes) of(tx *store.Tx, s catalog.NodeSource) ([]node.Node, error) {
	f.mu.Lock()
	kept, ok := f.known[s.ID]
	f.mu.Unlock()
	if ok && kept.at.Equal(s.SucceededAt) && len(kept.nodes) == s.Nodes {
		return kept.nodes, nil
	}
	nodes, err := tx.Discovered(s.OrganizationID, s.ID)
	if err != nil || len(nodes) != s.Nodes { // it gave others meanwhile
		return nodes, err
	}
	f.keep(s.ID, foundBy{s.SucceededAt, nodes})
	return nodes, nil
}

func (f *foundNodes) keep(id string, found foundBy) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.total += len(found.nodes) - len(f.known[id].nodes)
	if f.total > foundKept || f.known == nil {
		f.known, f.total = map[string]foundBy{}, len(found.nodes)
	}
	f.known[id] = found
}
