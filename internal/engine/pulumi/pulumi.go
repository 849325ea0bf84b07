// Package pulumi drives Pulumi.
//
// Backend and secrets provider come by the environment, from the host or from Inputs of kind env: PULUMI_BACKEND_URL,
// PULUMI_ACCESS_TOKEN, PULUMI_CONFIG_PASSPHRASE and what the backend's cloud wants. Each Module has a Pulumi stack of its own,
// made at init: STACK-NAMESPACE-NAME, or what PULUMI_STACK says; PULUMI_SECRETS_PROVIDER names the secrets provider of a new one. Parameters
// reach the program as TF_VAR_name, as they do with every engine: Pulumi's own configuration lies in the source.
//
// A preview is saved to a file of the Job, and up is held to exactly that file. Text is never parsed: what up would do is read
// from that file, what destroy would do from the exported state, and outputs from their JSON.
package pulumi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/process"
	"legwork/internal/work"
)

// The bounds of what is read from the program.
const (
	versionTimeout = 30 * time.Second
	captureTimeout = 10 * time.Minute
	maxVersion     = 4 << 10
	maxHash        = 1 << 10
	maxState       = 256 << 20
	maxOutputs     = 4 << 20
)

// secretsProvider names the secrets provider of a stack that init makes.
const secretsProvider = "PULUMI_SECRETS_PROVIDER"

// Engine is Pulumi. Make it with New. It may be used by several goroutines.
type Engine struct{ versions engine.Versions }

var _ engine.Engine = (*Engine)(nil)

// New makes the engine.
func New() *Engine { return &Engine{} }

// Find looks for the program and asks it for its version.
func (e *Engine) Find(ctx context.Context, dirs []string) (engine.Tool, error) {
	return e.versions.Find(ctx, string(catalog.Pulumi), []string{"pulumi"}, dirs, askVersion)
}

func askVersion(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	var said []byte
	env := engine.MergeEnv(os.Environ(), []string{"PULUMI_SKIP_UPDATE_CHECK=true"})
	err := engine.Capture(ctx, []string{path, "version"}, env, "/", maxVersion, func(r io.Reader) (err error) {
		said, err = io.ReadAll(r)
		return err
	})
	version := strings.TrimPrefix(strings.TrimSpace(string(said)), "v")
	if err == nil && version == "" {
		err = errors.New("version says nothing")
	}
	return version, err
}

// Command gives the command of a Step. fetch, validate and output need none.
func (e *Engine) Command(_ context.Context, step work.StepKind, w engine.Workspace) (engine.Command, bool, error) {
	args, err := arguments(step, w)
	if err != nil || args == nil {
		return engine.Command{}, false, err
	}
	return engine.Command{Argv: append([]string{w.Tool.Path}, args...), Env: environment(w)}, true, nil
}

// arguments gives nil for a Step that needs no command.
func arguments(step work.StepKind, w engine.Workspace) ([]string, error) {
	common := []string{"--non-interactive", "--color=always", "--stack=" + stackOf(w)}
	with := func(words ...string) []string { return append(words, common...) }
	plan := filepath.Join(w.JobDir, planFile)
	switch step {
	case work.StepFetch, work.StepValidate, work.StepOutput:
		return nil, nil
	case work.StepInit:
		args := with("stack", "select", "--create")
		if provider, ok := engine.Lookup(w.Env, secretsProvider); ok && provider != "" {
			args = append(args, "--secrets-provider="+provider)
		}
		return args, nil
	case work.StepPlan:
		return with("preview", "--save-plan="+plan), nil
	case work.StepPlanDestroy:
		return with("destroy", "--preview-only"), nil
	case work.StepApply:
		return with("up", "--yes", "--skip-preview", "--plan="+plan), verifyPlan(w)
	case work.StepDestroy:
		return with("destroy", "--yes", "--skip-preview"), verifyPlan(w)
	}
	return nil, fault.New(fault.Invalid, "unknown_step", "the engine knows no Step %q", step)
}

// stackOf names the Module's stack at the backend. Names of Legwork hold nothing that one of Pulumi may not.
func stackOf(w engine.Workspace) string {
	if own, ok := engine.Lookup(w.Env, "PULUMI_STACK"); ok && own != "" {
		return own
	}
	if w.Spec == nil || w.Spec.Name == "" {
		return "default"
	}
	return w.Spec.StackName + "-" + w.Spec.Namespace + "-" + w.Spec.Name
}

// environment adds what every command gets. Language hosts that lie beside the program are found there.
func environment(w engine.Workspace) []string {
	path, _ := engine.Lookup(w.Env, "PATH")
	return engine.MergeEnv(w.Env, []string{"PULUMI_SKIP_UPDATE_CHECK=true",
		"PATH=" + path + string(os.PathListSeparator) + filepath.Dir(w.Tool.Path)})
}

// Result reads what a Step made.
func (e *Engine) Result(ctx context.Context, step work.StepKind, w engine.Workspace, exit engine.Exit) (work.StepResult, error) {
	plans := step == work.StepPlan || step == work.StepPlanDestroy
	ctx, cancel := context.WithTimeout(ctx, captureTimeout)
	defer cancel()
	if !(engine.Command{}).Well(exit) {
		result := engine.Failed(step, exit)
		if plans {
			return result, forgetPlan(w)
		}
		if step == work.StepApply || step == work.StepDestroy { // which may have written a part of the state
			result.State, _ = e.readState(ctx, w) // the failure itself says more than that the state cannot be read
		}
		return result, nil
	}
	result := work.StepResult{Status: work.StepSucceeded, ExitCode: exit.Code}
	err := ctx.Err()
	switch {
	case err != nil:
	case step == work.StepPlan:
		err = readPlan(w, &result)
	case step == work.StepPlanDestroy:
		err = e.readDestroy(ctx, w, &result)
	case step == work.StepOutput:
		err = e.readOutputs(ctx, w, &result)
	case step == work.StepInit, step == work.StepApply, step == work.StepDestroy:
		result.State, err = e.readState(ctx, w)
	}
	if err != nil {
		return work.StepResult{}, fmt.Errorf("read what %s made: %w", step, err)
	}
	return result, nil
}

// capture runs one of the program's own reading commands for the stack of the workspace.
func (e *Engine) capture(ctx context.Context, w engine.Workspace, limit int64, read func(io.Reader) error, args ...string) error {
	return run(ctx, w, limit, read, append(args, "--stack="+stackOf(w))...)
}

// run runs the program in the workspace. The program reads the source, and the source can name programs to start, so
// the command is confined like a step.
func run(ctx context.Context, w engine.Workspace, limit int64, read func(io.Reader) error, args ...string) error {
	argv := append(append(slices.Clone(w.Confine), w.Tool.Path), append(args, "--non-interactive")...)
	err := engine.Capture(ctx, argv, environment(w), w.Dir, limit, read)
	var ended *engine.CaptureError
	if errors.As(err, &ended) {
		ended.Stderr = process.NewMasker(w.Secrets).Mask(ended.Stderr)
	}
	return err
}
