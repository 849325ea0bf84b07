// Package terraform drives OpenTofu and Terraform, which share their commands.
//
// The long commands (init, validate, plan, apply) are started by the caller with their colours on, and
// their text is never parsed: what a plan would do and what an apply gave out is read with show -json
// and output -json. A plan is written to a file of the Job, and apply takes exactly that file: its SHA-256
// is compared with what the plan Step recorded and with what was approved.
//
// Plans keep the state lock: a plan of a state in motion would show what is not so. That the state is locked
// by somebody else cannot be told from other failures, since neither exit codes nor the JSON of the engines
// say it other than in English: it is a plan_failed or an apply_failed with its cause in the log.
package terraform

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// Names of what a Job keeps in its folder.
const (
	planFile = "plan.bin"
	hashFile = "plan.sha256" // what the plan Step recorded of planFile
)

// The bounds of what is read from an engine.
const (
	versionTimeout = 30 * time.Second
	captureTimeout = 10 * time.Minute
	maxVersion     = 1 << 20
	maxShow        = 1 << 30 // of show -json; it is read as a stream
	maxChanges     = 4 << 20 // of the changes that leave the host; over it values are dropped
	maxOutputs     = 4 << 20 // of output -json
)

// Engine is one of the two programs. Make it with New. It may be used by several goroutines.
type Engine struct {
	name     catalog.Engine
	programs []string
	versions engine.Versions
	// locksCache tells whether this version keeps its provider cache safe by itself.
	locksCache func(version string) bool
}

var _ engine.Engine = (*Engine)(nil)

// New makes the engine of a name, which looks for the programs in their order: New(catalog.OpenTofu, "tofu").
func New(name catalog.Engine, programs ...string) *Engine {
	locks := func(string) bool { return false }
	if name == catalog.OpenTofu {
		locks = func(version string) bool { return atLeast(version, 1, 10) }
	}
	return &Engine{name: name, programs: programs, locksCache: locks}
}

// Find looks for the program and asks it for its version.
func (e *Engine) Find(ctx context.Context, dirs []string) (engine.Tool, error) {
	return e.versions.Find(ctx, string(e.name), e.programs, dirs, askVersion)
}

// askVersion reads version -json. It runs in the root folder, where no code lies that it would look at.
func askVersion(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	var said struct {
		Version string `json:"terraform_version"`
	}
	env := engine.MergeEnv(forCapture(os.Environ()), []string{"CHECKPOINT_DISABLE=1"})
	err := engine.Capture(ctx, []string{path, "version", "-json"}, env, "/", maxVersion, func(r io.Reader) error {
		dec, err := jsonAfterWarnings(r)
		if err != nil {
			return err
		}
		return dec.Decode(&said)
	})
	if err == nil && said.Version == "" {
		err = errors.New("version -json names no terraform_version")
	}
	return said.Version, err
}

// atLeast compares the first two numbers of a version.
func atLeast(version string, major, minor int) bool {
	var gotMajor, gotMinor int
	if _, err := fmt.Sscanf(version, "%d.%d", &gotMajor, &gotMinor); err != nil {
		return false
	}
	return gotMajor > major || gotMajor == major && gotMinor >= minor
}

// Command gives the command of a Step. fetch and output need none: Result reads the outputs.
func (e *Engine) Command(_ context.Context, step work.StepKind, w engine.Workspace) (engine.Command, bool, error) {
	args, err := arguments(step, w)
	if err != nil || args == nil {
		return engine.Command{}, false, err
	}
	cache, err := pluginCache(w)
	if err != nil {
		return engine.Command{}, false, err
	}
	command := engine.Command{
		Argv: append([]string{w.Tool.Path}, args...),
		Env:  e.environment(w, cache),
	}
	if step == work.StepPlan || step == work.StepPlanDestroy {
		command.OK = []int{0, 2} // -detailed-exitcode: 2 = there is something to do
	}
	if step == work.StepInit && !e.locksCache(w.Tool.Version) {
		command.Exclusive = lockOf(cache, w)
	}
	return command, true, nil
}

