package control

import (
	"time"

	"legwork/internal/work"
)

// JobClass groups jobs in metrics. Both fields have few values.
type JobClass struct {
	Kind   work.Kind
	Status work.Status
}

// durationBounds are the upper bounds of the buckets of a Histogram.
var durationBounds = [...]time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute,
	5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour}

// Histogram counts durations in buckets.
type Histogram struct {
	Count   uint64
	Sum     time.Duration
	buckets [len(durationBounds)]uint64 // cumulative
}

func (h *Histogram) observe(d time.Duration) {
	d = max(d, 0) // the shared clock may have been set back
	h.Count++
	h.Sum += d
	for i, bound := range durationBounds {
		if d <= bound {
			h.buckets[i]++
		}
	}
}

// Buckets returns the cumulative counts by upper bound in seconds.
func (h Histogram) Buckets() map[float64]uint64 {
	counts := make(map[float64]uint64, len(durationBounds))
	for i, bound := range durationBounds {
		counts[bound.Seconds()] = h.buckets[i]
	}
	return counts
}
