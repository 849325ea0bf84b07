package runner

import (
	"errors"
	"time"

	"legwork/internal/fault"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// refusedPatience is how long a Runner whose Server knew it goes on trying when logins are refused: time to bring the new secret to
// the host, or for a Server that was restored from a backup to be mended. Its Jobs and their results would be the price of ending at once.
const refusedPatience = 15 * time.Minute

// pace decides what follows the end of a Session.
type pace struct {
	backoff wire.Backoff
	known   bool      // this Server has given this Runner a token or a welcome before
	rivals  time.Time // since when another process holds the Instance's name
	logins  int       // tokens refused in a row
	refused time.Time // since when logins are refused; zero: they are not
}

// next returns how long to wait, or the fault with which to give up.
func (p *pace) next(err error, welcomed bool, lasted time.Duration) (time.Duration, *fault.Fault) {
	if welcomed {
		p.known, p.rivals, p.logins, p.refused = true, time.Time{}, 0, time.Time{}
		p.backoff.Lasted(lasted)
	}
	if final := p.final(err, time.Now()); final != nil {
		return 0, final
	}
	if fault.Is(err, fault.Unauthenticated) {
		return 3 * p.backoff.Next(), nil // the Server slows down an address from which too many wrong secrets come
	}
	return p.backoff.Next(), nil
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
	case f.Kind == fault.Unauthenticated && p.known:
		if p.refused.IsZero() {
			p.refused = now
		}
		if now.Sub(p.refused) > refusedPatience {
			return f
		}
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
		if now.Sub(p.rivals) > work.DefaultLease+wire.LastWait {
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
