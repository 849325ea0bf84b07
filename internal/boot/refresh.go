package boot

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"legwork/internal/fault"
	"legwork/internal/reference"
)

// refreshed is a client secret that is looked at again from time to time, where it came from a reference.
type refreshed struct {
	reference string
	every     time.Duration // 0 = never
	value     atomic.Pointer[string]
	log       *slog.Logger
}

func newRefreshed(s RunnerSettings, log *slog.Logger) *refreshed {
	r := &refreshed{reference: s.secretReference, every: time.Duration(s.ExternalSettings.RefreshSeconds) * time.Second, log: log.With(categoryKey, categorySettings)}
	text := s.Runner.Credentials.ClientSecret.Reveal()
	r.value.Store(&text)
	return r
}

func (r *refreshed) current() string { return *r.value.Load() }

// run refreshes until ctx ends. While the reference cannot be had, the last value holds.
func (r *refreshed) run(ctx context.Context) {
	if !reference.Is(r.reference) || r.every <= 0 {
		return
	}
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.refresh(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// refresh looks at the reference now. Where there is none the value stays.
func (r *refreshed) refresh(ctx context.Context) {
	if !reference.Is(r.reference) {
		return
	}
	text, err := reference.Get(ctx, r.reference)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.log.Warn("the client secret is not refreshed; the last one holds", "error", fault.Of(err).Message)
	case text == "":
		r.log.Warn("the client secret is not refreshed: it is empty; the last one holds", "reference", r.reference)
	case secretProblem(text) != "":
		r.log.Warn("the client secret is not refreshed; the last one holds", "reference", r.reference, "error", "it "+secretProblem(text))
	case text != r.current():
		r.value.Store(&text)
		r.log.Info("the client secret has changed; the next login uses it", "reference", r.reference)
	}
}
