package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// stateModule declares a module whose code names no backend, for a runner of several instances.
const stateModule = `
{kind: Stack, name: s}
---
{kind: Namespace, stack: s, name: n, defaults: {engine: opentofu, runner: multi}}
---
kind: Module
stack: s
namespace: n
name: m
source: {type: inline, files: {main.tf: "resource \"terraform_data\" \"one\" {}\noutput \"id\" { value = terraform_data.one.id }\n"}}
`

// twoInstances starts a runner of two instances, which find the engine, and declares the module for it.
func twoInstances(t *testing.T) (s *harness.Server, a, b *harness.Runner) {
	t.Helper()
	tofu := filepath.Dir(harness.Tool(t, "opentofu"))
	s = harness.StartServer(t)
	a = s.NewRunner("multi", func(m map[string]any) { m["Engine"] = map[string]any{"AdditionalBinaryPaths": []string{tofu}} })
	s.Apply("{kind: Runner, name: multi, is_assigned_to_all_modules: true, allow_multiple_instances: true, selection: random}\n---" + stateModule)
	b = a.Twin("b", s.URL)
	return s, a, b
}

// waitsBecause waits until a queued job says why it waits.
func waitsBecause(t *testing.T, s *harness.Server, id string, code work.WaitCode, text string) {
	t.Helper()
	harness.Eventually(t, "job "+id+" waits because of "+string(code), func() bool {
		j := s.Job(id)
		if j.Status.Terminal() {
			t.Fatalf("job %s: got %s, want queued: %+v", id, j.Status, j.Failure)
		}
		return j.Wait.Code == code && strings.Contains(j.Wait.Text, text)
	})
}

// TestStateStaysWithItsInstance applies a module without a backend, and takes away the instance that holds its state.
func TestStateStaysWithItsInstance(t *testing.T) {
	s, a, b := twoInstances(t)
	a.Start()
	a.Online()
	first := s.Ends(s.Submit("apply", "s/n/m"), work.Succeeded)
	b.Start()
	b.Online()
	for range 6 {
		j := s.Ends(s.Submit("plan", "s/n/m"), work.Succeeded)
		if !j.Plan().Empty() || j.Binding.Instance != first.Binding.Instance {
			t.Errorf("got a plan of %+v on instance %s, want an empty one on %s", j.Plan(), j.Binding.Instance, first.Binding.Instance)
		}
	}
	shown := s.Do("module", "show", "s/n/m")
	want := fmt.Sprintf("on instance %s of runner multi (serial ", first.Binding.Instance)
	if !strings.Contains(shown, want) || !strings.Contains(shown, "1 resource)") {
		t.Errorf("module show: got %q, want it to contain %q", shown, want)
	}

	a.Signal(15)
	a.Wait()
	waiting := s.Submit("apply", "s/n/m")
	waitsBecause(t, s, waiting, work.WaitStateInstance, "instance "+first.Binding.Instance+" of runner multi")

	// Released, the job starts on the other instance, and is refused there: that one has no state.
	if r := s.Try("module", "release-state", "s/n/m"); r.Status != 2 || !strings.Contains(r.Err, "--yes") {
		t.Errorf("release-state without --yes: got %d %s, want status 2", r.Status, r.Err)
	}
	s.Do("module", "release-state", "s/n/m", "--yes")
	refused := s.Ends(waiting, work.Failed)
	if refused.Failure.Code != "state_missing" || refused.Binding.Instance != "b" {
		t.Errorf("got %+v on instance %s, want state_missing on b", refused.Failure, refused.Binding.Instance)
	}

	// The state is moved by hand.
	from := filepath.Join(a.Dir, "modules", first.ModuleID)
	to := filepath.Join(b.Dir, "modules", first.ModuleID)
	moveState(t, from, to)
	moved := s.Ends(s.Submit("apply", "s/n/m"), work.Succeeded)
	if !moved.Plan().Empty() || moved.Binding.Instance != "b" {
		t.Errorf("got a plan of %+v on instance %s, want an empty one on b", moved.Plan(), moved.Binding.Instance)
	}
	if got := s.Do("module", "show", "s/n/m"); !strings.Contains(got, "on instance b of runner multi") {
		t.Errorf("module show: got %q, want the state on instance b", got)
	}

	// The folder is gone: nothing is created again before somebody allows it.
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	for _, action := range []string{"plan", "apply", "destroy"} {
		if j := s.Ends(s.Submit(action, "s/n/m"), work.Failed); j.Failure.Code != "state_missing" {
			t.Errorf("%s without the folder: got %+v, want state_missing", action, j.Failure)
		}
	}
	s.Do("module", "release-state", "s/n/m", "--start-empty", "--yes")
	if j := s.Ends(s.Submit("apply", "s/n/m"), work.Succeeded); j.Plan().Add != 1 {
		t.Errorf("apply after --start-empty: got %+v, want 1 to add", j.Plan())
	}
	s.Ends(s.Submit("destroy", "s/n/m"), work.Succeeded)
	if got := s.Do("module", "show", "s/n/m"); strings.Contains(got, "\nstate ") {
		t.Errorf("module show after destroy: got %q, want no state", got)
	}
}

