package web

import (
	"time"

	"legwork/internal/control"
	"legwork/internal/work"
)

func overviewPage() page {
	return page{path: "/", nav: "/", kinds: []string{"job.", "runner."}, every: 10 * time.Second, load: loadOverview}
}

// overview is what runs, what waits and why, what failed lately, and how the fleet is.
type overview struct {
	*visit
	underWay, failed []*work.Job       // the newest
	waiting          []*work.Job       // the oldest
	counts           control.JobCounts // of all, those that failed in the last day
	fleet            []runnerView
	queue            loadHistory
}

const (
	mostShown  = 12
	mostFailed = 6
	lately     = 24 * time.Hour
)

func loadOverview(v *visit) (content, error) {
	o := overview{visit: v}
	var err error
	if o.counts, o.waiting, err = v.Control.CountJobs(v.ctx, v.actor, v.now.Add(-lately), mostShown); err != nil {
		return content{}, err
	}
	if o.underWay, err = v.Control.Jobs(v.ctx, v.actor, control.JobFilter{Statuses: underWay, Limit: mostShown}); err != nil {
		return content{}, err
	}
	if o.failed, err = v.Control.Jobs(v.ctx, v.actor, control.JobFilter{Statuses: []work.Status{work.Failed}, Limit: mostFailed}); err != nil {
		return content{}, err
	}
	if o.fleet, err = v.fleet(); err != nil {
		return content{}, err
	}
	if err = v.fillDemand(first(o.fleet, mostShown)); err != nil {
		return content{}, err
	}
	if o.queue, err = v.loadHistory(""); err != nil {
		return content{}, err
	}
	return content{title: "Overview", status: o.tabStatus(), body: overviewBody(o), parts: o.parts()}, nil
}

// tabStatus shows how many jobs wait for a person.
func (o overview) tabStatus() mood {
	if n := o.count(work.AwaitingApproval); n > 0 {
		return mood{"(" + number(n) + ")", "pause", "ask"}
	}
	return mood{tone: "calm"}
}

func (o overview) parts() []part {
	running, waiting, failed, fleet := []part{}, []part{}, []part{}, []part{}
	for _, j := range first(o.underWay, mostShown) {
		running = append(running, part{id: "run-" + j.ID, body: runningRow(o, j)})
	}
	for _, j := range first(o.waiting, mostShown) {
		waiting = append(waiting, part{id: "wait-" + j.ID, body: waitingRow(o, j)})
	}
	for _, j := range first(o.failed, mostFailed) {
		failed = append(failed, part{id: "failed-" + j.ID, body: failedLine(o, j)})
	}
	for _, r := range first(o.fleet, mostShown) {
		fleet = append(fleet, part{id: "fleet-" + r.ID, body: fleetLine(o, r)})
	}
	return []part{
		{id: "tiles", body: tiles(o)},
		{id: "running", body: runningRows(o), rows: running},
		{id: "waiting", body: waitingRows(o), rows: waiting},
		{id: "failed", body: failedLines(o), rows: failed},
		{id: "fleet", body: fleetLines(o), rows: fleet},
		{id: "queue", body: queueCharts(o)},
	}
}

// count gives how many Jobs there are in some states.
func (o overview) count(statuses ...work.Status) (n int) {
	for _, s := range statuses {
		n += o.counts.Alive[s]
	}
	return n
}

// places counts the places of the fleet for Jobs.
func (o overview) places() (used, all int) {
	for _, r := range o.fleet {
		used += r.used
		all += r.capacity
	}
	return used, all
}

// online counts the Runners that take Jobs.
func (o overview) online() int {
	n := 0
	for _, r := range o.fleet {
		if r.Status == work.StatusOnline && !r.IsDisabled {
			n++
		}
	}
	return n
}

func first[T any](all []T, n int) []T { return all[:min(len(all), n)] }

func toneIf(tone string, yes bool) string {
	if yes {
		return tone
	}
	return ""
}

// longestWait says for how long the oldest Job waits. It is rounded, so that a minute does not make a change.
func longestWait(o overview) string {
	if len(o.waiting) == 0 {
		return ""
	}
	longest := time.Duration(0)
	for _, j := range o.waiting {
		longest = max(longest, o.now.Sub(j.QueuedAt))
	}
	return "Longest wait: " + span(longest.Truncate(10*time.Second))
}
