package harness_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

const approvalManifest = `
kind: Stack
name: prod
---
kind: Namespace
stack: prod
name: net
defaults: {engine: opentofu, runner: edge-1, approval: always}
---
kind: Module
stack: prod
namespace: net
name: base
source:
  type: inline
  files:
    main.tf: |
      resource "terraform_data" "x" {
        input = "%s"
        provisioner "local-exec" { command = "echo %s >> $HOME/applied" }
      }
---
kind: Module
stack: prod
namespace: net
name: chore
engine: script
script: {run: "echo ran >> $HOME/applied"}
---
kind: Module
stack: prod
namespace: net
name: guarded
approval: on_destroy
source: {type: inline, files: {main.tf: 'resource "terraform_data" "y" {}'}}
`

func approvalText(value string) string { return strings.ReplaceAll(approvalManifest, "%s", value) }

// A Module that asks for approval waits after its plan; what was approved is what runs, and a plan that would do
// nothing is not asked about.
func TestApprovalOfRealPlans(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.StartRunner("edge-1")
	s.Apply(approvalText("one"))
	applied := func() string {
		b, _ := os.ReadFile(filepath.Join(s.Home, "applied")) // not there: nothing was applied
		return string(b)
	}
	waits := func(id string) {
		t.Helper()
		harness.Eventually(t, "job "+id+" waits for approval", func() bool { return s.Job(id).Status == work.AwaitingApproval })
	}

	first := s.Submit("apply", "prod/net/base")
	waits(first)
	if got := applied(); got != "" {
		t.Fatalf("applied before the approval: %q", got)
	}
	if r := s.Try("job", "approve", first, "--plan-hash", strings.Repeat("0", 64)); r.Status == 0 || !strings.Contains(r.Err, "another plan") {
		t.Fatalf("approving another plan: %d %s", r.Status, r.Err)
	}
	if hash := planOf(s.Job(first)).Hash; !strings.Contains(s.Do("job", "show", first), hash) {
		t.Fatalf("job show hides the plan's hash %s", hash)
	}
	s.Do("job", "approve", first, "--reason", "as planned", "--plan-hash", planOf(s.Job(first)).Hash)
	done := s.Ends(first, work.Succeeded)
	if done.Approval == nil || done.Approval.Reason != "as planned" || done.Approval.PlanHash == "" || done.Approval.PlanHash != done.Plan().Hash {
		t.Fatalf("approval %+v of plan %+v", done.Approval, done.Plan())
	}
	s.Ends(s.Submit("apply", "prod/net/base"), work.Succeeded) // nothing to do, nobody asked

	s.Apply(approvalText("two"))
	declined := s.Submit("apply", "prod/net/base")
	waits(declined)
	s.Do("job", "decline", declined, "--reason", "not today")
	if j := s.Ends(declined, work.Declined); j.Failure == nil || !strings.Contains(j.Failure.Message, "not today") {
		t.Fatalf("declined with %+v", j.Failure)
	}
	chore := s.Submit("run", "prod/net/chore")
	waits(chore)
	s.Do("job", "approve", chore)
	s.Ends(chore, work.Succeeded)
	if got := applied(); got != "one\nran\n" {
		t.Fatalf("applied %q", got)
	}

	s.Ends(s.Submit("apply", "prod/net/guarded"), work.Succeeded)
	destroy := s.Submit("destroy", "prod/net/guarded")
	waits(destroy)
	s.Do("job", "approve", destroy)
	s.Ends(destroy, work.Succeeded)
	if r := s.Try("job", "approve", destroy); r.Status == 0 || !strings.Contains(r.Err, "approv") {
		t.Fatalf("a second approval: %d %s", r.Status, r.Err)
	}
}

func planOf(j work.Job) work.PlanSummary { return *j.Plan() }
