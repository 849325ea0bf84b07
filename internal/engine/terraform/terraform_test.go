package terraform_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/engine/enginetest"
	"legwork/internal/engine/terraform"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// engines are both programs of this package, as the tests find them.
func engines(t *testing.T) map[string]enginetest.Subject {
	t.Helper()
	return map[string]enginetest.Subject{
		"opentofu":  {New: func() engine.Engine { return terraform.New(catalog.OpenTofu, "tofu") }, Dirs: []string{enginetest.OpenTofu(t)}},
		"terraform": {New: func() engine.Engine { return terraform.New(catalog.Terraform, "terraform") }, Dirs: []string{enginetest.Terraform(t)}},
	}
}

func each(t *testing.T, test func(t *testing.T, s enginetest.Subject)) {
	for name, s := range engines(t) {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

var thing = map[string]string{"main.tf": `
variable "name" { type = string }
variable "secret" {
  type      = string
  sensitive = true
}
variable "plain" { type = string }
resource "terraform_data" "thing" {
  input = { name = var.name, secret = var.secret, more = "<${var.plain}>" }
}
output "name" { value = var.name }
output "list" { value = ["a", "b"] }
output "object" { value = { n = 1, deep = { yes = true } } }
output "number" { value = 12345678901234567890 }
output "nothing" { value = null }
output "leak" { value = "it is ${var.plain}" }
output "secret" {
  value     = var.secret
  sensitive = true
}
`}

func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, s enginetest.Subject) {
		s.NeedsProgram = true
		s.Fails = func(t *testing.T) (*enginetest.Bench, work.StepKind) {
			return enginetest.NewBench(t, s.New(), s.Dirs, "", map[string]string{"main.tf": "resource {"}), work.StepInit
		}
		s.Succeeds = func(t *testing.T) (*enginetest.Bench, work.StepKind) {
			b := enginetest.NewBench(t, s.New(), s.Dirs, "", map[string]string{"main.tf": `resource "terraform_data" "a" {}`})
			return b, work.StepPlan
		}
		t.Run("engine", func(t *testing.T) { enginetest.Conform(t, s) })
		enginetest.ConformPlans(t, enginetest.Planner{
			Subject: s,
			Thing:   thing,
			Invalid: map[string]string{"main.tf": `output "o" { value = var.missing }`},
			Failing: map[string]string{"failing.tf": `
resource "terraform_data" "failing" {
  lifecycle {
    precondition {
      condition     = length(terraform.workspace) == 0
      error_message = "told to fail"
    }
  }
}`},
		})
	})
}

// TestParameters checks that every kind of value arrives as it was given.
func TestParameters(t *testing.T) {
	values := map[string]string{
		"text":    `"plain"`,
		"braces":  `"a ${b} %{c} $${d} {e}"`,
		"lines":   `"one\ntwo\t\"quoted\" \\ back"`,
		"unicode": `"Grüße 😀 \u0007\b\f <&>"`,
		"number":  `12345678901234567890.5`,
		"yes":     `true`,
		"list":    `["${a}", "%{b}", "x\by\f\u001f😀", 1.5, false, null]`,
		"object":  `{"a b": {"${k}": [1, {"x": "$${y}"}]}, "": "%%{z}"}`,
		"empty":   `""`,
	}
	var code strings.Builder
	for name, value := range values {
		kind := "any"
		if value[0] == '"' {
			kind = "string"
		}
		if name == "number" || name == "yes" {
			kind = map[string]string{"number": "number", "yes": "bool"}[name]
		}
		if name == "list" || name == "object" {
			kind = map[string]string{"list": "tuple([string,string,string,number,bool,any])", "object": "map(any)"}[name]
		}
		fmt.Fprintf(&code, "variable %q { type = %s }\noutput %q { value = var.%s }\n", name, kind, name, name)
	}
	code.WriteString("variable \"absent\" { default = \"the default\" }\noutput \"absent\" { value = var.absent }\n")
	each(t, func(t *testing.T, s enginetest.Subject) {
		b := enginetest.NewBench(t, s.New(), s.Dirs, "", map[string]string{"main.tf": strings.ReplaceAll(code.String(), "map(any)", "any")})
		inputs := []work.InputValue{enginetest.Param("absent", `null`, false)}
		for name, value := range values {
			inputs = append(inputs, enginetest.Param(name, value, false))
		}
		b.Give(inputs...)
		b.Must(work.StepInit, work.StepPlan, work.StepApply)
		outputs := b.Must(work.StepOutput).Result.Outputs
		for name, value := range values {
			if name == "object" && string(outputs[name].Value)[0] == '"' {
				continue
			}
			if !sameJSON(t, string(outputs[name].Value), value) {
				t.Errorf("%s came out as %s, not as %s", name, outputs[name].Value, value)
			}
		}
		if string(outputs["absent"].Value) != `"the default"` {
			t.Errorf("a null gives %s, not the default", outputs["absent"].Value)
		}
	})
}

