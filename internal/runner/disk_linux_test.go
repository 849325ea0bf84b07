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
	disk := filepath.Join(cfg.WorkingDirectory, "jobs")
	if err := os.MkdirAll(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m,mode=700"); err != nil {
		t.Skip("cannot mount a small disk:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
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
