package runner

import (
	"context"
	"sync"
)

// locks are mutexes by name that can be waited for with a context. The zero value is ready.
type locks struct {
	mu   sync.Mutex
	held map[string]*namedLock
}

type namedLock struct {
	free  chan struct{} // holds one token while nobody has the lock
	users int
}

// acquire takes the lock of a name; waiting, when not nil, is called once if somebody else has it.
// release must be called.
func (l *locks) acquire(ctx context.Context, name string, waiting func()) (release func(), err error) {
	n := l.use(name)
	release = func() {
		n.free <- struct{}{}
		l.unuse(name, n)
	}
	select {
	case <-n.free:
		return release, nil
	default:
	}
	if waiting != nil {
		waiting()
	}
	select {
	case <-n.free:
		return release, nil
	case <-ctx.Done():
		l.unuse(name, n)
		return nil, context.Cause(ctx)
	}
}

func (l *locks) use(name string) *namedLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.held[name]
	if n == nil {
		n = &namedLock{free: make(chan struct{}, 1)}
		n.free <- struct{}{}
		if l.held == nil {
			l.held = map[string]*namedLock{}
		}
		l.held[name] = n
	}
	n.users++
	return n
}

func (l *locks) unuse(name string, n *namedLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.users--; n.users == 0 {
		delete(l.held, name)
	}
}
