package control

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"legwork/internal/wire"
)

// The limits of connections that have not said hello yet. Each of them holds a small buffer, or a large one of
// wire.MaxHello bytes. Connections beyond a limit are not read: they hold no buffer, and wait for at most helloTime.
const (
	maxHandshakes       = 512
	maxRunnerHandshakes = 64 // of one runner, so that a hostile one does not hold up the others
	maxLargeHellos      = 32
)

// handshakes bounds the memory that connections take before their hello.
type handshakes struct {
	all   *semaphore.Weighted
	large *semaphore.Weighted

	mu       sync.Mutex
	byRunner map[string]*runnerHandshakes
}

// runnerHandshakes bounds the connections of one runner. It exists while any of them waits or is read.
type runnerHandshakes struct {
	*semaphore.Weighted
	users int
}

func newHandshakes() *handshakes {
	return &handshakes{
		all: semaphore.NewWeighted(maxHandshakes), large: semaphore.NewWeighted(maxLargeHellos),
		byRunner: map[string]*runnerHandshakes{},
	}
}

// begin waits until the hello of a connection may be read. The caller calls done when the hello was read.
func (h *handshakes) begin(ctx context.Context, runnerID string) (done func(), err error) {
	own := h.join(runnerID)
	if own.Acquire(ctx, 1) != nil {
		h.leave(runnerID)
		return nil, errTooManyHellos
	}
	if h.all.Acquire(ctx, 1) != nil {
		own.Release(1)
		h.leave(runnerID)
		return nil, errTooManyHellos
	}
	return func() {
		h.all.Release(1)
		own.Release(1)
		h.leave(runnerID)
	}, nil
}

// errTooManyHellos closes a connection that waited too long. The runner connects again.
var errTooManyHellos = &wire.CloseError{
	Code: wire.CloseUnavailable, Reason: "too many connections are waiting to say hello",
}

// admitLarge waits until a hello of more than the usual size may be read.
func (h *handshakes) admitLarge(ctx context.Context) (release func(), err error) {
	if h.large.Acquire(ctx, 1) != nil {
		return nil, errTooManyHellos
	}
	return func() { h.large.Release(1) }, nil
}

func (h *handshakes) join(runnerID string) *runnerHandshakes {
	h.mu.Lock()
	defer h.mu.Unlock()
	own := h.byRunner[runnerID]
	if own == nil {
		own = &runnerHandshakes{Weighted: semaphore.NewWeighted(maxRunnerHandshakes)}
		h.byRunner[runnerID] = own
	}
	own.users++
	return own
}

func (h *handshakes) leave(runnerID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	own := h.byRunner[runnerID]
	if own.users--; own.users == 0 {
		delete(h.byRunner, runnerID)
	}
}
