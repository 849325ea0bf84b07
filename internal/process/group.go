//go:build linux || darwin

package process

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// pipeSize is the room asked for in a command's output pipes, in bytes.
const pipeSize = 256 << 10

// member is a process as the kernel tells of it.
type member struct {
	pid, group, session int
	birth               uint64 // when it started, in the kernel's own unit
	dead                bool   // it ended and was not reaped
}

// signalGroup sends a signal to all members of a process group. One that is gone is no error.
func signalGroup(group int, signal syscall.Signal) error {
	if group <= 1 {
		return fmt.Errorf("signalling process group %d: not one of ours", group)
	}
	err := unix.Kill(-group, signal)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signalling process group %d: %w", group, err)
	}
	if signal == unix.SIGINT || signal == unix.SIGTERM {
		_ = unix.Kill(-group, unix.SIGCONT) // one that was stopped could not act on it
	}
	return nil
}

// groupGone tells at the price of one call that nothing at all is left of a process group. Zombies
// that nobody reaps count as left.
func groupGone(group int) bool { return errors.Is(unix.Kill(-group, 0), unix.ESRCH) }
