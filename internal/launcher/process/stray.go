//go:build linux || darwin

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"legwork/internal/launcher"
	"legwork/internal/process"
	"legwork/internal/work"
)

// workVariable is the setting in which a process is told its working directory: nothing else on this host has the same.
const workVariable = "LEGWORK_WORKINGDIRECTORY__WORKINGDIRECTORY"

// strayIn gives the unit of a folder whose record tells nothing, with the process that works there. Nobody can tell whether it is to be
// there: it is ended, and its folder goes.
func strayIn(dir, owner string) (*unit, error) {
	u := &unit{Unit: filepath.Base(dir), Owner: owner, dir: dir, stray: true}
	var err error
	u.Process, err = processOf(filepath.Join(dir, workFolder))
	return u, err
}

// processOf finds the process that was told a working directory. Only Linux shows what a process was told: elsewhere none is found, and one
// that is there ends once the Server has it drain.
func processOf(dir string) (process.Identity, error) {
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return process.Identity{}, fmt.Errorf("list processes: %w", err)
	}
	told := []byte(workVariable + "=" + dir + "\x00")
	for _, entry := range entries {
		text, err := os.ReadFile(entry)
		if err != nil || !bytes.Contains(append([]byte{0}, text...), append([]byte{0}, told...)) {
			continue // another user's, ended, or another's
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(entry)))
		if err != nil {
			return process.Identity{}, fmt.Errorf("list processes: %w", err)
		}
		found, err := process.Identify(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return found, err
	}
	return lockerOf(filepath.Join(dir, runnerLock))
}

// runnerLock is the file that a Runner locks in its working directory.
const runnerLock = "runner.lock"

// lockerOf finds the process that holds the lock of a file. It finds a Runner of the same user, which hides its environment from others.
func lockerOf(path string) (process.Identity, error) {
	var info unix.Stat_t
	if unix.Stat(path, &info) != nil {
		return process.Identity{}, nil
	}
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return process.Identity{}, nil
	}
	pid := lockHolder(string(text), lockedFile(info))
	if pid == 0 {
		return process.Identity{}, nil
	}
	found, err := process.Identify(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return process.Identity{}, nil
	}
	return found, err
}

// lockHolder returns the process that /proc/locks names as the holder of the lock of a file; 0 if there is none.
func lockHolder(locks, file string) int {
	for line := range strings.Lines(locks) { // 1: FLOCK  ADVISORY  WRITE 812 08:01:1234 0 EOF
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[1] != "FLOCK" || fields[5] != file {
			continue
		}
		if pid, err := strconv.Atoi(fields[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}

// lockedFile returns how /proc/locks names a file: by its device and its inode. Files of other devices have the same
// inodes.
func lockedFile(info unix.Stat_t) string {
	device := uint64(info.Dev) //nolint:unconvert // int32 on Darwin
	return fmt.Sprintf("%02x:%02x:%d", unix.Major(device), unix.Minor(device), info.Ino)
}

// dropStrays ends strays and deletes their folders, except folders with work of an open Job. It returns the other
// units.
func (l *Launcher) dropStrays(ctx context.Context, task *work.RunnerTask, units []*unit) (others []*unit, err error) {
	var strays []*unit
	for _, u := range units {
		if u.stray && (!u.unreported() || launcher.Forgotten(task, u.Unit)) {
			strays = append(strays, u)
		} else {
			others = append(others, u)
		}
	}
	if len(strays) == 0 {
		return others, nil
	}
	if err := l.end(ctx, strays); err != nil {
		return nil, err
	}
	for _, u := range strays {
		l.host.Say("the record of " + u.Unit + " could not be read: what it had started is ended, and its folder removed")
		if err := l.remove(u.dir); err != nil {
			return nil, err
		}
	}
	return others, nil
}
