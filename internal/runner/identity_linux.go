package runner

import (
	"os"

	"golang.org/x/sys/unix"
)

// identifyLock returns the identity of an open file.
func identifyLock(file *os.File) (f lockIdentity, err error) {
	var stat unix.Statx_t
	err = unix.Statx(int(file.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &stat)
	if err != nil {
		return f, err
	}
	f.inode = stat.Ino
	if stat.Mask&unix.STATX_BTIME != 0 {
		f.birth = stat.Btime.Sec*1e9 + int64(stat.Btime.Nsec)
	}
	return f, nil
}
