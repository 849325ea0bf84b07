package runner

import (
	"legwork/internal/work"
)

// checkState fails an init whose module must not continue with the state that was found on this host. See
// work.StateExpectation.
func (r *Runner) checkState(st *step, spec *work.Spec, result *work.StepResult) {
	if st.kind != work.StepInit || result.Status != work.StepSucceeded || result.State == nil {
		return
	}
	var expected work.StateExpectation
	if spec.State != nil {
		expected = *spec.State
	}
	expected.Ephemeral = expected.Ephemeral || r.cfg.Ephemeral || r.cfg.OneOff
	if refusal := expected.Check(spec.Module, spec.Action, *result.State); refusal != nil {
		result.Status, result.Failure, result.State = work.StepFailed, refusal, nil
	}
}
