//go:build linux || darwin

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// CommandVar is the environment variable that bears a command's ID, so that a process can be traced
// to it even when its keeper was killed before it could write down the process number.
const CommandVar = "LEGWORK_COMMAND"

const (
	retryFirst = 50 * time.Millisecond // waits between tries to write to a full disk
	retryLast  = 2 * time.Second
)

// command is one command under the keeper.
type command struct {
	keeper *keeper
	spec   Spec // Env, HandOver and Secrets are forgotten once it was started

	begun   chan struct{} // closed when begin is over
	failure error         // why it was not started; set before begun
	done    chan struct{} // closed when the exit record is written
	exit    Exit          // set before done

	record *os.File // of the start, until it is complete
	spool  *Spool
	cmd    *exec.Cmd
	pumps  [2]*pump
	stops  chan StopMode
	exited chan struct{} // closed when the program ended, before it is reaped

	slowUntil atomic.Int64 // Unix time in nanoseconds until which a flood of output is read slowly

	ended   chan struct{} // closed when nothing is left of the process group
	pumping sync.WaitGroup

	mu         sync.Mutex
	started    time.Time
	lastOutput time.Time
	ending     string // the reason of an end that has begun
	blocked    string
	blockedAt  time.Time     // since when it is blocked
	waited     time.Duration // how long it was blocked before
	told       int64         // size of the spool that was announced last
}

func newCommand(k *keeper, spec Spec) *command {
	return &command{
		keeper: k, spec: spec,
		begun: make(chan struct{}), done: make(chan struct{}), exited: make(chan struct{}),
		ended: make(chan struct{}), stops: make(chan StopMode, 4),
	}
}

// slowDown makes the pumps read a flood slowly from now on, for slowFor.
func (c *command) slowDown(now time.Time) {
	c.slowUntil.Store(now.Add(slowFor).UnixNano())
}

// over tells whether the exit record is written.
func (c *command) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// begin starts the command unless its exit record is there. An error means that nothing was started
// and that the same Start may be tried again. A program that cannot be executed is no error: its
// exit record says so.
func (c *command) begin() error {
	exit, ran, err := ReadExit(c.spec.ExitFile)
	if err != nil {
		return err
	}
	if ran {
		c.exit = exit
		close(c.done)
		return nil
	}
	if _, err := os.Lstat(c.spec.StartFile); err == nil { // before a torn end of the spool is cut off, which the Runner shall say
		return c.orphaned()
	}
	create := func() (*os.File, error) { return c.keeper.spares.create(c.spec.Spool) }
	if c.spool, err = openSpoolWith(c.spec.Spool, create); err != nil {
		return asDiskFault(err)
	}
	if err := c.claim(); err != nil {
		_ = c.spool.abandon()
		return err
	}
	err = c.launch()
	_ = c.record.Close() // what was written is judged by writing
	if err != nil {
		c.exit = Exit{Code: -1, Reason: ReasonStartFailed, Message: err.Error(), Started: c.started, Finished: time.Now()}
		c.conclude()
		return nil
	}
	go c.supervise()
	return nil
}

// claim writes the start record. One that is there already belongs to a command whose keeper was
// killed, and which may still run: starting it a second time is not for the keeper to decide.
func (c *command) claim() error {
	c.started = time.Now()
	c.lastOutput = c.started
	var err error
	c.record, err = claimStart(c.spec.StartFile, c.startRecord(), c.keeper.spares.create)
	if errors.Is(err, fs.ErrExist) {
		return c.orphaned()
	}
	return asDiskFault(err)
}

func (c *command) orphaned() error {
	return fault.New(fault.Conflict, codeOrphaned, "command %s was started before and its keeper is gone", c.spec.ID).
		WithHint("find out whether it still runs, and remove its start record to start it again")
}

func (c *command) startRecord() startRecord {
	return startRecord{ID: c.spec.ID, Session: c.keeper.session, Boot: c.keeper.boot, Keeper: c.keeper.pid, Started: c.started}
}

// asDiskFault gives a full disk its meaning.
func asDiskFault(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fault.New(fault.Unavailable, codeDiskFull, "the disk of the Runner's host is full").
			WithHint("make room on the disk that holds the Runner's data").WithCause(err)
	}
	return err
}

