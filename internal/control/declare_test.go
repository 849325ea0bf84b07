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

const chainText = `
{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: net, defaults: {engine: opentofu, runner: edge, inputs: [{name: secret, value: hunter2, sensitive: true}]}}
---
{kind: Module, stack: prod, namespace: net, name: base, source: {type: inline, files: {main.tf: "#"}}}
---
{kind: Module, stack: prod, namespace: net, name: vpc, source: {type: inline, files: {main.tf: "#"}},
 inputs: [{name: subnet, from: output, module: base, output: subnet}, {name: pass, from: output, module: base, output: password}, {name: me, from: definition, value: module_name}]}
---
{kind: Module, stack: prod, namespace: net, name: still, trigger_on_upstream_output_changed: false, source: {type: inline, files: {main.tf: "#"}},
 inputs: [{name: subnet, from: output, module: net/base, output: subnet}]}
---
{kind: Module, stack: prod, namespace: net, name: unrelated, source: {type: inline, files: {main.tf: "#"}},
 inputs: [{name: zone, from: output, module: base, output: zone}]}
`

// tofu answers Steps as an engine would: outputs gives those of a Module.
func tofu(outputs func(module string) map[string]catalog.OutputValue, seen func(*work.Spec)) func(m *wire.RunStep, kind work.StepKind) work.StepResult {
	modules := map[wire.Ref]string{}
	return func(m *wire.RunStep, kind work.StepKind) work.StepResult {
		r := work.StepResult{Status: work.StepSucceeded}
		if m.Spec != nil {
			modules[m.Ref] = m.Spec.Name
			if seen != nil {
				seen(m.Spec)
			}
		}
		if kind == work.StepOutput {
			r.HasOutputs, r.Outputs = true, outputs(modules[m.Ref])
		}
		return r
	}
}

func value(v string, sensitive bool) catalog.OutputValue {
	return catalog.OutputValue{Value: json.RawMessage(v), Type: json.RawMessage(`"string"`), Sensitive: sensitive}
}

// chain is a Server with the Modules of chainText and an Instance that runs them.
func chain(t *testing.T, outputs func(string) map[string]catalog.OutputValue, seen func(*work.Spec)) *server {
	t.Helper()
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), chainText)
	f := s.fake(r, "a").online(s)
	go f.work(1, tofu(outputs, seen))
	return s
}

// jobsOf lists the Jobs of a Module, oldest first.
func (s *server) jobsOf(module string) []*work.Job {
	s.t.Helper()
	m, err := s.c.Module(context.Background(), s.owner(), "prod/net/"+module)
	s.must(err)
	jobs, err := s.c.Jobs(context.Background(), s.owner(), store.JobFilter{ModuleID: m.ID})
	s.must(err)
	for i, j := 0, len(jobs)-1; i < j; i, j = i+1, j-1 {
		jobs[i], jobs[j] = jobs[j], jobs[i]
	}
	return jobs
}