// moveState moves the local state of a module from one folder to another.
func moveState(t *testing.T, from, to string) {
	t.Helper()
	found := ""
	err := filepath.Walk(from, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Name() == "terraform.tfstate" && !strings.Contains(path, ".terraform") {
			found = path
		}
		return err
	})
	if err != nil || found == "" {
		t.Fatalf("no state below %s: %v", from, err)
	}
	inside, err := filepath.Rel(from, found)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Join(to, inside)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(found, filepath.Join(to, inside)); err != nil {
		t.Fatal(err)
	}
}

// TestEphemeralInstancesRefuseLocalState applies a module without a backend on instances that do not outlive it.
func TestEphemeralInstancesRefuseLocalState(t *testing.T) {
	for name, change := range map[string]struct {
		lifetime string
		settings func(map[string]any)
	}{
		"one_off":              {"persistent", func(runner map[string]any) { runner["one_off"] = true }},
		"lifetime of settings": {"persistent", func(runner map[string]any) { runner["Lifetime"] = "ephemeral" }},
		"lifetime of record":   {"ephemeral", func(map[string]any) {}},
	} {
		t.Run(name, func(t *testing.T) {
			tofu := filepath.Dir(harness.Tool(t, "opentofu"))
			s := harness.StartServer(t)
			r := s.NewRunner("multi", func(m map[string]any) {
				m["Engine"] = map[string]any{"AdditionalBinaryPaths": []string{tofu}}
				change.settings(m["Runner"].(map[string]any))
			})
			s.Apply("{kind: Runner, name: multi, is_assigned_to_all_modules: true, allow_multiple_instances: true, lifetime: " +
				change.lifetime + "}\n---" + stateModule)
			id := s.Submit("apply", "s/n/m")
			r.Start()
			j := s.Ends(id, work.Failed)
			if j.Failure.Code != "state_on_ephemeral_instance" || !strings.Contains(j.Failure.Hint, "backend") {
				t.Errorf("got %+v, want state_on_ephemeral_instance", j.Failure)
			}
		})
	}
}

// TestUndeclaredInputsAreWarnedAbout gives a module an input that its code does not know.
func TestUndeclaredInputsAreWarnedAbout(t *testing.T) {
	s, a, _ := twoInstances(t)
	s.Apply(`
kind: Module
stack: s
namespace: n
name: typo
source: {type: inline, files: {main.tf: "variable \"known\" {}\noutput \"got\" { value = var.known }\n"}}
inputs: [{name: known, value: "a?b&c"}, {name: typo_name, value: x}, {name: TF_VAR_other, kind: env, value: x}, {name: ANY, kind: env, value: x}]
`)
	a.Start()
	a.Online()
	id := s.Submit("apply", "s/n/typo")
	j := s.Ends(id, work.Succeeded)
	want := []string{`input "other" has no effect: the code declares no variable of that name`, `input "typo_name" has no effect: the code declares no variable of that name`}
	if got := j.Warnings(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("warnings: got %q, want %q", got, want)
	}
	if got := s.Do("job", "show", id, "-o", "table"); !strings.Contains(got, want[1]) {
		t.Errorf("job show: got %q, want the warning", got)
	}
	if got := s.Log(id); !strings.Contains(got, "warning: "+want[1]) {
		t.Errorf("the log: got %q, want the warning", got)
	}
	for args, want := range map[string]string{
		"output s/n/typo got --raw": "a?b&c", "output s/n/typo got": "\"a?b&c\"\n", "output s/n/typo --raw got": "a?b&c",
	} {
		if got := s.Do(strings.Fields(args)...); got != want {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
	for _, args := range []string{"output s/n/typo", "output s/n/typo -o json", "output s/n/typo -o yaml"} {
		if got := s.Do(strings.Fields(args)...); !strings.Contains(got, "a?b&c") {
			t.Errorf("%s: got %q, want a plain &", args, got)
		}
	}
	if r := s.Try("output", "s/n/typo", "--raw"); r.Status != 2 {
		t.Errorf("--raw without a name: got status %d, want 2", r.Status)
	}
	if got := s.Do("module", "list"); !strings.Contains(got, "never applied") || !strings.Contains(got, "applied ") {
		t.Errorf("module list: got %q, want a status for each module", got)
	}
}
