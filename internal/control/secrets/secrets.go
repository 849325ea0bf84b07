// Package secrets keeps Secrets sealed: who may set, see and delete them and where they are used, what of them a Job is given and how
// that is told in the audit, and where Runners could get others from.
//
// Everything of the Server that must not lie in the database as it is goes through its Safe: sensitive Inputs and outputs, what Attempts
// were given, the secrets of cloud identities and webhooks. Reseal seals all of it anew under a new master key.
package secrets

import (
	"context"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// Host is what a Server is to its Secrets.
type Host interface {
	// Declared puts into the outbox that an Actor made, changed or deleted a Secret; the action is create, update or delete.
	Declared(tx *store.Tx, actor catalog.Actor, action string, s catalog.Secret) error
	// Redeclared has every Server look at what an Organization declares anew. It is called after the commit.
	Redeclared(org string)
	// Job finds a Job, by id or number, for an Actor.
	Job(ctx context.Context, actor catalog.Actor, idOrNumber string) (*work.Job, error)
	Tasks
}

// Tasks has Jobs done by a Runner for a whole Stack.
type Tasks interface {
	// Accepting is the error of a Server that takes no more Jobs.
	Accepting() error
	// Assigned is the error of a Runner that may not work for the whole of a Stack.
	Assigned(tx *store.Tx, r catalog.Runner, stackID, stack string) error
	// Submit runs a transaction that may queue Jobs, which get the limits of the Server, and has them dispatched after it.
	Submit(ctx context.Context, fn func(tx *store.Tx, queue func(*work.Job, store.JobSnapshot) error) error) error
}

// Secrets are those of all Organizations, as people and programs ask for them.
type Secrets struct {
	host  Host
	store *store.Store
	safe  *Safe
}

// New makes Secrets whose values are kept with a Safe.
func New(host Host, st *store.Store, safe *Safe) *Secrets { return &Secrets{host, st, safe} }

// read runs fn for an Actor that may read.
func (s *Secrets) read(ctx context.Context, actor catalog.Actor, fn func(tx *store.Tx) error) error {
	if err := actor.Need(catalog.Read); err != nil {
		return err
	}
	return s.store.View(ctx, fn)
}

// Change sets a Secret. Nobody reads a Value back.
type Change struct {
	catalog.SecretSpec
	Value *string // of kind value; nil keeps the one that is stored
}

// Secrets lists the Secrets, without their values, by scope and name: of one Stack, by id or name, or of all when stack is empty.
func (s *Secrets) Secrets(ctx context.Context, actor catalog.Actor, stack string,
	pages ...store.Page) (all []catalog.Secret, err error) {
	err = s.read(ctx, actor, func(tx *store.Tx) error {
		stackID := ""
		if stack != "" {
			found, err := tx.Stack(actor.OrganizationID, stack)
			if err != nil {
				return err
			}
			stackID = found.ID
		}
		all, err = tx.Secrets(actor.OrganizationID, stackID, pages...)
		return err
	})
	return all, err
}

// SetSecret makes or changes a Secret, by name and scope.
func (s *Secrets) SetSecret(ctx context.Context, actor catalog.Actor, change Change) (set catalog.Secret, err error) {
	if err := actor.Need(catalog.Declare); err != nil {
		return set, err
	}
	if err := change.check(); err != nil {
		return set, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "secret.set")
		if err := tx.LockCatalog(actor.OrganizationID); err != nil {
			return err
		}
		action := ""
		if set, action, err = s.safe.put(tx, actor, change); err != nil {
			return err
		}
		return s.host.Declared(tx, actor, action, set)
	})
	if err == nil {
		s.host.Redeclared(actor.OrganizationID)
	}
	return set, err
}

func (change Change) check() error {
	if err := change.SecretSpec.Check(); err != nil {
		return err
	}
	switch {
	case change.Value == nil:
		return nil
	case change.Kind != catalog.SecretValue:
		return fault.New(fault.Invalid, "secret_invalid", "a Secret is a value or a reference, not both").WithHint("leave one of them out")
	}
	return catalog.CheckSecretValue(*change.Value)
}

// DeleteSecret deletes a Secret, by id or path, whoever uses it.
func (s *Secrets) DeleteSecret(ctx context.Context, actor catalog.Actor, idOrPath string) error {
	return s.delete(ctx, actor, idOrPath, func(*store.Tx, catalog.Secret) error { return nil })
}

// DeleteUnusedSecret is DeleteSecret of one that nothing takes: of another it is a Conflict that names who uses it.
func (s *Secrets) DeleteUnusedSecret(ctx context.Context, actor catalog.Actor, idOrPath string) error {
	return s.delete(ctx, actor, idOrPath, unused)
}

func (s *Secrets) delete(ctx context.Context, actor catalog.Actor, idOrPath string, may func(*store.Tx, catalog.Secret) error) error {
	if err := actor.Need(catalog.Declare); err != nil {
		return err
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "secret.delete")
		if err := tx.LockCatalog(actor.OrganizationID); err != nil {
			return err
		}
		found, err := find(tx, actor.OrganizationID, idOrPath)
		if err != nil {
			return err
		}
		if err := may(tx, found); err != nil {
			return err
		}
		if err := tx.DeleteSecret(found.OrganizationID, found.ID); err != nil {
			return err
		}
		return s.host.Declared(tx, actor, "delete", found)
	})
	if err == nil {
		s.host.Redeclared(actor.OrganizationID)
	}
	return err
}