// launch starts the process and the pumps of its output. Its error is safe to show.
func (c *command) launch() error {
	path, err := c.program()
	if err != nil {
		return err
	}
	masker := NewMasker(c.spec.Secrets)
	var ends [2]*os.File
	for i, stream := range []work.Stream{work.Stdout, work.Stderr} {
		read, write, err := newPipe()
		if err != nil {
			c.closePipes(ends)
			return err
		}
		ends[i] = write
		c.pumps[i] = newPump(c, read, c.output(stream, masker))
	}
	c.cmd = &exec.Cmd{
		Path: path, Args: c.spec.Argv, Dir: c.spec.Dir, Stdin: c.keeper.null, Stdout: ends[0], Stderr: ends[1],
		Env:         append(c.spec.Env, CommandVar+"="+c.spec.ID),
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	err = c.start()
	c.spec.Env, c.spec.HandOver, c.spec.Secrets = nil, nil, nil
	if err != nil {
		c.closePipes(ends)
		return startError(c.spec, err)
	}
	for _, end := range ends {
		_ = end.Close()
	}
	c.pumping.Add(len(c.pumps))
	c.identify()
	return nil
}

// start starts the process and hands over what its environment must not show.
func (c *command) start() error {
	started, err := handOver(c.cmd, c.spec.HandOver)
	if err != nil {
		return err
	}
	err = startPatiently(c.cmd)
	c.cmd.Env, c.cmd.ExtraFiles = nil, nil
	started()
	return err
}

// output makes what the command prints on a stream into records.
func (c *command) output(stream work.Stream, masker *Masker) sink {
	if c.spec.Framed && stream == work.Stdout {
		return newFramed(c.spool, masker)
	}
	return NewOutput(c.spool, stream, masker)
}

// closePipes closes what launch had opened when it failed.
func (c *command) closePipes(ends [2]*os.File) {
	for i, end := range ends {
		if end != nil {
			_ = end.Close()
			_ = c.pumps[i].pipe.Close()
		}
	}
}

// startPatiently starts cmd. A script that was just written can be busy for a moment: another
// process being started meanwhile holds a copy of the writer's descriptor until it executes.
func startPatiently(cmd *exec.Cmd) error {
	for try := 0; ; try++ {
		again := *cmd // a Cmd can be started once only
		err := again.Start()
		if err == nil || !errors.Is(err, unix.ETXTBSY) || try == 20 {
			*cmd = again
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// startError says in a sentence why a program could not be executed.
func startError(spec Spec, err error) error {
	var path *fs.PathError
	if _, dirErr := os.Stat(spec.Dir); errors.As(dirErr, &path) {
		return fmt.Errorf("cannot start %s in %s: %w", filepath.Base(spec.Argv[0]), spec.Dir, path.Err)
	}
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("cannot start %s: %w", spec.Argv[0], err)
}

// program finds the program of the command on the PATH that the command itself will see.
func (c *command) program() (string, error) {
	name := c.spec.Argv[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	search := ""
	for _, entry := range c.spec.Env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			search = value
		}
	}
	for _, dir := range filepath.SplitList(search) {
		path := filepath.Join(dir, name)
		if !filepath.IsAbs(path) {
			continue // "." on a PATH lets the code of a Module choose the program
		}
		if info, err := os.Stat(path); err == nil && !info.IsDir() && unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("cannot start %s: no such program on the PATH", name)
}

// identify writes down which process the command is. Its number cannot pass to another process
// before it is reaped, and that is done by supervise only.
func (c *command) identify() {
	r := c.startRecord()
	r.Pid, r.Pgid = c.cmd.Process.Pid, c.cmd.Process.Pid
	if m, err := stat(r.Pid); err == nil {
		r.Birth = m.birth
	}
	if err := writeStart(c.record, r); err != nil {
		c.keeper.log.Warn("start record is incomplete", "command", c.spec.ID, "error", err)
	}
}

// kept describes the command for a list.
func (c *command) kept() Kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := Kept{
		ID: c.spec.ID, Started: c.started, Spool: c.spec.Spool, StartFile: c.spec.StartFile, ExitFile: c.spec.ExitFile,
		NextSeq: c.spool.NextSeq(), LastOutput: c.lastOutput, Ending: c.ending, Blocked: c.blocked,
	}
	if c.cmd != nil && c.cmd.Process != nil {
		k.Pid = c.cmd.Process.Pid
	}
	return k
}

// stop asks supervise to end the command. Asking again changes nothing.
func (c *command) stop(mode StopMode) {
	select {
	case c.stops <- mode:
	case <-c.ended:
	case <-c.done:
	}
}

// touch remembers that the command is alive.
func (c *command) touch(now time.Time) {
	c.mu.Lock()
	c.lastOutput = now
	c.mu.Unlock()
}

// silent tells for how long the command printed nothing. While its output cannot be stored it
// could not print.
func (c *command) silent() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocked != "" {
		return 0
	}
	return time.Since(c.lastOutput)
}

// timeLeft returns how long the command may still run. The time for which it waited because its output could not be stored does not count.
func (c *command) timeLeft() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	waited := c.waited
	if c.blocked != "" {
		waited += max(time.Since(c.blockedAt), minRecheck)
	}
	return time.Until(c.started.Add(c.spec.Timeout + waited))
}

// minRecheck is how soon at the earliest the time limit of a blocked command is looked at again.
const minRecheck = time.Second

// store brings what the pumps have added to the spool into its file and tells the Runner. While the
// disk is full, or has no more than what is reserved for the command, it tries again for as long as it takes: the command waits, and
// nothing is lost.
func (c *command) store() {
	c.insist("storing output", c.flush)
	c.mu.Lock()
	grew := c.spool.Size() != c.told
	c.told = c.spool.Size()
	c.mu.Unlock()
	if grew {
		c.announce()
	}
}

// insist repeats what a full disk may refuse until it is done.
func (c *command) insist(doing string, act func() error) {
	err := act()
	if err == nil {
		return
	}
	c.keeper.log.Warn("cannot write, trying again", "doing", doing, "command", c.spec.ID, "error", err)
	for wait := retryFirst; err != nil; wait = min(2*wait, retryLast) {
		c.setBlocked(fmt.Sprintf("%s: %v", doing, cause(err)))
		time.Sleep(wait)
		err = act()
	}
	c.setBlocked("")
	c.touch(time.Now())
}

// cause gives the bare error of the system, without paths.
func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

func (c *command) setBlocked(why string) {
	c.mu.Lock()
	changed := c.blocked != why
	now := time.Now()
	switch {
	case c.blocked == "" && why != "":
		c.blockedAt = now
	case c.blocked != "" && why == "":
		c.waited += now.Sub(c.blockedAt)
	}
	c.blocked = why
	c.mu.Unlock()
	if changed {
		c.announce()
	}
}

// announce tells the Runner how far the spool is.
func (c *command) announce() {
	c.mu.Lock()
	blocked := c.blocked
	c.mu.Unlock()
	c.keeper.publish(SpoolState{
		ID: c.spec.ID, Spool: c.spec.Spool, NextSeq: c.spool.NextSeq(), Size: c.spool.Size(), Blocked: blocked,
	})
}
