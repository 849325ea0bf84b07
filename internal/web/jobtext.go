package web

import (
	"time"

	"legwork/internal/work"
)

// sinceOf gives when a Job began to be what it is.
func sinceOf(j *work.Job) time.Time {
	switch {
	case j.Status.Terminal():
		return j.FinishedAt
	case j.Status != work.Queued && j.Binding != nil:
		return j.Binding.ClaimedAt
	}
	return j.QueuedAt
}

// nowOf says in a few words what a Job does or waits for.
func nowOf(j *work.Job) string {
	switch {
	case j.Status == work.Queued:
		return sentence(j.Wait.Text)
	case j.Notice != "":
		return sentence(j.Notice)
	case j.Status == work.AwaitingApproval && j.IsRun():
		return "Waiting for approval"
	case j.Status == work.AwaitingApproval:
		return "Waiting for plan approval"
	}
	if i := j.Current(); i < len(j.Steps) {
		return orWord(j.Steps[i].Name, stepWord(j.Steps[i].Kind))
	}
	return ""
}

func stepWord(k work.StepKind) string {
	switch k {
	case work.StepPlanDestroy:
		return "plan of destroy"
	default:
		return string(k)
	}
}

// whyOf says why a Job did not succeed.
func whyOf(j *work.Job) string {
	if j.Failure == nil {
		return ""
	}
	return sentence(j.Failure.Message)
}

func yesNo(yes bool) string {
	if yes {
		return "true"
	}
	return "false"
}

func instancesOf(r runnerView) string {
	if r.Hosting != nil { // ended Instances do not count
		return counted(r.online(), "instance") + " online"
	}
	if len(r.Instances) == 0 {
		return "No instances"
	}
	return number(r.online()) + "/" + counted(len(r.Instances), "instance") + " online"
}

// fleetText says in a line how a Runner is.
func fleetText(r runnerView) string {
	if r.Reason != "" && (r.Health != work.RunnerHealthy || r.Status == work.StatusScaledToZero) {
		return sentence(r.Reason)
	}
	if r.Hosting != nil {
		return counted(r.online(), "instance") + " online"
	}
	return number(r.online()) + "/" + counted(len(r.Instances), "instance") + " online"
}
