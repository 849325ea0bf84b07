package queue

import (
	"context"
	"time"

	"legwork/internal/work"
)

// Resync compares the queue with the store, in which all truth is.
func (q *Queue) Resync(ctx context.Context) error {
	began, at := q.host.Order(), time.Now()
	stored := map[string]bool{}
	err := q.host.Queued(ctx, func(page []*work.Job) { q.take(page, began, stored) })
	if err != nil {
		return err
	}
	q.dropUnstored(stored, began, at)
	return q.recheckBusy(ctx)
}

// take adds what is queued in the store. What moved since the resync began is left alone.
func (q *Queue) take(page []*work.Job, began uint64, stored map[string]bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range page {
		if !j.Offerable() {
			continue
		}
		stored[j.ID] = true
		if q.seen[j.ID].order <= began {
			q.add(j, nil)
		}
	}
}

// dropUnstored forgets what was there before the resync began and is not queued in the store, and has Jobs that wait for
// others looked at again.
func (q *Queue) dropUnstored(stored map[string]bool, began uint64, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, e := range q.entries {
		if !stored[id] && e.added.Before(at) && q.seen[id].order <= began {
			q.remove(id)
		}
	}
	for key := range q.blocked {
		q.unblock(key)
	}
}

// recheckBusy asks the store about the lanes that seem to be held.
func (q *Queue) recheckBusy(ctx context.Context) error {
	q.mu.Lock()
	held := map[string]string{} // lanes, with their Organization
	for _, e := range q.entries {
		if _, busy := q.busy[e.lane]; busy && len(held) < reasonsAtOnce {
			held[e.lane] = e.org
		}
	}
	q.mu.Unlock()
	for lane, org := range held {
		began := q.host.Order()
		j, err := q.host.Holder(ctx, org, lane)
		if err != nil {
			return err
		}
		if q.host.Order() == began { // nothing moved meanwhile
			q.Holds(lane, j)
		}
	}
	return nil
}

// forgetSightings drops what can no longer be overtaken.
func (q *Queue) forgetSightings(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, s := range q.seen {
		if now.Sub(s.at) > time.Minute {
			delete(q.seen, id)
		}
	}
}
