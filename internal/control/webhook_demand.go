package control

import (
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/control/hooks"
	"legwork/internal/store"
)

// wanted gives, by Runner, the demand that stands as far as this Server sees: Jobs that nothing keeps but that no Instance which they
// could go to is online, at whatever Server. Where they ask for labels, that is a demand of every Runner with a webhook that is
// assigned and whose record has these labels.
func (q *queue) wanted() map[string]*hooks.Demand {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := map[string]*hooks.Demand{}
	for _, b := range q.buckets {
		f := q.fleets[b.org]
		if f == nil {
			continue
		}
		callable, online := q.callable(f, b)
		if len(callable) == 0 {
			continue
		}
		ofModule := map[string][]catalog.Runner{} // that are called for its Jobs
		for _, e := range b.entries {
			if !q.onlyWaits(e) {
				continue
			}
			key := e.place.StackID + "/" + e.moduleID
			runners, known := ofModule[key]
			if !known {
				runners = calledFor(f, e, callable, online)
				ofModule[key] = runners
			}
			for _, r := range runners {
				if all[r.ID] == nil {
					all[r.ID] = &hooks.Demand{Runner: r}
				}
				all[r.ID].Add(e.id, b.wants())
			}
		}
	}
	return all
}

// wants is what the Jobs of a bucket want of an Instance.
func (b *bucket) wants() hooks.Want {
	if b.runnerID != "" {
		return hooks.Want{Instance: b.need.Instance}
	}
	return hooks.Want{Instance: b.need.Instance, Labels: b.labels}
}

// callable gives the Runners with a webhook that the Jobs of a bucket may go to, and those that have a suitable Instance online.
func (q *queue) callable(f *fleet, b *bucket) (callable, online []catalog.Runner) {
	for _, r := range f.runnersFor(b) {
		switch {
		case r.IsDisabled:
		case q.present(f, b, r):
			online = append(online, r)
		case r.Webhook != "" && b.takes(r, nil):
			callable = append(callable, r)
		}
	}
	return callable, online
}

// present tells whether an Instance of a Runner that suits a bucket is online, here or at another Server. Whether it is busy, or can
// do the work, is not asked.
func (q *queue) present(f *fleet, b *bucket, r catalog.Runner) bool {
	w := b.wants()
	here := slices.ContainsFunc(q.local[r.ID], func(s *session) bool {
		return w.MetBy(r, store.Instance{Name: s.instance, Labels: s.labels})
	})
	return here || slices.ContainsFunc(f.remote, func(i store.Instance) bool { return i.RunnerID == r.ID && w.MetBy(r, i) })
}

// onlyWaits tells whether a Job could run at once, were there an Instance.
func (q *queue) onlyWaits(e *entry) bool {
	holder, busy := q.busy[e.lane]
	return e.waitsFor == "" && (!e.upstreams || e.ready) && (!busy || holder.jobID == e.id)
}

// calledFor gives the Runners that are called for a Job: none, when one that is online is assigned to its Module, too.
func calledFor(f *fleet, e *entry, callable, online []catalog.Runner) []catalog.Runner {
	assigned := func(r catalog.Runner) bool { return f.rights.Assigned(r, e.place) }
	if slices.ContainsFunc(online, assigned) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(callable), func(r catalog.Runner) bool { return !assigned(r) })
}
