package cli

import (
	"testing"
	"time"
)

// TestFarDates: no time.Duration holds the time until the year 9999.
func TestFarDates(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ got, want string }{
		{until(now.Add(90*time.Minute), now), "in 1h30m"},
		{until(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), now), "on 9999-12-31"},
		{until(now.Add(-time.Hour), now), "in 0s"},
		{since(now.Add(-90*time.Minute), now), "1h30m ago"},
		{since(time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC), now), "0001-01-02"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
