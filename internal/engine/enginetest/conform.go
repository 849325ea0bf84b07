package enginetest

import (
	"context"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// Subject is an engine under test.
type Subject struct {
	New  func() engine.Engine
	Dirs []string // where its program is

	// Fails makes a Module whose Step of this kind ends with a bad exit status.
	Fails func(t *testing.T) (*Bench, work.StepKind)
	// Succeeds makes a Module whose Step of this kind succeeds.
	Succeeds func(t *testing.T) (*Bench, work.StepKind)
	// NeedsProgram tells whether the engine is found by its program on the host.
	NeedsProgram bool
}

// Conform runs what holds for every engine.
func Conform(t *testing.T, s Subject) {
	t.Run("find", s.find)
	t.Run("commands", s.commands)
	t.Run("failure", s.failure)
	t.Run("ended from outside", s.endedFromOutside)
	t.Run("result is repeatable", s.repeatable)
	t.Run("unknown step", s.unknownStep)
}

func (s Subject) find(t *testing.T) {
	tool, err := s.New().Find(t.Context(), s.Dirs)
	if err != nil || tool.Version == "" {
		t.Fatalf("find gives %+v, %v", tool, err)
	}
	if s.NeedsProgram && !filepath.IsAbs(tool.Path) {
		t.Fatalf("the path %q is not absolute", tool.Path)
	}
	t.Setenv("PATH", t.TempDir())
	_, err = s.New().Find(t.Context(), []string{t.TempDir(), "relative"})
	if fault.Code(err) != "engine_missing" || !fault.Is(err, fault.NotFound) || fault.Of(err).Hint == "" {
		t.Fatalf("an engine that is missing gives %v (code %q)", err, fault.Code(err))
	}
}

// commands checks that a command is an argument vector of an absolute program, with the whole environment,
// and that no Input stands in it.
func (s Subject) commands(t *testing.T) {
	b, step := s.Succeeds(t)
	b.Setenv("CANARY=of-the-workspace")
	b.Give(Param("secret", `"s3cr3t-in-no-argument"`, true))
	c, ok, err := b.Engine.Command(t.Context(), step, b.Workspace)
	if err != nil || !ok {
		t.Fatalf("no command: %v", err)
	}
	if len(c.Argv) == 0 || !filepath.IsAbs(c.Argv[0]) {
		t.Errorf("the program is no absolute path: %q", c.Argv)
	}
	if v, _ := engine.Lookup(c.Env, "CANARY"); v != "of-the-workspace" {
		t.Error("the environment of the Workspace is not in the command's")
	}
	if strings.Contains(strings.Join(c.Argv, " "), "s3cr3t") {
		t.Errorf("an Input stands in the arguments: %q", c.Argv)
	}
}

func (s Subject) failure(t *testing.T) {
	b, step := s.Fails(t)
	out := b.Step(step)
	if out.Err != nil || out.Result.Status != work.StepFailed || out.Result.Failure == nil {
		t.Fatalf("a bad exit status gives %+v, %v", out.Result, out.Err)
	}
	if out.Result.ExitCode == 0 || out.Result.Failure.Hint == "" {
		t.Errorf("no exit status or no hint: %+v", out.Result)
	}
}

// endedFromOutside checks the exits that no engine decides on.
func (s Subject) endedFromOutside(t *testing.T) {
	b, step := s.Succeeds(t)
	for _, c := range []struct {
		exit   engine.Exit
		code   string
		status work.StepStatus
	}{
		{engine.Exit{Code: -1, Signal: "SIGKILL", Reason: engine.ReasonTimeout}, "step_timeout", work.StepFailed},
		{engine.Exit{Code: -1, Signal: "SIGKILL", Reason: engine.ReasonStalled}, "step_stalled", work.StepFailed},
		{engine.Exit{Code: 0, Reason: engine.ReasonCanceled}, "canceled", work.StepCanceled},
		{engine.Exit{Code: -1, Signal: "SIGKILL", Reason: engine.ReasonKilled}, "canceled", work.StepCanceled},
		{engine.Exit{Code: -1, Signal: "SIGSEGV", Reason: engine.ReasonSignaled}, "died_by_signal", work.StepFailed},
		{engine.Exit{Code: -1, Reason: engine.ReasonStartFailed, Message: "no memory"}, "start_failed", work.StepFailed},
		{engine.Exit{Code: -1, Reason: engine.ReasonLost}, "command_lost", work.StepFailed},
	} {
		result, err := b.Engine.Result(t.Context(), step, b.Workspace, c.exit)
		if err != nil || result.Failure == nil || result.Failure.Code != c.code || result.Status != c.status {
			t.Errorf("%+v gives %+v %+v, %v", c.exit, result, result.Failure, err)
		}
	}
}

func (s Subject) repeatable(t *testing.T) {
	b, step := s.Succeeds(t)
	first := b.Step(step)
	if _, _, err := b.Engine.Command(t.Context(), step, b.Workspace); err != nil { // a Runner that was started again
		t.Fatalf("the command cannot be had again: %v", err)
	}
	second, err := b.Engine.Result(t.Context(), step, b.Workspace, first.Exit)
	if first.Err != nil || err != nil || !reflect.DeepEqual(first.Result, second) {
		t.Fatalf("first %+v %v\nsecond %+v %v", first.Result, first.Err, second, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Engine.Result(ctx, step, b.Workspace, first.Exit); err == nil && s.NeedsProgram {
		t.Error("reading the result goes on after the context has ended")
	}
}

func (s Subject) unknownStep(t *testing.T) {
	b, _ := s.Succeeds(t)
	if _, ok, err := b.Engine.Command(t.Context(), "juggle", b.Workspace); err == nil || ok {
		t.Error("an unknown Step is taken")
	}
}

// Param makes a parameter out of a JSON text.
func Param(name, json string, sensitive bool) work.InputValue {
	return work.InputValue{Name: name, Kind: "parameter", Value: []byte(json), Sensitive: sensitive}
}
