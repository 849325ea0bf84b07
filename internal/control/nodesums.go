package control

import (
	"context"

	"legwork/internal/catalog"
	"legwork/internal/store"
)

// NodeSum counts the Items of a Runbook Job on one Node by how they went.
type NodeSum = store.NodeSum

// NodeSums counts the Items of a Runbook Job, by id or number, on each Node by status, by Node. Nodes that nothing was said of are missing.
func (c *Control) NodeSums(ctx context.Context, actor catalog.Actor, idOrNumber string) ([]NodeSum, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]NodeSum, error) {
		j, err := runByID(tx, actor, idOrNumber)
		if err != nil {
			return nil, err
		}
		return tx.SumNodeResults(j.ID)
	})
}