// TestSettingsTrap: an environment that names a settings file which is not there makes OpenTofu print words
// before its JSON, and variables of the user would change what is read.
func TestSettingsTrap(t *testing.T) {
	each(t, func(t *testing.T, s enginetest.Subject) {
		t.Setenv("TF_CLI_CONFIG_FILE", filepath.Join(t.TempDir(), "missing.tfrc"))
		b := enginetest.NewBench(t, s.New(), s.Dirs, "", map[string]string{"main.tf": "output \"o\" { value = 1 }"})
		b.Setenv("TF_CLI_CONFIG_FILE="+filepath.Join(t.TempDir(), "missing.tfrc"), "TF_LOG=trace",
			"TF_CLI_ARGS_output=-raw", "TF_CLI_ARGS_show=-nothing", "TF_CLI_ARGS_plan=-out=elsewhere.bin")
		plan := b.Must(work.StepInit, work.StepPlan).Result.Plan
		b.Must(work.StepApply)
		if plan.Outputs != 1 || string(b.Must(work.StepOutput).Result.Outputs["o"].Value) != "1" {
			t.Errorf("the plan is %+v", plan)
		}
	})
}

const thingCode = `
terraform {
  required_providers {
    legwork = { source = "example.com/legwork/legwork" }
  }
}
variable "value" { default = "v1" }
variable "key" { default = "k1" }
variable "do" { default = "" }
resource "legwork_thing" "a" {
  value  = var.value
  key    = var.key
  do     = var.do
  secret = "in-the-state-alone"
}
`

func provided(t *testing.T, s enginetest.Subject, cache string) *enginetest.Bench {
	t.Helper()
	b := enginetest.NewBench(t, s.New(), s.Dirs, cache, map[string]string{"main.tf": thingCode})
	b.Setenv("TF_CLI_CONFIG_FILE=" + enginetest.ProviderCLIConfig(t))
	return b
}

// TestSummary checks the counts of a change and of a replacement.
func TestSummary(t *testing.T) {
	each(t, func(t *testing.T, s enginetest.Subject) {
		b := provided(t, s, "")
		b.Must(work.StepInit, work.StepPlan, work.StepApply)
		b.Give(enginetest.Param("value", `"v2"`, false))
		out := b.Must(work.StepPlan)
		if p := out.Result.Plan; p.Add != 0 || p.Change != 1 || p.Destroy != 0 {
			t.Errorf("a change is %+v", p)
		}
		changes := string(out.Result.Changes)
		if strings.Contains(changes, "in-the-state-alone") || !strings.Contains(changes, `"v1"`) || !strings.Contains(changes, `"v2"`) {
			t.Errorf("changes %s", changes)
		}
		b.Give(enginetest.Param("key", `"k2"`, false))
		if p := b.Must(work.StepPlan).Result.Plan; p.Add != 1 || p.Change != 0 || p.Destroy != 1 {
			t.Errorf("a replacement is %+v", p)
		}
	})
}

func TestApplyFails(t *testing.T) {
	each(t, func(t *testing.T, s enginetest.Subject) {
		b := provided(t, s, "")
		b.Give(enginetest.Param("do", `"fail"`, false))
		b.Must(work.StepInit, work.StepPlan)
		out := b.Step(work.StepApply)
		if out.Result.Failure == nil || out.Result.Failure.Code != "apply_failed" {
			t.Fatalf("%+v %v", out.Result, out.Err)
		}
	})
}

