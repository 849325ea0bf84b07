package control

import (
	"cmp"
	"context"
	"errors"

	"legwork/internal/catalog"
	"legwork/internal/store"
)

// errNoPlace says that the Instance, or its Runner, has as many Jobs as it may have.
var errNoPlace = errors.New("no place is left")

// errDrains and errHeldBack say what this Server was not told yet, or was told while the claim was under way: an operator has the Instance
// drain; the Runner is disabled, its Assignment was taken back, or there is maintenance.
var (
	errDrains   = errors.New("the Instance drains")
	errHeldBack = errors.New("the Runner gets no Jobs")
)

// mayTake checks in the store what the picture only believes: that the Session is still the Instance's, that its Runner takes Jobs of the
// Module, and that both have a place left. Until the end of the transaction nobody else gives them a Job, and nobody forbids it.
func (c *Control) mayTake(tx *store.Tx, s *session, module catalog.Module, task bool) error {
	if err := tx.ShareClaims(s.org); err != nil {
		return err
	}
	r, err := tx.Runner(s.org, s.runnerID)
	if err != nil {
		return err
	}
	if err := tx.LockPlaces(r.ID, s.instance, r.MaxParallelJobs > 0); err != nil {
		return err
	}
	i, err := tx.Instance(s.org, s.instanceID)
	if err != nil {
		return err
	}
	if i.SessionID != s.id || !i.Connected {
		return errSessionOver
	}
	pause, err := tx.Paused(s.org)
	if err != nil {
		return err
	}
	switch {
	case i.Draining:
		return errDrains
	case pause:
		return errHeldBack
	case task: // it takes no place, needs no Assignment, and one that is disabled can do it
		return nil
	case r.IsDisabled:
		return errHeldBack
	}
	if ok, err := isAssigned(tx, r, module); err != nil || !ok {
		return cmp.Or(err, errHeldBack)
	}
	return placeLeft(tx, r, i)
}

func placeLeft(tx *store.Tx, r catalog.Runner, i store.Instance) error {
	taken, err := tx.PlacesTaken(i.OrganizationID, i.ID)
	if err != nil {
		return err
	}
	if taken >= i.Capacity {
		return errNoPlace
	}
	if r.MaxParallelJobs <= 0 {
		return nil
	}
	all, err := tx.PlacesOfRunner(r.OrganizationID, r.ID)
	if err != nil {
		return err
	}
	left := r.MaxParallelJobs
	for _, n := range all {
		left -= n
	}
	if left <= 0 {
		return errNoPlace
	}
	return nil
}

// full brings the picture of an Instance that had no place left in line with the store.
func (c *Control) full(ctx context.Context, s *session) {
	s.known.Recount()
	began := c.order.Load()
	err := c.store.View(ctx, func(tx *store.Tx) error {
		bound, err := tx.BoundJobs(s.org, s.instanceID)
		if err == nil {
			s.known.SetActive(bound, began)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.log.Error("could not look at the jobs of an instance", "error", err)
	}
}
