package control

import (
	"context"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

func drainAction(what string, drain bool) string {
	if drain {
		return what + ".drain"
	}
	return what + ".resume"
}

// SetDraining has an Instance, by id, take no further Job, or take Jobs again. It holds over restarts of its process. When
// it returns, no Job that is not bound yet will be bound to a draining Instance.
func (c *Control) SetDraining(ctx context.Context, actor catalog.Actor, instanceID string, drain bool) error {
	if err := actor.Need(catalog.Administer); err != nil {
		return err
	}
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, drainAction("instance", drain))
		i, err := tx.InstanceForUpdate(actor.OrganizationID, instanceID)
		if err != nil {
			return err
		}
		r, err := tx.Runner(actor.OrganizationID, i.RunnerID)
		if err != nil {
			return err
		}
		if !drain && c.leaves(i) && c.living(i, tx.Now()) {
			return fault.New(fault.Conflict, "instance_leaving", "the process of Instance %s ends when its Jobs are over", i.Name).
				WithHint("that cannot be undone: start the process again once it has ended")
		}
		if i.Draining == drain {
			return nil // and its Session is told once more
		}
		i.Draining = drain
		if err := tx.PutInstance(&i); err != nil {
			return err
		}
		return c.publish(tx, actor.OrganizationID, drainKind(drain), i.RunnerID,
			InstanceEvent{Runner: r.Name, InstanceID: i.ID, Instance: i.Name, Version: i.Version})
	})
	if err != nil {
		return err
	}
	c.tellDrain(drain, instanceID)
	c.signal(actor.OrganizationID)
	return nil
}

// SetRunnerDraining has all Instances of a Runner, by id or name, take no further Job, and those that come while it
// lasts; or all of them take Jobs again.
func (c *Control) SetRunnerDraining(ctx context.Context, actor catalog.Actor, idOrName string, drain bool) error {
	if err := actor.Need(catalog.Administer); err != nil {
		return err
	}
	var ids []string
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		ids = nil
		tx.Sign(actor, drainAction("runner", drain))
		r, err := tx.Runner(actor.OrganizationID, idOrName)
		if err != nil {
			return unknownRunner(err, idOrName)
		}
		state, err := tx.RunnerStateForUpdate(r.OrganizationID, r.ID)
		if err != nil {
			return err
		}
		changed := state.Draining != drain
		if changed {
			if state.Draining, state.DrainingSince = drain, tx.Now(); !drain {
				state.DrainingSince = time.Time{}
			}
			if err := tx.PutRunnerState(r.OrganizationID, r.ID, state); err != nil {
				return err
			}
		}
		var some bool
		if ids, some, err = drainAll(tx, r, drain); err != nil || !changed && !some {
			return err
		}
		return c.publish(tx, r.OrganizationID, drainKind(drain), r.ID, InstanceEvent{Runner: r.Name})
	})
	if err != nil {
		return err
	}
	c.tellDrain(drain, ids...)
	c.signal(actor.OrganizationID)
	return nil
}

// drainAll writes the wish into the Instances that there are, gives their ids and tells whether it was news to one of them.
func drainAll(tx *store.Tx, r catalog.Runner, drain bool) (ids []string, changed bool, err error) {
	all, err := tx.Instances(r.OrganizationID, r.ID)
	for n := 0; n < len(all) && err == nil; n++ {
		var i store.Instance
		i, err = tx.InstanceForUpdate(r.OrganizationID, all[n].ID)
		if fault.Is(err, fault.NotFound) {
			err = nil
			continue
		}
		if err != nil {
			break
		}
		if ids = append(ids, i.ID); i.Draining != drain {
			i.Draining, changed = drain, true
			err = tx.PutInstance(&i)
		}
	}
	return ids, changed, err
}

func drainKind(drain bool) string {
	if drain {
		return "runner.draining"
	}
	return "runner.resumed"
}

func (c *Control) tellDrain(drain bool, instanceIDs ...string) {
	for _, id := range instanceIDs {
		if s := c.sessions.ofInstance(id); s != nil {
			s.known.Tell(drain)
		} else {
			c.hint(subjectInstance, drainHint{origin: c.from(), Instance: id, Drain: drain})
		}
	}
}

// checkTold makes good what lost hints left, for all Sessions here with one query: an Instance that drains in the store and was not told,
// and the other way round. One that was told something meanwhile is left alone: the store may have been read before that.
func (c *Control) checkTold(ctx context.Context, all []*session) {
	if len(all) == 0 {
		return
	}
	times := map[*session]uint64{}
	for _, s := range all {
		times[s] = s.known.Tellings()
	}
	var draining map[string]bool
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		draining, err = tx.DrainingSessions(c.server)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			c.log.Error("could not look which instances drain", "error", err)
		}
		return
	}
	for _, s := range all {
		s.known.Correct(draining[s.id], times[s])
	}
}

// leaving takes in that the process of an Instance ends when its Jobs are over.
func (c *Control) leaving(s *session) {
	if !s.known.Leave() {
		return
	}
	c.background(func(ctx context.Context) {
		err := c.store.Update(ctx, func(tx *store.Tx) error {
			if err := tx.MarkLeaving(s.id); err != nil {
				return err
			}
			return c.publish(tx, s.org, "runner.draining", s.runnerID, s.event())
		})
		if err != nil {
			s.log.Warn("could not note that an instance drains", "error", err)
			return
		}
		c.signal(s.org)
	})
}

// leaves tells whether the process of an Instance said that it ends, stored already or not.
func (c *Control) leaves(i store.Instance) bool {
	s := c.sessions.get(i.SessionID)
	return i.Leaving || s != nil && s.known.State().Leaving
}
