package engine

import (
	"fmt"
	"slices"
	"strings"

	"legwork/internal/work"
)

// The words of Exit.Reason.
const (
	ReasonExited      = "exited"       // by itself
	ReasonSignaled    = "signaled"     // by a signal that was not ours
	ReasonTimeout     = "timeout"      // over the Step's timeout
	ReasonStalled     = "stalled"      // silent for too long
	ReasonCanceled    = "canceled"     // asked to end
	ReasonKilled      = "killed"       // killed on request
	ReasonStartFailed = "start_failed" // never ran
	ReasonLost        = "lost"         // nobody knows how it ended
)

// Well tells whether a command ended with one of its good exit codes.
func (c Command) Well(exit Exit) bool {
	if exit.Signal != "" || (exit.Reason != "" && exit.Reason != ReasonExited) {
		return false
	}
	return exit.Code == 0 && c.OK == nil || slices.Contains(c.OK, exit.Code)
}

// failures are the code and the sentence of each Step whose command ended with a bad exit code.
var failures = map[work.StepKind]work.Failure{
	work.StepFetch:       {Code: "fetch_failed", Message: "fetching the source failed"},
	work.StepInit:        {Code: "init_failed", Message: "init failed"},
	work.StepValidate:    {Code: "invalid_code", Message: "the code of the Module is not valid"},
	work.StepPlan:        {Code: "plan_failed", Message: "the plan failed"},
	work.StepPlanDestroy: {Code: "plan_failed", Message: "the plan to destroy failed"},
	work.StepApply:       {Code: "apply_failed", Message: "the apply failed; part of it may have been done"},
	work.StepDestroy:     {Code: "destroy_failed", Message: "the destroy failed; part of it may have been done"},
	work.StepOutput:      {Code: "output_failed", Message: "reading the outputs failed"},
	work.StepRun:         {Code: "script_failed", Message: "the script failed"},
}

// Failed gives the result of a Step whose command did not end well.
func Failed(step work.StepKind, exit Exit) work.StepResult {
	result := work.StepResult{Status: work.StepFailed, ExitCode: exit.Code}
	failure := byReason(step, exit)
	failure.Excerpt = exit.Excerpt
	if exit.Reason == ReasonCanceled || exit.Reason == ReasonKilled {
		result.Status = work.StepCanceled
	}
	result.Failure = &failure
	return result
}

func byReason(step work.StepKind, exit Exit) work.Failure {
	switch exit.Reason {
	case ReasonTimeout:
		return work.Failure{Code: "step_timeout", Message: fmt.Sprintf("%s took longer than its timeout and was ended", step), Hint: "raise limits.timeout of the Module, or see in the log what it waited for"}
	case ReasonStalled:
		return work.Failure{Code: "step_stalled", Message: fmt.Sprintf("%s printed nothing for too long and was ended", step), Hint: "raise limits.stall_timeout of the Module, or see in the log what it waited for"}
	case ReasonCanceled, ReasonKilled:
		return work.Failure{Code: "canceled", Message: fmt.Sprintf("%s was canceled", step)}
	case ReasonStartFailed:
		return work.Failure{Code: "start_failed", Message: fmt.Sprintf("the command of %s could not be started: %s", step, exit.Message), Hint: "look at the Runner's host: the program, its rights, free memory and space"}
	case ReasonLost:
		return work.Failure{Code: "command_lost", Message: fmt.Sprintf("nobody knows how %s ended", step), Hint: "the Runner's host was restarted or its processes were killed; run the Job again"}
	}
	if exit.Signal != "" {
		return signaled(step, exit.Signal)
	}
	failure := failures[step]
	if failure.Code == "" {
		failure = work.Failure{Code: "step_failed", Message: fmt.Sprintf("%s failed", step)}
	}
	return explain(failure, exit)
}

// explain adds to the failure of a command why it failed, as far as its log tells.
func explain(failure work.Failure, exit Exit) work.Failure {
	switch x := exit.Excerpt; {
	case x == nil:
		failure.Message += fmt.Sprintf(" (exit status %d)", exit.Code)
		failure.Hint = "read the log of the step"
	case x.Summary == "":
		failure.Message += fmt.Sprintf(" (exit status %d)", exit.Code)
	case x.Location == "":
		failure.Message += ": " + x.Summary
	default:
		failure.Message += fmt.Sprintf(": %s (%s)", strings.TrimSuffix(x.Summary, "."), x.Location)
	}
	return failure
}

func signaled(step work.StepKind, signal string) work.Failure {
	f := work.Failure{Code: "died_by_signal", Message: fmt.Sprintf("the command of %s died by %s", step, signal), Hint: "nobody asked for it: read the log of the Step"}
	if signal == "SIGKILL" {
		f.Hint = "the system may have run out of memory: look at the kernel log of the Runner's host"
	}
	return f
}
