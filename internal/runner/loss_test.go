package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/wire"
	"legwork/internal/work"
)

func TestKilledRunnerGoesOn(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	job := ref("job-1", 1)
	first := startProcess(t, cfg)
	spec := scriptSpec(counting, false)
	spec.Hooks = []catalog.Hook{{Task: "run", Phase: catalog.After, Script: "echo after"}}
	s.begin(job, spec, 1)
	s.sees(job, 1, "line 50\n")
	kill(first)
	second := startProcess(t, cfg)
	s.sees(job, 1, "line 200\n")
	kill(second)
	startProcess(t, cfg)
	if got := s.result(job, 1); got.Status != work.StepSucceeded {
		t.Fatalf("got %+v", got)
	}
	s.mu.Lock()
	text := s.jobs[job].text(1, work.Stdout)
	s.mu.Unlock()
	if strings.Count(text, "after\n") != 1 || strings.Count(text, "line ") != 400 {
		t.Errorf("got %q", text[max(0, len(text)-100):])
	}
	s.send(&wire.Drop{Ref: job})
	eventually(t, "the folder of the Job is removed", func() bool { return !exists(filepath.Join(cfg.WorkingDirectory, "jobs", "job-1.1")) })
}

func TestFinishedWhileNobodyLooked(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	job := ref("job-1", 1)
	r := start(t, cfg)
	s.begin(job, scriptSpec("echo ready; sleep 0.3; echo done", false), 1)
	s.sees(job, 1, "ready")
	r.leave(t)
	exit := filepath.Join(cfg.WorkingDirectory, "jobs", "job-1.1", "01-run.main.exit")
	eventually(t, "the command ends", func() bool { return exists(exit) })
	start(t, cfg)
	if got := s.result(job, 1); got.Status != work.StepSucceeded || s.text(job, 1) != "ready\ndone\n" {
		t.Fatalf("got %+v, %q", got, s.text(job, 1))
	}
}

// until waits in a script for a file that a test makes with touch.
func until(file string) string {
	return "until [ -e " + file + " ]; do read -rt 0.05 <> <(:) || :; done"
}

func touch(t testing.TB, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSuperseded(t *testing.T) {
	for _, c := range []struct {
		name     string
		changing bool
		restart  bool
		want     work.StepStatus
	}{
		{"a change ends by itself", true, false, work.StepSucceeded},
		{"what changes nothing is ended", false, false, work.StepCanceled},
		{"a change ends by itself, after a restart", true, true, work.StepSucceeded},
		{"what changes nothing is ended, after a restart", false, true, work.StepCanceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t)
			cfg := testConfig(t, s)
			r := start(t, cfg)
			gate := filepath.Join(t.TempDir(), "gate")
			job, spec := ref("job-1", 1), scriptSpec("echo ready; "+until(gate)+"; echo done", !c.changing)
			s.begin(job, spec, 1)
			s.sees(job, 1, "ready")
			s.mu.Lock()
			s.verdict = func(h wire.Held) wire.Verdict {
				return wire.Verdict{Ref: h.Ref, Fate: wire.Superseded, Acks: s.jobs[h.Ref].acks()}
			}
			s.mu.Unlock()
			if c.restart {
				r.leave(t)
				start(t, cfg)
			} else {
				s.cut()
			}
			s.wait("it is told", func() bool { return len(s.hellos) == 2 })
			if c.changing {
				touch(t, gate)
			}
			if got := s.result(job, 1); got.Status != c.want {
				t.Fatalf("got %+v %+v", got, got.Failure)
			}
			if done := strings.Contains(s.text(job, 1), "done"); done != c.changing {
				t.Errorf("the log says %q", s.text(job, 1))
			}
			eventually(t, "it is forgotten", func() bool { return !exists(filepath.Join(cfg.WorkingDirectory, "jobs", "job-1.1")) })
		})
	}
}

// TestNewAttemptWaits binds a Job anew to the same Instance while the old Attempt still changes something.
func TestNewAttemptWaits(t *testing.T) {
	s := newServer(t)
	start(t, testConfig(t, s))
	gate := filepath.Join(t.TempDir(), "gate")
	old, next, spec := ref("job-1", 1), ref("job-1", 2), scriptSpec("echo ready; "+until(gate)+"; echo done", false)
	s.begin(old, spec, 1)
	s.sees(old, 1, "ready")
	s.begin(next, spec, 0)
	s.sees(next, 0, "waiting")
	touch(t, gate)
	s.result(next, 0)
	s.send(&wire.RunStep{Ref: next, Step: 1, Watch: true})
	if got := s.result(next, 1); got.Status != work.StepSucceeded {
		t.Fatalf("got %+v", got)
	}
	before, after := s.result(old, 1), s.result(next, 0)
	if before.Status != work.StepSucceeded || after.StartedAt.Before(before.FinishedAt) {
		t.Errorf("the new Attempt began at %v, the old one ended at %v", after.StartedAt, before.FinishedAt)
	}
}

func TestKeeperKilled(t *testing.T) {
	for _, repeatable := range []bool{true, false} {
		t.Run(fmt.Sprint("repeatable ", repeatable), func(t *testing.T) {
			s := newServer(t)
			cfg := testConfig(t, s)
			r := start(t, cfg)
			mark := filepath.Join(t.TempDir(), "mark")
			job := ref("job-1", 1)
			s.begin(job, scriptSpec(fmt.Sprintf("echo ready; if test -e %[1]s; then exit 0; fi; touch %[1]s; sleep 60", mark), repeatable), 1)
			s.sees(job, 1, "ready")
			eventually(t, "the mark", func() bool { return exists(mark) })
			pid, _ := r.Runner.keeper.Keeper()
			keeper, err := os.FindProcess(pid)
			if err != nil {
				t.Fatal(err)
			}
			if err := keeper.Kill(); err != nil {
				t.Fatal(err)
			}
			got := s.result(job, 1)
			switch {
			case repeatable && (got.Status != work.StepSucceeded || !strings.Contains(s.text(job, 1, work.System), "run again")):
				t.Errorf("got %+v %+v, log %q", got, got.Failure, s.text(job, 1))
			case !repeatable && (got.Status != work.StepFailed || got.Failure.Code != "host_lost"):
				t.Errorf("got %+v %+v", got, got.Failure)
			}
		})
	}
}
