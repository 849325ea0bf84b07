package control

import (
	"context"

	"legwork/internal/catalog"
	"legwork/internal/store"
)

// RequireUnchanged returns a context in which a change of the catalog is refused with precondition_failed unless a
// record still is what it is now. kind is the segment of the API's paths that names the kind of the record.
func (c *Control) RequireUnchanged(ctx context.Context, actor catalog.Actor, kind, id string) (context.Context, error) {
	version, err := read(ctx, c, actor, func(tx *store.Tx) (store.Version, error) {
		return tx.Version(actor.OrganizationID, kind, id)
	})
	if err != nil || version.Value == "" {
		return ctx, err
	}
	return store.WithPrecondition(ctx, version), nil
}

// ErrPreconditionFailed is why a change is refused whose condition does not hold.
var ErrPreconditionFailed = store.ErrPreconditionFailed
