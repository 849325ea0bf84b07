//go:build soak && linux

package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk gives a folder on a disk of its own, which resize fills; empty where none can be mounted.
func smallDisk(t *testing.T) string {
	t.Helper()
	disk := t.TempDir()
	if os.Geteuid() != 0 || unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1g,mode=700") != nil {
		t.Log("no disk can be mounted: it is never full")
		return ""
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	return filepath.Join(disk, "data")
}

// resize leaves the disk of a folder room, or none. It gives false when more was written meanwhile than was left.
func resize(t *testing.T, data string, room bool) bool {
	t.Helper()
	disk := filepath.Dir(data)
	size := "1g"
	if !room {
		var s unix.Statfs_t
		if err := unix.Statfs(disk, &s); err != nil {
			t.Fatal(err)
		}
		size = fmt.Sprint((s.Blocks - s.Bfree + 16) * uint64(s.Bsize))
	}
	err := unix.Mount("", disk, "", unix.MS_REMOUNT, "size="+size+",mode=700")
	if err != nil && room {
		t.Fatal(err)
	}
	return err == nil
}
