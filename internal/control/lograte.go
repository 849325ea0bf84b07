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
	reserved := s.pacer.ReserveN(time.Now(), min(size, s.pacer.Burst()))
	if wait := reserved.Delay(); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.closing:
		}
	}
}
