//go:build unix

package boot

import (
	"math"
	"syscall"
)

// maxOpenFiles returns how many files this process may have open, 0 when that is unknown.
func maxOpenFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), math.MaxInt32))
}
