package control

import (
	"time"

	"golang.org/x/time/rate"
)

// logBurst is for how long an Instance may send faster than its rate.
const logBurst = 4 // seconds

// newPacer returns the limiter of one Session; nil without a limit.
func newPacer(bytesPerSecond int) *rate.Limiter {
	if bytesPerSecond <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(bytesPerSecond), logBurst*bytesPerSecond)
}

// pace waits until the Instance may have sent another batch. Nothing more is read of its connection meanwhile, so that it waits, too: the
// Runner keeps its log on its disk.
func (s *session) pace(size int) {
	if s.pacer == nil {
		return
	}
	if wait := s.reserve(size); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.closing:
		}
	}
}

// reserve takes a number of bytes from the limiter and returns how long to wait for the last of them. The limiter
// takes no more than its burst at once, so a larger batch is reserved in several parts.
func (s *session) reserve(size int) (wait time.Duration) {
	now := time.Now()
	burst := s.pacer.Burst()
	for ; size > 0; size -= burst {
		wait = s.pacer.ReserveN(now, min(size, burst)).DelayFrom(now)
	}
	return wait
}
