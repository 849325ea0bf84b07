package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pipe is the read end of a command's output.
//
// Go's own poller is woken by every write into a pipe, also while nobody waits to read from it; for
// a program that writes each line by itself that costs more than all the rest. So the pipe stands in
// an epoll set of its own, its gate, which passes on one event and then is silent until it is asked
// again. Go's poller waits for the gate.
type pipe struct {
	fd   int // non-blocking
	gate *os.File
	raw  syscall.RawConn
}

// newPipe makes a pipe whose ends no child inherits; only its read end is non-blocking.
func newPipe() (*pipe, *os.File, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("making a pipe: %w", err)
	}
	p, err := openPipe(ends[0])
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("making a pipe: %w", err), unix.Close(ends[0]), unix.Close(ends[1]))
	}
	return p, os.NewFile(uintptr(ends[1]), "output"), nil
}

func openPipe(fd int) (*pipe, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	// More room, so that a command that prints a lot seldom waits for the keeper. It may be refused.
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeSize)
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	none := unix.EpollEvent{Events: unix.EPOLLONESHOT}
	if err := errors.Join(unix.SetNonblock(set, true), unix.EpollCtl(set, unix.EPOLL_CTL_ADD, fd, &none)); err != nil {
		return nil, errors.Join(err, unix.Close(set))
	}
	gate := os.NewFile(uintptr(set), "gate")
	raw, err := gate.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, gate.Close())
	}
	return &pipe{fd: fd, gate: gate, raw: raw}, nil
}

// Read returns what is in the pipe, and waits for something to be there until the deadline:
// os.ErrDeadlineExceeded. What is there is returned after the deadline, too.
func (p *pipe) Read(buf []byte) (int, error) {
	for {
		n, err := p.tryRead(buf)
		if !errors.Is(err, unix.EAGAIN) {
			return n, err
		}
		if err := p.wait(); err != nil {
			return 0, err
		}
	}
}

// tryRead is Read without waiting: unix.EAGAIN when nothing is there.
func (p *pipe) tryRead(buf []byte) (int, error) {
	for {
		n, err := unix.Read(p.fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// wait opens the gate and waits for it.
func (p *pipe) wait() error {
	opened := false
	var ctlErr error
	err := p.raw.Read(func(set uintptr) bool {
		if !opened {
			once := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT}
			ctlErr, opened = unix.EpollCtl(int(set), unix.EPOLL_CTL_MOD, p.fd, &once), true
		}
		var event [1]unix.EpollEvent
		n, err := unix.EpollWait(int(set), event[:], 0)
		return n > 0 || ctlErr != nil || (err != nil && !errors.Is(err, unix.EINTR))
	})
	return errors.Join(err, ctlErr)
}

// SetReadDeadline limits the waiting of Read, also of one that waits now; the zero time is never.
func (p *pipe) SetReadDeadline(at time.Time) error { return p.gate.SetReadDeadline(at) }

// Close closes the pipe. Nothing may use it any more.
func (p *pipe) Close() error { return errors.Join(p.gate.Close(), unix.Close(p.fd)) }
