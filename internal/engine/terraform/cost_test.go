package terraform_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/engine/enginetest"
	"legwork/internal/engine/terraform"
	"legwork/internal/work"
)

// spied gives the folder of a tofu that writes down how it is called before it does what it is told.
func spied(t *testing.T) (dir string, calls func() []string) {
	t.Helper()
	dir = t.TempDir()
	seen := filepath.Join(dir, "calls")
	script := fmt.Sprintf("#!/bin/sh\necho \"$1 $2\" >> %s\nexec %s/tofu \"$@\"\n", seen, enginetest.OpenTofu(t))
	if err := os.WriteFile(filepath.Join(dir, "tofu"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, func() []string {
		text, err := os.ReadFile(seen)
		if err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(seen)
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

// TestProcesses counts the programs that the Steps of an apply start: those that a person would start, and one
// more to read the plan.
func TestProcesses(t *testing.T) {
	dir, calls := spied(t)
	e := terraform.New(catalog.OpenTofu, "tofu")
	b := enginetest.NewBench(t, e, []string{dir}, "", thing)
	for range 3 {
		if _, err := e.Find(t.Context(), []string{dir}); err != nil {
			t.Fatal(err)
		}
	}
	if got := calls(); !slices.Equal(got, []string{"version -json"}) {
		t.Errorf("finding the engine four times runs %q", got)
	}
	b.Give(enginetest.Param("name", `"x"`, false), enginetest.Param("secret", `"y"`, true), enginetest.Param("plain", `"z"`, false))
	b.Must(work.StepFetch, work.StepInit, work.StepValidate, work.StepPlan, work.StepApply, work.StepOutput)
	want := []string{"init -input=false", "validate ", "plan -input=false", "show -json", "apply -input=false", "output -json"}
	if got := calls(); !slices.Equal(trimmed(got), trimmed(want)) {
		t.Errorf("an apply runs %q", got)
	}
}

func trimmed(lines []string) []string {
	out := slices.Clone(lines)
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// TestCost measures what the engine adds to the commands themselves. The bound is far above what is
// measured, and far below what a second process would cost. It looks at the best of several rounds: a machine that is busy with other
// things makes some of them longer, and none shorter.
func TestCost(t *testing.T) {
	dir := enginetest.OpenTofu(t)
	b := enginetest.NewBench(t, terraform.New(catalog.OpenTofu, "tofu"), []string{dir}, "", map[string]string{
		"main.tf": "resource \"terraform_data\" \"a\" {\n  count = 100\n  input = \"value ${count.index}\"\n}\n",
	})
	b.Must(work.StepInit, work.StepPlan)
	var command, result, show []time.Duration
	for range 7 {
		began := time.Now()
		if _, _, err := b.Engine.Command(t.Context(), work.StepApply, b.Workspace); err != nil { // hashes the plan
			t.Fatal(err)
		}
		command = append(command, time.Since(began))
		began = time.Now()
		if _, err := b.Engine.Result(t.Context(), work.StepPlan, b.Workspace, engine.Exit{Code: 2}); err != nil {
			t.Fatal(err)
		}
		result = append(result, time.Since(began))
		began = time.Now()
		cmd := exec.Command(b.Tool.Path, "show", "-json", filepath.Join(b.JobDir, "plan.bin"))
		cmd.Dir, cmd.Env = b.Dir, b.Env
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		show = append(show, time.Since(began))
	}
	ours := slices.Min(result) - slices.Min(show)
	t.Logf("Command(apply) %v; Result(plan) %v, of which show -json %v; ours %v", slices.Min(command), slices.Min(result), slices.Min(show), ours)
	if process := slices.Min(show); slices.Min(command) > process/2 || ours > process { // as much as a second process
		t.Error("the engine's own work takes too long")
	}
}
