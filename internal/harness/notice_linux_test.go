package harness_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// TestFullDisk: a Job whose Runner's disk is full waits, loses no line, and everybody is told why.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	s := harness.StartServer(t)
	r := s.NewRunner("edge-1", func(settings map[string]any) { settings["WorkingDirectory"].(map[string]any)["MinFreeMiB"] = 0 })
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", r.Dir, "tmpfs", 0, "size=4m,mode=700"); err != nil {
		t.Skip("cannot mount a small disk:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(r.Dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	r.Start()
	r.Online()
	declare(s, "m", script("seq 1 300000"))
	id := s.Submit("run", "s/n/m")
	s.Says(id, "1")
	s.Signal(syscall.SIGSTOP) // or what it has taken is deleted as quickly as it is written
	harness.Eventually(t, "the disk is full", func() bool { return strings.Contains(r.Output(), "output of a Step cannot be written") })
	s.Signal(syscall.SIGCONT)
	harness.Eventually(t, "the job says that the disk is full", func() bool { return strings.Contains(s.Job(id).Notice, "full") })
	if out := s.Do("job", "show", id); !strings.Contains(out, "the disk of the Runner's working directory is full") {
		t.Errorf("job show does not say it:\n%s", out)
	}
	harness.Eventually(t, "the runner's log says it", func() bool { return strings.Contains(r.Output(), "output of a Step cannot be written") })
	if log := r.Output(); strings.Count(log, "output of a Step cannot be written") != 1 || !strings.Contains(log, r.Dir) {
		t.Errorf("the runner's log does not say it once:\n%s", log)
	}
	if err := unix.Mount("", r.Dir, "", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	if j := s.Ends(id, work.Succeeded); j.Notice != "" {
		t.Errorf("it is over and still says %q", j.Notice)
	}
	if lines := strings.Count(s.Log(id), "\n"); lines < 300000 {
		t.Errorf("%d lines", lines)
	}
	harness.Eventually(t, "the runner's log says that it goes on", func() bool { return strings.Contains(r.Output(), "output of a Step can be written again") })
}

// TestStopSignals: the second signal ends the Jobs gracefully, and the process stays until that is done; the third kills them.
func TestStopSignals(t *testing.T) {
	s := harness.StartServer(t)
	r := s.StartRunner("edge-1", func(settings map[string]any) {
		settings["Cancel"] = map[string]any{"InterruptSeconds": 300, "TerminateSeconds": 300}
	})
	declare(s, "m", script("trap 'echo interrupted' INT\ntrap '' TERM\necho ready\nwhile :; do sleep 0.05 || :; done"))
	id := s.Submit("run", "s/n/m")
	s.Says(id, "ready")
	r.Signal(syscall.SIGTERM)
	harness.Eventually(t, "the runner drains", func() bool { return strings.Contains(r.Output(), "draining") })
	r.Signal(syscall.SIGTERM)
	s.Says(id, "interrupted")
	if r.Ended() || s.Job(id).Status != work.Running {
		t.Fatalf("the process ended, or the job is over, before the command: %s", r.Output())
	}
	r.Signal(syscall.SIGTERM)
	if status := r.Wait(); status != 0 {
		t.Errorf("the runner ended with %d", status)
	}
	j := s.Ends(id, work.Canceled)
	if f := j.Failure; f == nil || f.Code != "runner_stopped" || !strings.Contains(f.Message, "canceled at the host of Instance edge-1-a") || !strings.Contains(f.Message, "the Runner was stopped while run ran") || f.Hint == "" {
		t.Errorf("failure %+v", j.Failure)
	}
}

// TestDisabledRunnerSaysSo in its own log, and when it is enabled again.
func TestDisabledRunnerSaysSo(t *testing.T) {
	s := harness.StartServer(t)
	r := s.StartRunner("edge-1")
	s.Do("runner", "disable", "edge-1")
	harness.Eventually(t, "the log says that it is disabled", func() bool {
		return strings.Contains(r.Output(), "runner edge-1 is disabled: it gets no Jobs until `legwork runner enable edge-1`")
	})
	s.Do("runner", "enable", "edge-1")
	harness.Eventually(t, "the log says that it is enabled", func() bool { return strings.Contains(r.Output(), "runner edge-1 is enabled again") })
}
