package runner

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// canReplace tells whether the file of a program that runs can be replaced here, and the process go on as it.
const canReplace = true

// besideAttr starts a program in a process group of its own, so that a signal from a terminal is this process's alone.
func besideAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// endBeside kills a program that was started with besideAttr, and what it started itself.
func endBeside(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// awaitEnd waits until a child has ended, and leaves it to be waited for.
func awaitEnd(pid int) {
	queue, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer unix.Close(queue)
	change := unix.Kevent_t{Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT, Fflags: unix.NOTE_EXIT}
	for {
		n, err := unix.Kevent(queue, []unix.Kevent_t{change}, make([]unix.Kevent_t, 1), nil)
		if err != unix.EINTR || n > 0 {
			return
		}
	}
}
