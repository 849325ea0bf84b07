package queue

import (
	"cmp"
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/store"
)

// WaitingFor counts, by Runner, the Jobs that wait for nothing but an Instance. One that several Runners could take counts for the first of
// them by name, so that not all of them make room for it.
func (q *Queue) WaitingFor() map[string]*Line {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := map[string]*Line{}
	for _, b := range q.buckets {
		f := q.fleets[b.org]
		if f == nil || b.task {
			continue
		}
		runners := slices.DeleteFunc(slices.Clone(f.runnersFor(b)), func(r catalog.Runner) bool {
			return r.IsDisabled || !f.mayMatch(b, r) || !b.need.Holder.MayUse(r.ID)
		})
		slices.SortFunc(runners, func(a, b catalog.Runner) int { return compareNames(a, b) })
		for _, e := range b.entries {
			if !q.onlyWaits(e) {
				continue
			}
			at := slices.IndexFunc(runners, func(r catalog.Runner) bool { return f.Rights.Assigned(r, e.place) })
			if at < 0 {
				continue
			}
			w := all[runners[at].ID]
			if w == nil {
				w = &Line{Oldest: e.queuedAt}
				all[runners[at].ID] = w
			}
			if w.Jobs++; e.queuedAt.Before(w.Oldest) {
				w.Oldest = e.queuedAt
			}
		}
	}
	return all
}

func compareNames(a, b catalog.Runner) int {
	if a.Name < b.Name {
		return -1
	}
	return 1
}

// Wanted gives the demand that stands as far as this Server sees, Job by Job, to add, which asks nothing of the queue: Jobs that nothing keeps but
// that no Instance which they could go to is online, at whatever Server. Where they ask for labels, that is a demand of every Runner with a webhook
// that is assigned and whose record has these labels.
func (q *Queue) Wanted(add func(r catalog.Runner, jobID string, w Want)) {
	q.mu.Lock()
	defer q.mu.Unlock()
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
				add(r, e.id, b.wants())
			}
		}
	}
}

// wants is what the Jobs of a bucket want of an Instance.
func (b *bucket) wants() Want {
	instance := cmp.Or(b.need.Instance, b.need.Holder.Instance)
	if b.runnerID != "" {
		return Want{Instance: instance}
	}
	return Want{Instance: instance, Labels: b.labels}
}

// callable gives the Runners with a webhook that the Jobs of a bucket may go to, and those that have a suitable Instance online.
func (q *Queue) callable(f *Fleet, b *bucket) (callable, online []catalog.Runner) {
	for _, r := range f.runnersFor(b) {
		switch {
		case r.IsDisabled, !b.need.Holder.MayUse(r.ID):
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
func (q *Queue) present(f *Fleet, b *bucket, r catalog.Runner) bool {
	return slices.ContainsFunc(q.local[r.ID], func(i *Instance) bool { return b.suits(r, i.name, i.labels) }) ||
		slices.ContainsFunc(f.Remote, func(i store.Instance) bool { return i.RunnerID == r.ID && b.suits(r, i.Name, i.Labels) })
}

// onlyWaits tells whether a Job could run at once, were there an Instance.
func (q *Queue) onlyWaits(e *entry) bool {
	holder, busy := q.busy[e.lane]
	return e.waitsFor == "" && (!e.upstreams || e.ready) && (!busy || holder.jobID == e.id)
}

// calledFor gives the Runners that are called for a Job: none, when one that is online is assigned to its Module, too.
func calledFor(f *Fleet, e *entry, callable, online []catalog.Runner) []catalog.Runner {
	assigned := func(r catalog.Runner) bool { return f.Rights.Assigned(r, e.place) }
	if slices.ContainsFunc(online, assigned) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(callable), func(r catalog.Runner) bool { return !assigned(r) })
}
