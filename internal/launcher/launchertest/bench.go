// Package launchertest is the conformance suite that every launcher passes.
package launchertest

import (
	"bytes"
	"context"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

// Bench is a launcher with a backend of its own: a host's folder, a local server that speaks as an engine of containers or a cloud does.
type Bench struct {
	// Open gives a launcher that works on the backend, made anew as another process would make it.
	Open func(t *testing.T) launcher.Launcher
	// Hosting and Identity are put into every task.
	Hosting  catalog.Hosting
	Identity *catalog.CloudIdentitySpec

	// Processes gives the names of the Units whose processes are there now and have not ended, of all Runners and Owners, a name twice when
	// it has two. It asks the backend, not the launcher.
	Processes func(t *testing.T) []string
	// Left names everything else that the backend holds and a launcher made: folders, roles, groups, definitions. What was there before is
	// none of it, nor what a cloud keeps of what was deleted.
	Left func(t *testing.T) []string
	// End has a process end by itself, and returns when it has.
	End func(t *testing.T, unit string)
	// Environ gives the environment that a process was started with; nil where it cannot be told.
	Environ func(t *testing.T, unit string) map[string]string

	// Break has the n-th of the calls of the backend that follow, counted from 1, fail in a way that no repetition inside of a library
	// hides; with after, its effect takes place and only the answer is lost. n 0 ends it. Nil: the backend cannot be made to fail.
	Break func(n int, after bool)
	// Broke tells whether the call that Break chose has come since.
	Broke func() bool
}

// Task makes the task of a Runner with Units of these names, each with a token.
func (b *Bench) Task(owner, runner string, units ...string) *work.RunnerTask {
	hosting := b.Hosting
	task := &work.RunnerTask{
		OrganizationID: "0b0c8f5e-0000-4000-8000-000000000001", RunnerID: idOf(runner), Runner: runner, Owner: owner,
		ServerURL: "http://127.0.0.1:9", Hosting: &hosting, Identity: b.Identity, // nobody listens on the port "discard"
	}
	for _, name := range units {
		task.Units = append(task.Units, work.Unit{Name: name, Token: "token-of-" + name})
	}
	return task
}

// idOf makes an id out of a name: the same one for the same name.
func idOf(name string) string {
	var sum uint64 = 14695981039346656037
	for _, c := range []byte(name) {
		sum = (sum ^ uint64(c)) * 1099511628211
	}
	const hex = "0123456789abcdef"
	var tail [12]byte
	for i := range tail {
		tail[i] = hex[sum>>(4*i)&15]
	}
	return "7e570000-0000-4000-8000-" + string(tail[:])
}

// ensure has the processes be there.
func (b *Bench) ensure(t *testing.T, task *work.RunnerTask) []work.UnitReport {
	t.Helper()
	reports, err := b.Open(t).Ensure(t.Context(), task)
	if err != nil {
		t.Fatalf("ensure: %v", err)
	}
	return reports
}

func (b *Bench) list(t *testing.T, task *work.RunnerTask) []work.UnitReport {
	t.Helper()
	reports, err := b.Open(t).List(t.Context(), task)
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return reports
}

// perform has a Step be performed the way of a Job: through the Engine, a file, and Main, in this process.
func (b *Bench) perform(t *testing.T, action work.Action, step work.StepKind, task *work.RunnerTask) []work.UnitReport {
	t.Helper()
	e := launcher.NewEngine(launcher.Host{Program: "legwork"})
	w := engine.Workspace{JobDir: t.TempDir(), Spec: &work.Spec{Action: action, Task: task}}
	c, _, err := e.Command(t.Context(), step, w)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	kinds := launcher.Kinds{task.Hosting.Launcher: func(launcher.Host) (launcher.Launcher, error) { return b.Open(t), nil }}
	status := kinds.Main(t.Context(), c.Argv[len(c.Argv)-1], &said)
	result, err := e.Result(t.Context(), step, w, engine.Exit{Code: status, Reason: engine.ReasonExited})
	if err != nil || result.Status != work.StepSucceeded {
		t.Fatalf("%s: %+v, %v: %s", step, result, err, said.String())
	}
	return result.Units
}

// sweep removes everything of Runners when the test ends.
func (b *Bench) sweep(t *testing.T, tasks ...*work.RunnerTask) {
	t.Helper()
	t.Cleanup(func() {
		for _, task := range tasks {
			if err := b.Open(t).Remove(context.Background(), task); err != nil {
				t.Errorf("clean up: %v", err)
			}
		}
	})
}
