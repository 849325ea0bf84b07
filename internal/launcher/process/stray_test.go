//go:build linux

package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"legwork/internal/work"
)

// A record that tells nothing, as a host without power leaves it, is no obstacle: what it was of is ended, and its folder goes.
func TestRecordThatTellsNothing(t *testing.T) {
	for name, record := range map[string]string{"empty": "", "cut off": `{"unit":"cloud-0000`, "of nothing": "{}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			both := p.bench().Task("owner", "cloud", "cloud-00000001", "cloud-00000002")
			spoil := func(unit string) string {
				t.Helper()
				dir := filepath.Join(p.open(t).folder(both), unit)
				if err := os.WriteFile(filepath.Join(dir, recordFile), []byte(record), 0o600); err != nil {
					t.Fatal(err)
				}
				return dir
			}
			if _, err := p.open(t).Ensure(t.Context(), both); err != nil {
				t.Fatal(err)
			}
			dir := spoil("cloud-00000001")
			if _, err := readUnit(dir); !errors.Is(err, errRecord) {
				t.Fatalf("the record is read: %v", err)
			}
			reports, err := p.open(t).List(t.Context(), both)
			if err != nil || len(reports) != 1 || reports[0].Name != "cloud-00000002" || reports[0].State != work.UnitRunning {
				t.Fatalf("%+v, %v", reports, err)
			}
			if left := p.processes(t); len(left) != 1 || len(left["cloud-00000002"]) != 1 {
				t.Fatalf("there are %v", left)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Fatalf("its folder is there: %v", err)
			}
			spoil("cloud-00000002")
			if err := p.open(t).Remove(t.Context(), both); err != nil {
				t.Fatal(err)
			}
			if left := p.processes(t); len(left) > 0 {
				t.Fatalf("%v are left", left)
			}
		})
	}
}

// TestLockHolder finds the process that holds a lock, and never that of a file with the same inode on another device.
func TestLockHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), runnerLock)
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if found, err := lockerOf(path); err != nil || found.Pid != os.Getpid() {
		t.Errorf("holder of a lock of this process: got %+v, %v, want %d", found, err, os.Getpid())
	}
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	line := func(kind string, pid int, device string) string {
		return fmt.Sprintf("1: %s  ADVISORY  WRITE %d %s:%s 0 EOF\n", kind, pid, device, inodeOf(info))
	}
	stranger := exec.Command("sleep", "1000")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(stranger.Process.Kill(), stranger.Wait()) })
	device, other := deviceOf(info), "ff:ff"
	for name, c := range map[string]struct {
		locks string
		want  int
	}{
		"device as stat shows it":   {line("FLOCK", os.Getpid(), device), os.Getpid()},
		"other device, as on btrfs": {line("FLOCK", os.Getpid(), other), os.Getpid()},
		"stranger with the inode":   {line("FLOCK", stranger.Process.Pid, other), 0},
		"stranger first":            {line("FLOCK", stranger.Process.Pid, other) + line("FLOCK", os.Getpid(), other), os.Getpid()},
		"waits for the lock":        {"1: -> " + line("FLOCK", os.Getpid(), device)[3:], 0},
		"lock of another kind":      {line("POSIX", os.Getpid(), device), 0},
		"process that has ended":    {line("FLOCK", 1<<30, device), 0},
		"file with a longer inode":  {"1: FLOCK ADVISORY WRITE 1 08:01:9" + inodeOf(info) + " 0 EOF\n", 0},
		"nothing":                   {"", 0},
	} {
		if got, err := lockHolder(c.locks, path); err != nil || got != c.want {
			t.Errorf("%s: got %d, %v, want %d", name, got, err, c.want)
		}
	}
	if !locked(path) {
		t.Error("the lock counts as free, want it held")
	}
}
