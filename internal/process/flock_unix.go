//go:build linux || darwin

package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// Lock takes an exclusive lock that ends with the process, without waiting for it.
func Lock(file *os.File) error {
	return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}