func TestOutputsFlowDownstream(t *testing.T) {
	subnet := `"10.0.0.0/24"`
	specs := make(chan *work.Spec, 100)
	s := chain(t, func(module string) map[string]catalog.OutputValue {
		if module != "base" {
			return map[string]catalog.OutputValue{}
		}
		return map[string]catalog.OutputValue{"subnet": value(subnet, false), "password": value(`"hunter3"`, true), "zone": value(`"a"`, false)}
	}, func(spec *work.Spec) {
		if spec.Name == "vpc" {
			specs <- spec
		}
	})
	base := s.submit("prod/net/base", work.Apply)
	s.until(base.ID, work.Succeeded)

	eventually(t, "what takes its outputs is applied", func() bool {
		jobs := append(s.jobsOf("vpc"), s.jobsOf("unrelated")...)
		return len(jobs) == 2 && jobs[0].Status == work.Succeeded && jobs[1].Status == work.Succeeded
	})
	vpc := s.jobsOf("vpc")[0]
	if !strings.Contains(vpc.Cause, "outputs password, subnet of prod/net/base changed in job #1") || vpc.CreatedBy != "legwork" {
		t.Fatalf("cause: %q by %q", vpc.Cause, vpc.CreatedBy)
	}
	if n := len(s.jobsOf("still")); n != 0 {
		t.Fatalf("a module that does not want to be triggered has %d jobs", n)
	}
	inputs := map[string]work.InputValue{}
	for _, in := range (<-specs).Inputs {
		inputs[in.Name] = in
	}
	for name, want := range map[string]work.InputValue{
		"subnet": {Value: []byte(subnet)}, "pass": {Value: []byte(`"hunter3"`), Sensitive: true},
		"me": {Value: []byte(`"vpc"`)}, "secret": {Value: []byte(`"hunter2"`), Sensitive: true},
	} {
		if got := inputs[name]; string(got.Value) != string(want.Value) || got.Sensitive != want.Sensitive {
			t.Errorf("input %s: %s sensitive=%v", name, got.Value, got.Sensitive)
		}
	}

	// The same outputs again make no new set and trigger nothing.
	s.until(s.submit("prod/net/base", work.Apply).ID, work.Succeeded)
	set, err := s.c.Outputs(context.Background(), s.owner(), "prod/net/base", true)
	s.must(err)
	if set.Serial != 1 || string(set.Values["password"].Value) != `"hunter3"` {
		t.Fatalf("set: %+v", set)
	}
	if n := len(s.jobsOf("vpc")); n != 1 {
		t.Fatalf("vpc has %d jobs", n)
	}

	// Another value of one output triggers who takes it, and nobody else.
	subnet = `"10.9.0.0/24"`
	s.until(s.submit("prod/net/base", work.Apply).ID, work.Succeeded)
	eventually(t, "vpc is applied again", func() bool {
		jobs := s.jobsOf("vpc")
		return len(jobs) == 2 && jobs[1].Status == work.Succeeded
	})
	if n := len(s.jobsOf("unrelated")); n != 1 {
		t.Fatalf("unrelated has %d jobs", n)
	}
}

func TestSensitiveValuesAreSealedAndHidden(t *testing.T) {
	s := chain(t, func(string) map[string]catalog.OutputValue {
		return map[string]catalog.OutputValue{"password": value(`"hunter3"`, true), "zone": value(`"a"`, false)}
	}, nil)
	base := s.submit("prod/net/base", work.Apply)
	s.until(base.ID, work.Succeeded)
	var raw catalog.OutputSet
	var namespaces []catalog.Namespace
	var snapshot store.JobSnapshot
	s.must(s.store.View(context.Background(), func(tx *store.Tx) (err error) {
		if raw, err = tx.LatestOutputs(s.org, base.ModuleID); err != nil {
			return err
		}
		if snapshot, err = tx.JobSnapshot(base.OrganizationID, base.ID); err != nil {
			return err
		}
		namespaces, err = tx.Namespaces(s.org, "")
		return err
	}))
	stored, _ := json.Marshal([]any{raw, namespaces, snapshot})
	if strings.Contains(string(stored), "hunter") {
		t.Fatalf("a secret lies in the store: %s", stored)
	}
	set, err := s.c.Outputs(context.Background(), s.owner(), "prod/net/base", false)
	s.must(err)
	if string(set.Values["password"].Value) != `"(sensitive)"` || string(set.Values["zone"].Value) != `"a"` {
		t.Fatalf("shown: %+v", set.Values)
	}
	viewer := s.owner()
	viewer.Role = catalog.RoleViewer
	if _, err := s.c.Outputs(context.Background(), viewer, "prod/net/base", true); !fault.Is(err, fault.Forbidden) {
		t.Fatalf("a viewer sees secrets: %v", err)
	}
	if _, err := s.c.Outputs(context.Background(), s.stranger(), "prod/net/base", false); !fault.Is(err, fault.NotFound) {
		t.Fatalf("a stranger: %v", err)
	}
	shown, err := s.c.Namespace(context.Background(), s.owner(), "prod/net")
	s.must(err)
	if len(shown.Defaults.Inputs[0].Value) != 0 {
		t.Fatalf("shown: %s", shown.Defaults.Inputs[0].Value)
	}
}

