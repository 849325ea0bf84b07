package enginetest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// Planner is an engine under test that plans before it applies. Each sample is the files of a Module.
type Planner struct {
	Subject

	// Thing has a parameter "name" (a text) and a parameter "secret" (sensitive in the code), and makes one
	// resource that holds both and changes when name does. Its outputs: "name", the text; "list",
	// ["a","b"]; "object", {"n":1,"deep":{"yes":true}}; "number", 12345678901234567890; "nothing", null;
	// "secret", sensitive. The parameter "plain" is not sensitive in the code; the output "leak" gives it out.
	Thing map[string]string
	// Invalid is refused by validate, Failing by plan alone.
	Invalid, Failing map[string]string
}

// ConformPlans runs what holds for every engine that plans.
func ConformPlans(t *testing.T, p Planner) {
	t.Run("plan", p.plan)
	t.Run("secrets stay", p.secretsStay)
	t.Run("exactly that plan", p.exactPlan)
	t.Run("another plan is refused", p.otherPlan)
	t.Run("outputs", p.outputs)
	t.Run("digest", p.digest)
	t.Run("destroy", p.destroy)
	t.Run("invalid", p.invalid)
	t.Run("failing", p.failing)
}

func (p Planner) bench(t *testing.T, files map[string]string) *Bench {
	t.Helper()
	return NewBench(t, p.New(), p.Dirs, "", files)
}

// thing is a Module that is ready to be planned.
func (p Planner) thing(t *testing.T, name string) *Bench {
	t.Helper()
	b := p.bench(t, p.Thing)
	b.name(name)
	b.Must(work.StepInit)
	return b
}

func (b *Bench) name(name string) {
	b.t.Helper()
	text, _ := json.Marshal(name)
	b.Give(Param("name", string(text), false), Param("secret", `"hush-hush"`, true), Param("plain", `"as-plain-as-can-be"`, true),
		Param("undeclared", `{"no": "harm"}`, false))
}

func (p Planner) plan(t *testing.T) {
	b := p.thing(t, "one")
	b.Must(work.StepValidate)
	out := b.Must(work.StepPlan)
	s := out.Result.Plan
	if s == nil || s.Add != 1 || s.Change != 0 || s.Destroy != 0 || s.Outputs < 6 || s.Empty() {
		t.Fatalf("the plan of one new resource is %+v", s)
	}
	if len(s.Hash) != 64 || len(s.Digest) != 64 {
		t.Errorf("hash %q, digest %q", s.Hash, s.Digest)
	}
	changes := decodeChanges(t, out.Result.Changes)
	if len(changes) != 1 || changes[0].Address == "" || changes[0].Type == "" || len(changes[0].Actions) != 1 || changes[0].Actions[0] != "create" {
		t.Errorf("changes %s", out.Result.Changes)
	}
	if !strings.Contains(string(out.Result.Changes), "(known after apply)") || changes[0].Before != nil {
		t.Errorf("changes %s", out.Result.Changes)
	}
	if !strings.Contains(out.Log, "\x1b[") {
		t.Error("the log has lost its colours")
	}
}

func (p Planner) secretsStay(t *testing.T) {
	b := p.thing(t, "one")
	for range 2 { // as After, then as Before
		changes := string(b.Must(work.StepPlan).Result.Changes)
		if strings.Contains(changes, "hush-hush") || strings.Contains(changes, "as-plain-as-can-be") {
			t.Fatalf("a sensitive value stands in %s", changes)
		}
		if !strings.Contains(changes, "(sensitive)") {
			t.Fatalf("nothing is marked as sensitive in %s", changes)
		}
		b.Must(work.StepApply)
		b.name("two")
	}
}

// exactPlan checks that what changed after the plan does not reach the apply.
func (p Planner) exactPlan(t *testing.T) {
	b := p.thing(t, "planned")
	plan := b.Must(work.StepPlan).Result.Plan
	b.Spec.PlanHash = plan.Hash
	for name, text := range p.Thing {
		b.Write(map[string]string{name: strings.ReplaceAll(text, `["a", "b"]`, `["changed afterwards"]`)})
	}
	b.Must(work.StepApply)
	if got := string(b.Must(work.StepOutput).Result.Outputs["list"].Value); got != `["a","b"]` {
		t.Fatalf("the apply took %s instead of what was planned", got)
	}
}

