package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB of sys/proc.h

func fromKinfo(k *unix.KinfoProc) member {
	return member{
		pid:   int(k.Proc.P_pid),
		group: int(k.Eproc.Pgid),
		birth: uint64(k.Proc.P_starttime.Nano()),
		dead:  k.Proc.P_stat == zombie,
	}
}

// stat reads what the kernel tells about one process.
func stat(pid int) (member, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return member{}, fmt.Errorf("reading process %d: %w", pid, err)
	}
	return withSession(fromKinfo(k)), nil
}

func withSession(m member) member {
	if session, err := unix.Getsid(m.pid); err == nil {
		m.session = session
	}
	return m
}

// groupMembers lists the living members of a process group.
func groupMembers(group int) ([]member, error) {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", group)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var found []member
	for i := range all {
		if m := fromKinfo(&all[i]); !m.dead {
			found = append(found, withSession(m))
		}
	}
	return found, nil
}

// marked cannot be told here: the environment of a process is not readable.
func marked(string) ([]member, error) { return nil, nil }

// catchesInterrupt is not told here.
func catchesInterrupt(int) bool { return false }

// bootID identifies this run of the kernel by the second it began.
func bootID() string {
	at, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return ""
	}
	return strconv.FormatInt(at.Sec, 10)
}

// awaitExit waits for a child to end and leaves it to be reaped, so that its number stays taken.
func awaitExit(pid int) error {
	const pPid, wExited, wNoWait = 1, 0x4, 0x20
	var info [128]byte
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPid, uintptr(pid), uintptr(unsafe.Pointer(&info)), wExited|wNoWait, 0, 0)
		if errno == 0 {
			return nil
		}
		if errno != syscall.EINTR {
			return errno
		}
	}
}

// peerUser returns the user at the other end of a socket.
func peerUser(fd int) (int, error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(cred.Uid), nil
}

// socketDir gives a path to the folder dir that is short enough for a socket's address.
func socketDir(dir string) (path string, done func(), err error) {
	temp, err := os.MkdirTemp("/tmp", "lw")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(temp, "d")
	if err := os.Symlink(dir, path); err != nil {
		return "", nil, errors.Join(err, os.Remove(temp))
	}
	return path, func() { _ = os.RemoveAll(temp) }, nil
}