func TestMissingOutputRefusesOrWaits(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), chainText)
	_, err := s.c.Submit(context.Background(), s.owner(), SubmitRequest{Module: "prod/net/vpc", Action: work.Apply})
	if fault.Code(err) != "upstream_not_applied" || !strings.Contains(fault.Of(err).Hint, "legwork module apply prod/net/base") {
		t.Fatalf("%v / %s", err, fault.Of(err).Hint)
	}
	base := s.submit("prod/net/base", work.Apply)
	vpc := s.submit("prod/net/still", work.Apply)
	if vpc.Wait.Code != work.WaitForModule {
		t.Fatalf("wait: %+v", vpc.Wait)
	}
	f := s.fake(r, "a")
	f.hello.Capacity = 2
	f.online(s)
	go f.work(0, tofu(func(module string) map[string]catalog.OutputValue {
		return map[string]catalog.OutputValue{"subnet": value(`"x"`, false), "password": value(`"y"`, true)}
	}, nil))
	s.until(base.ID, work.Succeeded)
	done := s.until(vpc.ID, work.Succeeded)
	if done.StartedAt.Before(s.job(base.ID).FinishedAt) {
		t.Fatal("it did not wait")
	}
}

func TestJobThatWaitsInVainFails(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), chainText)
	base, still := s.submit("prod/net/base", work.Apply), s.submit("prod/net/still", work.Apply)
	f := s.fake(r, "a").online(s)
	go f.work(0, func(*wire.RunStep, work.StepKind) work.StepResult {
		return work.StepResult{Status: work.StepFailed, ExitCode: 1}
	})
	s.until(base.ID, work.Failed)
	done := s.until(still.ID, work.Failed)
	if done.Failure.Code != "upstream_not_applied" || done.Failure.Hint == "" {
		t.Fatalf("failure: %+v", done.Failure)
	}
}

func TestDestroyEmptiesTheOutputsAndIsNotUndoneByATrigger(t *testing.T) {
	subnet := `"a"`
	s := chain(t, func(module string) map[string]catalog.OutputValue {
		if module != "base" {
			return nil
		}
		return map[string]catalog.OutputValue{"subnet": value(subnet, false), "password": value(`"y"`, true)}
	}, nil)
	s.until(s.submit("prod/net/base", work.Apply).ID, work.Succeeded)
	eventually(t, "vpc is applied", func() bool {
		jobs := s.jobsOf("vpc")
		return len(jobs) == 1 && jobs[0].Status == work.Succeeded
	})
	s.until(s.submit("prod/net/vpc", work.Destroy).ID, work.Succeeded)
	subnet = `"b"`
	s.until(s.submit("prod/net/base", work.Apply).ID, work.Succeeded)
	if n := len(s.jobsOf("vpc")); n != 2 {
		t.Fatalf("what was destroyed came back: %d jobs", n)
	}
	s.until(s.submit("prod/net/base", work.Destroy).ID, work.Succeeded)
	_, err := s.c.Submit(context.Background(), s.owner(), SubmitRequest{Module: "prod/net/vpc", Action: work.Plan})
	if fault.Code(err) != "upstream_not_applied" {
		t.Fatalf("%v", err)
	}
}

func TestModuleWithoutOutputsSaysSo(t *testing.T) {
	s := chain(t, func(string) map[string]catalog.OutputValue { return nil }, nil)
	s.until(s.submit("prod/net/base", work.Apply).ID, work.Succeeded)
	_, err := s.c.Submit(context.Background(), s.owner(), SubmitRequest{Module: "prod/net/vpc", Action: work.Plan})
	if fault.Code(err) != "output_missing" {
		t.Fatalf("%v", err)
	}
}

