package runner

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

// lookAgain is how long a missing engine is taken to be missing.
const lookAgain = 10 * time.Second

// tools knows which engines are on this host. Looking is cheap: an engine asks a program for its
// version only when its file has changed.
type tools struct {
	engines engine.Set
	paths   []string
	dir     string // see engine.WithVersions
	mu      sync.Mutex
	found   map[catalog.Engine]engine.Tool
	missing map[catalog.Engine]lookedFor
}

type lookedFor struct {
	at  time.Time
	err error
}

func newTools(engines engine.Set, paths []string, dir string) *tools {
	return &tools{engines: withRunbooks(engines), paths: paths, dir: dir, found: map[catalog.Engine]engine.Tool{}, missing: map[catalog.Engine]lookedFor{}}
}

// discover looks for every engine and returns the versions of those that are there.
func (t *tools) discover(ctx context.Context) map[string]string {
	var wg sync.WaitGroup
	for name := range t.engines {
		wg.Go(func() { _, _ = t.look(ctx, name) })
	}
	wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	versions := map[string]string{}
	for name, tool := range t.found {
		versions[string(name)] = tool.Version
	}
	return versions
}

// known tells without looking whether an engine is there.
func (t *tools) known(name catalog.Engine) (tool engine.Tool, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tool, ok = t.found[name]
	return tool, ok
}

// find returns an engine's program, looking again for a missing one at most every lookAgain.
func (t *tools) find(ctx context.Context, name catalog.Engine) (engine.Engine, engine.Tool, error) {
	e := t.engines[name]
	if e == nil && name == launcher.Name {
		return nil, engine.Tool{}, fault.New(fault.NotFound, "engine_missing", "this Runner starts no other Runners").
			WithHint("if it shall, set Runner.launcher to true in its settings, on its host")
	}
	if e == nil {
		return nil, engine.Tool{}, fault.New(fault.NotFound, "engine_missing", "this Runner does not know the engine %q", name).
			WithHint("upgrade the Runner")
	}
	t.mu.Lock()
	tool, ok := t.found[name]
	miss, missed := t.missing[name]
	t.mu.Unlock()
	if ok {
		return e, tool, nil
	}
	if missed && time.Since(miss.at) < lookAgain {
		return nil, engine.Tool{}, miss.err
	}
	tool, err := t.look(ctx, name)
	return e, tool, err
}

func (t *tools) look(ctx context.Context, name catalog.Engine) (engine.Tool, error) {
	tool, err := t.engines[name].Find(engine.WithVersions(ctx, t.dir), t.paths)
	if ctx.Err() != nil {
		return tool, ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		delete(t.found, name)
		t.missing[name] = lookedFor{at: time.Now(), err: err}
		return engine.Tool{}, err
	}
	delete(t.missing, name)
	t.found[name] = tool
	return tool, nil
}

// names copies the labels, so that nobody changes them under a Hello that is being sent.
func names(labels map[string]string) map[string]string { return maps.Clone(labels) }

// The engines that Runbooks need besides those of Modules.
const (
	runbookEngine catalog.Engine = "runbook" // Node steps: part of this program
	ansibleEngine catalog.Engine = "ansible"
)

// RunbookEngines lists what a Policy can name besides the engines of Modules.
var RunbookEngines = []catalog.Engine{runbookEngine, ansibleEngine}

// runbookVersion is that of what Rounds are made of.
const runbookVersion = "1"

// stepsEngine stands among the engines for what performs Rounds. It makes no commands: see runRound.
type stepsEngine struct {
	find func(ctx context.Context, dirs []string) (engine.Tool, error)
}

func (e stepsEngine) Find(ctx context.Context, dirs []string) (engine.Tool, error) {
	return e.find(ctx, dirs)
}

func (stepsEngine) Command(_ context.Context, step work.StepKind, _ engine.Workspace) (engine.Command, bool, error) {
	return engine.Command{}, false, fault.New(fault.Invalid, "unknown_step", "Runbooks know no Step %q", step)
}

func (stepsEngine) Result(_ context.Context, step work.StepKind, _ engine.Workspace, exit engine.Exit) (work.StepResult, error) {
	return engine.Failed(step, exit), nil
}

// withRunbooks adds what performs Rounds.
func withRunbooks(engines engine.Set) engine.Set {
	all := engine.Set{}
	maps.Copy(all, engines)
	if len(all) == 1 && all[launcher.Name] != nil { // it is there to launch, and for nothing else
		return all
	}
	all[secretsEngine] = stepsEngine{func(context.Context, []string) (engine.Tool, error) { return engine.Tool{Version: "1"}, nil }}
	all[runbookEngine] = stepsEngine{func(context.Context, []string) (engine.Tool, error) { return engine.Tool{Version: runbookVersion}, nil }}
	if all[ansibleEngine] == nil {
		var versions engine.Versions
		all[ansibleEngine] = stepsEngine{func(ctx context.Context, dirs []string) (engine.Tool, error) {
			return versions.Find(ctx, string(ansibleEngine), []string{"ansible-playbook"}, dirs, askAnsible)
		}}
	}
	return all
}

// withUpdates adds what an Instance says that can go on as another release, where its owner lets it be updated or hear of it.
func withUpdates(engines engine.Set, u Updates) engine.Set {
	if u.Consent == "" {
		return engines
	}
	all := engine.Set{updateEngine: stepsEngine{func(context.Context, []string) (engine.Tool, error) { return engine.Tool{Version: "1"}, nil }}}
	maps.Copy(all, engines)
	return all
}

// askAnsible reads the version out of what ansible-playbook --version says first: "ansible-playbook [core 2.19.1]".
func askAnsible(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var said []byte
	err := engine.Capture(ctx, []string{path, "--version"}, os.Environ(), "/", 64<<10, func(r io.Reader) (err error) {
		said, err = io.ReadAll(r)
		return err
	})
	first, _, _ := strings.Cut(string(said), "\n")
	words := strings.FieldsFunc(first, func(c rune) bool { return c != '.' && (c < '0' || c > '9') })
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.Contains(w, ".") })
	if err == nil && len(words) == 0 {
		err = errors.New("--version says nothing")
	}
	if err != nil {
		return "", err
	}
	return words[0], nil
}
