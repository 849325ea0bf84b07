package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/confine"
	"legwork/internal/engine/nodes"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/reference"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

// secretsEngine stands in a Hello for that the Instance lists where Secrets are.
const secretsEngine catalog.Engine = "secrets"

// References are what the operator of this host lets a Server have it follow.
type References struct {
	Schemes []string // "file", "vault", ...
	Folders []string // in which files may lie
}

// rules bounds references by the policy; variables are those that Jobs see anyway, never the Runner's own settings.
func (r *Runner) rules() reference.Rules {
	rules := reference.Rules{Environ: r.environ}
	if c := r.cfg.Confine; c != nil {
		rules.Hidden, rules.Prefix = c.Hides, c.Command(r.cfg.Program)
	}
	if p := r.cfg.Policy.References; p != nil {
		rules.Schemes, rules.Folders = append([]string{}, p.Schemes...), append([]string{}, p.Folders...)
	}
	return rules
}

// executorPolicy returns what the executor of a round needs of the rules. It needs no prefix for commands: the executor
// is confined itself, and they inherit that.
func (r *Runner) executorPolicy() (nodes.ReferencePolicy, error) {
	rules := r.rules()
	policy := nodes.ReferencePolicy{Schemes: rules.Schemes, Folders: rules.Folders}
	if r.cfg.Confine == nil {
		return policy, nil
	}
	var err error
	policy.Confine, err = json.Marshal(r.cfg.Confine)
	return policy, err
}

// resolveReference looks up a reference for the executor of a round, within the policy of this host.
func resolveReference(ctx context.Context, p nodes.ReferencePolicy, text string, environ []string) (string, error) {
	rules := reference.Rules{Schemes: p.Schemes, Folders: p.Folders, Environ: environ}
	if len(p.Confine) > 0 {
		var hidden confine.Policy
		if err := json.Unmarshal(p.Confine, &hidden); err != nil {
			return "", fmt.Errorf("read the policy of references: %w", err)
		}
		rules.Hidden = hidden.Hides
	}
	return rules.Get(ctx, text)
}

// forExecutor reports whether a reference is looked up by the executor of a round, just before the step that needs it.
// Those with which nodes are reached are needed before.
func forExecutor(st *step, spec *work.Spec, in work.InputValue) bool {
	return in.Reference && st.kind == work.StepRound && spec.Run != nil &&
		!slices.Contains(runbook.ConnectionSecrets(spec.Run.Connection), in.Name)
}

// referenced gives the Spec of a Step with what its references stand for. The values are in this process's memory alone, and are masked as
// those of sensitive Inputs are. A Step whose command was started by an earlier process
// continues without references that cannot be resolved now. So does a cleanup of hosted processes.
func (r *Runner) referenced(ctx context.Context, st *step, spec *work.Spec) (*work.Spec, error) {
	if !slices.ContainsFunc(spec.Inputs, func(in work.InputValue) bool { return in.Reference }) {
		return spec, nil
	}
	begun := st.resumed && len(st.files()) > 0 || spec.Action == work.Tidy // a cleanup has to work without them
	filled := *spec
	filled.Inputs = nil
	known := map[string]string{}
	for _, in := range spec.Inputs {
		if in.Reference && !forExecutor(st, spec, in) {
			value, err := r.follow(ctx, known, in)
			if ctx.Err() != nil && !begun {
				return nil, context.Cause(ctx)
			}
			if err != nil && begun {
				r.jobLog.Warn("a reference cannot be had again", "job", st.job.Job, "attempt", st.job.Attempt, "step", st.kind, "name", in.Name, "error", err)
				continue
			}
			if err != nil {
				return nil, err
			}
			in.Value, in.Reference, in.Sensitive = value, false, true
		}
		filled.Inputs = append(filled.Inputs, in)
	}
	return &filled, nil
}

// follow gives what a reference stands for, as JSON; each text is asked for once.
func (r *Runner) follow(ctx context.Context, known map[string]string, in work.InputValue) ([]byte, error) {
	var text string
	if err := json.Unmarshal(in.Value, &text); err != nil {
		return nil, fault.New(fault.Invalid, "reference_invalid", "%s: the reference is not a text", inputLabel(in.Name))
	}
	value, ok := known[text]
	if !ok {
		var err error
		if value, err = r.rules().Get(ctx, text); err != nil {
			f := fault.Of(err)
			hint := f.Hint
			if hint == "" {
				hint = "look at it on the Runner's host, as the Runner's user"
			}
			return nil, fault.New(f.Kind, f.Code, "%s: %s", inputLabel(in.Name), f.Message).WithHint("%s", hint)
		}
		known[text] = value
	}
	return json.Marshal(value)
}

// inputLabel names an Input as the user declared it.
func inputLabel(name string) string {
	if variable, ok := strings.CutPrefix(name, launcher.UnitEnv); ok {
		return fmt.Sprintf("hosting.environment[%.100s]", variable)
	}
	return fmt.Sprintf("the value of %.100q", name)
}

// listSecrets tells where Secrets can be had on this host: references, never values.
func (r *Runner) listSecrets(ctx context.Context, st *step, spec *work.Spec) (work.StepResult, error) {
	found, err := r.rules().List(ctx, spec.Where)
	if ctx.Err() != nil {
		return work.StepResult{}, context.Cause(ctx)
	}
	if err != nil {
		return work.StepResult{}, err
	}
	if len(found) == 1 {
		st.say("1 secret was found")
	} else {
		st.say(fmt.Sprintf("%d secrets were found", len(found)))
	}
	return work.StepResult{Status: work.StepSucceeded, Paths: found}, nil
}
