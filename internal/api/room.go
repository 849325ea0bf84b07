package api

import (
	"context"
	"slices"
	"sync"
)

// room bounds how many bytes requests hold at once. A request takes its bytes bit by bit, so requests that have
// filled the room could wait for each other. Therefore one request at a time may go beyond the room: it needs no more
// bytes until its end.
type room struct {
	size int64

	mu       sync.Mutex
	free     int64
	isBeyond bool // a request is beyond the room
	waiting  []*roomWaiter
}

type roomWaiter struct {
	bytes   int64
	granted chan bool // receives whether the request is beyond the room
}

func newRoom(size int64) *room { return &room{size: size, free: size} }

// acquire takes bytes, or waits for them until ctx ends. If beyond is true, it took none, and the request needs none.
func (r *room) acquire(ctx context.Context, bytes int64) (beyond, ok bool) {
	w := &roomWaiter{bytes, make(chan bool, 1)}
	r.mu.Lock()
	r.waiting = append(r.waiting, w)
	r.grant()
	r.mu.Unlock()
	select {
	case beyond = <-w.granted:
		return beyond, true
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case beyond = <-w.granted: // in the same moment
		return beyond, true
	default:
	}
	r.waiting = slices.DeleteFunc(r.waiting, func(other *roomWaiter) bool { return other == w })
	r.grant()
	return false, false
}

// release returns what a request took.
func (r *room) release(bytes int64, beyond bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += bytes
	if beyond {
		r.isBeyond = false
	}
	r.grant()
}

// grant serves the requests that wait, in their order. The caller holds mu.
func (r *room) grant() {
	for len(r.waiting) > 0 {
		w := r.waiting[0]
		switch {
		case r.free >= w.bytes:
			r.free -= w.bytes
			w.granted <- false
		case !r.isBeyond:
			r.isBeyond = true
			w.granted <- true
		default:
			return
		}
		r.waiting = r.waiting[1:]
	}
}

// holding is what one request has of a room.
type holding struct {
	room   *room
	bytes  int64
	beyond bool
}

// grow takes more bytes. It reports false if there were none until ctx ended.
func (h *holding) grow(ctx context.Context, more int64) bool {
	if h.beyond {
		return true
	}
	beyond, ok := h.room.acquire(ctx, more)
	if ok && !beyond {
		h.bytes += more
	}
	h.beyond = beyond
	return ok
}

func (h *holding) release() { h.room.release(h.bytes, h.beyond) }
