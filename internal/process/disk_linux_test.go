package process

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// smallDisk mounts a disk of this many bytes.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skip("cannot mount a small disk:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill leaves no room on the disk and returns the file to remove.
func fill(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := io.Copy(file, neverEnding{}); err == nil {
		t.Fatal("the disk has no end")
	}
	return path
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }

func TestSpoolOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, 256<<10)
	path := filepath.Join(dir, "spool")
	s := openSpool(t, path)
	_ = s.Append(work.Stdout, false, []byte("before"), time.Now())
	ballast := fill(t, dir)
	line := strings.Repeat("x", 10_000)
	if err := s.Append(work.Stdout, false, []byte(line), time.Now()); err == nil {
		t.Fatal("written to a full disk")
	}
	if err := s.Close(); err == nil {
		t.Fatal("closed with a record left")
	}
	if got := readAll(t, path); len(got) != 1 {
		t.Fatalf("%d records are read", len(got))
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	_ = s.Append(work.Stdout, false, []byte("after"), time.Now())
	if got := readAll(t, path); len(got) != 3 || string(got[1].Data) != line || string(got[2].Data) != "after" {
		t.Fatalf("%d records are read", len(got))
	}
}

// The disk fills up under a command: it waits, the Runner is told, and when there is room again
// nothing is missing.
func TestCommandOnAFullDisk(t *testing.T) {
	b := newBench(t)
	disk := smallDisk(t, 1<<20)
	spec := shellSpec(b.dir, "flood", `seq 1 200000`)
	spec.Spool, spec.ExitFile = filepath.Join(disk, "spool"), filepath.Join(disk, "exit")
	spec.StallTimeout = 3 * time.Second // must not count what is not its fault
	b.start(spec)
	watch := b.client.Grew(spec.Spool)
	defer watch.Stop()
	b.until("the command is blocked", func() bool { return watch.State().Blocked != "" })
	blocked := time.Now()
	b.until("it is for longer than it may be silent", func() bool { return time.Since(blocked) > spec.StallTimeout+time.Second })
	list, err := b.client.List(b.ctx())
	if err != nil || len(list) != 1 || !strings.Contains(list[0].Blocked, "no space left") {
		t.Fatalf("list is %+v, %v", list, err)
	}
	late := b.client.Grew(spec.Spool) // of somebody who comes when it was told
	if state := late.State(); state.Blocked == "" || state.ID != spec.ID {
		t.Errorf("who looks later sees %+v", state)
	}
	late.Stop()
	if err := b.client.Start(b.ctx(), shellSpec(disk, "second", "true")); fault.Code(err) != codeDiskFull {
		t.Fatalf("starting on a full disk: %v", err)
	}
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	if exit := b.wait(spec); exit.Reason != ReasonExited || exit.NextSeq != 200_001 {
		t.Fatalf("exit is %+v", exit)
	}
	for i, record := range readAll(t, spec.Spool) {
		if string(record.Data) != fmt.Sprint(i+1) {
			t.Fatalf("record %d holds %q", i+1, record.Data)
		}
	}
	b.until("it is not blocked any more", func() bool { return watch.State().Blocked == "" })
}

func TestExitRecordOnAFullDisk(t *testing.T) {
	b := newBench(t)
	disk := smallDisk(t, 256<<10)
	spec := shellSpec(b.dir, "quiet", `until [ -e go ]; do sleep 0.02; done; exit 3`)
	spec.ExitFile = filepath.Join(disk, "exit")
	b.start(spec)
	ballast := fill(t, disk)
	if err := os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.until("the command is blocked", func() bool {
		list, err := b.client.List(b.ctx())
		return err == nil && len(list) == 1 && list[0].Blocked != ""
	})
	if _, ok, err := ReadExit(spec.ExitFile); ok || err != nil {
		t.Fatalf("there is an exit record, %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if exit := b.wait(spec); exit.Code != 3 {
		t.Fatalf("exit is %+v", exit)
	}
}

// TestOutputLeavesTheReserve: output is stored only while more than the reserve is free, so that the command can still write
// its own files. The time for which the command is blocked does not count against its time limit.
func TestOutputLeavesTheReserve(t *testing.T) {
	b := newBench(t)
	disk := smallDisk(t, 2<<20)
	spec := shellSpec(b.dir, "flood", fmt.Sprintf(`seq 1 200000; head -c 400000 /dev/zero >%s/state`, disk))
	spec.Spool, spec.ExitFile = filepath.Join(disk, "spool"), filepath.Join(disk, "exit")
	spec.ReserveBytes, spec.Timeout = 1<<20, 2*time.Second
	b.start(spec)
	watch := b.client.Grew(spec.Spool)
	defer watch.Stop()
	b.until("the command is blocked", func() bool { return watch.State().Blocked != "" })
	blocked := time.Now()
	free, err := FreeSpace(disk)
	if err != nil || free < spec.ReserveBytes/2 {
		t.Errorf("got %d bytes free and %v, want about the reserve of %d", free, err, spec.ReserveBytes)
	}
	b.until("it is blocked for longer than its time limit", func() bool { return time.Since(blocked) > spec.Timeout })
	list, err := b.client.List(b.ctx())
	if err != nil || len(list) != 1 || list[0].Ending != "" {
		t.Fatalf("got %+v and %v, want a command that is not being ended", list, err)
	}
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	if exit := b.wait(spec); exit.Reason != ReasonExited || exit.NextSeq != 200_001 {
		t.Fatalf("got %+v, want a command that exited with every line stored", exit)
	}
}
