package access

import (
	"context"
	"math"
	"time"
)

// Quota is what is left of a limit.
type Quota struct {
	Name      string        // of the limit
	Limit     int           // requests in Window
	Window    time.Duration // in which an empty quota fills up
	Remaining int           // requests that are left
	Reset     time.Duration // until one more is left; 0 when nothing is used
}

// QuotaOf returns the state of a token bucket with a burst, its rate per second and the tokens that it holds now.
func QuotaOf(name string, burst int, perSecond, tokens float64) Quota {
	q := Quota{Name: name, Limit: burst, Window: seconds(float64(burst) / perSecond), Remaining: max(0, int(tokens))}
	if tokens < float64(burst) {
		q.Reset = seconds((math.Floor(tokens) + 1 - tokens) / perSecond)
	}
	return q
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// quotaKey finds the Quotas of a request in its context.
type quotaKey struct{}

// Quotas are the limits that a request counts against. It is not safe for concurrent use.
type Quotas struct{ read []func() Quota }

// WithQuotas returns a context in which the limits are noted that a request counts against.
func WithQuotas(ctx context.Context) (context.Context, *Quotas) {
	q := &Quotas{}
	return context.WithValue(ctx, quotaKey{}, q), q
}

// NoteQuota notes a limit that the request of a context counts against.
func NoteQuota(ctx context.Context, read func() Quota) {
	if q, ok := ctx.Value(quotaKey{}).(*Quotas); ok {
		q.read = append(q.read, read)
	}
}

// Tightest returns the limit that leaves least. ok is false when the request counts against none.
func (q *Quotas) Tightest() (tightest Quota, ok bool) {
	for _, read := range q.read {
		one := read()
		if !ok || one.Remaining < tightest.Remaining || one.Remaining == tightest.Remaining && one.Reset > tightest.Reset {
			tightest, ok = one, true
		}
	}
	return tightest, ok
}

// quota returns the state of the bucket of a key. It takes nothing and makes no bucket.
func (l *limiter) quota(name, key string, now time.Time) Quota {
	l.mu.Lock()
	defer l.mu.Unlock()
	tokens := float64(l.burst)
	if b := l.buckets[key]; b != nil {
		tokens = b.TokensAt(now)
	}
	return QuotaOf(name, l.burst, float64(l.rate), tokens)
}

// note notes the limits that an attempt counts against.
func (a *Access) note(ctx context.Context, name, address, device string) {
	for _, one := range a.throttle.buckets(name, address, device) {
		NoteQuota(ctx, func() Quota { return one.from.quota("login", one.key, a.now()) })
	}
}
