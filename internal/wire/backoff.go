package wire

import (
	"math/rand/v2"
	"time"
)

// The pace of connecting again: the wait doubles from the first to the last, and is anything between
// its half and itself, so that a thousand Runners do not come back at once.
const (
	FirstWait = 500 * time.Millisecond
	LastWait  = 10 * time.Second // a network that was mended is used soon
)

// Backoff paces the connecting again of one Instance. The zero value is ready.
type Backoff struct{ failures int }

// Next gives how long to wait before the next try.
func (b *Backoff) Next() time.Duration {
	wait := min(FirstWait<<min(b.failures, 10), LastWait)
	b.failures++
	return wait/2 + rand.N(wait/2+1)
}

// Lasted notes how long a Session held that the Server had welcomed. After a long one the pace begins anew.
func (b *Backoff) Lasted(d time.Duration) {
	if d > LastWait {
		b.failures = 0
	}
}
