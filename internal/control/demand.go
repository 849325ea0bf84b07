package control

import (
	"context"
	"maps"
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
	mu    sync.Mutex
	all   map[string][]begin
	total map[string]Waits
}

// Waits add up how long the jobs of a runner waited that started on this server since its start.
type Waits struct {
	Count uint64
	Sum   time.Duration
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
		b.all, b.total = map[string][]begin{}, map[string]Waits{}
	}
	wait := max(at.Sub(j.QueuedAt), 0)
	some := append(b.all[runnerID], begin{at, wait})
	b.all[runnerID] = some[max(0, len(some)-beginsMost):]
	t := b.total[runnerID]
	b.total[runnerID] = Waits{t.Count + 1, t.Sum + wait}
}

// waits returns the sum of the waits of a runner's jobs.
func (b *begins) waits(runnerID string) Waits {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total[runnerID]
}

// runners returns the runners of which waits are known.
func (b *begins) runners() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.total))
}

// forget removes what is known of a runner.
func (b *begins) forget(runnerID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, runnerID)
	delete(b.total, runnerID)
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

// RunnerFigures are what metrics show of a runner.
type RunnerFigures struct {
	Demand
	Offline  bool // no instance is online, and one should be
	Outdated bool // there is a newer release
}

// RunnerFigures returns the figures of every runner of all organizations, for metrics. It forgets the waits of runners
// that were deleted, here or on another server.
func (c *Control) RunnerFigures(ctx context.Context) (all []RunnerFigures, err error) {
	waiting := c.queue.WaitingFor()
	deleted := map[string]bool{}
	known := c.begins.runners() // before the list is read, so that a new runner is not forgotten
	err = c.store.View(ctx, func(tx *store.Tx) error {
		all = nil
		runners, err := tx.AllRunners()
		if err != nil {
			return err
		}
		clear(deleted)
		for _, id := range known {
			deleted[id] = true
		}
		byOrganization := map[string][]catalog.Runner{}
		for _, r := range runners {
			delete(deleted, r.ID)
			byOrganization[r.OrganizationID] = append(byOrganization[r.OrganizationID], r)
		}
		for _, org := range slices.Sorted(maps.Keys(byOrganization)) {
			figures, err := c.figuresOf(tx, org, byOrganization[org], waiting)
			if err != nil {
				return err
			}
			all = append(all, figures...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for id := range deleted {
		c.begins.forget(id)
	}
	return all, nil
}

// figuresOf returns the figures of all runners of an organization.
func (c *Control) figuresOf(tx *store.Tx, org string, runners []catalog.Runner, waiting map[string]*queue.Line) ([]RunnerFigures, error) {
	places, err := tx.Places(org)
	if err != nil {
		return nil, err
	}
	views, err := c.viewsOf(tx, org, runners)
	if err != nil {
		return nil, err
	}
	versions, err := standingsOf(tx, org, nil)
	if err != nil {
		return nil, err
	}
	all := make([]RunnerFigures, len(views))
	for i, v := range views {
		all[i].Offline = v.Status == work.StatusOffline
		if all[i].Demand, err = c.demandOf(tx, v.Runner, places, waiting); err != nil {
			return nil, err
		}
		version, err := versions.of(tx, v.Runner)
		if err != nil {
			return nil, err
		}
		all[i].Outdated = version.Outdated
	}
	return all, nil
}

// demandOf counts the Instances of a Runner. taken are the places that Jobs hold, by Instance.
func (c *Control) demandOf(tx *store.Tx, r catalog.Runner, taken map[string]int, waiting map[string]*queue.Line) (Demand, error) {
	d := Demand{Runner: r, Waits: c.begins.waits(r.ID)}
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
