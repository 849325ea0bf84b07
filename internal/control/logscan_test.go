package control

import (
	"context"
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// A scan visits what ReadLog reads, from anywhere, and wherever the log lies.
func TestScanLog(t *testing.T) {
	const n = 20_000
	s, f, j, step := running(t, Limits{ArchiveAfter: time.Hour})
	for i := range 10 {
		f.print(step.Ref, 0, uint64(1+i*n/10), n/10)
	}
	f.finish(step.Ref, 0, n, work.StepResult{})
	f.run(expect[*wire.RunStep](f), 0, work.StepResult{})
	s.until(j.ID, work.Succeeded)
	ctx := context.Background()
	check := func(after, least int64) {
		t.Helper()
		next := after + 1
		s.must(s.c.ScanLog(ctx, s.owner(), j.ID, after, func(l *LogLine) bool {
			if l.Pos != next {
				t.Fatalf("%d follows %d", l.Pos, next-1)
			}
			next++
			return l.Pos < least
		}))
		if next-1 != least {
			t.Fatalf("from %d it came to %d, not to %d", after, next-1, least)
		}
	}
	all := func() {
		t.Helper()
		for _, after := range []int64{0, 1, 7777, n - 1} {
			check(after, n)
			check(after, min(after+3, n))
		}
	}
	all()
	s.must(s.c.archiver.archive(ctx, s.org, j.ID))
	all()
	if err := s.c.ScanLog(ctx, s.owner(), "no-such-job", 0, func(*LogLine) bool { return true }); !fault.Is(err, fault.NotFound) {
		t.Errorf("of no Job: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.c.ScanLog(ended, s.owner(), j.ID, 0, func(*LogLine) bool { return true }); err == nil {
		t.Error("it went on after its context ended")
	}
}
