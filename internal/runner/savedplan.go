package runner

import (
	"context"
	"fmt"

	"legwork/internal/engine"
	"legwork/internal/work"
)

// isPlan reports whether a Step makes a plan.
func isPlan(kind work.StepKind) bool { return kind == work.StepPlan || kind == work.StepPlanDestroy }

// restorePlan takes the approved plan of an earlier Attempt instead of making a new one. ok is false when there is
// none, or it does not fit.
func (r *Runner) restorePlan(ctx context.Context, st *step, e engine.Engine, w engine.Workspace) (result work.StepResult, ok bool, err error) {
	plan := w.Spec.Plan
	if plan == nil || !isPlan(st.kind) || st.attached(mainCommand) {
		return result, false, nil
	}
	r.mu.Lock()
	commit := st.job.commit
	r.mu.Unlock()
	if commit != plan.Commit {
		st.say("the approved plan was made of another commit of the source: a new plan is made")
		return result, false, nil
	}
	if err := engine.RestorePlan(e, st.kind, w, plan); err != nil {
		st.say(fmt.Sprintf("the approved plan cannot be taken here: %v; a new plan is made", err))
		return result, false, nil
	}
	result, err = e.Result(ctx, st.kind, w, engine.Exit{Reason: engine.ReasonExited})
	if err != nil {
		st.say("the approved plan cannot be read here: a new plan is made")
		r.jobLog.Warn("an approved plan cannot be read", "job", st.job.Job, "attempt", st.job.Attempt, "error", err)
		return result, false, nil
	}
	st.say("the approved plan, made at an instance that has ended, is taken: no new plan is made")
	return result, true, nil
}

// savePlan adds the plan file to the result of a plan, where the Server wants to keep it.
func (r *Runner) savePlan(st *step, e engine.Engine, w engine.Workspace, result *work.StepResult) {
	if w.Spec.KeepPlan <= 0 || !isPlan(st.kind) || result.Status != work.StepSucceeded || result.Plan == nil || result.Plan.Empty() {
		return
	}
	plan, err := engine.SavePlan(e, st.kind, w, w.Spec.KeepPlan)
	if err != nil {
		st.say(fmt.Sprintf("the server does not keep this plan: %v. If the instance ends before the approval, a new plan is made", err))
		return
	}
	if plan == nil {
		return
	}
	r.mu.Lock()
	plan.Commit = st.job.commit
	r.mu.Unlock()
	result.SavedPlan = plan
}
