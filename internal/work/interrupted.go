package work

import (
	"fmt"
	"time"
)

// instanceAway explains an interrupted job: why it waits, until when, what happens then, and what a person can do.
func (j *Job) instanceAway() Wait {
	if j.Restored {
		return j.restoredWait()
	}
	return Wait{
		Code: WaitInstanceAway,
		Text: fmt.Sprintf("interrupted during %s: %s. Waiting until %s for %s to return and report; otherwise %s",
			j.stepUnderWay(), j.InterruptedReason, stamp(j.RecoverUntil), j.boundTo(), j.afterRecovery()),
		Hint: fmt.Sprintf("start the runner on its host again, in the same working directory. To prevent another "+
			"attempt, cancel the job: legwork job cancel %d; with --mode kill it ends now", j.Number),
	}
}

// AwayNotice explains that the instance of a job under way lost its connection at a time.
func (j *Job) AwayNotice(at time.Time) string {
	return fmt.Sprintf("%s lost its connection at %s. The job may go on there; its log and its result arrive when the "+
		"instance returns. Without it, the attempt counts as lost at %s", j.boundTo(), stamp(at), stamp(j.LeaseUntil))
}

// restoredWait returns the wait of a job that a restore interrupted. It has no deadline: the operator resumes the
// server.
func (j *Job) restoredWait() Wait {
	return Wait{
		Code: WaitInstanceAway,
		Text: "interrupted: " + j.InterruptedReason + ". Waiting for " + j.boundTo() +
			" to return with it; otherwise the job fails when the server is resumed",
		Hint: "start the runner on its host again, in the same working directory, before: legwork server resume",
	}
}

// endInterruption removes what was said of an interruption that is over.
func (j *Job) endInterruption() {
	j.InterruptedReason, j.InterruptedAt = "", time.Time{}
	j.Restored = false
}

// stepUnderWay names the step in which a job was interrupted.
func (j *Job) stepUnderWay() string {
	i := j.Current()
	if i == len(j.Steps) || j.Steps[i].Kind == StepRound {
		return "a step that may change something"
	}
	return "step " + string(j.Steps[i].Kind)
}

// lostStep returns the kind of the mutating step in which the present attempt was lost, "" when it was not lost in one.
func (j *Job) lostStep() StepKind {
	if n := len(j.Losses); n > 0 && j.Losses[n-1].Changing && j.Losses[n-1].Attempt == j.Attempt {
		return j.Losses[n-1].Step
	}
	return ""
}

// Replaceable reports whether a newer job may supersede this one: it is queued, and its lost attempt, if there was one,
// changed nothing.
func (j *Job) Replaceable() bool { return j.Status == Queued && j.lostStep() == "" }

// endSteps sets the final status of the steps that are not over: skipped, or unknown where an instance was lost in it.
func (m *move) endSteps() {
	j := m.job
	for i := range j.Steps {
		s := &j.Steps[i]
		switch {
		case s.Status.Done():
		case s.Status == StepRunning && !s.Kind.Own() && !j.IsRun():
			s.Status, s.FinishedAt = StepUnknown, m.now
		case !j.IsPart() && s.Kind == j.lostStep():
			s.Status = StepUnknown
		default:
			s.Status = StepSkipped
		}
	}
}

func (j *Job) boundTo() string {
	if j.Binding == nil {
		return "its instance"
	}
	return "instance " + j.Binding.Runner + "/" + j.Binding.Instance
}

// afterRecovery says what happens to an interrupted job when its recovery window is over.
func (j *Job) afterRecovery() string {
	switch {
	case j.Cancel != nil:
		return "the job ends as canceled, and the outcome of the step stays unknown"
	case j.Attempt >= j.Limits.MaxAttempts:
		return "the job fails: " + count(j.Attempt, "attempt is", "attempts are") + " all that it may take"
	case j.IsPart():
		return "another instance continues, without the nodes on which the outcome is unknown"
	}
	return "the job is queued again and begins with its first step"
}