func TestPlanIsKept(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), chainText)
	f := s.fake(r, "a").online(s)
	j := s.submit("prod/net/base", work.Plan)
	if _, err := s.c.JobPlan(context.Background(), s.owner(), j.ID); !fault.Is(err, fault.NotFound) {
		t.Fatalf("%v", err)
	}
	go f.work(0, func(_ *wire.RunStep, kind work.StepKind) work.StepResult {
		r := work.StepResult{Status: work.StepSucceeded}
		if kind == work.StepPlan {
			r.Plan = &work.PlanSummary{Add: 1, Hash: "h", Digest: "d"}
			r.Changes = []byte(`[{"address":"terraform_data.x","type":"terraform_data","actions":["create"]}]`)
		}
		return r
	})
	done := s.until(j.ID, work.Succeeded)
	changes, err := s.c.JobPlan(context.Background(), s.owner(), j.ID)
	s.must(err)
	if len(changes) != 1 || changes[0].Address != "terraform_data.x" || done.Plan().Add != 1 {
		t.Fatalf("%+v", changes)
	}
	if _, err := s.c.JobPlan(context.Background(), s.stranger(), j.ID); !fault.Is(err, fault.NotFound) {
		t.Fatalf("%v", err)
	}
}

func TestManifestComesBackAsItWasApplied(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	apply := func(text string, dryRun bool) catalog.Changes {
		t.Helper()
		m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: []byte(text)}})
		s.must(err)
		changes, err := s.c.ApplyManifest(context.Background(), s.owner(), m, dryRun)
		s.must(err)
		return changes
	}
	text := chainText + "---\n{kind: Runner, name: edge}\n---\n{kind: Assignment, runner: edge, scope: prod/net}\n"
	if n := apply(text, true).Count(catalog.Create); n != 8 {
		t.Fatalf("a dry run would create %d", n)
	}
	if stacks, err := s.c.Stacks(context.Background(), s.owner()); err != nil || len(stacks) != 0 {
		t.Fatalf("a dry run created %v (%v)", stacks, err)
	}
	if n := apply(text, false).Count(catalog.Create); n != 8 {
		t.Fatalf("created %d", n)
	}
	if n := apply(text, false).Count(catalog.Unchanged); n != 8 {
		t.Fatalf("the second time %d are unchanged", n)
	}
	exported, err := s.c.ExportManifest(context.Background(), s.owner(), false)
	s.must(err)
	if n := apply(string(exported), false).Count(catalog.Unchanged); n != 8 {
		t.Fatalf("of the export %d are unchanged:\n%s", n, exported)
	}
	changed := apply(strings.Replace(text, "hunter2", "hunter4", 1), false)
	if changed.Count(catalog.Update) != 1 {
		t.Fatalf("changes: %+v", changed)
	}
}

func TestNothingOfABadManifestIsApplied(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: []byte("{kind: Stack, name: prod}\n---\n{kind: Namespace, stack: nowhere, name: net}\n")}})
	s.must(err)
	if _, err := s.c.ApplyManifest(context.Background(), s.owner(), m, false); !fault.Is(err, fault.Invalid) {
		t.Fatalf("%v", err)
	}
	if stacks, _ := s.c.Stacks(context.Background(), s.owner()); len(stacks) != 0 {
		t.Fatalf("applied: %v", stacks)
	}
}

