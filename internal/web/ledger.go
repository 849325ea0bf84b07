package web

import (
	"legwork/internal/control"
	"legwork/internal/work"
)

// launchMoods are the states of launches, those of one kind each of a shape of its own.
var launchMoods = map[string]mood{
	"starting": {"Starting", "spin", "busy"},
	"online":   {"Online", "dot", "good"},
	"draining": {"Draining", "half", "warn"},
	"ended":    {"Ended", "minus", "calm"},
	"given_up": {"Given up", "cross", "bad"},
}

const mostLaunches = 30 // of the ledger, on the page of a Runner

// hostedState is what the page of a hosted Runner shows beside that of others.
type hostedState struct {
	demand  control.Demand
	ledger  []control.Launch
	numbers map[string]int64 // of the Jobs of the ledger, by id
}

// hostedState gives how a hosted Runner stands, nil for a self-hosted one.
func (v *visit) hostedState(r runnerView) (*hostedState, error) {
	if r.Hosting == nil {
		return nil, nil
	}
	h := &hostedState{numbers: map[string]int64{}}
	var err error
	if h.demand, err = v.Control.DemandOf(v.ctx, v.actor, r.ID); err != nil {
		return nil, err
	}
	if h.ledger, err = v.Control.Launches(v.ctx, v.actor, r.ID, control.Page{Limit: mostLaunches + 1}); err != nil {
		return nil, err
	}
	for _, l := range first(h.ledger, mostLaunches) {
		if l.JobID == "" || h.numbers[l.JobID] > 0 {
			continue
		}
		if j, err := v.Control.Job(v.ctx, v.actor, l.JobID); err == nil { // one that is gone is not named
			h.numbers[l.JobID] = j.Number
		}
	}
	return h, nil
}

// lived says how long a launch lived, or lives: from when it was started on.
func lived(l control.Launch) string {
	if l.State.Open() || l.EndedAt.IsZero() {
		return ""
	}
	return exactly(l.EndedAt.Sub(l.Began()))
}

// cameOnline says how long a launch took until it was online, "" when it never was.
func cameOnline(l control.Launch) string {
	if l.OnlineAt.IsZero() {
		return ""
	}
	return "online after " + exactly(l.OnlineAt.Sub(l.Began()))
}

// scaleText says in a few words what a hosted Runner is about to have: "2 starting, 3 wanted".
func scaleText(d control.Demand) string {
	switch there := d.Instances + d.Starting; {
	case d.Starting > 0 && d.Desired > there:
		return counted(d.Starting, "Instance") + " starting, " + number(d.Desired) + " wanted."
	case d.Starting > 0:
		return counted(d.Starting, "Instance") + " starting."
	case d.Desired > d.Instances:
		return number(d.Desired) + " wanted, " + number(d.Instances) + " there."
	}
	return ""
}

// statusMood is how a Runner's status is shown.
func (r runnerView) statusMood() mood {
	if r.Status == work.StatusOffline && r.demand != nil && r.demand.Starting > 0 {
		return mood{"STARTING", "spin", "busy"}
	}
	return known(runnerMoods, r.Status)
}
