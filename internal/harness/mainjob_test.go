package harness_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// repository makes a git repository with a Module in a subdirectory and gives its URL.
func repository(t *testing.T, files map[string]string) (url, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git(t, dir, "init", "-q", "-b", "main")
	commit(t, dir)
	return "file://" + dir, dir
}

func commit(t *testing.T, dir string) string {
	t.Helper()
	git(t, dir, "add", "-A")
	git(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "change")
	return strings.TrimSpace(git(t, dir, "rev-parse", "HEAD"))
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

const vpcCode = `
variable "cidr" { type = string }
variable "subnet" { type = string }
variable "stack" { type = string }
resource "terraform_data" "vpc" { input = "${var.cidr} in ${var.stack} beside ${var.subnet}" }
output "vpc" { value = terraform_data.vpc.output }
output "password" {
  value     = "hunter2-${var.stack}"
  sensitive = true
}
`

const baseManifest = `
kind: Stack
name: prod
---
kind: Namespace
stack: prod
name: network
defaults: {engine: %[2]s, runner: edge-1}
---
kind: Module
stack: prod
namespace: network
name: base
source: {type: inline, files: {main.tf: 'output "subnet_id" { value = "subnet-77" }'}}
---
kind: Module
stack: prod
namespace: network
name: vpc
source: {type: git, url: "%[1]s", revision: main, subdirectory: vpc}
inputs:
  - {name: cidr, value: 10.0.0.0/16}
  - {name: TF_LOG, kind: env, value: "off"}
  - {name: unknown_to_the_code, value: {a: [1, 2]}}
  - {name: stack, from: definition, value: stack_name}
  - {name: subnet, from: output, module: network/base, output: subnet_id}
extra_files:
  - {file_name: extra.tf, contents: 'output "extra" { value = 3 }'}
hooks:
  - {task: apply, phase: before, script: 'echo about to apply $LEGWORK_MODULE at $LEGWORK_COMMIT'}
`

func mainJob(t *testing.T, engine string, serverArgs ...string) {
	url, dir := repository(t, map[string]string{"vpc/main.tf": vpcCode})
	head := strings.TrimSpace(git(t, dir, "rev-parse", "HEAD"))
	s := harness.StartServer(t, serverArgs...)
	s.StartRunner("edge-1")
	manifest := fmt.Sprintf(baseManifest, url, engine)
	s.Apply(manifest)
	before := s.Do("manifest", "export")
	if again := s.Apply(manifest); !strings.Contains(again, "0 created, 0 updated, 4 unchanged") {
		t.Fatalf("the second apply changed something:\n%s", again)
	}
	if after := s.Do("manifest", "export"); after != before {
		t.Fatalf("the second apply changed what is held:\n%s\n---\n%s", before, after)
	}

	early := s.Try("module", "apply", "prod/network/vpc")
	if early.Status == 0 || !strings.Contains(early.Err, "prod/network/base") {
		t.Fatalf("an input that does not exist yet: %d %s", early.Status, early.Err)
	}
	followed := s.Try("module", "apply", "prod/network/base")
	if followed.Status != 0 || !strings.Contains(followed.Out, "subnet-77") {
		t.Fatalf("%d\n%s\n%s", followed.Status, followed.Out, followed.Err)
	}
	// base's outputs trigger vpc; wait for that Job.
	harness.Eventually(t, "vpc was applied", func() bool {
		return strings.Contains(s.Try("output", "prod/network/vpc", "-o", "json").Out, "10.0.0.0/16 in prod beside subnet-77")
	})
	outputs := s.Do("output", "prod/network/vpc", "-o", "json")
	if strings.Contains(outputs, "hunter2") || !strings.Contains(outputs, "extra") {
		t.Fatalf("outputs: %s", outputs)
	}
	if shown := s.Do("output", "prod/network/vpc", "-o", "json", "--show-sensitive"); !strings.Contains(shown, "hunter2-prod") {
		t.Fatalf("outputs with sensitive: %s", shown)
	}

	id := s.Submit("apply", "prod/network/vpc")
	j := s.Ends(id, work.Succeeded)
	if j.Commit != head {
		t.Fatalf("ran commit %s, want %s", j.Commit, head)
	}
	log := s.Log(id)
	if !strings.Contains(log, "about to apply prod/network/vpc at "+head) {
		t.Fatalf("the hook did not speak:\n%s", log)
	}
	if p := j.Plan(); p == nil || !p.Empty() {
		t.Fatalf("a second apply plans %+v", p)
	}
	if strings.Contains(log, "hunter2") {
		t.Fatal("a sensitive output is in the log")
	}
	s.Ends(s.Submit("plan", "prod/network/vpc"), work.Succeeded)
	destroyed := s.Ends(s.Submit("destroy", "prod/network/vpc"), work.Succeeded)
	if p := destroyed.Plan(); p == nil || p.Destroy != 1 {
		t.Fatalf("destroy planned %+v", p)
	}
}

func TestMainJobWithOpenTofu(t *testing.T)  { mainJob(t, "opentofu") }
func TestMainJobWithTerraform(t *testing.T) { mainJob(t, "terraform") }

func TestMainJobOnPostgreSQL(t *testing.T) {
	mainJob(t, "opentofu", "--database", postgres(t))
}

func TestCommitIsPinnedAndStateSurvives(t *testing.T) {
	code := `resource "terraform_data" "x" { input = "one" }
output "id" { value = terraform_data.x.id }
output "x" { value = terraform_data.x.output }
`
	url, dir := repository(t, map[string]string{"main.tf": code, "old.tf": `output "old" { value = 1 }`})
	s := harness.StartServer(t)
	s.StartRunner("edge-1")
	s.Apply(fmt.Sprintf(`
kind: Stack
name: s
---
kind: Namespace
stack: s
name: n
---
kind: Module
stack: s
namespace: n
name: m
engine: opentofu
runner: edge-1
source: {type: git, url: "%s", revision: main}
`, url))
	s.Ends(s.Submit("apply", "s/n/m"), work.Succeeded)
	first := s.Do("output", "s/n/m", "-o", "json")
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(strings.Replace(code, "one", "two", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "old.tf")); err != nil {
		t.Fatal(err)
	}
	head := commit(t, dir)
	j := s.Ends(s.Submit("apply", "s/n/m"), work.Succeeded)
	if j.Commit != head {
		t.Fatalf("ran %s, want %s", j.Commit, head)
	}
	second := s.Do("output", "s/n/m", "-o", "json")
	if !strings.Contains(first, "old") || strings.Contains(second, "old") || !strings.Contains(second, "two") {
		t.Fatalf("outputs %s then %s", first, second)
	}
	if p := j.Plan(); p == nil || p.Add != 0 || p.Change != 1 {
		t.Fatalf("the state did not survive the fetch: %+v", p)
	}
}