// arguments gives nil for a Step that needs no command.
func arguments(step work.StepKind, w engine.Workspace) ([]string, error) {
	plan := filepath.Join(w.JobDir, planFile)
	switch step {
	case work.StepInit:
		return []string{"init", "-input=false"}, nil
	case work.StepValidate:
		return []string{"validate"}, nil
	case work.StepPlan:
		return []string{"plan", "-input=false", "-detailed-exitcode", "-out=" + plan}, nil
	case work.StepPlanDestroy:
		return []string{"plan", "-destroy", "-input=false", "-detailed-exitcode", "-out=" + plan}, nil
	case work.StepApply, work.StepDestroy:
		return []string{"apply", "-input=false", plan}, verifyPlan(w)
	case work.StepFetch, work.StepOutput:
		return nil, nil
	}
	return nil, fault.New(fault.Invalid, "unknown_step", "the engine knows no Step %q", step)
}

// environment adds the variables that every command of the engine gets.
//
// An engine that does not lock its cache installs a provider into it anew, over the files that other Jobs
// are running from, unless the lock file of the Module knows the provider by a hash of its own making.
// TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE makes it take what is in the cache. What it warns of,
// a lock file that lacks the hashes of other platforms, does not matter on one host.
func (e *Engine) environment(w engine.Workspace, cache string) []string {
	const takeCached = "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE"
	own := []string{"TF_IN_AUTOMATION=1", "TF_INPUT=0", "CHECKPOINT_DISABLE=1", "TF_PLUGIN_CACHE_DIR=" + cache}
	if _, set := engine.Lookup(w.Env, takeCached); !set && !e.locksCache(w.Tool.Version) {
		own = append(own, takeCached+"=true")
	}
	return engine.MergeEnv(w.Env, own)
}

// pluginCache gives the folder of the provider cache, which must exist: the user's own or the shared one.
func pluginCache(w engine.Workspace) (string, error) {
	dir := filepath.Join(w.Cache, "plugins")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the provider cache: %w", err)
	}
	if own, ok := engine.Lookup(w.Env, "TF_PLUGIN_CACHE_DIR"); ok {
		return own, nil
	}
	return dir, nil
}

// lockOf names the lock file of a provider cache. It lies in the Runner's own cache, since the user's
// may not be ours to write beside.
func lockOf(cache string, w engine.Workspace) string {
	sum := sha256.Sum256([]byte(filepath.Clean(cache)))
	return filepath.Join(w.Cache, "plugins-"+hex.EncodeToString(sum[:6])+".lock")
}

// forCapture leaves out the variables that would change what a captured command prints or is given.
func forCapture(env []string) []string {
	var kept []string
	for _, entry := range env {
		if !strings.HasPrefix(entry, "TF_CLI_ARGS") && !strings.HasPrefix(entry, "TF_LOG") {
			kept = append(kept, entry)
		}
	}
	return kept
}

// Result reads what a Step made.
func (e *Engine) Result(ctx context.Context, step work.StepKind, w engine.Workspace, exit engine.Exit) (work.StepResult, error) {
	plans := step == work.StepPlan || step == work.StepPlanDestroy
	command := engine.Command{}
	if plans {
		command.OK = []int{0, 2}
	}
	if !command.Well(exit) {
		result := engine.Failed(step, exit)
		if plans {
			return result, forgetPlan(w)
		}
		if step == work.StepApply || step == work.StepDestroy { // which may have written a part of the state
			result.State, _ = readState(w) // the failure itself says more than that the state cannot be read
		}
		return result, nil
	}
	ctx, cancel := context.WithTimeout(ctx, captureTimeout)
	defer cancel()
	result := work.StepResult{Status: work.StepSucceeded, ExitCode: exit.Code}
	var err error
	switch {
	case plans:
		err = e.readPlan(ctx, w, &result)
	case step == work.StepOutput:
		err = e.readOutputs(ctx, w, &result)
	case step == work.StepInit, step == work.StepApply, step == work.StepDestroy:
		result.State, err = readState(w)
	}
	if err != nil {
		return work.StepResult{}, fmt.Errorf("read what %s made: %w", step, err)
	}
	return result, nil
}

// capture runs one of the engine's own reading commands in the Workspace.
func (e *Engine) capture(ctx context.Context, w engine.Workspace, limit int64, read func(io.Reader) error, args ...string) error {
	cache, err := pluginCache(w)
	if err != nil {
		return err
	}
	argv := append(append(slices.Clone(w.Confine), w.Tool.Path), args...)
	err = engine.Capture(ctx, argv, forCapture(e.environment(w, cache)), w.Dir, limit, read)
	var ended *engine.CaptureError
	if errors.As(err, &ended) {
		ended.Stderr = process.NewMasker(w.Secrets).Mask(ended.Stderr)
	}
	return err
}
