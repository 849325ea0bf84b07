//go:build unix && !solaris && !illumos && !aix

package remote

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock waits for an exclusive lock on a file, which ends when it is closed.
func lock(file *os.File) error {
	for {
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}
