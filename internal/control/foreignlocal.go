package control

import (
	"context"
	"sync"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// foreignLocalWarning is shown with a runner that has the name of the Server's own one and was not made by the Server.
const foreignLocalWarning = "the name local is reserved for the Server's own runner, and the Server did not make this " +
	"record. It gets no jobs of launchers, and hosted runners cannot start. Delete the record: legwork runner delete local"

// foreignLocalNote records whether the audit log has the entry of noteForeignLocal.
type foreignLocalNote struct {
	mu      sync.Mutex
	written bool
}

// noteForeignLocal records in the audit log, once, that the Server could not register its own runner because another
// one has its name. The next call tries again after an error.
func (c *Control) noteForeignLocal(ctx context.Context, actor catalog.Actor, by catalog.Registrar, refused error) {
	if by.ID != catalog.ServerRegistrar || fault.Code(refused) != "runner_exists" {
		return
	}
	c.foreignLocal.mu.Lock()
	defer c.foreignLocal.mu.Unlock()
	if c.foreignLocal.written {
		return
	}
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "runner.register")
		r, err := tx.Runner(by.OrganizationID, catalog.LocalRunner)
		if err != nil {
			return err
		}
		return c.publish(tx, by.OrganizationID, "runner.name_taken", r.ID, InstanceEvent{Runner: r.Name})
	})
	if err != nil {
		c.log.Error("cannot record that another runner has the reserved name local", "error", err)
		return
	}
	c.foreignLocal.written = true
	c.log.Error("a runner that the server did not make has the reserved name local")
}
