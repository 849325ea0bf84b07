package hosting

import (
	"slices"

	"legwork/internal/store"
)

// share gives each Job that waits to one hosted Runner, of several that could take it the first with room.
func (l *look) share() error {
	var ids []string
	for _, w := range l.waiting {
		ids = append(ids, w.JobID)
	}
	queued, err := l.tx.QueuedAmong(ids)
	if err != nil {
		return err
	}
	by, room, left := map[string]*fleet{}, map[string]int{}, map[string]int{}
	for _, f := range l.fleets {
		by[f.runner.ID], room[f.runner.ID], left[f.runner.ID] = f, f.room(), f.bound()
	}
	for _, w := range l.waiting {
		if !queued[w.JobID] {
			continue
		}
		var to *fleet
		for _, id := range w.Runners {
			f := by[id]
			if f == nil || f.stopped() || left[id] <= 0 || f.lacks(w.Engine) {
				continue
			}
			if to == nil || room[to.runner.ID] <= 0 && room[id] > 0 {
				to = f
			}
		}
		if to != nil {
			room[to.runner.ID]--
			left[to.runner.ID]--
			to.waiting = append(to.waiting, w)
		}
	}
	return nil
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

// lacks tells whether the Instances of a Runner are known not to have an Engine: more of them would not help.
func (f *fleet) lacks(engine string) bool {
	return engine != "" && len(f.state.Engines) > 0 && !slices.Contains(f.state.Engines, engine)
}

// room is how many Jobs a Runner could take once all Instances are there that may be.
func (f *fleet) room() int {
	places := f.hosting.JobsPerInstance
	if f.hosting.OneOff {
		places = 1
	}
	room := (f.hosting.Max - len(f.open)) * places
	for _, o := range f.open {
		if o.State != store.LaunchDraining {
			room += places - f.places[o.instance.ID]
		}
	}
	return room
}