// TestInitsAtOnce shares one provider cache between inits that run at the same time.
func TestInitsAtOnce(t *testing.T) {
	each(t, func(t *testing.T, s enginetest.Subject) {
		cache := t.TempDir()
		var together sync.WaitGroup
		for range 4 {
			b := provided(t, s, cache)
			together.Go(func() {
				if out := b.Step(work.StepInit); out.Err != nil || out.Result.Status != work.StepSucceeded {
					t.Errorf("init: %v\n%s", out.Err, out.Log)
					return
				}
				if out := b.Step(work.StepPlan); out.Err != nil || out.Result.Status != work.StepSucceeded {
					t.Errorf("plan: %v\n%s", out.Err, out.Log)
				}
			})
		}
		together.Wait()
		if found, _ := filepath.Glob(filepath.Join(cache, "plugins", "example.com", "*", "*", "1.0.0")); len(found) != 1 {
			t.Errorf("the provider is not in the shared cache: %q", found)
		}
	})
}

// TestOwnCache keeps a provider cache that the user has chosen.
func TestOwnCache(t *testing.T) {
	each(t, func(t *testing.T, s enginetest.Subject) {
		own := t.TempDir()
		b := provided(t, s, "")
		b.Setenv("TF_PLUGIN_CACHE_DIR=" + own)
		b.Must(work.StepInit)
		if entries, _ := os.ReadDir(filepath.Join(own, "example.com")); len(entries) == 0 {
			t.Error("the user's cache is empty")
		}
	})
}

func TestOutputsTooLarge(t *testing.T) {
	each(t, func(t *testing.T, s enginetest.Subject) {
		b := enginetest.NewBench(t, s.New(), s.Dirs, "", map[string]string{"main.tf": `
locals {
  kilo = join("", [for i in range(1000) : "x"])
  mega = join("", [for i in range(1000) : local.kilo])
}
output "large" { value = join("", [for i in range(5) : local.mega]) }`})
		b.Must(work.StepInit, work.StepPlan, work.StepApply)
		out := b.Step(work.StepOutput)
		if fault.Code(out.Err) != "outputs_too_large" || !fault.Is(out.Err, fault.TooLarge) {
			t.Fatalf("%v", out.Err)
		}
	})
}

// sameJSON compares numbers as they are written.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	return reflect.DeepEqual(numbers(t, a), numbers(t, b))
}

func numbers(t *testing.T, text string) (v any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// TestInitDuringApply installs a provider into the cache while another Job runs from it.
func TestInitDuringApply(t *testing.T) {
	each(t, func(t *testing.T, s enginetest.Subject) {
		cache := t.TempDir()
		trace := filepath.Join(t.TempDir(), "trace")
		busy := provided(t, s, cache)
		busy.Write(map[string]string{"trace.tf": fmt.Sprintf("resource \"legwork_thing\" \"slow\" {\n  do = \"2s\"\n  trace = %q\n}\n", trace)})
		busy.Must(work.StepInit, work.StepPlan)
		done := make(chan enginetest.Outcome, 1)
		go func() { done <- busy.Step(work.StepApply) }()
		begun(t, trace)
		other := provided(t, s, cache)
		other.Must(work.StepInit, work.StepPlan, work.StepApply)
		if out := <-done; out.Err != nil || out.Result.Status != work.StepSucceeded {
			t.Errorf("the apply that was under way: %v\n%s", out.Err, out.Log)
		}
	})
}

// TestHangingApply stops an apply that hangs, as a graceful cancel does.
func TestHangingApply(t *testing.T) {
	each(t, func(t *testing.T, s enginetest.Subject) {
		b := provided(t, s, "")
		trace := filepath.Join(t.TempDir(), "trace")
		b.Write(map[string]string{"hang.tf": fmt.Sprintf("resource \"legwork_thing\" \"hangs\" {\n  do = \"hang\"\n  trace = %q\n  depends_on = [legwork_thing.a] # which is done before the stop\n}\n", trace)})
		b.Must(work.StepInit, work.StepPlan)
		c, _, err := b.Engine.Command(t.Context(), work.StepApply, b.Workspace)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = b.Dir, c.Env, &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := false
		defer func() {
			if !ended {
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			}
		}()
		begun(t, trace)
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		err = cmd.Wait()
		if ended = true; err == nil {
			t.Error("an apply that was stopped says that it succeeded")
		}
		b.Setenv("TF_VAR_value=v1")
		if p := b.Must(work.StepPlanDestroy).Result.Plan; p.Destroy < 1 {
			t.Errorf("what was done before the stop is not in the state: %+v", p)
		}
	})
}

// begun waits until the test provider has begun its work.
func begun(t *testing.T, trace string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		if text, _ := os.ReadFile(trace); strings.Contains(string(text), "create begins") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the provider does not begin")
		}
		<-time.After(10 * time.Millisecond)
	}
}
