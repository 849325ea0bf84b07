package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

// reasonsAtOnce bounds the changed reasons that are written in one transaction, and in one tick.
const reasonsAtOnce = 200

// explain has it stored why Jobs wait, where that changed. It is done once in a tick and not in every pass, so that a Job
// that runs at once costs no write.
func (q *Queue) explain(ctx context.Context, now time.Time) {
	changed := q.reasons(now)
	if len(changed) == 0 {
		return
	}
	if err := q.host.Explain(ctx, changed); err != nil && ctx.Err() == nil {
		q.log.Error("could not write why jobs wait", "error", err)
	}
}

// reasons gives the reasons that differ from what is stored.
func (q *Queue) reasons(now time.Time) []Reason {
	q.mu.Lock()
	defer q.mu.Unlock()
	var changed []Reason
	for _, b := range q.buckets {
		f := q.fleets[b.org]
		if f == nil {
			continue
		}
		common := map[string]commonReason{} // by the Runners that may take a Job
		for _, e := range b.entries {
			wait, ok := q.entryReason(f, b, e, now)
			if !ok {
				wait, ok = q.commonReason(f, b, e, common)
			}
			if !ok || wait == e.wait || q.offers[e.id] != nil {
				continue
			}
			if changed = append(changed, Reason{Ref{e.org, e.id}, wait}); len(changed) == reasonsAtOnce {
				q.Wake()
				return changed
			}
		}
	}
	return changed
}

// entryReason is what keeps this very Job waiting.
func (q *Queue) entryReason(f *Fleet, b *bucket, e *entry, now time.Time) (work.Wait, bool) {
	if f.Pause != (work.Wait{}) {
		return f.Pause, true
	}
	if holder, busy := q.busy[e.lane]; busy && holder.jobID != e.id {
		return work.Wait{Code: work.WaitModuleBusy, Text: fmt.Sprintf("job #%d of the same module is under way", holder.number)}, true
	}
	if e.waitsFor != "" {
		return work.WaitForOutput(e.waitsFor), true
	}
	if len(f.candidates(b, e)) == 0 {
		return work.Wait{Code: work.WaitNoAssignment, Text: unassigned(f, b, e)}, true
	}
	for _, r := range e.refused {
		if now.Before(r.until) {
			return work.Wait{Code: work.WaitRefused, Text: r.reason}, true
		}
	}
	return work.Wait{}, false
}

// candidates gives the Runners that suit a Job and are assigned to its Module.
func (f *Fleet) candidates(b *bucket, e *entry) []catalog.Runner {
	return slices.DeleteFunc(f.runnersFor(b), func(r catalog.Runner) bool {
		return !e.task && !f.Rights.Assigned(r, e.place) || !f.mayMatch(b, r)
	})
}

// mayMatch tells whether a Runner's record, or one of the Instances that it ever had, has the labels that the Jobs of a bucket want.
func (f *Fleet) mayMatch(b *bucket, r catalog.Runner) bool {
	return b.takes(r, nil) || slices.ContainsFunc(f.Labels[r.ID], func(own map[string]string) bool { return b.takes(r, own) })
}

// unassigned says that no Runner that suits a Job is assigned to its Module, and what to do.
func unassigned(f *Fleet, b *bucket, e *entry) string {
	stack, _, _ := strings.Cut(e.module, "/")
	switch {
	case b.task && b.need.Runner == catalog.LocalRunner:
		return "the Server's own runner, which does this, is not there yet: the Server's log says why, should it not come"
	case b.task:
		return fmt.Sprintf("there is no runner %s, which is to do this: name another one, or create it", b.need.Runner)
	case e.moduleID == "" && b.runnerID != "" && len(f.runnersFor(b)) > 0:
		return fmt.Sprintf("runner %s is not assigned to the whole of stack %s: %s", b.need.Runner, stack, catalog.HowToAssign(b.need.Runner, stack))
	case e.moduleID == "" && b.runnerID == "":
		return fmt.Sprintf("no suitable runner is assigned to the whole of stack %s: %s", stack, catalog.HowToAssign("RUNNER", stack))
	case b.runnerID != "" && len(f.runnersFor(b)) == 0:
		return fmt.Sprintf("runner %s is not there any more: cancel the job, and submit it anew", b.need.Runner)
	case b.runnerID != "":
		return fmt.Sprintf("runner %s is not assigned to module %s: %s", b.need.Runner, e.module, catalog.HowToAssign(b.need.Runner, e.module))
	case len(b.labels) > 0:
		return fmt.Sprintf("no runner with the labels %s is assigned to module %s: %s", catalog.LabelText(b.labels), e.module, catalog.HowToAssign("RUNNER", e.module))
	}
	return fmt.Sprintf("no runner is assigned to module %s: %s", e.module, catalog.HowToAssign("RUNNER", e.module))
}

