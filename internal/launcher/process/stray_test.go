//go:build linux

package process

import (
	"errors"
	"os"
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
	locks := "1: FLOCK  ADVISORY  WRITE 811 08:02:1234 0 EOF\n2: POSIX  ADVISORY  WRITE 812 08:01:1234 0 EOF\n" +
		"2: -> FLOCK  ADVISORY  WRITE 813 08:01:1234 0 EOF\n3: FLOCK  ADVISORY  WRITE 814 08:01:1234 0 EOF\n"
	for file, want := range map[string]int{"08:01:1234": 814, "08:02:1234": 811, "08:03:1234": 0, "1:1234": 0} {
		if got := lockHolder(locks, file); got != want {
			t.Errorf("holder of %s: got %d, want %d", file, got, want)
		}
	}
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
}
