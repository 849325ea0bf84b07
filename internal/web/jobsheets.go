package web

import (
	"path"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

const operate = catalog.Operate

// jobSheet makes a sheet about one Job.
func jobSheet(path string, body func(p jobView, f form) sheetContent, act func(v *visit, id string, f form) (outcome, error)) sheet {
	return sheet{path: "/jobs/{job}/" + path, nav: "/jobs", need: operate,
		show: func(v *visit, f form) (sheetContent, error) {
			j, err := v.Control.Job(v.ctx, v.actor, v.request.PathValue("job"))
			if err != nil {
				return sheetContent{}, err
			}
			return body(jobView{visit: v, job: j}, f), nil
		},
		act: func(v *visit, f form) (outcome, error) { return act(v, v.request.PathValue("job"), f) },
	}
}

// followed leads to a Job that something was done to.
func followed(j *work.Job, err error, note string) (outcome, error) {
	if err != nil {
		return outcome{}, err
	}
	return outcome{next: "/jobs/" + number(j.Number), note: note}, nil
}

func cancelSheet() sheet {
	return jobSheet("cancel",
		func(p jobView, f form) sheetContent {
			f.back = "Keep running"
			return sheetContent{"Cancel Job " + p.title() + "?", cancelForm(p, f)}
		},
		func(v *visit, id string, f form) (outcome, error) {
			if _, err := reasonOf(f); err != nil {
				return outcome{}, err
			}
			j, err := v.Control.CancelJob(v.ctx, v.actor, id, work.CancelMode(f.get("mode")), f.get("reason"))
			note := "The Job is being canceled."
			if err == nil && j.Status.Terminal() {
				note = "The Job is canceled."
			}
			return followed(j, err, note)
		})
}

func approveSheet() sheet {
	return jobSheet("approve",
		func(p jobView, f form) sheetContent {
			return sheetContent{"Approve " + p.asked() + p.title() + "?", approveForm(p, f)}
		},
		func(v *visit, id string, f form) (outcome, error) {
			reason, err := reasonOf(f)
			if err != nil {
				return outcome{}, err
			}
			j, err := v.Control.Job(v.ctx, v.actor, id)
			if err != nil {
				return outcome{}, err
			}
			said := "It is approved."
			if j.Plan() != nil {
				said = "The plan is approved."
			}
			j, err = v.Control.ApproveJob(v.ctx, v.actor, id, reason, f.get("plan_hash"))
			return followed(j, err, said)
		})
}

func declineSheet() sheet {
	return jobSheet("decline",
		func(p jobView, f form) sheetContent {
			return sheetContent{"Decline " + p.asked() + p.title() + "?", declineForm(p, f)}
		},
		func(v *visit, id string, f form) (outcome, error) {
			reason, err := reasonOf(f)
			if err != nil {
				return outcome{}, err
			}
			j, err := v.Control.DeclineJob(v.ctx, v.actor, id, reason)
			return followed(j, err, "The plan is declined.")
		})
}

func retrySheet() sheet {
	return jobSheet("retry",
		func(p jobView, f form) sheetContent {
			return sheetContent{"Run Job " + p.title() + " again?", retryForm(p, f)}
		},
		func(v *visit, id string, f form) (outcome, error) {
			old, err := v.Control.Job(v.ctx, v.actor, id)
			if err != nil {
				return outcome{}, err
			}
			if old.Action == work.Destroy {
				if err := destroyConfirmed(path.Base(old.Module), f); err != nil {
					return outcome{}, err
				}
			}
			j, err := v.Control.RetryJob(v.ctx, v.actor, id)
			return followed(j, err, "A new Job is queued.")
		})
}

// maxReasonText bounds what is written about a decision, as the API does.
const maxReasonText = 1000

func reasonOf(f form) (string, error) {
	reason := f.get("reason")
	if len(reason) > maxReasonText {
		return "", fault.New(fault.Invalid, "reason_too_long", "the reason is too long").
			WithDetails(fault.Problem{Field: "reason", Message: "at most 1000 characters fit"})
	}
	return reason, nil
}

// shownPlan gives the hash of the plan that was looked at: that of the page that led here, else of the one shown now.
func shownPlan(p jobView, f form) string {
	if hash := f.or("plan_hash", p.query("plan")); hash != "" {
		return hash
	}
	if plan := p.job.Plan(); plan != nil {
		return plan.Hash
	}
	return ""
}

// planMoved tells whether the Job has another plan by now than the one that was looked at.
func planMoved(p jobView, f form) bool {
	plan := p.job.Plan()
	return plan != nil && shownPlan(p, f) != plan.Hash
}

// cancelOptions are the ways to end a Job under way, softest first.
var cancelOptions = []option{
	{string(work.AfterCurrent), "After the current Step", "The Step under way ends by itself; no further one begins. The safest way, and the slowest."},
	{string(work.Graceful), "Interrupt it", "Sends SIGINT, then SIGTERM, then SIGKILL. The engine can still store its state."},
	{string(work.Kill), "Kill it at once", "SIGKILL. An apply under way may leave things half changed, and a lock on its state. Only when nothing else helps."},
}

// cancelChoices leaves out what would be softer than what was asked already.
func cancelChoices(j *work.Job) []option {
	if j.Cancel == nil {
		return cancelOptions
	}
	for i, o := range cancelOptions {
		if o.value == string(j.Cancel.Mode) {
			return cancelOptions[min(i+1, len(cancelOptions)-1):]
		}
	}
	return cancelOptions
}

// cancelFirst is the way that is chosen to begin with.
func cancelFirst(j *work.Job) string {
	choices := cancelChoices(j)
	for _, o := range choices {
		if o.value == string(work.Graceful) {
			return o.value
		}
	}
	return choices[0].value
}

// atOnce tells whether a Job that is canceled is over in that moment, since nothing of it is under way.
func atOnce(j *work.Job) bool { return j.Status == work.Queued || j.Status == work.AwaitingApproval }

func cancelText(c *work.Cancel) string {
	ways := map[work.CancelMode]string{work.AfterCurrent: "After the current Step, by", work.Graceful: "Asked to stop by", work.Kill: "Killed by"}
	way := ways[c.Mode]
	if way == "" {
		way = "By"
	}
	return saidBy(way, c.By, c.Reason)
}

func shortCommit(commit string) string { return commit[:min(10, len(commit))] }

func approvalHint(p jobView) string {
	hint := "Look at what it would do, then approve or decline it."
	if p.job.IsRun() {
		hint = "Once approved, it goes on with the next step."
	}
	if !p.can(operate) {
		hint = "Somebody who may operate Jobs can approve or decline it."
	}
	if !p.job.ApproveUntil.IsZero() {
		hint += " It expires " + moment(p.job.ApproveUntil) + "."
	}
	return hint
}

// timeLimit says how long a job may take, "" when nothing limits it.
func timeLimit(j *work.Job) string {
	if j.Limits.JobTimeout <= 0 {
		return ""
	}
	text := exactly(j.Limits.JobTimeout)
	if at := j.Deadline(); !at.IsZero() {
		text += ", until " + moment(at)
	}
	return text
}

// failureTone: what a person ended is no alarm.
func failureTone(j *work.Job) string {
	if j.Status == work.Failed {
		return "bad"
	}
	return ""
}

// hasOutputs tells whether a Job stored outputs.
func (p jobView) hasOutputs() bool {
	for _, s := range p.job.Steps {
		if s.Kind == work.StepOutput && s.Status == work.StepSucceeded {
			return true
		}
	}
	return false
}

// asked names what is to be decided on.
func (p jobView) asked() string {
	if p.job.IsRun() {
		return "Job "
	}
	return "the plan of Job "
}

// approveWord is what the button says that lets a Job go on.
func (p jobView) approveWord() string {
	if p.job.IsRun() {
		return "Approve"
	}
	return "Approve the plan"
}

// decideText says what the approval of a Job without a plan does.
func (p jobView) decideText() string {
	if !p.job.IsRun() {
		return "It begins at once."
	}
	if i := p.job.Current(); i < len(p.job.Steps) {
		return "It waits at the step " + p.job.Steps[i].Name + ", and goes on with the next one at once."
	}
	return "It goes on at once."
}
