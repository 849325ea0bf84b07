package control

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

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

// share is what this Server knows of the Jobs of a Runner whose record bounds them over all its Instances. What Instances connected
// here have is known better: see session.active.
type share struct {
	read  time.Time
	stale bool           // something moved that this Server does not see
	taken map[string]int // by Instance
}

// recount has the places of a Runner counted anew before the next pass. It is false when they need not be counted.
func (q *queue) recount(runnerID string) bool {
	s := q.shares[runnerID]
	if s != nil {
		s.stale = true
	}
	return s != nil
}

// loadShares counts in the store what Jobs take of the Runners that are bounded and connected here.
func (q *queue) loadShares(ctx context.Context, now time.Time) error {
	runners := q.unsureShares(now)
	if len(runners) == 0 {
		return nil
	}
	counted := map[string]map[string]int{}
	err := q.c.store.View(ctx, func(tx *store.Tx) (err error) {
		for _, r := range runners {
			if counted[r.ID], err = tx.PlacesOfRunner(r.OrganizationID, r.ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, taken := range counted {
		q.shares[id].read, q.shares[id].taken = now, taken
	}
	return nil
}

// unsureShares gives the Runners whose places are to be counted, and forgets those that are bounded no more. What becomes stale from
// here on is counted again in the next pass.
func (q *queue) unsureShares(now time.Time) []catalog.Runner {
	q.mu.Lock()
	defer q.mu.Unlock()
	var unsure []catalog.Runner
	bounded := map[string]*share{}
	for _, f := range q.fleets {
		for id, r := range f.runners {
			if r.MaxParallelJobs <= 0 || len(q.local[id]) == 0 {
				continue
			}
			s := q.shares[id]
			if s == nil {
				s = &share{stale: true}
			}
			bounded[id] = s
			if s.stale || now.Sub(s.read) > fleetTime {
				s.stale = false
				unsure = append(unsure, r)
			}
		}
	}
	q.shares = bounded
	return unsure
}

// room gives how many Jobs more a Runner may get in this pass, over all its Instances wherever they are connected. An Offer that
// stands counts as one Job, however many Instances it went to.
func (q *queue) room(r catalog.Runner) int {
	if r.MaxParallelJobs <= 0 {
		return math.MaxInt
	}
	if left, known := q.rooms[r.ID]; known {
		return left
	}
	s := q.shares[r.ID]
	if s == nil {
		return 0 // until it is counted
	}
	left := r.MaxParallelJobs
	here := map[string]bool{}
	for _, i := range q.local[r.ID] {
		here[i.instanceID] = true
		left -= len(i.active)
	}
	for id, n := range s.taken {
		if !here[id] {
			left -= n
		}
	}
	for _, o := range q.offers {
		if o.runners()[r.ID] {
			left--
		}
	}
	q.rooms[r.ID] = left
	return left
}

// runners gives the Runners whose Instances an Offer went to.
func (o *offer) runners() map[string]bool {
	of := map[string]bool{}
	for s := range o.to {
		of[s.runnerID] = true
	}
	return of
}

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
	m, err := tx.Maintenance(s.org)
	if err != nil {
		return err
	}
	switch {
	case i.Draining:
		return errDrains
	case m != nil:
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
	c.queue.mu.Lock()
	c.queue.recount(s.runnerID)
	c.queue.mu.Unlock()
	began := c.order.Load()
	err := c.store.View(ctx, func(tx *store.Tx) error {
		bound, err := tx.BoundJobs(s.org, s.instanceID)
		if err == nil {
			c.queue.setActive(s, bound, began)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.log.Error("could not look at the jobs of an instance", "error", err)
	}
}
