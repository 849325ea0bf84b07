package hosting

import (
	"slices"

	"legwork/internal/release"
	"legwork/internal/store"
	"legwork/internal/work"
)

// renew queues the Job that takes a Runner to the newest stable release, where its record wants that by itself. A release is tried once: one
// that was taken back waits for a person.
func (l *look) renew(f *fleet) error {
	if !l.renews || !f.hosting.AutoUpdate || f.stopped() || f.state.RollJob != "" {
		return nil
	}
	newest, err := l.h.host.Newest(l.tx)
	if err != nil || newest == "" || newest == f.state.AutoTried || !f.older(newest) {
		return err
	}
	open, err := l.tx.OpenOfLane(l.org, jobLane(f.runner.ID))
	if err != nil || open != nil {
		return err
	}
	j, s := l.h.task(f.runner, work.Update, by, "release "+newest+" was published")
	j.Lane, j.Priority, s.Task.Version = jobLane(f.runner.ID), work.PriorityNormal, newest
	f.state.AutoTried = newest
	return l.do.Enqueue(j, s)
}

// older tells whether what a Runner runs is older than a release: what it should run or, where that is the program of its launcher, what its
// Instances are.
func (f *fleet) older(version string) bool {
	if f.state.Version != "" {
		return release.Compare(f.state.Version, version) < 0
	}
	return slices.ContainsFunc(f.open, func(o *launch) bool {
		return o.State == store.LaunchOnline && release.Compare(o.instance.Version, version) < 0
	})
}
