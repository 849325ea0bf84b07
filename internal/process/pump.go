//go:build linux || darwin

package process

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

const (
	readSize   = 64 << 10
	lineWait   = 100 * time.Millisecond // silence after which a part of a line is given away
	burstPause = 2 * time.Millisecond   // between reads in a flood
	burstCount = 8                      // reads in a row, each soon after the other, that make a flood

	slowFor   = time.Second           // how long one request to read more slowly holds
	slowPause = 25 * time.Millisecond // between two fillings of the pipe while it holds: at most 10 MB/s
	slowLeast = 16 << 10              // bytes between two pauses; less is no flood
)

var readBuffers = sync.Pool{New: func() any { b := make([]byte, readSize); return &b }}

// pump carries one stream of a command from its pipe to the spool.
type pump struct {
	command *command
	pipe    *pipe
	out     sink
	quick   int       // reads in a row, each soon after the other
	last    time.Time // of the last read
	burst   int       // bytes read since the last pause of a slow pump
	cutOff  bool      // run ended before the stream did

	mu    sync.Mutex
	limit time.Time // when to stop waiting for the end of the stream; zero is never
}

func newPump(c *command, from *pipe, out sink) *pump {
	return &pump{command: c, pipe: from, out: out}
}

// sink makes records of what a pump reads, and keeps them in memory until the spool is flushed.
type sink interface {
	feed(p []byte, now time.Time) // the next bytes; not kept
	pending() bool                // a part of a line waits that idle would give away
	idle(now time.Time)           // nothing came for a while
	finish(now time.Time)         // nothing comes any more
}

// run reads until the stream ends.
func (p *pump) run() {
	pooled := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(pooled)
	defer p.pipe.Close()
	buf := *pooled
	for {
		p.arm()
		n, err := p.pipe.Read(buf)
		now := time.Now()
		if n > 0 {
			p.take(buf[:n], now)
		}
		waited := errors.Is(err, os.ErrDeadlineExceeded)
		switch {
		case err != nil && !waited:
			p.end(now)
			return
		case p.expired(now):
			p.cutOff = !p.drain(buf)
			p.end(now)
			return
		case waited && p.out.pending():
			p.out.idle(now)
			p.command.store()
		}
		p.pace(n, now)
	}
}

// take stores what was read.
func (p *pump) take(data []byte, now time.Time) {
	p.command.touch(now)
	p.out.feed(data, now)
	p.command.store()
}

func (p *pump) end(now time.Time) {
	p.out.finish(now)
	p.command.store()
}

// arm sets how long the next read may wait.
func (p *pump) arm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	deadline := p.limit
	if p.out.pending() {
		if soon := time.Now().Add(lineWait); deadline.IsZero() || soon.Before(deadline) {
			deadline = soon
		}
	}
	_ = p.pipe.SetReadDeadline(deadline)
}

// hurry sets a limit to waiting for the end of the stream: the command is over, and only a process
// that left its group can still hold the pipe.
func (p *pump) hurry(limit time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = limit
	_ = p.pipe.SetReadDeadline(limit)
}

func (p *pump) expired(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.limit.IsZero() && !now.Before(p.limit)
}

// drain takes what is in the pipe, without waiting and not for ever. It tells whether that was all
// that will ever come.
func (p *pump) drain(buf []byte) (ended bool) {
	for got := 0; got < 2*pipeSize; {
		n, err := p.pipe.tryRead(buf)
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		p.take(buf[:n], time.Now())
		got += n
	}
	return false
}

// pace waits before the next read when output comes faster than it should be read.
func (p *pump) pace(n int, now time.Time) {
	wait := p.gather(n, now)
	if now.UnixNano() < p.command.slowUntil.Load() {
		wait = max(wait, p.slow(n))
	}
	if wait == 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.command.exited:
	}
}

// gather returns how long to wait after a read of n bytes, for a pump that is fed line by line, quickly. The pipe
// gathers many lines in the pause, which spares two calls for each. A single line never waits, nor does the end of the
// command.
func (p *pump) gather(n int, now time.Time) time.Duration {
	if n == 0 || now.Sub(p.last) > 2*burstPause {
		p.quick = 0
	} else {
		p.quick++
	}
	p.last = now
	if p.quick < burstCount || n == readSize { // a full buffer: more is waiting, the command may be, too
		return 0
	}
	return burstPause
}

// slow returns how long to wait after a read of n bytes while the log is late at its reader. The pump empties the pipe
// before it waits, so that no line waits for longer than the pause.
func (p *pump) slow(n int) time.Duration {
	p.burst += n
	emptied := n < readSize || p.burst >= pipeSize
	if p.burst < slowLeast || !emptied {
		return 0
	}
	p.burst = 0
	return slowPause
}
