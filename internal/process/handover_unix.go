//go:build linux || darwin

package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// handOver lets a command read entries of its environment from a socket that it inherits. Unlike a pipe or a file in
// memory, a socket cannot be opened through /proc by another process. The caller starts the command and then calls
// the function returned.
func handOver(cmd *exec.Cmd, entries []string) (started func(), err error) {
	if len(entries) == 0 {
		return func() {}, nil
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("make a socket for secrets: %w", err)
	}
	text := strings.Join(entries, "\x00") + handOverEnd
	cmd.Env = append(cmd.Env, handOverVar+"="+strconv.Itoa(firstExtraFile+len(cmd.ExtraFiles)))
	cmd.ExtraFiles = append(cmd.ExtraFiles, theirs)
	return func() {
		_ = theirs.Close() // the command has its own descriptor; without one, the write below fails
		go func() {
			defer ours.Close()
			_, _ = io.WriteString(ours, text) // a command that ended before does not need it
		}()
	}, nil
}

// socketPair returns two connected sockets, which no other command inherits.
func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	if err := syscall.SetNonblock(fds[0], true); err != nil { // the runtime then waits for it without a thread
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "hand-over"), os.NewFile(uintptr(fds[1]), "hand-over"), nil
}
