//go:build linux || darwin

package process

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FreeSpace returns how many bytes this process may still write to the disk of a folder; 0 where no further file
// can be created.
func FreeSpace(dir string) (int64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, fmt.Errorf("look at the free space of %s: %w", dir, err)
	}
	if disk.Files > 0 && disk.Ffree == 0 {
		return 0, nil
	}
	return int64(disk.Bavail) * int64(disk.Bsize), nil //nolint:gosec,unconvert // the types differ between systems
}

// flush writes output to the spool. While the command runs, it leaves Spec.ReserveBytes of the disk to the command.
func (c *command) flush() error {
	if c.spec.ReserveBytes > 0 && !c.programEnded() {
		free, err := FreeSpace(filepath.Dir(c.spec.Spool))
		if err == nil && free < c.spec.ReserveBytes {
			return fmt.Errorf("writing spool: %w", unix.ENOSPC)
		}
	}
	return c.spool.Flush()
}

func (c *command) programEnded() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}
