package control

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// output gives a Module new outputs, as an apply of it would.
func (s *server) output(module string, values map[string]catalog.OutputValue) {
	s.t.Helper()
	s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
		m, err := tx.Module(s.org, module)
		if err != nil {
			return err
		}
		set, err := s.c.safe.SealOutputs(catalog.OutputSet{ModuleID: m.ID, JobID: "j", Values: values})
		if err != nil {
			return err
		}
		return tx.PutOutputSet(s.org, &set)
	}))
}

func vpcOutputs(subnet, password string) map[string]catalog.OutputValue {
	return map[string]catalog.OutputValue{"subnet": value(subnet, false), "password": value(password, true)}
}

// wantInputs checks what a Spec says of the outputs that vpc takes.
func wantInputs(t *testing.T, when string, spec *work.Spec, subnet, password string) {
	t.Helper()
	if spec == nil {
		t.Fatalf("%s: no spec", when)
	}
	got := map[string]work.InputValue{}
	for _, in := range spec.Inputs {
		got[in.Name] = in
	}
	if string(got["subnet"].Value) != subnet || string(got["pass"].Value) != password || !got["pass"].Sensitive {
		t.Fatalf("%s: subnet %s, pass %s", when, got["subnet"].Value, got["pass"].Value)
	}
}

// stored gives the Inputs that are kept for an Attempt, as they lie there.
func (s *server) storedInputs(ref wire.Ref) ([]byte, error) {
	var sealed []byte
	err := s.store.View(context.Background(), func(tx *store.Tx) (err error) {
		sealed, err = tx.JobInputs(ref.Job, ref.Attempt)
		return err
	})
	return sealed, err
}

func TestInputsHoldForAWholeAttempt(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), chainText)
	s.output("prod/net/base", vpcOutputs(`"old"`, `"hunter3"`))
	f := s.fake(r, "a").online(s)
	j := submitWithApproval(s, "prod/net/vpc")
	step := f.take()
	wantInputs(t, "claimed", step.Spec, `"old"`, `"hunter3"`)
	ref := step.Ref
	for range 3 {
		f.run(step, 0, work.StepResult{})
		step = expect[*wire.RunStep](f)
	}
	f.run(step, 0, work.StepResult{Plan: &work.PlanSummary{Add: 1, Hash: "hash", Digest: "digest"}})
	s.until(j.ID, work.AwaitingApproval)

	// Between the plan and its apply, everything that it was made of changes and one output goes.
	s.output("prod/net/base", map[string]catalog.OutputValue{"password": value(`"hunter4"`, true)})
	f.cut()
	f.hello.Journal = []wire.Held{{Ref: ref, Step: -1}}
	f.online(s)
	wantInputs(t, "after a reconnect", f.welcome.Jobs[0].Spec, `"old"`, `"hunter3"`)
	_, err := s.c.ApproveJob(context.Background(), s.owner(), j.ID, "", "hash")
	s.must(err)
	step = expect[*wire.RunStep](f)
	wantInputs(t, "approved", step.Spec, `"old"`, `"hunter3"`)
	sealed, err := s.storedInputs(ref)
	if err != nil || strings.Contains(string(sealed), "hunter3") {
		t.Fatalf("stored %q, %v", sealed, err)
	}
	f.run(step, 0, work.StepResult{})
	// A Step may be sent twice around a reconnect; only the next one counts.
	output := expectThat(f, func(m *wire.RunStep) bool { return m.Step > step.Step })
	f.run(output, 0, work.StepResult{HasOutputs: true, Outputs: map[string]catalog.OutputValue{"x": {Value: json.RawMessage(`1`)}}})
	s.until(j.ID, work.Succeeded)
	if _, err := s.storedInputs(ref); !fault.Is(err, fault.NotFound) {
		t.Fatalf("a job that is over keeps its inputs: %v", err)
	}
}

func TestNextAttemptTakesInputsAsTheyAreThen(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.declare(s.owner(), chainText)
	s.output("prod/net/base", vpcOutputs(`"old"`, `"hunter3"`))
	a := s.fake(r, "a").online(s)
	s.submit("prod/net/vpc", work.Apply)
	first := a.take()
	a.cut()
	s.output("prod/net/base", vpcOutputs(`"new"`, `"hunter4"`))
	s.must(s.c.endDue(context.Background(), later()))
	if _, err := s.storedInputs(first.Ref); err != nil {
		t.Fatalf("inputs of a lost attempt that its instance may still resume: got error %v, want none", err)
	}
	b := s.fake(r, "b").online(s)
	wantInputs(t, "claimed again", b.take().Spec, `"new"`, `"hunter4"`)
	if _, err := s.storedInputs(first.Ref); !fault.Is(err, fault.NotFound) {
		t.Fatalf("inputs of a lost attempt after the next one began: got error %v, want not found", err)
	}
}
