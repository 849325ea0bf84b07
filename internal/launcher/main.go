package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// Main is the process: it performs the Step that FILE describes and leaves the outcome beside it. What it says goes to out. It gives the
// exit status. The variables in which secrets came are taken out of the environment of this program, so that nothing that a launcher starts
// inherits them.
func (k Kinds) Main(ctx context.Context, file string, out io.Writer) int {
	var a assignment
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err == nil && a.Result == "" {
		err = errors.New("it does not say where the outcome goes")
	}
	if err != nil {
		fmt.Fprintf(out, "the task cannot be read: %v\n", err)
		return 2
	}
	hide := a.takeEnvironment(os.Environ())
	say := func(line string) { fmt.Fprintln(out, hide(line)) }
	p := &performer{task: &a.Task, say: say, until: a.Until, removing: a.Removing, settle: settleTime}
	if p.until.IsZero() {
		p.until = time.Now().Add(defaultPatience)
	}
	p.launcher, err = k.open(a, say)
	if err == nil && !a.takesDown() {
		err = a.Limits.allow(a.Task.Hosting.Launcher)
	}
	var units []work.UnitReport
	if err == nil {
		units, err = p.perform(ctx, a.Step)
	}
	o := outcome{Units: units}
	if err != nil {
		o.Failure = failure(err, hide) // which the Runner says, with the end of the Step
	}
	for i := range o.Units {
		o.Units[i].Note = hide(o.Units[i].Note)
	}
	if err := writeJSON(a.Result, o); err != nil {
		fmt.Fprintf(out, "what was done cannot be written down: %v\n", err)
		return 2
	}
	if o.Failure != nil {
		return 1
	}
	return 0
}

// takesDown reports whether the Step only ends what was launched before, which is always allowed.
func (a *assignment) takesDown() bool {
	return a.Removing || a.Step == work.StepTeardown || a.Step == work.StepTidy
}

// open makes the launcher of a task.
func (k Kinds) open(a assignment, say func(string)) (Launcher, error) {
	if a.Task.Hosting == nil {
		return nil, fault.New(fault.Invalid, "launcher_unsupported", "the task does not say how to launch")
	}
	open := k[a.Task.Hosting.Launcher]
	if open == nil {
		return nil, fault.New(fault.Unsupported, "launcher_unsupported", "this program has no launcher %.40q", a.Task.Hosting.Launcher).
			WithHint("upgrade the Runner that launches, or name another launcher")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return open(Host{Dir: a.Dir, Program: self, Version: a.Version, CAFile: a.CAFile, Keys: a.Keys, OwnOnly: a.OwnOnly, Say: say,
		Environment: a.Environment, TempDir: a.TempDir, Settings: a.Settings, Limits: a.Limits})
}

// takeEnvironment moves what is secret from the environment of this program into the task. hide masks it in a text.
func (a *assignment) takeEnvironment(environ []string) (hide func(string) string) {
	var pairs []string
	secret := func(value string) {
		if len(value) >= shortestSecret {
			pairs = append(pairs, value, "***")
		}
	}
	for i, u := range tokenUnits(&a.Task) {
		u.Token, _ = engine.Lookup(environ, unitToken+strconv.Itoa(i))
		secret(u.Token)
	}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if variable, ok := strings.CutPrefix(name, UnitEnv); ok && a.Task.Hosting != nil {
			if a.Task.Hosting.Environment == nil {
				a.Task.Hosting.Environment = map[string]string{}
			}
			a.Task.Hosting.Environment[variable] = value
			secret(value)
		}
		if name == "AWS_SECRET_ACCESS_KEY" {
			secret(value)
		}
		if strings.HasPrefix(name, UnitEnv) || strings.HasPrefix(name, unitToken) {
			_ = os.Unsetenv(name)
		}
	}
	return strings.NewReplacer(pairs...).Replace
}

// shortestSecret is the length from which a value is masked in what is said: to hide shorter ones hides nothing and makes text unreadable.
// The keeper masks by its own rules besides.
const shortestSecret = 6

// failure gives what a Step failed with, as it is shown.
func failure(err error, hide func(string) string) *work.Failure {
	var f *fault.Fault
	switch {
	case errors.As(err, &f):
		return &work.Failure{Code: f.Code, Message: hide(f.Message), Hint: hide(f.Hint)}
	case errors.Is(err, context.Canceled):
		return &work.Failure{Code: "canceled", Message: "canceled before it finished"}
	}
	return &work.Failure{Code: "launcher_failed", Message: hide(err.Error()), Hint: "look at the host of the launcher, then run the Job again: it goes on where it broke off"}
}

// Supports tells whether a program has a launcher.
func (k Kinds) Supports(kind catalog.LauncherKind) bool { return k[kind] != nil }
