package runner

import (
	"context"
	"time"
)

// holdPatience bounds how long an update waits for Jobs that are on their way to this Runner.
const holdPatience = 10 * time.Second

// awaitTurn waits while another program of this Runner is tried: its Session takes the place of the one here. It is false when ctx ended.
func (r *Runner) awaitTurn(ctx context.Context) bool {
	for ctx.Err() == nil {
		r.mu.Lock()
		hold := r.hold
		r.mu.Unlock()
		if hold == nil {
			return true
		}
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	return false
}

// isHeld tells whether no other Session is to be opened now.
func (r *Runner) isHeld() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hold != nil
}

// holdSessions takes no further Job, and opens no other Session when the present one ends, until release is called. Jobs go on, and the
// present Session with them, so that no Lease runs out: it ends when another program connects as this Instance. All Jobs that the Server gave
// this one are in the journal when holdSessions returns, so that the other one knows of them.
func (r *Runner) holdSessions(ctx context.Context) (release func()) {
	hold := make(chan struct{})
	r.mu.Lock()
	r.hold = hold // no Offer is taken from here on
	r.mu.Unlock()
	r.settleJobs(ctx, func() bool { return len(r.reserved) == 0 && r.allNoted() })
	return func() {
		r.mu.Lock()
		r.hold = nil
		r.mu.Unlock()
		close(hold)
	}
}

// allNoted tells whether every Attempt here is in the journal. The caller holds mu.
func (r *Runner) allNoted() bool {
	for _, j := range r.jobs {
		if !j.written {
			return false
		}
		for _, st := range j.steps {
			if st.running && st.started.IsZero() {
				return false
			}
		}
	}
	return true
}

// settleJobs waits a moment until something holds, under mu. Whatever does not by then, the Server gives out anew.
func (r *Runner) settleJobs(ctx context.Context, holds func() bool) {
	late := time.NewTimer(holdPatience)
	defer late.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		r.mu.Lock()
		r.taken(time.Now()) // forgets reservations that are over
		ok := holds()
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
