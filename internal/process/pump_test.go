//go:build linux

package process

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"legwork/internal/fault"
)

// TestSlowPump lets a pump read a flood, and measures the virtual time that it waits between the reads.
func TestSlowPump(t *testing.T) {
	fillPipe := func(p *pump) {
		for range pipeSize / readSize {
			p.pace(readSize, time.Now())
		}
	}
	for _, c := range []struct {
		name string
		read func(p *pump)
		want time.Duration
	}{
		{"a flood", fillPipe, 0},
		{"a flood that is slowed down", func(p *pump) {
			p.command.slowDown(time.Now())
			fillPipe(p)
			fillPipe(p)
		}, 2 * slowPause},
		{"a flood that empties the pipe", func(p *pump) {
			p.command.slowDown(time.Now())
			p.pace(readSize, time.Now())
			p.pace(1000, time.Now())
		}, slowPause},
		{"single lines", func(p *pump) {
			p.command.slowDown(time.Now())
			for range 10 {
				p.last = time.Time{} // long ago
				p.pace(100, time.Now())
			}
		}, 0},
		{"a flood after the request expired", func(p *pump) {
			p.command.slowDown(time.Now().Add(-slowFor))
			fillPipe(p)
		}, 0},
		{"the end of the command", func(p *pump) {
			p.command.slowDown(time.Now())
			close(p.command.exited)
			fillPipe(p)
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPump(newCommand(nil, Spec{}), nil, nil)
				begin := time.Now()
				c.read(p)
				if got := time.Since(begin); got != c.want {
					t.Errorf("waited: got %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestSlowDown(t *testing.T) {
	b := newBench(t)
	spec := b.start(shellSpec(b.dir, "flood", "seq 1 200000; read -r line"))
	if err := b.client.SlowDown(b.ctx(), spec.ID); err != nil {
		t.Fatal(err)
	}
	b.printed(spec, "200000")
	err := b.client.SlowDown(b.ctx(), "unknown")
	if got, want := fault.Code(err), codeNotKept; got != want {
		t.Errorf("a command that is not kept: got %q, want %q", got, want)
	}
}

// TestSlowDownOfAnOldKeeper sends nothing to a keeper that does not know the request.
func TestSlowDownOfAnOldKeeper(t *testing.T) {
	c := &Client{dialing: make(chan struct{}, 1), conn: &clientConn{
		peer: helloBody{Max: protocolSlowDown - 1}, gone: make(chan struct{}), calls: map[uint64]chan frame{},
	}}
	if err := c.SlowDown(context.Background(), "flood"); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}
