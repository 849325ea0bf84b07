package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// ErrTooMuch says that a captured program printed more than its limit.
var ErrTooMuch = errors.New("the program printed more than its limit")

// graceOfCapture is how long a captured program's pipes may stay open after its end.
const graceOfCapture = 2 * time.Second

// CaptureError is a captured program that ended badly. Its text names the program and the exit code alone;
// Stderr, its last lines, may hold anything and is for the host's own log, once who ran the program has masked it.
type CaptureError struct {
	Program string
	Code    int // -1 when it died by a signal
	Stderr  string
}

// Error names the program and how it ended.
func (e *CaptureError) Error() string {
	return fmt.Sprintf("%s ended with exit status %d", e.Program, e.Code)
}

// Capture runs a short program, which changes nothing, in a process group of its own and hands its standard
// output to read as it comes; what read leaves is thrown away. The group is killed when ctx ends or
// read fails. After limit bytes the reader gets ErrTooMuch.
func Capture(ctx context.Context, argv, env []string, dir string, limit int64, read func(io.Reader) error) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(running, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = env, dir, graceOfCapture
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	said := &tail{limit: 4 << 10}
	cmd.Stderr = said
	stdout, printed := io.Pipe()
	cmd.Stdout = printed
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", argv[0], err)
	}
	reading := make(chan error, 1)
	go func() {
		err := read(&bounded{from: stdout, left: limit})
		if err != nil {
			stop()
		}
		_, _ = io.Copy(io.Discard, stdout) // the program must be able to print all it has
		reading <- err
	}()
	waitErr := cmd.Wait()
	_ = printed.Close()
	return howItEnded(ctx, waitErr, <-reading, argv, said)
}

// howItEnded prefers the cause over its effect: a program that failed prints nothing that could be read.
func howItEnded(ctx context.Context, waitErr, readErr error, argv []string, said *tail) error {
	var exit *exec.ExitError
	ended := errors.As(waitErr, &exit)
	switch {
	case errors.Is(readErr, ErrTooMuch):
		return readErr
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case ended && (exit.ExitCode() >= 0 || readErr == nil):
		return &CaptureError{Program: argv[0], Code: exit.ExitCode(), Stderr: strings.TrimSpace(said.String())}
	case readErr != nil:
		return readErr
	case waitErr != nil:
		return fmt.Errorf("wait for %s: %w", argv[0], waitErr)
	}
	return nil
}

// bounded reads at most left bytes and then fails with ErrTooMuch, unlike io.LimitReader, which
// would make a cut text look like a whole one.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		if n, err := b.from.Read(make([]byte, 1)); n == 0 {
			return 0, err
		}
		return 0, ErrTooMuch
	}
	p = p[:min(int64(len(p)), b.left)]
	n, err := b.from.Read(p)
	b.left -= int64(n)
	return n, err
}

// tail keeps the last bytes written to it.
type tail struct {
	limit int
	buf   bytes.Buffer
	cut   bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf.Write(p)
	if over := t.buf.Len() - t.limit; over > 0 {
		t.buf.Next(over)
		t.cut = true
	}
	return len(p), nil
}

// String gives whole lines: half a secret could not be masked.
func (t *tail) String() string {
	text := t.buf.String()
	if t.cut {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}
