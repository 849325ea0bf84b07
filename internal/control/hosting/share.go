package hosting

import (
	"legwork/internal/store"
)

// shareAtOnce is of how many Jobs it is asked in one query whether they still wait.
const shareAtOnce = 256

// share gives each Job that waits to one hosted Runner, of several that could take it the first with room. Where Runners have no room any
// more, one Job for each tells that there are some; of the others nothing is read.
func (l *look) share() error {
	rooms := map[string]*room{}
	for _, f := range l.fleets {
		if !f.stopped() {
			rooms[f.runner.ID] = &room{f, f.room(), f.bound(), f.known(l.tx.Now())}
		}
	}
	waiting := l.waiting
	for len(waiting) > 0 {
		var some []Waiter
		var ids []string
		for len(waiting) > 0 && len(some) < shareAtOnce {
			w := waiting[0]
			waiting = waiting[1:]
			if firstWithRoom(rooms, w) != nil {
				some, ids = append(some, w), append(ids, w.JobID)
			}
		}
		queued, err := l.tx.QueuedAmong(ids)
		if err != nil {
			return err
		}
		for _, w := range some {
			if to := firstWithRoom(rooms, w); to != nil && queued[w.JobID] {
				to.room--
				to.bound--
				to.fleet.waiting = append(to.fleet.waiting, w)
			}
		}
	}
	return nil
}

// room is what is left of a Runner while Jobs are given to it.
type room struct {
	fleet *fleet
	room  int
	bound int // of its record

	engines engineSet
}

// firstWithRoom gives the Runner that a Job counts for: the first with room, or the first for which none counts yet; nil where it would tell
// nothing new.
func firstWithRoom(rooms map[string]*room, w Waiter) (to *room) {
	for _, id := range w.Runners {
		r := rooms[id]
		switch {
		case r == nil || r.bound <= 0 || r.engines.lacks(w.Engine):
		case r.room > 0:
			return r
		case to == nil && len(r.fleet.waiting) == 0:
			to = r
		}
	}
	return to
}

// bound is how many Jobs more the record allows at once.
func (f *fleet) bound() int {
	if f.runner.MaxParallelJobs <= 0 {
		return int(^uint(0) >> 1)
	}
	left := f.runner.MaxParallelJobs
	for _, n := range f.places {
		left -= n
	}
	return left
}

// room is how many Jobs a Runner could take once all Instances are there that may be.
func (f *fleet) room() int {
	places := f.hosting.JobsPerInstance
	if f.hosting.OneOff {
		places = 1
	}
	room := (f.hosting.Max - len(f.open)) * places
	for _, o := range f.open {
		if o.State != store.LaunchDraining && o.instance.UnavailableReason == "" {
			room += places - f.places[o.instance.ID]
		}
	}
	return room
}
