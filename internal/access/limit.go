package access

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limiter keeps one token bucket per key, at most max of them, so that whoever invents keys cannot
// fill the memory.
type limiter struct {
	rate  rate.Limit
	burst int
	max   int

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

func newLimiter(r rate.Limit, burst, most int) *limiter {
	return &limiter{rate: r, burst: burst, max: most, buckets: map[string]*rate.Limiter{}}
}

// allow takes one from the bucket of key and tells whether there was one.
func (l *limiter) allow(key string, now time.Time) bool { return l.bucket(key, now).AllowN(now, 1) }

// empty tells whether nothing is left in the bucket of key. It takes nothing and makes no bucket.
func (l *limiter) empty(key string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[key]
	return b != nil && b.TokensAt(now) < 1
}

// giveBack puts one back into the bucket of key, which gets no fuller than full.
func (l *limiter) giveBack(key string, now time.Time) {
	l.mu.Lock()
	b := l.buckets[key]
	l.mu.Unlock()
	if b != nil {
		b.AllowN(now, -1)
	}
}

func (l *limiter) bucket(key string, now time.Time) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.buckets[key]; b != nil {
		return b
	}
	if len(l.buckets) >= l.max {
		l.makeRoom(now)
	}
	b := rate.NewLimiter(l.rate, l.burst)
	l.buckets[key] = b
	return b
}

// makeRoom forgets every full bucket, which is as good as none, and when that is not enough any tenth.
func (l *limiter) makeRoom(now time.Time) {
	for key, b := range l.buckets {
		if b.TokensAt(now) >= float64(l.burst) {
			delete(l.buckets, key)
		}
	}
	surplus := len(l.buckets) - l.max*9/10
	for key := range l.buckets {
		if surplus <= 0 {
			return
		}
		delete(l.buckets, key)
		surplus--
	}
}
