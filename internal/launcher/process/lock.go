//go:build linux || darwin

package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile is what of a folder is locked.
const lockFile = "lock"

// lock makes this process the only one that starts and ends processes of a folder. Without making it, a folder that is not there has nothing
// to be locked.
func (l *Launcher) lock(ctx context.Context, dir string, make bool) (unlock func(), err error) {
	return lockFolder(ctx, dir, make, unix.LOCK_EX)
}

// lockFolder locks a folder, with LOCK_SH beside others that do so, with LOCK_EX alone.
func lockFolder(ctx context.Context, dir string, make bool, how int) (unlock func(), err error) {
	for {
		if make {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, unusable(dir, err)
			}
		}
		file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, fs.ErrNotExist) && !make {
			return func() {}, nil
		}
		if err != nil {
			return nil, unusable(dir, err)
		}
		if err := flock(ctx, file, how); err != nil {
			_ = file.Close()
			return nil, err
		}
		if mine, err := file.Stat(); err == nil {
			if there, err := os.Stat(file.Name()); err == nil && os.SameFile(mine, there) {
				return func() { _ = file.Close() }, nil
			}
		}
		_ = file.Close() // it was removed meanwhile
	}
}

// flock takes a lock that the kernel gives up with the process.
func flock(ctx context.Context, file *os.File, how int) error {
	for {
		err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
