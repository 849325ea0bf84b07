package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// unitToken begins the variables of the process in which the tokens of Units are; their index follows.
const unitToken = "LEGWORK_UNIT_TOKEN_"

// maxOutcome limits the file in which a launcher leaves its outcome, in bytes.
const maxOutcome = 64 << 20

// assignment is what the process reads from FILE. No secret stands in it.
type assignment struct {
	Step    work.StepKind   `json:"step"`
	Task    work.RunnerTask `json:"task"`
	Result  string          `json:"result"`            // where the outcome goes
	Until   time.Time       `json:"until,omitzero"`    // when to give up trying again
	Dir     string          `json:"dir"`               // Host.Dir
	CAFile  string          `json:"ca_file,omitzero"`  // Host.CAFile
	Keys    []string        `json:"keys,omitempty"`    // Host.Keys
	Version string          `json:"version"`           // Host.Version
	OwnOnly bool            `json:"own_only,omitzero"` // Host.OwnOnly
	// Removing says that the Job takes everything down: nothing then has to be fit for launching.
	Removing bool `json:"removing,omitzero"`

	Environment []string        `json:"environment,omitempty"` // Host.Environment
	TempDir     string          `json:"temp_dir,omitzero"`     // Host.TempDir
	Settings    json.RawMessage `json:"settings,omitempty"`    // Host.Settings
	Limits      *Limits         `json:"limits,omitempty"`      // Host.Limits
}

// outcome is what the process leaves.
type outcome struct {
	Units   []work.UnitReport `json:"units,omitempty"`
	Failure *work.Failure     `json:"failure,omitempty"`
}

// Engine has Runner Jobs performed by the launcher that their tasks name. Say and Program of its Host are those of the process.
type Engine struct{ host Host }

// NewEngine makes the Engine. Host.Program is the path of this program.
func NewEngine(host Host) *Engine { return &Engine{host} }

// Find has nothing to look for: what a launcher needs is told by Describe.
func (*Engine) Find(context.Context, []string) (engine.Tool, error) {
	return engine.Tool{Version: "1"}, nil
}

// Secrets gives what of a task no log may show.
func Secrets(task *work.RunnerTask) []string {
	var secrets []string
	if task == nil {
		return nil
	}
	for _, u := range tokenUnits(task) {
		if u.Token != "" {
			secrets = append(secrets, u.Token)
		}
	}
	return secrets
}

// tokenUnits returns all Units of a task that may have a token, in a fixed order.
func tokenUnits(task *work.RunnerTask) []*work.Unit {
	var all []*work.Unit
	for _, units := range [][]work.Unit{task.Units, task.Lost} {
		for i := range units {
			all = append(all, &units[i])
		}
	}
	return all
}

// Command gives the process that performs a Step.
func (e *Engine) Command(_ context.Context, step work.StepKind, w engine.Workspace) (engine.Command, bool, error) {
	if !step.ByLauncher() || w.Spec.Task == nil || w.Spec.Task.Hosting == nil {
		return engine.Command{}, false, fault.New(fault.Invalid, "step_unknown", "a launcher has no step %.40s", step).
			WithHint("the Server and this Runner may be of versions that do not fit: upgrade the older one")
	}
	a := assignment{Step: step, Task: bare(w.Spec.Task), Result: resultPath(w, step), Dir: e.host.Dir, CAFile: e.host.CAFile, Keys: e.host.Keys,
		Version: e.host.Version, OwnOnly: e.host.OwnOnly, Removing: w.Spec.Action == work.Remove,
		Environment: e.host.Environment, TempDir: e.host.TempDir, Settings: e.host.Settings, Limits: e.host.Limits}
	if a.Task.Hosting.Exec != nil && w.Spec.Script != nil {
		script := *w.Spec.Script // that was looked at
		a.Task.Hosting.Exec = &script
	}
	if w.Spec.StepTimeout > 0 {
		a.Until = time.Now().Add(w.Spec.StepTimeout - w.Spec.StepTimeout/10)
	}
	env, err := secretEnvironment(step, w.Spec)
	if err != nil {
		return engine.Command{}, false, err
	}
	file := filepath.Join(w.JobDir, "launch-"+string(step)+".json")
	if err := writeJSON(file, a); err != nil {
		return engine.Command{}, false, fmt.Errorf("write down a task: %w", err)
	}
	argv := []string{e.host.Program, "runner", "launch", file}
	return engine.Command{Argv: argv, Env: engine.MergeEnv(w.Env, env), HandOver: true}, true, nil
}

// startsUnits reports whether a step can start processes, which need their tokens: a cleanup resumes lost ones.
func startsUnits(step work.StepKind) bool { return step == work.StepLaunch || step == work.StepTidy }

func resultPath(w engine.Workspace, step work.StepKind) string {
	return filepath.Join(w.JobDir, "launch-"+string(step)+".result.json")
}

// bare gives a task without what is secret in it.
func bare(task *work.RunnerTask) work.RunnerTask {
	t := *task
	hosting := *task.Hosting
	hosting.Environment = nil
	t.Hosting = &hosting
	if task.Identity != nil {
		identity := *task.Identity
		identity.AccessKeyID, identity.SecretAccessKey = "", ""
		t.Identity = &identity
	}
	t.Units, t.Lost = withoutTokens(task.Units), withoutTokens(task.Lost)
	return t
}

func withoutTokens(units []work.Unit) []work.Unit {
	var bare []work.Unit
	for _, u := range units {
		bare = append(bare, work.Unit{Name: u.Name, Expires: u.Expires})
	}
	return bare
}

// secretEnvironment returns the secrets of a task as variables of the process. Each step gets only the secrets that it
// needs.
func secretEnvironment(step work.StepKind, spec *work.Spec) ([]string, error) {
	var env []string
	if !startsUnits(step) && step != work.StepCheck { // a check examines the environment, but starts nothing
		return nil, nil
	}
	if startsUnits(step) {
		for i, u := range tokenUnits(spec.Task) {
			env = append(env, unitToken+strconv.Itoa(i)+"="+u.Token)
		}
	}
	for _, in := range spec.Inputs {
		name, ok := strings.CutPrefix(in.Name, UnitEnv)
		if !ok || in.Kind != catalog.Env {
			continue // package engine has made it a variable
		}
		var text string
		if err := json.Unmarshal(in.Value, &text); err != nil {
			return nil, fault.New(fault.Invalid, "hosting_environment", "the value of the variable %.100q of hosting.environment is no text", name)
		}
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(text, 0) {
			return nil, fault.New(fault.Invalid, "hosting_environment", "%.100q of hosting.environment can be no variable", name).
				WithHint("a name has no = in it, and neither name nor value a NUL byte")
		}
		env = append(env, in.Name+"="+text)
	}
	return env, nil
}

// Result reads what the process left.
func (e *Engine) Result(_ context.Context, step work.StepKind, w engine.Workspace, exit engine.Exit) (work.StepResult, error) {
	var found outcome
	text, err := engine.ReadJobFile(w.JobDir, resultPath(w, step), maxOutcome)
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	switch {
	case !(engine.Command{}).Well(exit):
		result := engine.Failed(step, exit)
		if err == nil {
			result.Units = found.Units
		}
		if err == nil && found.Failure != nil && exit.Reason == engine.ReasonExited {
			result.Failure = found.Failure
		}
		return result, nil
	case err != nil:
		return work.StepResult{}, fmt.Errorf("read what a launcher did: %w", err)
	}
	return work.StepResult{Status: work.StepSucceeded, Units: found.Units}, nil
}

// writeJSON writes a file that is there whole or not at all, for its user alone.
func writeJSON(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := os.Remove(path + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
