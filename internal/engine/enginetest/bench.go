// Package enginetest is the conformance suite that every engine passes with its real program, and what it
// needs: where the programs are, a provider of our own, and a bench that runs one Step after another as
// a Runner does, without a Runner.
package enginetest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"legwork/internal/engine"
	"legwork/internal/work"
)

// stepLimit ends a Step that hangs, so that a test fails instead of standing still.
const stepLimit = 2 * time.Minute

// Bench is one Module on one host: its folder, the folder of its Job, and the engine.
type Bench struct {
	Engine engine.Engine
	engine.Workspace
	t testing.TB
}

// Outcome is what one Step came to.
type Outcome struct {
	Result work.StepResult
	Err    error // of Command or of Result
	Exit   engine.Exit
	Log    string // both streams of the command
}

// NewBench lays out the files of a Module (by relative path) and finds the engine in dirs. cache may be
// shared between Benches; "" makes one.
func NewBench(t testing.TB, e engine.Engine, dirs []string, cache string, files map[string]string) *Bench {
	t.Helper()
	tool, err := e.Find(t.Context(), dirs)
	if err != nil {
		t.Fatalf("find the engine: %v", err)
	}
	if cache == "" {
		cache = t.TempDir()
	}
	b := &Bench{Engine: e, t: t, Workspace: engine.Workspace{
		Dir: t.TempDir(), JobDir: t.TempDir(), Cache: cache, Tool: tool, Spec: &work.Spec{},
		Env: engine.MergeEnv(os.Environ(), []string{"TF_CLI_CONFIG_FILE=" + EmptyCLIConfig(t)}),
	}}
	b.Write(files)
	return b
}

// Write adds files to the Module.
func (b *Bench) Write(files map[string]string) {
	b.t.Helper()
	for name, text := range files {
		path := filepath.Join(b.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
}

// Give sets the Inputs of the Job, as the Runner does.
func (b *Bench) Give(inputs ...work.InputValue) {
	b.t.Helper()
	b.Spec.Inputs = inputs
	env, secrets, err := engine.Environment(b.Spec, engine.Run{JobID: "job", Attempt: 1})
	if err != nil {
		b.t.Fatal(err)
	}
	b.Env, b.Secrets = engine.MergeEnv(b.Env, env), secrets
}

// Setenv adds to the environment of the Module's Steps.
func (b *Bench) Setenv(entries ...string) { b.Env = engine.MergeEnv(b.Env, entries) }

// Step runs one Step to its end.
func (b *Bench) Step(step work.StepKind) Outcome {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), stepLimit)
	defer cancel()
	command, needed, err := b.Engine.Command(ctx, step, b.Workspace)
	if err != nil {
		return Outcome{Err: err}
	}
	var out Outcome
	if needed {
		out.Exit, out.Log = b.execute(ctx, command)
	}
	out.Result, out.Err = b.Engine.Result(ctx, step, b.Workspace, out.Exit)
	return out
}

// Must runs Steps that have to succeed and gives the outcome of the last one.
func (b *Bench) Must(steps ...work.StepKind) Outcome {
	b.t.Helper()
	var out Outcome
	for _, step := range steps {
		out = b.Step(step)
		if out.Err != nil || out.Result.Status != work.StepSucceeded {
			b.t.Fatalf("%s: %v %+v\n%s", step, out.Err, out.Result.Failure, out.Log)
		}
	}
	return out
}

// execute starts a command as the keeper does: argument vector, own process group, the lock held.
func (b *Bench) execute(ctx context.Context, c engine.Command) (engine.Exit, string) {
	b.t.Helper()
	if c.Exclusive != "" {
		defer hold(b.t, c.Exclusive)()
	}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env = b.Dir, c.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return engine.Exit{Code: -1, Reason: engine.ReasonStartFailed, Message: err.Error()}, log.String()
	}
	exit := engine.Exit{Code: cmd.ProcessState.ExitCode(), Reason: engine.ReasonExited}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Reason, exit.Signal = engine.ReasonSignaled, unix.SignalName(status.Signal())
	}
	return exit, log.String()
}

// hold takes the lock of Command.Exclusive and gives what lets it go.
func hold(t testing.TB, path string) func() {
	t.Helper()
	if !filepath.IsAbs(path) {
		t.Errorf("Exclusive is no absolute path: %q", path)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Errorf("open the lock: %v", err)
		return func() {}
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Errorf("take the lock: %v", err)
	}
	return func() { _ = f.Close() }
}

// wants fails the test unless the outcome is a failed Step with this code.
func (o Outcome) wants(t testing.TB, code string) {
	t.Helper()
	switch {
	case o.Err != nil:
		t.Fatalf("an error instead of a failed Step: %v", o.Err)
	case o.Result.Status != work.StepFailed || o.Result.Failure == nil:
		t.Fatalf("the Step is %s, not failed\n%s", o.Result.Status, o.Log)
	case o.Result.Failure.Code != code:
		t.Fatalf("code %q, not %q\n%s", o.Result.Failure.Code, code, o.Log)
	case o.Result.Failure.Hint == "" || strings.HasSuffix(o.Result.Failure.Message, "."):
		t.Fatalf("no hint, or a full stop: %+v", o.Result.Failure)
	}
}
