package control

import (
	"context"
	"slices"
	"sync"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control/queue"
	"legwork/internal/store"
	"legwork/internal/work"
)

const (
	beginsKept = time.Hour // of which waits are told
	beginsMost = 2000      // of one Runner
)

// begins are how long Jobs waited that were bound to Instances connected here in the last hour, by Runner.
type begins struct {
	mu  sync.Mutex
	all map[string][]begin
}

type begin struct {
	at   time.Time
	wait time.Duration
}

// note takes in that a Job was bound.
func (b *begins) note(runnerID string, at time.Time, j *work.Job) {
	if j.Kind == work.RunnerJob {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[string][]begin{}
	}
	some := append(b.all[runnerID], begin{at, at.Sub(j.QueuedAt)})
	b.all[runnerID] = some[max(0, len(some)-beginsMost):]
}

// quantiles gives the middle and the slow end of the waits of a Runner's Jobs.
func (b *begins) quantiles(runnerID string, now time.Time) (p50, p95 time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := slices.DeleteFunc(b.all[runnerID], func(n begin) bool { return now.Sub(n.at) > beginsKept })
	if len(kept) == 0 {
		delete(b.all, runnerID)
		return 0, 0
	}
	b.all[runnerID] = kept
	waits := make([]time.Duration, len(kept))
	for i, n := range kept {
		waits[i] = n.wait
	}
	slices.Sort(waits)
	return rank(waits, 50), rank(waits, 95)
}

// rank gives the least of some sorted times that so many in a hundred of them do not exceed.
func rank(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1]
}

// DemandOf gives the demand of a Runner, by id or name.
func (c *Control) DemandOf(ctx context.Context, actor catalog.Actor, runner string) (Demand, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (Demand, error) {
		r, err := tx.Runner(actor.OrganizationID, runner)
		if err != nil {
			return Demand{}, unknownRunner(err, runner)
		}
		places, err := tx.PlacesOfRunner(r.OrganizationID, r.ID)
		if err != nil {
			return Demand{}, err
		}
		return c.demandOf(tx, r, places, c.queue.WaitingFor())
	})
}

// Demands gives the demand of every Runner of all Organizations, for metrics.
func (c *Control) Demands(ctx context.Context) (all []Demand, err error) {
	waiting := c.queue.WaitingFor()
	err = c.store.View(ctx, func(tx *store.Tx) error {
		all = nil
		runners, err := tx.AllRunners()
		if err != nil {
			return err
		}
		places := map[string]map[string]int{} // by Organization
		for _, r := range runners {
			if places[r.OrganizationID] == nil {
				if places[r.OrganizationID], err = tx.Places(r.OrganizationID); err != nil {
					return err
				}
			}
			d, err := c.demandOf(tx, r, places[r.OrganizationID], waiting)
			if err != nil {
				return err
			}
			all = append(all, d)
		}
		return nil
	})
	return all, err
}

// demandOf counts the Instances of a Runner. taken are the places that Jobs hold, by Instance.
func (c *Control) demandOf(tx *store.Tx, r catalog.Runner, taken map[string]int, waiting map[string]*queue.Line) (Demand, error) {
	d := Demand{Runner: r}
	d.WaitP50, d.WaitP95 = c.begins.quantiles(r.ID, tx.Now())
	if w := waiting[r.ID]; w != nil {
		d.Waiting, d.Oldest = w.Jobs, max(tx.Now().Sub(w.Oldest), 0)
	}
	instances, err := tx.Instances(r.OrganizationID, r.ID)
	if err != nil {
		return d, err
	}
	each := 1 // places of one Instance
	for _, i := range instances {
		d.Running += taken[i.ID]
		each = max(each, i.Capacity)
		switch {
		case !i.Connected:
			continue
		case i.Draining || i.Leaving:
			d.Draining++
			continue
		case taken[i.ID] > 0:
			d.Busy++
		default:
			d.Idle++
		}
		d.Instances++
		d.Places += i.Capacity
	}
	if r.Hosting == nil {
		d.Desired = (d.Waiting + d.Running + each - 1) / each
		return d, nil
	}
	open, err := tx.OpenLaunches(r.OrganizationID, r.ID)
	for _, l := range open {
		if l.State == store.LaunchStarting {
			d.Starting++
		}
	}
	d.Desired, _ = c.hosting.Wanted(r.ID)
	return d, err
}
