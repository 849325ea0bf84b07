package control

import (
	"context"
	"fmt"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// reasonsAtOnce bounds the changed reasons that are written in one transaction, and in one tick.
const reasonsAtOnce = 200

// reason is a reason to wait that is not stored yet.
type reason struct {
	org  string
	id   string
	wait work.Wait
}

// writeReasons notes why Jobs wait, where that changed. It is done once in a tick and not in every pass, so that a Job
// that runs at once costs no write.
func (q *queue) writeReasons(ctx context.Context, now time.Time) {
	changed := q.reasons(now)
	if len(changed) == 0 {
		return
	}
	var moves []moved
	err := q.c.store.Update(ctx, func(tx *store.Tx) error {
		moves = nil
		for _, r := range changed {
			j, err := tx.JobForUpdate(r.org, r.id)
			if err != nil || j.Status != work.Queued || j.Wait == r.wait {
				continue
			}
			m, changed, err := q.c.move(tx, j, work.WaitChanged{Wait: r.wait})
			if err != nil {
				return err
			}
			if changed {
				moves = append(moves, m)
			}
		}
		return nil
	})
	if err != nil {
		if ctx.Err() == nil {
			q.c.log.Error("could not write why jobs wait", "error", err)
		}
		return
	}
	q.c.carryOut(moves...)
}

// reasons gives the reasons that differ from what is stored.
func (q *queue) reasons(now time.Time) []reason {
	q.mu.Lock()
	defer q.mu.Unlock()
	var changed []reason
	for _, b := range q.buckets {
		f := q.fleets[b.org]
		if f == nil {
			continue
		}
		common, known := q.bucketReason(f, b)
		for _, e := range b.entries {
			wait, ok := q.entryReason(f, b, e, now)
			if !ok {
				wait, ok = common, known
			}
			if !ok || wait == e.wait || q.offers[e.id] != nil {
				continue
			}
			if changed = append(changed, reason{e.org, e.id, wait}); len(changed) == reasonsAtOnce {
				q.wake()
				return changed
			}
		}
	}
	return changed
}

// entryReason is what keeps this very Job waiting.
func (q *queue) entryReason(f *fleet, b *bucket, e *entry, now time.Time) (work.Wait, bool) {
	if holder, busy := q.busy[e.moduleID]; busy && holder.jobID != e.id {
		return work.Wait{Code: work.WaitModuleBusy, Text: fmt.Sprintf("job #%d of the same module is under way", holder.number)}, true
	}
	if e.waitsFor != "" {
		return waitForModule(e.waitsFor), true
	}
	assigned := false
	for _, r := range f.runnersFor(b) {
		assigned = assigned || catalog.Assigned(r, f.assignments, e.place)
	}
	if !assigned {
		text := "no runner that suits the module is assigned to it"
		if b.need.Runner != "" {
			text = fmt.Sprintf("runner %s is not assigned to the module", b.need.Runner)
		}
		return work.Wait{Code: work.WaitNoAssignment, Text: text}, true
	}
	for _, r := range e.refused {
		if now.Before(r.until) {
			return work.Wait{Code: work.WaitRefused, Text: r.reason}, true
		}
	}
	return work.Wait{}, false
}

// bucketReason is what keeps all Jobs with the same needs waiting. Instances of other Servers count, as far as they are
// known here; how busy they are is for those Servers to say.
func (q *queue) bucketReason(f *fleet, b *bucket) (work.Wait, bool) {
	need := b.need
	if need.Runner == "" {
		need.Runner = "with these labels"
	}
	var here, all []work.Candidate
	for _, r := range f.runnersFor(b) {
		for _, s := range q.local[r.ID] {
			if b.takes(r, s.labels) {
				here = append(here, s.candidate(r))
			}
		}
		for _, i := range f.remote {
			if i.RunnerID == r.ID && b.takes(r, i.Labels) {
				all = append(all, work.Candidate{RunnerID: r.ID, Runner: r.Name, InstanceID: i.ID, Instance: i.Name,
					Disabled: r.IsDisabled, Online: true, Draining: i.Draining, Free: 1, Engines: i.Engines})
			}
		}
		if r.IsDisabled && len(q.local[r.ID]) == 0 && b.takes(r, nil) {
			all = append(all, work.Candidate{RunnerID: r.ID, Runner: r.Name, Disabled: true})
		}
	}
	eligible, wait := work.Eligible(need, append(all, here...))
	if len(eligible) == 0 {
		return wait, true
	}
	_, wait = work.Eligible(need, here)
	return wait, wait.Code == work.WaitBusy
}
