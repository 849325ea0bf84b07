package control

import (
	"context"

	"legwork/internal/catalog"
	"legwork/internal/control/nodes"
	"legwork/internal/store"
)

// What is known of Nodes outside, under the names that it has there.
type (
	NodeView        = nodes.NodeView       // a Node with where it comes from and who takes it
	NodeList        = nodes.NodeList       // Nodes that a filter chooses
	StackConflict   = nodes.StackConflict  // a Node with two addresses
	FailingSource   = nodes.FailingSource  // a Node source whose last refresh failed
	CoveringRunner  = nodes.CoveringRunner // counts the Nodes of a Runner
	NodeSourceEvent = nodes.SourceEvent    // the data of the events "node_source.refreshed" and "node_source.failed"
)

// heldNodes are the Nodes as a part of Control that only its methods show.
type heldNodes = nodes.Nodes

// nodeHost is what a Control is to its Nodes, and to nobody else.
type nodeHost struct{ tasks }

func (h nodeHost) Publish(tx *store.Tx, org, kind, subject string, data any) error {
	return h.c.publish(tx, org, kind, subject, data)
}

func (h nodeHost) Remove(ctx context.Context, actor catalog.Actor, kind catalog.Kind, fn func(tx *store.Tx) (id, path string, err error)) error {
	return h.c.remove(ctx, actor, catalog.Declare, kind, fn)
}
