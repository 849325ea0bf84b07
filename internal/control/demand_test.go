package control

import (
	"context"
	"slices"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

// TestWaits: the slow end is never quicker than the middle, and what is over an hour old does not count.
func TestWaits(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	var b begins
	note := func(at time.Time, wait time.Duration) { b.note("r", at, &work.Job{QueuedAt: at.Add(-wait)}) }
	check := func(p50, p95 time.Duration) {
		t.Helper()
		if a, z := b.quantiles("r", now); a != p50 || z != p95 {
			t.Errorf("half of them at most %s, 95%% at most %s; want %s and %s", a, z, p50, p95)
		}
	}
	check(0, 0)
	note(now.Add(-2*time.Hour), time.Hour)
	note(now, 0)
	check(0, 0)
	note(now, time.Second)
	check(0, time.Second)
	for i := range 98 {
		note(now, time.Duration(i+2)*time.Second)
	}
	check(49*time.Second, 94*time.Second)
}

// TestWaitsOfDeletedRunnersAreForgotten reads the figures after a runner was deleted, as any server does.
func TestWaitsOfDeletedRunnersAreForgotten(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	kept := s.runner(s.owner(), catalog.RunnerSpec{Name: "kept"})
	gone := s.runner(s.owner(), catalog.RunnerSpec{Name: "gone"})
	for _, id := range []string{kept.ID, gone.ID} {
		s.c.begins.note(id, time.Now(), &work.Job{})
	}
	s.must(s.c.DeleteRunner(ctx, s.owner(), "gone"))
	_, err := s.c.RunnerFigures(ctx)
	s.must(err)
	if got := s.c.begins.runners(); !slices.Equal(got, []string{kept.ID}) {
		t.Errorf("runners with waits: got %v, want only %s", got, kept.ID)
	}
}
