//go:build !linux

package runner

import (
	"os"
	"syscall"
)

// identifyLock returns the identity of an open file. The time of birth is read on Linux only.
func identifyLock(file *os.File) (f lockIdentity, err error) {
	info, err := file.Stat()
	if err != nil {
		return f, err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		f.inode = stat.Ino
	}
	return f, nil
}
