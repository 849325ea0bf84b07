package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pipe is the read end of a command's output.
type pipe struct{ *os.File }

// newPipe makes a pipe whose ends no child inherits; only its read end is non-blocking.
func newPipe() (*pipe, *os.File, error) {
	var ends [2]int
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := unix.Pipe(ends[:]); err != nil {
		return nil, nil, fmt.Errorf("making a pipe: %w", err)
	}
	unix.CloseOnExec(ends[0])
	unix.CloseOnExec(ends[1])
	if err := unix.SetNonblock(ends[0], true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("making a pipe: %w", err), unix.Close(ends[0]), unix.Close(ends[1]))
	}
	return &pipe{os.NewFile(uintptr(ends[0]), "output")}, os.NewFile(uintptr(ends[1]), "output"), nil
}

// tryRead is Read without waiting: unix.EAGAIN when nothing is there.
func (p *pipe) tryRead(buf []byte) (n int, err error) {
	raw, err := p.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlErr := raw.Control(func(fd uintptr) { n, err = unix.Read(int(fd), buf) })
	if n == 0 && err == nil && controlErr == nil {
		return 0, io.EOF
	}
	return max(n, 0), errors.Join(err, controlErr)
}
