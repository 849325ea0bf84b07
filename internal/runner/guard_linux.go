package runner

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// canReplace tells whether the file of a program that runs can be replaced here, and the process go on as it.
const canReplace = true

// besideAttr starts a program in a process group of its own, so that a signal from a terminal is this process's alone. It dies with the
// thread that started it: the caller keeps to that.
func besideAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// endBeside kills a program that was started with besideAttr, and what it started itself.
func endBeside(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// awaitEnd waits until a child has ended, and leaves it to be waited for.
func awaitEnd(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}
