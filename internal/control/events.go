package control

import (
	"context"
	"slices"
	"sync"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
)

// recheck is how often a follower looks into the store without a hint, because hints may get lost.
const recheck = 5 * time.Second

// eventPause is how long a follower of events lets more of them gather after it has read some, so that many small
// changes are few reads. The first after a while comes at once.
const eventPause = 5 * time.Millisecond

// outbox wakes those who follow the events of an Organization.
type outbox struct {
	mu    sync.Mutex
	bells map[string]*bell
}

// bell wakes all who wait, again and again.
type bell struct {
	rung  chan struct{} // closed by the next ring
	users int
}

func newOutbox() *outbox { return &outbox{bells: map[string]*bell{}} }

func (o *outbox) join(org string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bells[org] == nil {
		o.bells[org] = &bell{rung: make(chan struct{})}
	}
	o.bells[org].users++
}

func (o *outbox) quit(org string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bells[org].users--; o.bells[org].users == 0 {
		delete(o.bells, org)
	}
}

// next gives a channel that the next ring closes.
func (o *outbox) next(org string) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bells[org].rung
}

func (o *outbox) ring(org string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if b := o.bells[org]; b != nil {
		close(b.rung)
		b.rung = make(chan struct{})
	}
}

// signal tells all Servers that an Organization's outbox grew.
func (c *Control) signal(org string) {
	c.outbox.ring(org)
	c.hint(subjectEvents, eventHint{c.from(), org})
}

// FollowEvents emits the Organization's events after an id, in order and without a gap, and goes on with new ones
// until ctx ends or emit fails. after < 0 means from now on. What is older than the outbox keeps is left out, and so are
// the kinds that the Actor may not read.
func (c *Control) FollowEvents(ctx context.Context, actor catalog.Actor, after int64, emit func([]store.Event) error) error {
	if err := actor.Need(catalog.Read); err != nil {
		return err
	}
	org := actor.OrganizationID
	c.outbox.join(org)
	defer c.outbox.quit(org)
	for {
		rung := c.outbox.next(org)
		events, err := c.eventsAfter(ctx, org, &after)
		if err != nil {
			return err
		}
		if len(events) > 0 {
			after = events[len(events)-1].ID
			readable := slices.DeleteFunc(events, func(e store.Event) bool { return !actor.MayReadEvent(e.Kind) })
			if len(readable) > 0 {
				err = emit(readable)
			}
			if err != nil {
				return err
			}
			sleep(ctx, eventPause)
			continue
		}
		if err := c.await(ctx, rung); err != nil {
			return err
		}
	}
}

func (c *Control) eventsAfter(ctx context.Context, org string, after *int64) (events []store.Event, err error) {
	err = c.store.View(ctx, func(tx *store.Tx) error {
		if *after < 0 {
			*after, err = tx.LastEvent(org)
			return err
		}
		events, err = tx.EventsAfter(org, *after, 500)
		return err
	})
	return events, err
}

// await waits for a hint, or for the time to look without one. Its error is the end of ctx or of the Server.
func (c *Control) await(ctx context.Context, rung <-chan struct{}) error {
	timer := time.NewTimer(recheck)
	defer timer.Stop()
	select {
	case <-rung:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.alive.Done():
		return context.Cause(c.alive)
	}
	return nil
}
