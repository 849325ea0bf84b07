package access

import (
	"context"

	"legwork/internal/catalog"
	"legwork/internal/store"
)

// Standing returns the Actors of some Credentials of an Organization as they are now, by the id of the Credential. A
// Credential that was deleted or has expired is missing. It serves what stays open after it was authenticated.
func (a *Access) Standing(ctx context.Context, org string, credentialIDs []string) (map[string]catalog.Actor, error) {
	standing := make(map[string]catalog.Actor, len(credentialIDs))
	err := a.store.View(ctx, func(tx *store.Tx) error {
		held, err := tx.CredentialsAmong(org, credentialIDs)
		for _, h := range held {
			if !over(h.Credential, a.now()) {
				standing[h.Credential.ID] = actorOf(h.Principal, h.Credential)
			}
		}
		return err
	})
	return standing, err
}
