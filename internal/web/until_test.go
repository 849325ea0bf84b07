package web

import (
	"testing"
	"time"
)

// TestFarDates: no time.Duration holds the time until the year 9999.
func TestFarDates(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	if got, want := until(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), now), "on 31 December 9999"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := until(now.Add(72*time.Hour), now), "in 3d"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
