package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// gateManifest declares a Module whose apply waits until a file exists, so that a test can break things in its middle.
const gateManifest = `
kind: Stack
name: s
---
kind: Namespace
stack: s
name: n
defaults: {engine: opentofu, runner: edge-1}
---
kind: Module
stack: s
namespace: n
name: slow
source:
  type: inline
  files:
    main.tf: |
      resource "terraform_data" "slow" {
        provisioner "local-exec" {
          interpreter = ["bash", "-c"]
          command     = "for i in $(seq 1 200); do echo line $i; done; touch %[1]s/begun; until [ -e %[1]s/gate ]; do echo tick; read -rt 0.05 <> <(:) || :; done; for i in $(seq 201 400); do echo line $i; done"
        }
      }
      output "done" { value = "yes" }
`

// slow starts a Server and a Runner with a Module that stops in the middle of its apply.
func slow(t *testing.T, url func(*harness.Server) string) (s *harness.Server, r *harness.Runner, job string, open func()) {
	t.Helper()
	dir := t.TempDir()
	s = harness.StartServer(t)
	r = s.StartRunner("edge-1", func(settings map[string]any) {
		if url != nil {
			settings["Server"] = map[string]any{"Url": url(s)}
		}
	})
	s.Apply(fmt.Sprintf(gateManifest, dir))
	job = s.Submit("apply", "s/n/slow")
	harness.Eventually(t, "the apply has begun", func() bool {
		_, err := os.Stat(filepath.Join(dir, "begun"))
		return err == nil
	})
	return s, r, job, func() {
		if err := os.WriteFile(filepath.Join(dir, "gate"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// complete checks that each of the 400 lines was stored once and in order.
func complete(t *testing.T, s *harness.Server, job string) {
	t.Helper()
	log := s.Log(job)
	last := -1
	for i := 1; i <= 400; i++ {
		line := fmt.Sprintf("): line %d\n", i)
		if n := strings.Count(log, line); n != 1 {
			t.Fatalf("line %d stands %d times in the log", i, n)
		}
		at := strings.Index(log, line)
		if at < last {
			t.Fatalf("line %d is out of order", i)
		}
		last = at
	}
}

func TestRunnerKilledDuringApply(t *testing.T) {
	s, r, job, open := slow(t, nil)
	r.Kill()
	open()
	r.Start()
	j := s.Ends(job, work.Succeeded)
	if j.Attempt != 1 || len(j.Losses) != 0 {
		t.Fatalf("attempt %d, losses %+v", j.Attempt, j.Losses)
	}
	complete(t, s, job)
}

func TestServerKilledDuringApply(t *testing.T) {
	s, _, job, open := slow(t, nil)
	s.Kill()
	open()
	s.Start()
	j := s.Ends(job, work.Succeeded)
	if j.Attempt != 1 {
		t.Fatalf("attempt %d", j.Attempt)
	}
	complete(t, s, job)
}

func TestConnectionCutDuringApply(t *testing.T) {
	var cut *harness.Cut
	s, _, job, open := slow(t, func(s *harness.Server) string {
		cut = harness.NewCut(t, s.URL)
		return cut.URL
	})
	cut.Set(true)
	open()
	harness.Eventually(t, "the server saw the runner go", func() bool { return s.Partings() > 0 })
	cut.Set(false)
	s.Ends(job, work.Succeeded)
	complete(t, s, job)
}

func TestServerAndRunnerBothKilled(t *testing.T) {
	s, r, job, open := slow(t, nil)
	r.Kill()
	s.Kill()
	open()
	r.Start()
	s.Start()
	s.Ends(job, work.Succeeded)
	complete(t, s, job)
}

// TestServerKilledInALoop kills the Server again and again while Jobs print, and counts every line.
func TestServerKilledInALoop(t *testing.T) {
	s := harness.StartServer(t)
	s.StartRunner("edge-1")
	manifest := `
kind: Stack
name: s
---
kind: Namespace
stack: s
name: n
defaults: {engine: script, runner: edge-1}
`
	const modules, lines = 5, 2000
	for i := range modules {
		manifest += fmt.Sprintf(`---
kind: Module
stack: s
namespace: n
name: m%d
source: {type: inline, files: {x: ""}}
script:
  run: |
    for i in $(seq 1 %d); do echo line $i; (( i %% 20 )) || sleep 0.04; done
`, i, lines)
	}
	s.Apply(manifest)
	var jobs []string
	for i := range modules {
		jobs = append(jobs, s.Submit("run", fmt.Sprintf("s/n/m%d", i)))
	}
	for range 5 {
		s.Says(jobs[0], "line ")
		s.Kill()
		s.Start()
	}
	for _, job := range jobs {
		j := s.Ends(job, work.Succeeded)
		if j.Attempt != 1 {
			t.Fatalf("job %s took %d attempts: %+v", job, j.Attempt, j.Losses)
		}
		var want strings.Builder
		for i := 1; i <= lines; i++ {
			fmt.Fprintf(&want, "line %d\n", i)
		}
		if log := s.Log(job); !strings.Contains(log, want.String()) {
			t.Fatalf("job %s: %d lines of %d, not gapless", job, strings.Count(log, "line "), lines)
		}
	}
}

func TestServerDrainsOnSIGTERM(t *testing.T) {
	s, _, job, open := slow(t, nil)
	s.Signal(syscall.SIGTERM)
	if status := s.Wait(); status != 0 {
		t.Fatalf("status %d: %s", status, s.Output())
	}
	open()
	s.Start()
	s.Ends(job, work.Succeeded)
	complete(t, s, job)
}

func TestInPlaceUpgradeOfTheRunner(t *testing.T) {
	s, r, job, open := slow(t, nil)
	r.Signal(syscall.SIGKILL)
	r.Wait()
	r.Start()
	r.Online()
	if j := s.Job(job); j.Status != work.Running {
		t.Fatalf("the job is %s", j.Status)
	}
	open()
	s.Ends(job, work.Succeeded)
	complete(t, s, job)
}

// TestDrainedRunnerLeavesNothingBehind stops an idle Runner: its keeper goes with it at once, since it keeps nothing.
func TestDrainedRunnerLeavesNothingBehind(t *testing.T) {
	s := harness.StartServer(t)
	r := s.StartRunner("edge-1")
	declare(s, "m", script("echo hello"))
	s.Ends(s.Submit("run", "s/n/m"), work.Succeeded)
	if !r.KeeperLives() {
		t.Fatal("there is no keeper while the runner is there")
	}
	r.Signal(syscall.SIGTERM)
	if status := r.Wait(); status != 0 {
		t.Fatalf("status %d: %s", status, r.Output())
	}
	begin := time.Now()
	harness.Eventually(t, "the keeper is gone", func() bool { return !r.KeeperLives() })
	if took := time.Since(begin); took > 9*time.Second { // where nobody tells it, it stays for ten
		t.Fatalf("the keeper left only after %s", took)
	}
}
