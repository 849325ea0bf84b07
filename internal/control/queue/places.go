package queue

import (
	"context"
	"math"
	"time"

	"legwork/internal/catalog"
)

// share is what this Server knows of the Jobs of a Runner whose record bounds them over all its Instances. What Instances connected
// here have is known better: see Instance.active.
type share struct {
	read  time.Time
	stale bool           // something moved that this Server does not see
	taken map[string]int // by Instance
}

// recount has the places of a Runner counted anew before the next pass. It is false when they need not be counted.
func (q *Queue) recount(runnerID string) bool {
	s := q.shares[runnerID]
	if s != nil {
		s.stale = true
	}
	return s != nil
}

// loadShares counts in the store what Jobs take of the Runners that are bounded and connected here.
func (q *Queue) loadShares(ctx context.Context, now time.Time) error {
	runners := q.unsureShares(now)
	if len(runners) == 0 {
		return nil
	}
	counted, err := q.host.Places(ctx, runners)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, taken := range counted {
		q.shares[id].read, q.shares[id].taken = now, taken
	}
	return nil
}

// unsureShares gives the Runners whose places are to be counted, and forgets those that are bounded no more. What becomes stale from
// here on is counted again in the next pass.
func (q *Queue) unsureShares(now time.Time) []catalog.Runner {
	q.mu.Lock()
	defer q.mu.Unlock()
	var unsure []catalog.Runner
	bounded := map[string]*share{}
	for _, f := range q.fleets {
		for id, r := range f.Runners {
			if r.MaxParallelJobs <= 0 || len(q.local[id]) == 0 {
				continue
			}
			s := q.shares[id]
			if s == nil {
				s = &share{stale: true}
			}
			bounded[id] = s
			if s.stale || now.Sub(s.read) > fleetTime {
				s.stale = false
				unsure = append(unsure, r)
			}
		}
	}
	q.shares = bounded
	return unsure
}

// room gives how many Jobs more a Runner may get in this pass, over all its Instances wherever they are connected. An Offer that
// stands counts as one Job, however many Instances it went to.
func (q *Queue) room(r catalog.Runner) int {
	if r.MaxParallelJobs <= 0 {
		return math.MaxInt
	}
	if left, known := q.rooms[r.ID]; known {
		return left
	}
	s := q.shares[r.ID]
	if s == nil {
		return 0 // until it is counted
	}
	left := r.MaxParallelJobs
	here := map[string]bool{}
	for _, i := range q.local[r.ID] {
		here[i.id] = true
		left -= len(i.active)
	}
	for id, n := range s.taken {
		if !here[id] {
			left -= n
		}
	}
	for _, o := range q.offers {
		if o.runners()[r.ID] {
			left--
		}
	}
	q.rooms[r.ID] = left
	return left
}
