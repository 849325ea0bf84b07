package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

type lockMode int

const (
	shared    lockMode = unix.LOCK_SH
	exclusive lockMode = unix.LOCK_EX
)

// The pauses between two tries to get a lock.
const (
	firstPause = 2 * time.Millisecond
	longPause  = 100 * time.Millisecond
)

// fileLock is a lock between goroutines and processes. The system lets it go when the last
// process that has the file open has ended.
type fileLock struct{ file *os.File }

// acquire takes the lock at path, or gives up with ctx.
func acquire(ctx context.Context, path string, mode lockMode) (*fileLock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open a lock: %w", err)
	}
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		err := unix.Flock(int(file.Fd()), int(mode)|unix.LOCK_NB)
		if err == nil {
			return &fileLock{file}, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = file.Close()
			return nil, fmt.Errorf("take a lock: %w", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			_ = file.Close()
			return nil, context.Cause(ctx)
		}
	}
}

func (l *fileLock) release() { _ = l.file.Close() }

// noRoom tells whether a disk has less room than a source may need.
func noRoom(dir string, bytes int64) bool {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return false
	}
	free := disk.Bavail * uint64(disk.Bsize) //nolint:gosec,unconvert // a block has no negative size
	return free < uint64(bytes) || disk.Files > 0 && disk.Ffree == 0
}

func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
