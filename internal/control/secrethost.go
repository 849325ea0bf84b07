package control

import (
	"context"

	"legwork/internal/catalog"
	"legwork/internal/control/hooks"
	"legwork/internal/control/secrets"
	"legwork/internal/store"
	"legwork/internal/work"
)

// What is known of Secrets outside, under the names that it has there.
type (
	SecretChange    = secrets.Change     // sets a Secret
	SecretView      = secrets.SecretView // a Secret with where it is used
	SecretUse       = secrets.SecretUse  // something that takes a Secret
	SecretPlace     = secrets.Search     // where a Runner is to look for Secrets
	SecretPathsView = secrets.Found      // what came of looking for Secrets
	SecretUsedEvent = secrets.UsedEvent  // the data of the event "secret.used"
	UsedSecret      = secrets.Used       // names a Secret
)

// heldSecrets are the Secrets as a part of Control that only its methods show.
type heldSecrets = secrets.Secrets

// Reseal seals everything in the database anew that is not under the newest key, in small transactions, and gives how many values that
// were. Broken off, it can be run again. Servers may work meanwhile. after, if any, hears of each transaction.
func Reseal(ctx context.Context, st *store.Store, keys secrets.Keys, after func(values int)) (values int, err error) {
	return secrets.Reseal(ctx, st, keys, hooks.SealedFor, after)
}

// secretHost is what a Control is to its Secrets, and to nobody else.
type secretHost struct{ tasks }

func (h secretHost) Declared(tx *store.Tx, actor catalog.Actor, action string, s catalog.Secret) error {
	return h.c.noteDeclared(tx, actor, action, catalog.KindSecret, s.Path(), s.ID)
}

func (h secretHost) Redeclared(org string) { h.c.redeclared(org) }

func (h secretHost) Job(ctx context.Context, actor catalog.Actor, idOrNumber string) (*work.Job, error) {
	return h.c.Job(ctx, actor, idOrNumber)
}

// noteSecretsUsed writes into the audit which Secrets an Attempt is given.
func (c *Control) noteSecretsUsed(tx *store.Tx, j *work.Job, m catalog.Module, spec *work.Spec) error {
	e, err := secrets.UsedBy(tx, j, m, spec)
	if err != nil || e == nil {
		return err
	}
	tx.Sign(catalog.Actor{OrganizationID: j.OrganizationID, Name: j.CreatedBy}, "secret.use")
	return c.publish(tx, j.OrganizationID, "secret.used", j.ID, e)
}

// writeSecret stores a Secret of a manifest, and leaves a value as it is.
func (c *Control) writeSecret(tx *store.Tx, actor catalog.Actor, change catalog.Change) error {
	s, action, err := c.safe.Declare(tx, actor, *change.Secret)
	if err != nil {
		return err
	}
	return c.noteDeclared(tx, actor, action, catalog.KindSecret, s.Path(), s.ID)
}

// retrySecretPaths looks again where a Job looked.
func (c *Control) retrySecretPaths(ctx context.Context, actor catalog.Actor, j *work.Job) (*work.Job, error) {
	var asked store.JobSnapshot
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		asked, err = tx.JobSnapshot(j.OrganizationID, j.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.ListSecretPaths(ctx, actor, SecretPlace{Stack: j.StackID, Runner: asked.RunnerID, Where: asked.Where})
}
