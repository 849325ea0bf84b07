package runner

import (
	"context"
	"errors"
	"time"
)

// errHeld ends a Session that another process of this Runner wants instead.
var errHeld = errors.New("the Session makes room for the one of another program")

// holdPatience bounds how long an update waits for Jobs that are on their way to this Runner.
const holdPatience = 10 * time.Second

// awaitTurn waits until a Session may be opened. It is false when ctx ended.
func (r *Runner) awaitTurn(ctx context.Context) bool {
	for {
		r.mu.Lock()
		hold := r.hold
		r.mu.Unlock()
		if hold != nil {
			select {
			case <-hold:
				continue
			case <-ctx.Done():
				return false
			}
		}
		select {
		case r.turn <- struct{}{}:
		case <-ctx.Done():
			return false
		}
		r.mu.Lock()
		free := r.hold == nil
		r.mu.Unlock()
		if free && ctx.Err() == nil {
			return true
		}
		<-r.turn
		if ctx.Err() != nil {
			return false
		}
	}
}

// sessionInTurn is session, which holdSessions can end. It gives the turn back.
func (r *Runner) sessionInTurn(ctx context.Context) (welcomed bool, err error) {
	defer func() { <-r.turn }()
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	r.mu.Lock()
	r.cut = cut
	if r.hold != nil { // since the turn was taken
		cut(errHeld)
	}
	r.mu.Unlock()
	welcomed, err = r.session(ctx)
	r.mu.Lock()
	r.cut = nil
	r.mu.Unlock()
	if errors.Is(context.Cause(ctx), errHeld) {
		err = errHeld
	}
	return welcomed, err
}

// holdSessions ends the Session and opens no other one until release is called. Jobs go on. What the Server had sent when it ended is in
// the journal, so that whoever connects next as this Instance knows of it.
func (r *Runner) holdSessions(ctx context.Context) (release func(), err error) {
	hold := make(chan struct{})
	r.mu.Lock()
	r.hold = hold // no Offer is taken from here on
	r.mu.Unlock()
	again := func() {
		r.mu.Lock()
		r.hold = nil
		r.mu.Unlock()
		close(hold)
	}
	r.settleJobs(ctx, func() bool { return len(r.reserved) == 0 })
	r.mu.Lock()
	if r.cut != nil {
		r.cut(errHeld)
	}
	r.mu.Unlock()
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		again()
		return nil, context.Cause(ctx)
	}
	r.settleJobs(ctx, r.allNoted)
	return func() {
		<-r.turn
		again()
	}, nil
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
		r.free(time.Now()) // forgets reservations that are over
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