func (p Planner) otherPlan(t *testing.T) {
	refused := func(t *testing.T, b *Bench, code string) {
		t.Helper()
		out := b.Step(work.StepApply)
		if fault.Code(out.Err) != code || fault.Of(out.Err).Hint == "" {
			t.Fatalf("code %q, not %q (%v)\n%s", fault.Code(out.Err), code, out.Err, out.Log)
		}
		b.Spec.PlanHash = ""
		if outputs := b.Must(work.StepOutput).Result.Outputs; len(outputs) != 0 {
			t.Fatalf("something was applied: %v", outputs)
		}
	}
	t.Run("tampered", func(t *testing.T) {
		b := p.thing(t, "one")
		b.Must(work.StepPlan)
		tamper(t, b.JobDir)
		refused(t, b, "plan_changed")
	})
	t.Run("not the approved one", func(t *testing.T) {
		b := p.thing(t, "one")
		b.Spec.PlanHash = b.Must(work.StepPlan).Result.Plan.Hash
		b.name("two")
		b.Must(work.StepPlan)
		refused(t, b, "plan_not_approved")
	})
	t.Run("none", func(t *testing.T) { refused(t, p.thing(t, "one"), "plan_missing") })
	t.Run("none after a plan that failed", func(t *testing.T) {
		b := p.thing(t, "one")
		b.Must(work.StepPlan)
		b.Write(p.Failing)
		b.Step(work.StepPlan).wants(t, "plan_failed")
		refused(t, b, "plan_missing")
	})
}

// tamper adds a byte to every file of a Job, except for those that hold a hash.
func tamper(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "plan*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no plan in %s", dir)
	}
	for _, path := range files {
		if strings.HasSuffix(path, ".sha256") {
			continue
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("x"); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func (p Planner) outputs(t *testing.T) {
	b := p.thing(t, "one")
	b.Must(work.StepPlan, work.StepApply)
	result := b.Must(work.StepOutput).Result
	if !result.HasOutputs {
		t.Error("HasOutputs is not set")
	}
	for name, want := range map[string]struct {
		value     string
		sensitive bool
	}{
		"name":    {`"one"`, false},
		"list":    {`["a","b"]`, false},
		"object":  {`{"deep":{"yes":true},"n":1}`, false},
		"number":  {`12345678901234567890`, false},
		"secret":  {`"hush-hush"`, true},
		"leak":    {`"it is as-plain-as-can-be"`, true}, // the code does not say so, but the Input is
		"nothing": {"", false},
	} {
		out, ok := result.Outputs[name]
		if !ok && want.value == "" {
			continue // an engine may leave out what is null
		}
		if string(out.Value) != want.value && want.value != "" || out.Sensitive != want.sensitive {
			t.Errorf("%s is %s, sensitive %v", name, out.Value, out.Sensitive)
		}
		if len(out.Type) == 0 || !json.Valid(out.Type) {
			t.Errorf("%s has the type %q", name, out.Type)
		}
	}
}

// digest checks that plans that do the same have the same digest, and those that do not have not.
func (p Planner) digest(t *testing.T) {
	b := p.thing(t, "one")
	first := b.Must(work.StepPlan).Result.Plan
	again := b.Must(work.StepPlan).Result.Plan
	b.name("two")
	other := b.Must(work.StepPlan).Result.Plan
	if first.Digest != again.Digest || first.Digest == other.Digest {
		t.Fatalf("digests: %s, again %s, other %s", first.Digest, again.Digest, other.Digest)
	}
	b.Must(work.StepApply)
	empty := b.Must(work.StepPlan)
	if !empty.Result.Plan.Empty() || string(empty.Result.Changes) != "[]" || empty.Exit.Code != 0 {
		t.Fatalf("nothing is left to do, but the plan is %+v %s", empty.Result.Plan, empty.Result.Changes)
	}
	b.Must(work.StepApply) // an empty plan can be applied
}

func (p Planner) destroy(t *testing.T) {
	b := p.thing(t, "one")
	b.Must(work.StepPlan, work.StepApply)
	plan := b.Must(work.StepPlanDestroy).Result.Plan
	if plan.Destroy != 1 || plan.Add != 0 || plan.Empty() {
		t.Fatalf("the plan to destroy is %+v", plan)
	}
	b.Must(work.StepDestroy)
	if !b.Must(work.StepPlanDestroy).Result.Plan.Empty() {
		t.Fatal("something is left after the destroy")
	}
}

func (p Planner) invalid(t *testing.T) {
	b := p.bench(t, p.Invalid)
	b.Must(work.StepInit)
	b.Step(work.StepValidate).wants(t, "invalid_code")
}

func (p Planner) failing(t *testing.T) {
	b := p.bench(t, p.Failing)
	b.Must(work.StepInit)
	b.Step(work.StepPlan).wants(t, "plan_failed")
}

func decodeChanges(t *testing.T, data []byte) []work.ResourceChange {
	t.Helper()
	var changes []work.ResourceChange
	if err := json.Unmarshal(data, &changes); err != nil {
		t.Fatalf("the changes are %s: %v", data, err)
	}
	return changes
}
