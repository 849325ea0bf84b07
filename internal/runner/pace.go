package runner

import (
	"errors"
	"math/rand/v2"
	"time"

	"legwork/internal/fault"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// The pace of connecting again: the wait doubles from the first to the last, and is anything between
// its half and itself, so that a thousand Runners do not come back at once.
const (
	firstWait = 500 * time.Millisecond
	lastWait  = 10 * time.Second // a network that was mended is used soon
)

// pace decides what follows the end of a Session.
type pace struct {
	failures int
	known    bool      // this Server has given this Runner a token or a welcome before
	rivals   time.Time // since when another process holds the Instance's name
	logins   int       // tokens refused in a row
}

// next returns how long to wait, or the fault with which to give up.
func (p *pace) next(err error, welcomed bool, lasted time.Duration) (time.Duration, *fault.Fault) {
	if welcomed {
		p.known, p.rivals, p.logins = true, time.Time{}, 0
		if lasted > lastWait {
			p.failures = 0
		}
	}
	if final := p.final(err, time.Now()); final != nil {
		return 0, final
	}
	wait := min(firstWait<<min(p.failures, 10), lastWait)
	p.failures++
	return wait/2 + rand.N(wait/2+1), nil
}

// final gives the fault for errors that trying again does not heal.
func (p *pace) final(err error, now time.Time) *fault.Fault {
	var closed *wire.CloseError
	if errors.As(err, &closed) {
		return p.closed(closed, now)
	}
	p.rivals = time.Time{}
	f := fault.Of(err)
	switch {
	case f.Kind == fault.Unauthenticated, f.Kind == fault.Forbidden, f.Kind == fault.Invalid, f.Kind == fault.NotFound:
		return f
	case (f.Code == wire.NotLegwork || f.Code == wire.WrongScheme) && !p.known: // a Server that was there may be behind a proxy that has lost it
		return f
	}
	return nil
}

func (p *pace) closed(err *wire.CloseError, now time.Time) *fault.Fault {
	switch err.Code {
	case wire.CloseDuplicate, wire.CloseSingle:
		// The other one may be this Runner's own dead past, or a dead host: its Lease runs out.
		if p.rivals.IsZero() {
			p.rivals = now
		}
		if now.Sub(p.rivals) > work.DefaultLease+lastWait {
			return err.Fault()
		}
	case wire.CloseUnauthorized:
		if p.logins++; p.logins > 5 {
			return err.Fault().WithHint("the Server gives out tokens that it does not take itself: look at its clock and its log")
		}
	default:
		p.rivals = time.Time{}
	}
	if err.Code.Permanent() {
		return err.Fault()
	}
	return nil
}
