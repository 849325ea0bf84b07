package control

import (
	"context"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
)

const (
	samplePeriod = time.Minute
	samplesKept  = 48 * time.Hour
)

// LoadSample is how much there was to do at one moment.
type LoadSample = store.LoadSample

// sampleLoop notes once a minute how much there is to do. All Servers note the same minutes, and the first one wins.
func (c *Control) sampleLoop(ctx context.Context) {
	for ctx.Err() == nil {
		if err := c.sample(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("could not note how much there is to do", "error", err)
		}
		sleep(ctx, samplePeriod)
	}
}

func (c *Control) sample(ctx context.Context) error {
	var at time.Time
	var loads map[string][]LoadSample
	err := c.store.View(ctx, func(tx *store.Tx) (err error) { // thousands of Instances are counted, and nobody waits for it
		at = tx.Now().Truncate(samplePeriod)
		loads, err = tx.Loads()
		return err
	})
	if err != nil {
		return err
	}
	return c.store.Update(ctx, func(tx *store.Tx) error {
		if err := tx.PutLoadSamples(at, loads); err != nil {
			return err
		}
		return tx.PruneLoadSamples(tx.Now().Add(-samplesKept))
	})
}

// LoadHistory gives how much there was to do, minute by minute, over the last while, which is at most 48 h: in the whole
// Organization, or at one Runner, by id or name. Minutes in which no Server ran are missing.
func (c *Control) LoadHistory(ctx context.Context, actor catalog.Actor, runner string, last time.Duration) ([]LoadSample, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]LoadSample, error) {
		if runner != "" {
			r, err := tx.Runner(actor.OrganizationID, runner)
			if err != nil {
				return nil, unknownRunner(err, runner)
			}
			runner = r.ID
		}
		return tx.LoadSamples(actor.OrganizationID, runner, tx.Now().Add(-min(last, samplesKept)))
	})
}
