package control

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestLogRateOfAConnection: a connection may send a burst of four seconds at once, and its rate after that. Another one is not slowed.
func TestLogRateOfAConnection(t *testing.T) {
	const rate = 32 << 20
	const batch = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		flooding := &session{pacer: newPacer(rate), closing: make(chan struct{})}
		quiet := &session{pacer: newPacer(rate), closing: make(chan struct{})}
		start := time.Now()
		for range logBurst * rate / batch {
			flooding.pace(batch)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("a burst of %d bytes: got a wait of %v, want none", logBurst*rate, took)
		}
		for range 10 * rate / batch {
			flooding.pace(batch)
		}
		if took := time.Since(start).Round(time.Millisecond); took != 10*time.Second {
			t.Errorf("ten seconds' worth of bytes after the burst: got a wait of %v, want 10s", took)
		}
		before := time.Now()
		quiet.pace(batch)
		if took := time.Since(before); took != 0 {
			t.Errorf("another connection: got a wait of %v, want none", took)
		}
	})
}

// TestLogRateEndsWithTheConnection: a session that waits for its rate ends at once when its connection does.
func TestLogRateEndsWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &session{pacer: newPacer(1), closing: make(chan struct{})}
		s.pace(logBurst) // the burst
		start := time.Now()
		go func() {
			time.Sleep(time.Second)
			close(s.closing)
		}()
		s.pace(logBurst)
		if took := time.Since(start); took != time.Second {
			t.Errorf("got a wait of %v, want one that ends with the connection after 1s", took)
		}
	})
}

// TestNoLogRate: without a limit nothing waits.
func TestNoLogRate(t *testing.T) {
	s := &session{pacer: newPacer(0), closing: make(chan struct{})}
	s.pace(1 << 40)
}

// TestLogRateOfALargeBatch sends a batch that is larger than the burst. All of its bytes count.
func TestLogRateOfALargeBatch(t *testing.T) {
	const rate = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		s := &session{pacer: newPacer(rate), closing: make(chan struct{})}
		start := time.Now()
		s.pace((logBurst + 5) * rate)
		if took := time.Since(start).Round(time.Millisecond); took != 5*time.Second {
			t.Errorf("five seconds' worth of bytes after the burst: got a wait of %v, want 5s", took)
		}
	})
}