// commonReason is what keeps all Jobs waiting that have the same needs and the same Runners. known holds those that were asked for before.
func (q *Queue) commonReason(f *Fleet, b *bucket, e *entry, known map[string]commonReason) (work.Wait, bool) {
	runners := f.candidates(b, e)
	slices.SortFunc(runners, func(a, b catalog.Runner) int { return strings.Compare(a.ID, b.ID) })
	var key strings.Builder
	for _, r := range runners {
		key.WriteString(r.ID)
	}
	reason, ok := known[key.String()]
	if !ok {
		reason.wait, reason.ok = q.runnersReason(f, b, runners)
		known[key.String()] = reason
	}
	return reason.wait, reason.ok
}

// commonReason is a reason to wait, if there is one to be told.
type commonReason struct {
	wait work.Wait
	ok   bool
}

// runnersReason looks why none of the Instances of some Runners takes Jobs of a bucket. Instances of other Servers count, as far as they
// are known here; how busy they are is for those Servers to say.
func (q *Queue) runnersReason(f *Fleet, b *bucket, runners []catalog.Runner) (work.Wait, bool) {
	need := b.need
	switch {
	case need.Runner == "" && len(b.labels) > 0:
		need.Kind = "with the labels " + catalog.LabelText(b.labels)
	case need.Runner == "":
		need.Kind = "that is assigned"
	}
	usable := slices.ContainsFunc(runners, func(r catalog.Runner) bool { return need.Holder.MayUse(r.ID) })
	if need.Holder.Instance != "" && !usable {
		return work.Wait{Code: work.WaitStateInstance, Text: fmt.Sprintf("the state of the module is on instance %s of runner %s, "+
			"which the module does not use now: let it use that runner, or move the state and run legwork module release-state",
			need.Holder.Instance, need.Holder.Runner)}, true
	}
	var here, all []work.Candidate
	for _, r := range runners {
		for _, i := range q.local[r.ID] {
			if b.takes(r, i.labels) {
				here = append(here, i.candidate(r))
			}
		}
		for _, i := range f.Remote {
			if i.RunnerID == r.ID && b.takes(r, i.Labels) {
				all = append(all, work.Candidate{RunnerID: r.ID, Runner: r.Name, InstanceID: i.ID, Instance: i.Name,
					Disabled: r.IsDisabled, Online: true, Draining: i.Draining, Unavailable: i.UnavailableReason, Free: 1, Engines: i.Engines})
			}
		}
		if r.IsDisabled && len(q.local[r.ID]) == 0 && b.takes(r, nil) {
			all = append(all, work.Candidate{RunnerID: r.ID, Runner: r.Name, Disabled: true})
		}
	}
	eligible, wait := work.Eligible(need, append(all, here...))
	if hosted, ok := q.hostedReason(runners, need.Engine, wait); ok && !b.task {
		return hosted, true
	}
	if len(eligible) == 0 {
		return wait, true
	}
	_, wait = work.Eligible(need, here)
	if hosted, ok := q.hostedReason(runners, need.Engine, wait); ok && !b.task {
		return hosted, true
	}
	return wait, wait.Code == work.WaitBusy || wait.Code == work.WaitRunnerFull
}

// hostedReason says why Jobs wait for Instances of some Runners, where one of them is hosted and knows.
func (q *Queue) hostedReason(runners []catalog.Runner, engine catalog.Engine, usual work.Wait) (work.Wait, bool) {
	if !slices.Contains([]work.WaitCode{work.WaitNoInstance, work.WaitBusy, work.WaitDraining, work.WaitUnavailable}, usual.Code) {
		return usual, false
	}
	for _, r := range runners {
		if r.Hosting == nil {
			continue
		}
		if w, ok := q.host.Hosted(r.ID, engine); ok {
			return work.Wait{Code: cmp.Or(w.Code, usual.Code), Text: w.Text}, true
		}
	}
	return usual, false
}
