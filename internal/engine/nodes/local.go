package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/remote"
)

// pipeGrace is for a pipe that a process outside the group holds open.
const pipeGrace = time.Second

// host runs commands on this host, each in a process group of its own.
type host struct {
	dir     string   // working directory
	scratch string   // for scripts
	environ []string // what commands inherit
	graces  graces
	sudoer  sudoer
	killed  chan struct{} // closed: no grace
}

// sudoer says as whom and how commands become another user.
type sudoer struct{ user, password string }

// other tells whether that user cannot read what is readable to its owner alone.
func (s sudoer) other() bool { return s.user != "" && s.user != "root" }

// Run performs a Command here. Its error is a fault.
func (h *host) Run(ctx context.Context, c Command) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	if c.Sudo && !h.sudoer.isSelf() {
		return h.runAs(ctx, c)
	}
	dir, err := os.MkdirTemp(h.scratch, "step")
	if err != nil {
		return Result{}, fmt.Errorf("making a folder for a script: %w", err)
	}
	defer os.RemoveAll(dir)
	cmd, output, err := h.prepare(dir, c)
	if err != nil {
		return Result{}, err
	}
	result, err := h.start(ctx, cmd, c)
	if err == nil && c.WantOutput {
		result.Output, err = readOutput(output)
	}
	return result, err
}

// Put makes a file in the scratch folder, or where the other user can reach it.
func (h *host) Put(ctx context.Context, name string, contents []byte, sudo bool) (string, error) {
	if sudo && h.sudoer.other() && !h.sudoer.isSelf() {
		return putAs(ctx, h, name, contents)
	}
	file, err := os.CreateTemp(h.scratch, name+"-*")
	if err != nil {
		return "", fmt.Errorf("making the file of an option: %w", err)
	}
	_, err = file.Write(contents)
	return file.Name(), errors.Join(err, file.Close())
}

// Remove removes it.
func (h *host) Remove(ctx context.Context, path string, sudo bool) error {
	if sudo && h.sudoer.other() && !h.sudoer.isSelf() {
		return removeAs(ctx, h, path, true)
	}
	return os.Remove(path)
}

// prepare writes the script and makes the command line, in which nothing stands that was declared but the arguments.
func (h *host) prepare(dir string, c Command) (cmd *exec.Cmd, output string, err error) {
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, c.Script, 0o600); err != nil {
		return nil, "", fmt.Errorf("writing a script: %w", err)
	}
	argv, own, err := h.words(c, script)
	if err != nil {
		return nil, "", err
	}
	if c.WantOutput {
		output = filepath.Join(dir, "output")
		if err := os.WriteFile(output, nil, 0o600); err != nil {
			return nil, "", fmt.Errorf("making a file for what a step passes on: %w", err)
		}
		own = append(own, "LEGWORK_OUTPUT="+output)
	}
	return &exec.Cmd{Path: argv[0], Args: argv, Dir: h.dir, Env: append(slices.Clip(h.environ), own...)}, output, nil
}

// words gives the argument vector of a Command whose script is in a file, and what its environment has of its own.
func (h *host) words(c Command, script string) (argv, own []string, err error) {
	interpreter := c.Interpreter
	if len(interpreter) == 0 {
		interpreter = []string{"/bin/sh"}
	}
	program, err := exec.LookPath(interpreter[0])
	if err != nil || !filepath.IsAbs(program) {
		return nil, nil, fault.New(fault.NotFound, "interpreter_missing", "there is no %.100q on this host", interpreter[0]).
			WithHint("install it on the Runner's host, or give the step another interpreter")
	}
	argv = append(append(append([]string{program}, interpreter[1:]...), script), c.Args...)
	for name, value := range c.Env {
		if strings.IndexByte(value, 0) >= 0 {
			return nil, nil, fault.New(fault.Invalid, "command_invalid", "the value of %.100q has a NUL byte", name)
		}
		own = append(own, name+"="+value)
	}
	slices.Sort(own)
	return argv, append(own, "LEGWORK_JOB_DIR="+h.dir), nil
}

// start runs a command to its end. What is left of its process group then is ended, too.
func (h *host) start(ctx context.Context, cmd *exec.Cmd, c Command) (Result, error) {
	group(cmd)
	var carriers sync.WaitGroup
	var pipes []*os.File
	stdout, err := carry(&carriers, &pipes, c.Stdout)
	if err != nil {
		return Result{}, err
	}
	stderr, err := carry(&carriers, &pipes, c.Stderr)
	if err != nil {
		return Result{}, errors.Join(err, stdout.Close())
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err = cmd.Start()
	_ = errors.Join(stdout.Close(), stderr.Close())
	if err != nil {
		carriers.Wait()
		return Result{}, fault.New(fault.Failed, "start_failed", "the command cannot be started on this host: %v", err).
			WithHint("look at the Runner's host: the program, its rights, free memory and space")
	}
	over := make(chan struct{})
	climbing := make(chan struct{})
	go func() {
		defer close(climbing)
		h.climb(ctx, cmd.Process.Pid, over)
	}()
	err = cmd.Wait()
	close(over)
	<-climbing
	endGroup(cmd.Process.Pid)
	for _, pipe := range pipes {
		_ = pipe.SetReadDeadline(time.Now().Add(pipeGrace))
	}
	carriers.Wait()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		return Result{Began: true, ExitCode: -1}, fmt.Errorf("waiting for a command: %w", err)
	}
	return ended(cmd.ProcessState), nil
}

// carry makes a pipe whose contents go to w, and gives its other end.
func carry(carriers *sync.WaitGroup, pipes *[]*os.File, w io.Writer) (*os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	if w == nil {
		w = io.Discard
	}
	*pipes = append(*pipes, read)
	carriers.Go(func() {
		defer read.Close()
		buf := make([]byte, maxPiece)
		_, _ = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{read}, buf)
	})
	return write, nil
}

// climb ends a command by the ladder of signals once ctx ends, or at once when all is killed.
func (h *host) climb(ctx context.Context, pid int, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-h.killed:
		signalGroup(pid, kill)
		return
	case <-ctx.Done():
	}
	for _, rung := range []struct {
		signal groupSignal
		wait   time.Duration
	}{{interrupt, h.graces.interrupt}, {terminate, h.graces.terminate}, {kill, 0}} {
		signalGroup(pid, rung.signal)
		timer := time.NewTimer(rung.wait)
		select {
		case <-timer.C:
		case <-over:
			timer.Stop()
			return
		case <-h.killed:
			timer.Stop()
			signalGroup(pid, kill)
			return
		}
	}
}

// readOutput reads what a step passes on.
func readOutput(path string) (map[string]string, error) {
	file, err := engine.OpenJobFile(filepath.Dir(path), filepath.Base(path), 2*remote.MaxOutput)
	if err != nil {
		return nil, outputUnreadable(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, remote.MaxOutput+1))
	if err != nil {
		return nil, outputUnreadable(err)
	}
	return remote.ParseOutput(string(data))
}

func outputUnreadable(err error) error {
	return fault.New(fault.Invalid, "output_invalid", "what the step wrote to $LEGWORK_OUTPUT cannot be read").
		WithHint("write to the file, and do not replace it by something else").WithCause(err)
}
