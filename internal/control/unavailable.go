package control

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"legwork/internal/fault"
	"legwork/internal/store"
)

// The rate at which the availability of one instance is stored. An instance can change its reason with each heartbeat.
const (
	availabilityInterval = 15 * time.Second
	availabilityBurst    = 4
)

// availability stores for one session whether its instance takes new jobs. One write runs at a time: changes that come
// meanwhile share the next one.
type availability struct {
	limit *rate.Limiter

	mu      sync.Mutex
	due     bool // the state changed since the last write began
	writing bool
}

func newAvailability() *availability {
	return &availability{limit: rate.NewLimiter(rate.Every(availabilityInterval), availabilityBurst)}
}

// change records that the state changed. It reports whether the caller must start the writes.
func (a *availability) change() (start bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	start = !a.writing
	a.due, a.writing = true, true
	return start
}

// next reports whether another write is due.
func (a *availability) next() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writing = a.due
	a.due = false
	return a.writing
}

// noteUnavailable stores why an instance takes no new jobs for now, or that it takes jobs again.
func (c *Control) noteUnavailable(s *session) {
	if !s.availability.change() {
		return
	}
	c.background(func(ctx context.Context) {
		for s.availability.next() {
			if err := s.availability.limit.Wait(ctx); err != nil {
				return
			}
			c.storeUnavailable(ctx, s)
		}
	})
}

// storeUnavailable stores the current state of an instance, if the session is still the current one.
func (c *Control) storeUnavailable(ctx context.Context, s *session) {
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		i, err := tx.InstanceForUpdate(s.org, s.instanceID) // before the state is read: the last write has the last state
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		reason := s.known.State().Unavailable
		if err != nil || i.SessionID != s.id || i.UnavailableReason == reason {
			return err
		}
		if err := tx.SetUnavailable(s.id, reason); err != nil {
			return err
		}
		kind := "runner.available"
		if reason != "" {
			kind = "runner.unavailable"
		}
		return c.publish(tx, s.org, kind, s.runnerID, s.event())
	})
	if err != nil {
		s.log.Warn("could not record whether an instance takes new jobs", "error", err)
		return
	}
	c.signal(s.org)
}
