package pulumi_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/engine/enginetest"
	"legwork/internal/engine/pulumi"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// program is a YAML program whose outputs are a text, a list and a secret.
const program = `name: demo
runtime: yaml
outputs:
  greeting: hello
  list: [1, {a: b}]
  hidden:
    fn::secret: s3cr3t-output
`

// bench is a Module of this program with a backend of its own.
func bench(t *testing.T, text string) *enginetest.Bench {
	t.Helper()
	b := enginetest.NewBench(t, pulumi.New(), []string{enginetest.Pulumi(t)}, "", map[string]string{"Pulumi.yaml": text})
	b.Spec.StackName, b.Spec.Namespace, b.Spec.Name = "prod", "network", "vpc"
	b.Setenv("PULUMI_BACKEND_URL=file://"+t.TempDir(), "PULUMI_CONFIG_PASSPHRASE=a-passphrase", "PULUMI_HOME="+t.TempDir(), "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION=true")
	return b
}

func TestConformance(t *testing.T) {
	enginetest.Conform(t, enginetest.Subject{
		New: func() engine.Engine { return pulumi.New() }, Dirs: []string{enginetest.Pulumi(t)}, NeedsProgram: true,
		Succeeds: func(t *testing.T) (*enginetest.Bench, work.StepKind) {
			b := bench(t, program)
			b.Must(work.StepInit)
			return b, work.StepPlan
		},
		Fails: func(t *testing.T) (*enginetest.Bench, work.StepKind) {
			b := bench(t, "name: demo\nruntime: yaml\noutputs:\n  x: ${nothing}\n")
			b.Must(work.StepInit)
			return b, work.StepPlan
		},
	})
}

// TestWayOfAModule takes a Module through all its Steps, twice, and away.
func TestWayOfAModule(t *testing.T) {
	b := bench(t, program)
	b.Must(work.StepInit, work.StepInit, work.StepValidate)
	plan := b.Must(work.StepPlan).Result
	if plan.Plan == nil || plan.Plan.Outputs != 3 || plan.Plan.Add+plan.Plan.Change+plan.Plan.Destroy != 0 || len(plan.Plan.Hash) != 64 || len(plan.Plan.Digest) != 64 {
		t.Fatalf("plan: %+v", plan.Plan)
	}
	b.Spec.PlanHash = plan.Plan.Hash
	b.Must(work.StepApply)
	b.Spec.PlanHash = ""
	got := b.Must(work.StepOutput).Result
	if !got.HasOutputs || len(got.Outputs) != 3 || string(got.Outputs["greeting"].Value) != `"hello"` || string(got.Outputs["list"].Value) != `[1,{"a":"b"}]` || got.Outputs["greeting"].Sensitive {
		t.Errorf("outputs: %+v", got.Outputs)
	}
	if hidden := got.Outputs["hidden"]; !hidden.Sensitive || string(hidden.Value) != `"s3cr3t-output"` {
		t.Errorf("the secret output: %+v", hidden)
	}
	for _, dir := range []string{b.Dir, b.JobDir} {
		noFileHolds(t, dir, "s3cr3t-output", "Pulumi.yaml")
	}
	if again := b.Must(work.StepPlan).Result.Plan; !again.Empty() {
		t.Errorf("a second plan would do %+v", again)
	}
	destroy := b.Must(work.StepPlanDestroy).Result
	var changes []work.ResourceChange
	if err := json.Unmarshal(destroy.Changes, &changes); err != nil || len(changes) != destroy.Plan.Destroy {
		t.Errorf("destroy: %+v %s", destroy.Plan, destroy.Changes)
	}
	b.Must(work.StepDestroy)
	if left := b.Must(work.StepOutput).Result; len(left.Outputs) != 0 {
		t.Errorf("after a destroy there are %v", left.Outputs)
	}
}

func noFileHolds(t *testing.T, dir, secret, but string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == but {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), secret) {
			t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPlanIsHeldTo changes what is applied after the plan.
func TestPlanIsHeldTo(t *testing.T) {
	b := bench(t, program)
	b.Must(work.StepInit)
	if out := b.Step(work.StepApply); fault.Code(out.Err) != "plan_missing" {
		t.Errorf("without a plan: %v", out.Err)
	}
	plan := b.Must(work.StepPlan).Result.Plan
	b.Spec.PlanHash = strings.Repeat("0", 64)
	if out := b.Step(work.StepApply); fault.Code(out.Err) != "plan_not_approved" {
		t.Errorf("another approval: %v", out.Err)
	}
	b.Spec.PlanHash = plan.Hash
	path := filepath.Join(b.JobDir, "plan.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := b.Step(work.StepApply); fault.Code(out.Err) != "plan_changed" {
		t.Errorf("a changed file: %v", out.Err)
	}
	b.Write(map[string]string{"Pulumi.yaml": "name: [\n"})
	b.Step(work.StepPlan)
	if out := b.Step(work.StepApply); fault.Code(out.Err) != "plan_missing" {
		t.Errorf("after a plan that failed: %v", out.Err)
	}
}

func TestStackOfOnesOwnAndSecretsProvider(t *testing.T) {
	b := bench(t, program)
	b.Setenv("PULUMI_STACK=mine", "PULUMI_SECRETS_PROVIDER=passphrase")
	c, ok, err := b.Engine.Command(t.Context(), work.StepInit, b.Workspace)
	if argv := strings.Join(c.Argv, " "); err != nil || !ok || !strings.Contains(argv, "--stack=mine") || !strings.Contains(argv, "--secrets-provider=passphrase") {
		t.Errorf("%s %v", argv, err)
	}
	b.Must(work.StepInit, work.StepPlan, work.StepApply)
	if out := b.Must(work.StepOutput).Result; len(out.Outputs) != 3 || out.Outputs["list"].Type != nil {
		t.Errorf("%+v", out)
	}
}

func TestUnknownStepsAreNotTaken(t *testing.T) {
	if _, _, err := pulumi.New().Command(t.Context(), work.StepRun, engine.Workspace{Spec: &work.Spec{}}); fault.Code(err) != "unknown_step" {
		t.Errorf("got %v", err)
	}
	if catalog.Engines[2] != catalog.Pulumi {
		t.Error("the catalog does not know the engine")
	}
}
