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
	"syscall"

	"golang.org/x/sys/unix"

	"legwork/internal/fault"
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
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return process.Identity{}, nil
	}
	pid, err := lockHolder(string(text), path)
	if pid == 0 || err != nil {
		return process.Identity{}, err
	}
	found, err := process.Identify(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return process.Identity{}, nil
	}
	return found, err
}

// lockHolder returns the process that holds the lock of a file; 0 if there is none. /proc/locks names files by device
// and inode, but some file systems show another device there than to stat. So the open files of each process decide.
// Where the kernel hides those, the device does.
func lockHolder(locks, path string) (pid int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, nil //nolint:nilerr // it is not locked
	}
	undecided := false
	for _, entry := range lockEntries(locks, inodeOf(info)) {
		open, known := hasOpen(entry.pid, info)
		if open || !known && entry.device == deviceOf(info) {
			return entry.pid, nil
		}
		undecided = undecided || !known
	}
	if undecided && locked(path) {
		return 0, fault.New(fault.Failed, "launcher_failed", "a process that cannot be identified holds the lock %s", path).
			WithHint("find it on the host with lsof as root, and end it")
	}
	return 0, nil
}

// lockEntry is a process in /proc/locks.
type lockEntry struct {
	pid    int
	device string
}

// lockEntries returns the processes that /proc/locks names as holders of the lock of a file with this inode.
func lockEntries(locks, inode string) (entries []lockEntry) {
	for line := range strings.Lines(locks) { // 1: FLOCK  ADVISORY  WRITE 812 08:01:1234 0 EOF
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[1] != "FLOCK" {
			continue
		}
		device, found := strings.CutSuffix(fields[5], ":"+inode)
		pid, err := strconv.Atoi(fields[4])
		if found && err == nil && pid > 0 {
			entries = append(entries, lockEntry{pid, device})
		}
	}
	return entries
}

// hasOpen reports whether a process has a file open; known is false if the kernel does not say.
func hasOpen(pid int, file os.FileInfo) (open, known bool) {
	folder := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(folder)
	if err != nil {
		return false, errors.Is(err, fs.ErrNotExist) // it has ended
	}
	for _, entry := range entries {
		info, err := os.Stat(filepath.Join(folder, entry.Name()))
		if err == nil && os.SameFile(info, file) {
			return true, true
		}
	}
	return false, true
}

// locked reports whether a process holds the lock of a file.
func locked(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

func inodeOf(info os.FileInfo) string {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return strconv.FormatUint(stat.Ino, 10)
	}
	return ""
}

func deviceOf(info os.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	device := uint64(stat.Dev) //nolint:unconvert // int32 on Darwin
	return fmt.Sprintf("%02x:%02x", unix.Major(device), unix.Minor(device))
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
