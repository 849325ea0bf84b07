//go:build linux || darwin

package process

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	readSize   = 64 << 10
	lineWait   = 100 * time.Millisecond // silence after which a part of a line is given away
	burstPause = 2 * time.Millisecond   // between reads while many small ones follow each other
	burstSmall = 16 << 10               // bytes of a read that is small
	burstCount = 8                      // small reads in a row, each sooner than burstPause, that make a flood
)

var readBuffers = sync.Pool{New: func() any { b := make([]byte, readSize); return &b }}

// pump carries one stream of a command from its pipe to the spool.
type pump struct {
	command *command
	file    *os.File
	out     *Output
	quick   int       // small reads in a row
	last    time.Time // of the last read
	cutOff  bool      // run ended before the stream did

	mu    sync.Mutex
	limit time.Time // when to stop waiting for the end of the stream; zero is never
}

func newPump(c *command, file *os.File, out *Output) *pump {
	return &pump{command: c, file: file, out: out}
}

// run reads until the stream ends.
func (p *pump) run() {
	pooled := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(pooled)
	defer p.file.Close()
	buf := *pooled
	for {
		p.arm()
		n, err := p.file.Read(buf)
		now := time.Now()
		switch {
		case n > 0:
			p.take(buf[:n], now)
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			p.end(now)
			return
		case p.expired(now):
			p.drain(buf)
			p.cutOff = true
			p.end(now)
			return
		case err != nil && p.out.pending():
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
	_ = p.file.SetReadDeadline(deadline)
}

// hurry sets a limit to waiting for the end of the stream: the command is over, and only a process
// that left its group can still hold the pipe.
func (p *pump) hurry(limit time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = limit
	_ = p.file.SetReadDeadline(limit)
}

func (p *pump) expired(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.limit.IsZero() && !now.Before(p.limit)
}

// drain takes what is in the pipe, without waiting and at most what fits into it.
func (p *pump) drain(buf []byte) {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return
	}
	for got := 0; got < 2*pipeSize; {
		n := 0
		if raw.Control(func(fd uintptr) { n, err = unix.Read(int(fd), buf) }) != nil || err != nil || n <= 0 {
			return
		}
		p.take(buf[:n], time.Now())
		got += n
	}
}

// pace makes a pump that is fed line by line, quickly, wait a little before it reads on. The pipe
// gathers many lines meanwhile, which spares two calls for each. A single line never waits, nor
// does the end of the command.
func (p *pump) pace(n int, now time.Time) {
	if n == 0 || n >= burstSmall || now.Sub(p.last) > 2*burstPause {
		p.quick = 0
	} else {
		p.quick++
	}
	p.last = now
	if p.quick < burstCount {
		return
	}
	timer := time.NewTimer(burstPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.command.exited:
	}
}