func TestEveryCallNeedsItsPermission(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	nobody := catalog.Actor{OrganizationID: s.org, Name: "edge", Role: catalog.RoleRunner}
	m := catalog.Manifest{}
	for name, err := range map[string]error{
		"apply":       second(s.c.ApplyManifest(ctx, nobody, m, false)),
		"dry run":     second(s.c.ApplyManifest(ctx, nobody, m, true)),
		"export":      second(s.c.ExportManifest(ctx, nobody, false)),
		"stacks":      second(s.c.Stacks(ctx, nobody)),
		"stack":       second(s.c.Stack(ctx, nobody, "x")),
		"namespaces":  second(s.c.Namespaces(ctx, nobody, "")),
		"namespace":   second(s.c.Namespace(ctx, nobody, "x/y")),
		"modules":     second(s.c.Modules(ctx, nobody, store.ModuleFilter{})),
		"module":      second(s.c.Module(ctx, nobody, "x/y/z")),
		"runners":     second(s.c.Runners(ctx, nobody)),
		"runner":      second(s.c.Runner(ctx, nobody, "x")),
		"create":      second(s.c.CreateRunner(ctx, nobody, catalog.RunnerSpec{Name: "x"})),
		"update":      second(s.c.UpdateRunner(ctx, nobody, "x", catalog.RunnerSpec{Name: "x"})),
		"rotate":      second(s.c.RotateRunnerCredential(ctx, nobody, "x")),
		"assignments": second(s.c.Assignments(ctx, nobody, "")),
		"assign":      second(s.c.CreateAssignment(ctx, nobody, catalog.AssignmentSpec{})),
		"delete 1":    s.c.DeleteStack(ctx, nobody, "x"),
		"delete 2":    s.c.DeleteNamespace(ctx, nobody, "x/y"),
		"delete 3":    s.c.DeleteModule(ctx, nobody, "x/y/z", false),
		"delete 4":    s.c.DeleteRunner(ctx, nobody, "x"),
		"delete 5":    s.c.DeleteAssignment(ctx, nobody, "x"),
		"submit":      second(s.c.Submit(ctx, nobody, SubmitRequest{})),
		"cancel":      second(s.c.CancelJob(ctx, nobody, "1", work.Kill, "")),
		"decide":      second(s.c.ApproveJob(ctx, nobody, "1", "", "")),
		"job":         second(s.c.Job(ctx, nobody, "1")),
		"jobs":        second(s.c.Jobs(ctx, nobody, store.JobFilter{})),
		"plan":        second(s.c.JobPlan(ctx, nobody, "1")),
		"outputs":     second(s.c.Outputs(ctx, nobody, "x", false)),
		"follow":      s.c.FollowLog(ctx, nobody, "1", 0, LogFilter{}, nil),
		"events":      s.c.FollowEvents(ctx, nobody, 0, nil),
		"instances":   second(s.c.Instances(ctx, nobody, "")),
		"drain":       s.c.SetDraining(ctx, nobody, "x", true),
	} {
		if !fault.Is(err, fault.Forbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestCredentialsOfRunners(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	made, err := s.c.CreateRunner(ctx, s.owner(), catalog.RunnerSpec{Name: "edge"})
	s.must(err)
	if made.ClientSecret == "" || made.ClientID == "" || made.OrganizationID != s.org || made.Runner.ServicePrincipalID == "" {
		t.Fatalf("made: %+v", made)
	}
	if _, err := s.c.CreateRunner(ctx, s.owner(), catalog.RunnerSpec{Name: "edge"}); !fault.Is(err, fault.Conflict) {
		t.Fatalf("twice: %v", err)
	}
	count := func() (n int, role string) {
		s.must(s.store.View(ctx, func(tx *store.Tx) error {
			p, err := tx.PrincipalByClientID(s.org, made.ClientID)
			if err != nil {
				return err
			}
			all, err := tx.Credentials(p.OrganizationID, p.ID)
			for _, c := range all {
				if strings.Contains(string(c.Hash), made.ClientSecret) || len(c.Hash) != 32 {
					t.Error("the secret itself is stored")
				}
			}
			n, role = len(all), p.Role
			return err
		}))
		return n, role
	}
	if n, role := count(); n != 1 || role != string(catalog.RoleRunner) {
		t.Fatalf("%d credentials, role %s", n, role)
	}
	again, err := s.c.RotateRunnerCredential(ctx, s.owner(), "edge")
	s.must(err)
	if n, _ := count(); n != 1 || again.ClientSecret == made.ClientSecret || again.ClientID != made.ClientID {
		t.Fatalf("%d credentials, %+v", n, again)
	}
	if _, err := s.c.RotateRunnerCredential(ctx, s.stranger(), "edge"); !fault.Is(err, fault.NotFound) {
		t.Fatalf("a stranger: %v", err)
	}
}

// TestDisconnectEndsTheSessionsOfARunner at every Server, and of no other Runner.
func TestDisconnectEndsTheSessionsOfARunner(t *testing.T) {
	w := newWorld(t)
	a, b := w.serve(Limits{}), w.serve(Limits{})
	r := a.runner(a.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	made, err := a.c.CreateRunner(context.Background(), a.owner(), catalog.RunnerSpec{Name: "other"})
	a.must(err)
	here, there, other := a.fake(r, "a").online(a), b.fake(r, "b").online(b), a.fake(made.Runner, "c").online(a)
	if err := a.c.DisconnectRunner(context.Background(), a.as(catalog.RoleOperator), r.ID); !fault.Is(err, fault.Forbidden) {
		t.Fatalf("an operator: %v", err)
	}
	a.must(a.c.DisconnectRunner(context.Background(), a.owner(), r.Name))
	for _, f := range []*fake{here, there} {
		if code := f.closed(); code != wire.CloseUnauthorized {
			t.Errorf("closed with %v", code)
		}
	}
	other.cut()
}

func TestDeletionsThatWouldBreakSomethingAreRefused(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 2)
	f := s.fake(r, "a").online(s)
	busy := s.submit("prod/net/m0", work.Run)
	f.take()
	waiting := s.submit("prod/net/m1", work.Run)
	for name, err := range map[string]error{
		"stack with namespaces":  s.c.DeleteStack(ctx, s.owner(), "prod"),
		"namespace with modules": s.c.DeleteNamespace(ctx, s.owner(), "prod/net"),
		"module with a job":      s.c.DeleteModule(ctx, s.owner(), "prod/net/m0", false),
		"runner that is named":   s.c.DeleteRunner(ctx, s.owner(), "edge"),
		"rename of a named one":  second(s.c.UpdateRunner(ctx, s.owner(), "edge", catalog.RunnerSpec{Name: "other"})),
	} {
		if !fault.Is(err, fault.Conflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.must(s.c.DeleteModule(ctx, s.owner(), "prod/net/m1", false))
	if got := s.job(waiting.ID); got.Status != work.Canceled {
		t.Fatalf("its job is %s", got.Status)
	}
	_, err := s.c.CancelJob(ctx, s.owner(), busy.ID, work.Kill, "")
	s.must(err)
}

func TestEventsComeInOrderWithoutAGap(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 20)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	events := make(chan store.Event, 10_000)
	done := make(chan error, 1)
	go func() {
		done <- s.c.FollowEvents(ctx, s.owner(), 0, func(all []store.Event) error {
			for _, e := range all {
				events <- e
			}
			return nil
		})
	}()
	f := s.fake(r, "a").online(s)
	go f.work(1, nil)
	var ids []string
	for i := range 20 {
		ids = append(ids, s.submit("prod/net/m"+string(rune('0'+i/10))+"", work.Run).ID)
	}
	last := ids[len(ids)-1]
	s.until(last, work.Succeeded)
	var id int64
	kinds := map[string]int{}
	for e := range events {
		if e.ID <= id {
			t.Fatalf("event %d after %d", e.ID, id)
		}
		id = e.ID
		kinds[e.Kind]++
		if e.Kind == "job.succeeded" && e.Subject == last {
			break
		}
	}
	if kinds["job.queued"] < 20 || kinds["runner.online"] != 1 || kinds["module.changed"] != 20 {
		t.Fatalf("kinds: %v", kinds)
	}
	cancel()
	if err := <-done; err == nil {
		t.Fatal("the following ended without a reason")
	}
}
