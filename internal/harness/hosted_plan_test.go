package harness_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

const timedModule = `
kind: Stack
name: s
---
kind: Namespace
stack: s
name: n
defaults: {engine: opentofu, runner: edge-1, approval: always}
---
kind: Module
stack: s
namespace: n
name: timed
source:
  type: inline
  files:
    main.tf: |
      terraform {
        backend "http" { address = %q }
      }
      resource "terraform_data" "x" { input = plantimestamp() }
`

// TestHostedApprovedPlan approves a plan whose instance has ended and that would be another one if it were made
// again: another instance applies exactly what was approved.
func TestHostedApprovedPlan(t *testing.T) {
	t.Parallel()
	path := filepath.Dir(harness.Tool(t, "opentofu")) + ":" + os.Getenv("PATH")
	s, _ := hosted(t, fmt.Sprintf("{launcher: process, max: 1, idle: 10s, environment: {PATH: %q}}", path))
	state := harness.StateStore(t) + "/timed"
	s.Apply(fmt.Sprintf(timedModule, state))
	s.Do("runner", "deploy", "edge-1")
	id := s.Submit("apply", "s/n/timed")
	harness.Eventually(t, "it waits for approval", func() bool { return s.Job(id).Status == work.AwaitingApproval })
	planned := planOf(s.Job(id)).Hash
	first := s.Job(id).Binding.Instance
	harness.Eventually(t, "its instance has ended", func() bool { return count(launches(s, "edge-1"), "online") == 0 })
	s.Do("job", "approve", id, "--plan-hash", planned)
	j := s.Ends(id, work.Succeeded)
	if j.Attempt != 2 || j.Binding.Instance == first {
		t.Errorf("got attempt %d at %s, want attempt 2 at another instance than %s", j.Attempt, j.Binding.Instance, first)
	}
	if got := planOf(j).Hash; got != planned {
		t.Errorf("applied plan: got %s, want the approved %s", got, planned)
	}
	answer, err := http.Get(state)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(text), "terraform_data") {
		t.Errorf("state: got %q, %v, want what was applied", text, err)
	}
	kept, err := filepath.Glob(filepath.Join(s.Data, "blobs", "plans", "*", "approval*"))
	if err != nil || len(kept) > 0 {
		t.Errorf("kept plans of a job that is over: got %q, %v, want none", kept, err)
	}
}
