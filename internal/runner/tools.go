package runner

import (
	"context"
	"maps"
	"sync"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
)

// lookAgain is how long a missing engine is taken to be missing.
const lookAgain = 10 * time.Second

// tools knows which engines are on this host. Looking is cheap: an engine asks a program for its
// version only when its file has changed.
type tools struct {
	engines engine.Set
	paths   []string
	mu      sync.Mutex
	found   map[catalog.Engine]engine.Tool
	missing map[catalog.Engine]lookedFor
}

type lookedFor struct {
	at  time.Time
	err error
}

func newTools(engines engine.Set, paths []string) *tools {
	return &tools{engines: engines, paths: paths, found: map[catalog.Engine]engine.Tool{}, missing: map[catalog.Engine]lookedFor{}}
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
	tool, err := t.engines[name].Find(ctx, t.paths)
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
