//go:build unix

package boot

import (
	"os"
	"syscall"
)

// folderNumber returns the number of a folder in its file system, which a copy of the folder does not have.
func folderNumber(dir string) uint64 {
	info, err := os.Stat(dir)
	if err != nil {
		return 0
	}
	if status, ok := info.Sys().(*syscall.Stat_t); ok {
		return status.Ino
	}
	return 0
}
