package web

import (
	"math"
	"time"

	"legwork/internal/control"
)

// What the pictures look back on.
const (
	historySpan   = 6 * time.Hour
	historyBucket = 5 * time.Minute
)

// series is one value for each bucket of time, the last one under way; NaN where nothing was noted.
type series struct {
	end    time.Time // of the last bucket
	values []float64
}

// loadHistory is how much there was to do: in each bucket the most that was noted.
type loadHistory struct {
	waiting series // Jobs
	waited  series // by the oldest of them, in seconds
	taken   series // places
	places  series
}

// loadHistory gives that of a Runner, by id or name, or of the whole Organization when it is empty.
func (v *visit) loadHistory(runner string) (loadHistory, error) {
	samples, err := v.Control.LoadHistory(v.ctx, v.actor, runner, historySpan)
	return historyOf(samples, v.now), err
}

func historyOf(samples []control.LoadSample, now time.Time) loadHistory {
	end := now.UTC().Truncate(historyBucket).Add(historyBucket)
	begin := end.Add(-historySpan)
	empty := func() series {
		s := series{end, make([]float64, int(historySpan/historyBucket))}
		for i := range s.values {
			s.values[i] = math.NaN()
		}
		return s
	}
	h := loadHistory{empty(), empty(), empty(), empty()}
	for _, s := range samples {
		i := int(s.At.Sub(begin) / historyBucket)
		if s.At.Before(begin) || i >= len(h.taken.values) {
			continue
		}
		h.waiting.raise(i, float64(s.Queued))
		h.waited.raise(i, s.Oldest.Seconds())
		h.taken.raise(i, float64(s.Active))
		h.places.raise(i, float64(s.Capacity))
	}
	return h
}

func (s series) raise(i int, v float64) {
	if was := s.values[i]; math.IsNaN(was) || v > was {
		s.values[i] = v
	}
}

// last gives what was noted last, NaN when that is nothing.
func (s series) last() float64 {
	for i := len(s.values) - 1; i >= 0; i-- {
		if !math.IsNaN(s.values[i]) {
			return s.values[i]
		}
	}
	return math.NaN()
}

// most gives the greatest value, 0 when there is none.
func (s series) most() (most float64) {
	for _, v := range s.values {
		if v > most { // not so for NaN
			most = v
		}
	}
	return most
}
