package control

import (
	"context"

	"legwork/internal/catalog"
	"legwork/internal/store"
)

// AuditEntry is one thing that somebody did.
type AuditEntry = store.AuditEntry

// AuditFilter narrows a listing of the audit.
type AuditFilter = store.AuditFilter

// Audit gives what people and programs did in the Organization, the newest first.
func (c *Control) Audit(ctx context.Context, actor catalog.Actor, f AuditFilter) (entries []AuditEntry, err error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return nil, err
	}
	err = c.store.View(ctx, func(tx *store.Tx) error {
		entries, err = tx.Audit(actor.OrganizationID, f)
		return err
	})
	return entries, err
}

// NoteAuditExport leaves an entry of its own: somebody takes the audit away.
func (c *Control) NoteAuditExport(ctx context.Context, actor catalog.Actor) error {
	if err := actor.Need(catalog.Administer); err != nil {
		return err
	}
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "audit.export")
		return c.publish(tx, actor.OrganizationID, "audit.exported", actor.ID, RevealedEvent{By: actor.Name})
	})
	if err == nil {
		c.signal(actor.OrganizationID)
	}
	return err
}
