package runner

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"legwork/internal/wire"
	"legwork/internal/work"
)

// TestFullDiskIsSaid: a command that waits for room on the disk is named in the log and in every Heartbeat, also by the
// next Runner of the working directory.
func TestFullDiskIsSaid(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	s := newServer(t)
	cfg := testConfig(t, s)
	var log syncBuffer
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	disk := smallDisk(t, cfg, "1m")
	r := start(t, cfg)
	job := ref("job-1", 1)
	s.begin(job, scriptSpec("seq 1 200000", false), 1)
	blocked := func() string {
		if last := len(s.beats) - 1; last >= 0 && len(s.beats[last].Blocked) == 1 && s.beats[last].Blocked[0].Ref == job {
			return s.beats[last].Blocked[0].Reason
		}
		return ""
	}
	s.wait("the Server hears of it", func() bool { return strings.Contains(blocked(), "full") })
	eventually(t, "the log says it", func() bool { return strings.Contains(log.String(), "output of a Step cannot be written") })
	if n := strings.Count(log.String(), "level=WARN msg=\"output of a Step cannot be written"); n != 1 || !strings.Contains(log.String(), cfg.WorkingDirectory) {
		t.Errorf("it is said %d times: %s", n, log.String())
	}
	r.leave(t)
	s.mu.Lock()
	s.beats = nil
	s.mu.Unlock()
	start(t, cfg)
	s.wait("the next Runner says it, too", func() bool { return strings.Contains(blocked(), "full") })
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	if got := s.result(job, 1); got.Status != work.StepSucceeded {
		t.Fatalf("got %+v %+v", got, got.Failure)
	}
	s.wait("that it goes on", func() bool { return blocked() == "" })
	eventually(t, "the log says that it goes on", func() bool { return strings.Contains(log.String(), "output of a Step can be written again") })
	if text := s.text(job, 1, work.Stdout); strings.Count(text, "\n") != 200000 {
		t.Errorf("%d lines", strings.Count(text, "\n"))
	}
}

// TestTornLogIsSaid: what a crash of the host left torn at the end of a log is cut off, and the log says so.
func TestTornLogIsSaid(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	mark := filepath.Join(t.TempDir(), "mark")
	job := ref("job-1", 1)
	r := start(t, cfg)
	s.begin(job, scriptSpec(fmt.Sprintf("echo before; touch %[1]s; until test -e %[1]s.go; do sleep 0.02; done", mark), true), 1)
	s.sees(job, 1, "before")
	r.leave(t)
	if err := os.WriteFile(mark+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	spools, err := filepath.Glob(filepath.Join(cfg.WorkingDirectory, "jobs", "*", "*.spool"))
	if err != nil || len(spools) == 0 {
		t.Fatal("no spool", err)
	}
	spool := spools[len(spools)-1]
	eventually(t, "the command has ended", func() bool {
		exits, _ := filepath.Glob(strings.TrimSuffix(spool, ".spool") + ".main.exit")
		return len(exits) == 1
	})
	file, err := os.OpenFile(spool, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(bytes.Repeat([]byte{7}, 100)); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
	if got := s.result(job, 1); got.Status != work.StepSucceeded {
		t.Fatalf("got %+v %+v", got, got.Failure)
	}
	if text := s.text(job, 1); !strings.Contains(text, "before\n") || !strings.Contains(text, "100 bytes that were damaged are missing") {
		t.Errorf("the log is %q", text)
	}
}

// TestStepsWaitForFreeSpace: with less than MinFree the instance refuses offers with the reason, and the next step of a running
// job does not start. Both continue when there is enough space again.
func TestStepsWaitForFreeSpace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	s := newServer(t)
	mark := filepath.Join(t.TempDir(), "applied")
	e := &fakeEngine{scripts: map[work.StepKind]string{work.StepPlan: "echo plan", work.StepApply: "echo applied; touch " + mark}}
	cfg := fakeConfig(t, s, e)
	cfg.MinFree = 8 << 20
	dir := cfg.WorkingDirectory
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m,mode=700"); err != nil {
		t.Skip("cannot mount a small disk:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { retire(t, dir, cfg.Keeper) })
	if err := os.MkdirAll(cfg.TempDirectory, 0o700); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
	job := ref("job-1", 1)
	s.begin(job, applySpec(), 2)
	s.result(job, 2)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 15<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	s.send(&wire.RunStep{Ref: job, Step: 3, Watch: true})
	const low = "the disk of its working directory has less than 8 MiB free"
	last := func() *wire.Heartbeat {
		if len(s.beats) == 0 {
			return &wire.Heartbeat{}
		}
		return s.beats[len(s.beats)-1]
	}
	s.wait("the server hears why the step has not started", func() bool {
		return len(last().Blocked) == 1 && strings.Contains(last().Blocked[0].Reason, "apply has not started, "+low)
	})
	s.wait("the server hears that no job is taken", func() bool { return last().Unavailable == low })
	other := ref("job-2", 1)
	s.send(&wire.Offer{Ref: other, Engine: "fake"})
	s.wait("an offer is refused with the reason", func() bool {
		for _, m := range s.got {
			if m, ok := m.(*wire.Refuse); ok && m.Ref == other {
				return m.Code == "disk_low" && strings.Contains(m.Message, low)
			}
		}
		return false
	})
	if _, err := os.Stat(mark); err == nil || s.has(job, 3) {
		t.Fatal("got an apply that began without enough free space")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if got := s.result(job, 3); got.Status != work.StepSucceeded {
		t.Fatalf("got %+v %+v, want a step that succeeded", got, got.Failure)
	}
	s.wait("the server hears that jobs are taken again", func() bool { return last().Unavailable == "" && len(last().Blocked) == 0 })
}

// TestWaitingStepCanBeCanceled: a step that waits for free space ends at once when its job is canceled.
func TestWaitingStepCanBeCanceled(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	cfg.MinFree = 1 << 60
	start(t, cfg)
	job := ref("job-1", 1)
	s.begin(job, scriptSpec("echo never", false), 0)
	s.wait("the step waits", func() bool {
		return len(s.beats) > 0 && len(s.beats[len(s.beats)-1].Blocked) == 1
	})
	s.send(&wire.Cancel{Ref: job, Mode: work.Graceful})
	if got := s.result(job, 0); got.Status != work.StepCanceled {
		t.Errorf("got %+v, want a canceled step", got)
	}
}

// TestFullDisk: a step whose journal cannot be written fails with the reason.
func TestFullDisk(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	disk := smallDisk(t, cfg, "4k")
	if err := os.WriteFile(filepath.Join(disk, "full"), make([]byte, 4<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
	job := ref("job-1", 1)
	s.begin(job, scriptSpec("true", false), 0)
	got := s.result(job, 0)
	if got.Status != work.StepFailed || got.Failure.Code != "disk_full" || got.Failure.Hint == "" {
		t.Errorf("got %+v %+v, want disk_full with a hint", got, got.Failure)
	}
}

// smallDisk mounts a file system of a size, as mount(8) writes it, for the folders of the jobs, and returns its path.
// It is unmounted when the test ends.
func smallDisk(t *testing.T, cfg Config, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	disk := filepath.Join(cfg.WorkingDirectory, "jobs")
	if err := os.MkdirAll(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size="+size+",mode=700"); err != nil {
		t.Skip("cannot mount a small disk:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return disk
}
