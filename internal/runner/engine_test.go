package runner

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// fakeEngine runs bash for every Step, and gives outputs for output.
type fakeEngine struct {
	scripts   map[work.StepKind]string
	outputs   map[string]catalog.OutputValue
	changes   []byte
	exclusive string
	missing   atomic.Bool
	read      atomic.Int32 // Results read
}

func (e *fakeEngine) Find(context.Context, []string) (engine.Tool, error) {
	if e.missing.Load() {
		return engine.Tool{}, engine.Missing("fake", []string{"fake"})
	}
	return engine.Tool{Path: "/bin/bash", Version: "1.0"}, nil
}

func (e *fakeEngine) Command(_ context.Context, step work.StepKind, w engine.Workspace) (engine.Command, bool, error) {
	text, ok := e.scripts[step]
	return engine.Command{Argv: []string{"/bin/bash", "-c", text}, Env: w.Env, OK: []int{0, 2}, Exclusive: e.exclusive}, ok, nil
}

func (e *fakeEngine) Result(_ context.Context, step work.StepKind, _ engine.Workspace, exit engine.Exit) (work.StepResult, error) {
	e.read.Add(1)
	if exit.Reason != "" && !(engine.Command{OK: []int{0, 2}}).Well(exit) {
		return engine.Failed(step, exit), nil
	}
	result := work.StepResult{Status: work.StepSucceeded, ExitCode: exit.Code}
	if step == work.StepOutput {
		result.Outputs, result.HasOutputs = e.outputs, true
	}
	if step == work.StepPlan {
		result.Plan, result.Changes = &work.PlanSummary{Add: 1}, e.changes
	}
	return result, nil
}

func applySpec() *work.Spec {
	spec := scriptSpec("", false)
	spec.Engine, spec.Action, spec.Script = "fake", work.Apply, nil
	spec.Steps = []work.StepKind{work.StepFetch, work.StepInit, work.StepPlan, work.StepApply, work.StepOutput}
	spec.Changing = []bool{false, false, false, true, false}
	return spec
}

func fakeConfig(t *testing.T, s *fakeServer, e *fakeEngine) Config {
	cfg := testConfig(t, s)
	cfg.Engines = engine.Set{"fake": e}
	return cfg
}

func TestEngineSteps(t *testing.T) {
	s := newServer(t)
	e := &fakeEngine{
		scripts: map[work.StepKind]string{work.StepInit: "echo init", work.StepPlan: "echo plan; exit 2", work.StepApply: "echo apply"},
		outputs: map[string]catalog.OutputValue{"id": {Value: []byte(`"outputs-are-kept-off-the-disk"`), Sensitive: true}},
		changes: []byte("[]"),
	}
	cfg := fakeConfig(t, s, e)
	r := start(t, cfg)
	job := ref("job-1", 1)
	s.begin(job, applySpec(), 4)
	got := s.result(job, 4)
	if got.Status != work.StepSucceeded || !strings.Contains(string(got.Outputs["id"].Value), "kept-off") {
		t.Fatalf("got %+v %+v", got, got.Failure)
	}
	if plan := s.result(job, 2); plan.ExitCode != 2 || plan.Plan == nil || string(plan.Changes) != "[]" {
		t.Errorf("plan: %+v", plan)
	}
	noSecret(t, cfg.WorkingDirectory, "kept-off")
	read := e.read.Load()
	// The Server loses the last result: after a restart the outputs are read again, nothing else is.
	s.mu.Lock()
	s.jobs[job].times[4] = 0
	s.mu.Unlock()
	r.leave(t)
	start(t, cfg)
	if got := s.result(job, 4); got.Status != work.StepSucceeded || len(got.Outputs) != 1 {
		t.Fatalf("after a restart: %+v %+v", got, got.Failure)
	}
	if again := e.read.Load() - read; again != 1 {
		t.Errorf("%d results were read again", again)
	}
}

func TestResultTooLarge(t *testing.T) {
	s := newServer(t)
	e := &fakeEngine{changes: make([]byte, wire.MaxFrame), outputs: map[string]catalog.OutputValue{"id": {Value: []byte(`"` + strings.Repeat("x", wire.MaxFrame) + `"`)}}}
	start(t, fakeConfig(t, s, e))
	job := ref("job-1", 1)
	s.begin(job, applySpec(), 4)
	if plan := s.result(job, 2); plan.Status != work.StepSucceeded || plan.Changes != nil || plan.Plan == nil {
		t.Errorf("plan: %v, %d bytes of changes", plan.Status, len(plan.Changes))
	}
	if got := s.result(job, 4); got.Status != work.StepFailed || got.Failure.Code != "result_too_large" {
		t.Errorf("output: %v %+v", got.Status, got.Failure)
	}
}

func TestExclusiveCommandsTakeTurns(t *testing.T) {
	s := newServer(t)
	mark := filepath.Join(t.TempDir(), "mark")
	e := &fakeEngine{exclusive: "/any/lock", scripts: map[work.StepKind]string{
		work.StepInit: fmt.Sprintf("mkdir %[1]s || exit 1; sleep 0.05; rmdir %[1]s", mark)}}
	start(t, fakeConfig(t, s, e))
	for i := range 5 {
		job, spec := ref(fmt.Sprint("job-", i), 1), applySpec()
		spec.ModuleID = fmt.Sprint("module-", i)
		s.begin(job, spec, 1)
	}
	for i := range 5 {
		if got := s.result(ref(fmt.Sprint("job-", i), 1), 1); got.Status != work.StepSucceeded {
			t.Errorf("got %+v", got.Failure)
		}
	}
}

func TestEngineThatIsInstalledLater(t *testing.T) {
	s := newServer(t)
	e := &fakeEngine{}
	e.missing.Store(true)
	r := start(t, fakeConfig(t, s, e))
	s.send(&wire.Offer{Ref: ref("a", 1), Engine: "fake"})
	s.wait("a refusal", func() bool { return len(s.got) == 1 && s.got[0].(*wire.Refuse).Code == refusedEngine })
	e.missing.Store(false)
	if _, _, err := r.tools.find(t.Context(), "fake"); fault.Code(err) != "engine_missing" {
		t.Errorf("it was looked for again too soon: %v", err)
	}
	s.cut() // every hello looks again
	s.wait("a hello that names it", func() bool { return len(s.hellos) == 2 && s.hellos[1].Engines["fake"] == "1.0" })
	s.send(&wire.Offer{Ref: ref("b", 1), Engine: "fake"})
	s.wait("an accept", func() bool { return len(s.got) == 2 && s.got[1].(*wire.Accept).Job == "b" })
}

func TestCanceledWhileItWaits(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	start(t, cfg)
	first, second := ref("first", 1), ref("second", 1)
	s.begin(first, scriptSpec("echo ready; sleep 30", false), 1)
	s.sees(first, 1, "ready")
	s.begin(second, scriptSpec("true", false), 0)
	s.sees(second, 0, "waiting")
	s.send(&wire.Cancel{Ref: second, Mode: work.Graceful})
	if got := s.result(second, 0); got.Status != work.StepCanceled {
		t.Errorf("got %+v", got)
	}
	s.send(&wire.Cancel{Ref: first, Mode: work.Kill})
	s.result(first, 1)
	for _, job := range []string{"first.1", "second.1"} {
		if _, err := readJournal(filepath.Join(cfg.WorkingDirectory, "jobs", job)); err != nil {
			t.Errorf("journal of %s: %v", job, err)
		}
	}
}
