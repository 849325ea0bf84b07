package runner

import (
	"maps"
	"time"

	"legwork/internal/work"
)

// Status is what a Runner does at a moment.
type Status struct {
	Connected bool
	Draining  bool
	Capacity  int                     // Jobs at once
	Running   int                     // Jobs that take a place
	Held      int                     // Jobs in the journal, those that wait or are only to be reported included
	Sessions  int                     // since the start
	Finished  map[work.StepStatus]int // Steps since the start, by how they ended
}

// tally counts since the start; the Runner's mu guards it.
type tally struct {
	sessions int
	finished map[work.StepStatus]int
}

func (t *tally) finish(status work.StepStatus) {
	if t.finished == nil {
		t.finished = map[work.StepStatus]int{}
	}
	t.finished[status]++
}

// Status tells what the Runner does now.
func (r *Runner) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{Connected: r.link != nil, Draining: r.ends(), Capacity: r.cfg.Capacity, Held: len(r.jobs),
		Sessions: r.tally.sessions, Finished: maps.Clone(r.tally.finished)}
	now := time.Now()
	for _, j := range r.jobs {
		if j.holdsPlace(now) {
			s.Running++
		}
	}
	return s
}
