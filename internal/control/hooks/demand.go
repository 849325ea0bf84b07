package hooks

import (
	"maps"
	"slices"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
)

// wantsMost bounds the kinds of Instances that one demand tells apart.
const wantsMost = 100

// Want is an Instance that Jobs wait for: the one of that name or, without a name, any, with these labels.
type Want struct {
	Instance string
	Labels   map[string]string // empty where the Jobs name their Runner
}

// MetBy tells whether an Instance of a Runner that is connected is what is wanted.
func (w Want) MetBy(r catalog.Runner, i store.Instance) bool {
	return (w.Instance == "" || w.Instance == i.Name) && r.Matches(w.Labels, i.Labels)
}

// Demand is what Jobs that wait want of one Runner that has a webhook and none of the Instances that they need.
type Demand struct {
	Runner  catalog.Runner
	Wants   []Want
	Waiting int    // Jobs
	Oldest  string // id of the first of them
}

// met tells whether Instances of the Runner are connected by now that are all that is wanted: the truth about them is in the store.
func (d *Demand) met(instances []store.Instance) bool {
	return !slices.ContainsFunc(d.Wants, func(w Want) bool {
		return !slices.ContainsFunc(instances, func(i store.Instance) bool { return i.Connected && w.MetBy(d.Runner, i) })
	})
}

// cameAfter tells whether an Instance that is wanted was there after a time.
func (d *Demand) cameAfter(at time.Time, instances []store.Instance) bool {
	return slices.ContainsFunc(instances, func(i store.Instance) bool {
		return i.LastSeen.After(at) && slices.ContainsFunc(d.Wants, func(w Want) bool { return w.MetBy(d.Runner, i) })
	})
}

// Add counts a Job in, by its id.
func (d *Demand) Add(jobID string, w Want) {
	if d.Waiting++; d.Waiting == 1 || jobID < d.Oldest { // ids rise with time
		d.Oldest = jobID
	}
	known := func(o Want) bool { return o.Instance == w.Instance && maps.Equal(o.Labels, w.Labels) }
	if len(d.Wants) < wantsMost && !slices.ContainsFunc(d.Wants, known) {
		d.Wants = append(d.Wants, w)
	}
}
