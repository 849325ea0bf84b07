package harness_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// hostedPID returns the process of an Instance that the launcher `process` of a Server started, and its folder.
func hostedPID(t *testing.T, s *harness.Server, instance string) (pid int, dir string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.Data, "local-runner", "hosted", "*", instance, "unit.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("records of %s: got %q, %v, want one", instance, found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	var record struct {
		Process struct{ Pid int }
	}
	if err := json.Unmarshal(text, &record); err != nil || record.Process.Pid == 0 {
		t.Fatalf("record %s: got %s, %v, want a process", found[0], text, err)
	}
	return record.Process.Pid, filepath.Dir(found[0])
}

// TestHostedProcessKilledInJob kills the process of an Instance while its script runs. The process is started again
// in its folder and reports what the supervisor finished: the script runs once.
func TestHostedProcessKilledInJob(t *testing.T) {
	t.Parallel()
	s, g := hosted(t, "{launcher: process, max: 1}", "m0")
	s.Do("runner", "deploy", "edge-1")
	id := s.Submit("run", "s/n/m0")
	g.begun("m0")
	instance := s.Job(id).Binding.Instance
	pid, _ := hostedPID(t, s, instance)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the process was started again", func() bool {
		again, _ := hostedPID(t, s, instance)
		return again != pid
	})
	g.open()
	j := s.Ends(id, work.Succeeded)
	if j.Attempt != 1 || j.Binding.Instance != instance {
		t.Errorf("got attempt %d at %s, want attempt 1 at %s", j.Attempt, j.Binding.Instance, instance)
	}
	if n := strings.Count(s.Log(id), "came to its end"); n != 1 {
		t.Errorf("the script came to its end %d times, want 1", n)
	}
}

// TestHostedProcessKilledAfterItsJob kills the process, and has the script end while nobody is there to report it.
func TestHostedProcessKilledAfterItsJob(t *testing.T) {
	t.Parallel()
	s, g := hosted(t, "{launcher: process, max: 1}", "m0")
	s.Do("runner", "deploy", "edge-1")
	id := s.Submit("run", "s/n/m0")
	g.begun("m0")
	pid, _ := hostedPID(t, s, s.Job(id).Binding.Instance)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	g.open()
	if j := s.Ends(id, work.Succeeded); j.Attempt != 1 {
		t.Errorf("got attempt %d, want 1", j.Attempt)
	}
}

// TestHostedInstanceGoneInJob ends everything of an Instance whose launcher keeps no folder. Its Job begins again at
// another Instance at once, and the launch history says that the Instance ended.
func TestHostedInstanceGoneInJob(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	settings, hosting := byScript(t, home)
	s, g := hostedWith(t, settings, hosting, "m0")
	t.Cleanup(func() { harness.EndProcessesIn(home) })
	if err := os.WriteFile(filepath.Join(home, "asked"), []byte("x\nx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Do("runner", "deploy", "edge-1")
	id := s.Submit("run", "s/n/m0")
	g.begun("m0")
	instance := s.Job(id).Binding.Instance
	harness.EndProcessesIn(filepath.Join(home, instance))
	harness.Eventually(t, "the job begins again", func() bool { return s.Job(id).Attempt == 2 })
	all := launches(s, "edge-1")
	i := slices.IndexFunc(all, func(l launch) bool { return l.Name == instance })
	if i < 0 || all[i].State != "ended" || !strings.Contains(all[i].EndedWhy, "its process stopped") {
		t.Errorf("launch history: got %+v, want %s ended because its process stopped", all, instance)
	}
	g.open()
	if j := s.Ends(id, work.Succeeded); j.Binding.Instance == instance {
		t.Errorf("it ended at %s, which is gone", instance)
	}
}
