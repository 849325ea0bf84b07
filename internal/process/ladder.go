//go:build linux || darwin

package process

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"legwork/internal/work"
)

const (
	settleWait = 250 * time.Millisecond // for children that end together with the program
	strayGrace = 2 * time.Second        // from SIGTERM to SIGKILL for children left behind
	killWait   = 5 * time.Second        // for the kernel to end what was killed
	pipeWait   = time.Second            // for a pipe that a process outside the group holds open
)

// ladder ends a process group step by step.
type ladder struct {
	grace Ladder
	group int
	rung  int // 0 not begun, 1 SIGINT sent, 2 SIGTERM sent, 3 SIGKILL sent
	timer *time.Timer
}

func newLadder(group int, grace Ladder) *ladder {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &ladder{grace: grace.orDefault(), group: group, timer: timer}
}

// climb sends the next signal and sets the time for the one after.
func (l *ladder) climb() {
	l.rung++
	switch l.rung {
	case 1:
		_ = signalGroup(l.group, unix.SIGINT)
		l.timer.Reset(l.grace.Interrupt)
	case 2:
		_ = signalGroup(l.group, unix.SIGTERM)
		l.timer.Reset(l.grace.Terminate)
	default:
		l.kill()
	}
}

func (l *ladder) kill() {
	l.rung = 3
	l.timer.Stop()
	_ = signalGroup(l.group, unix.SIGKILL)
}

// supervise sees the command to its end.
func (c *command) supervise() {
	for _, p := range c.pumps {
		go func() {
			defer c.pumping.Done()
			p.run()
		}()
	}
	go func() {
		if err := awaitExit(c.cmd.Process.Pid); err != nil {
			c.keeper.log.Error("waiting for a command failed", "command", c.spec.ID, "error", err)
		}
		close(c.exited)
	}()
	l := newLadder(c.cmd.Process.Pid, c.spec.Grace)
	defer l.timer.Stop()
	c.untilExit(l)
	finished := time.Now()
	state := c.reap()
	left := c.endGroup(l)
	close(c.ended)
	strays := c.endOutput()
	c.exit = c.describe(state, finished)
	c.exit.LeftBehind = left
	c.remark(left, strays)
	c.conclude()
}

// untilExit waits for the program to end, and makes it end where that is due.
func (c *command) untilExit(l *ladder) {
	limit, stall := timerFor(c.spec.Timeout), timerFor(c.spec.StallTimeout)
	defer limit.Stop()
	defer stall.Stop()
	for {
		select {
		case <-c.exited:
			return
		case mode := <-c.stops:
			if mode == Kill {
				c.setEnding(ReasonKilled)
				l.kill()
			} else {
				c.beginEnd(l, ReasonCanceled)
			}
		case <-limit.C:
			if left := c.timeLeft(); left > 0 {
				limit.Reset(left)
			} else {
				c.beginEnd(l, ReasonTimeout)
			}
		case <-stall.C:
			if silent := c.silent(); silent >= c.spec.StallTimeout {
				c.beginEnd(l, ReasonStalled)
			} else {
				stall.Reset(c.spec.StallTimeout - silent)
			}
		case <-l.timer.C:
			l.climb()
		}
	}
}

// timerFor makes a timer that never fires for a duration of 0.
func timerFor(d time.Duration) *time.Timer {
	if d > 0 {
		return time.NewTimer(d)
	}
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

// beginEnd sets foot on the ladder, once.
func (c *command) beginEnd(l *ladder, reason string) {
	if l.rung == 0 {
		c.setEnding(reason)
		l.climb()
	}
}

func (c *command) setEnding(reason string) {
	c.mu.Lock()
	c.ending = reason
	c.mu.Unlock()
}

// reap takes the program's status. From here on its number may pass to another process.
func (c *command) reap() syscall.WaitStatus {
	_ = c.cmd.Wait() // its error repeats the status
	status, _ := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status
}

// endGroup ends what is left of the process group and returns how many processes that were. The
// number of the group stays taken while one of them lives, so that no stranger is hit.
func (c *command) endGroup(l *ladder) int {
	if c.groupEnds(l, settleWait) {
		return 0
	}
	// A child that handles SIGINT is ending in an orderly way: a second signal would make it hurry.
	grace := strayGrace
	for l.rung == 1 && c.anyCatchesInterrupt(l.group) {
		if c.groupEnds(l, 50*time.Millisecond) {
			return 0
		}
		select {
		case <-l.timer.C:
			l.rung, grace = 2, l.grace.Terminate
		default:
		}
	}
	left := len(c.members(l.group))
	if left == 0 {
		return 0
	}
	if l.rung < 3 {
		_ = signalGroup(l.group, unix.SIGTERM)
		if c.groupEnds(l, grace) {
			return left
		}
	}
	l.kill()
	if !c.groupEnds(l, killWait) {
		c.keeper.log.Error("processes cannot be killed", "command", c.spec.ID, "group", l.group)
	}
	return left
}

// groupEnds waits a while for the process group to be empty. A Kill that comes meanwhile is done.
func (c *command) groupEnds(l *ladder, within time.Duration) bool {
	if groupGone(l.group) {
		return true
	}
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if groupGone(l.group) || len(c.members(l.group)) == 0 {
			return true
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return false
		case mode := <-c.stops:
			if mode == Kill && len(c.members(l.group)) > 0 {
				c.setEnding(ReasonKilled)
				l.kill()
			}
		}
	}
}

// members lists what lives of the command's process group.
func (c *command) members(group int) []member {
	all, err := groupMembers(group)
	if err != nil {
		c.keeper.log.Warn("listing a process group failed", "command", c.spec.ID, "error", err)
		return nil
	}
	ours := all[:0]
	for _, m := range all {
		if m.session == c.keeper.session {
			ours = append(ours, m)
		}
	}
	return ours
}

func (c *command) anyCatchesInterrupt(group int) bool {
	for _, m := range c.members(group) {
		if catchesInterrupt(m.pid) {
			return true
		}
	}
	return false
}

// endOutput waits until everything printed is in the spool. strays tells that the pipes had to be
// closed before their end.
func (c *command) endOutput() (strays bool) {
	limit := time.Now().Add(pipeWait)
	for _, p := range c.pumps {
		p.hurry(limit)
	}
	c.pumping.Wait()
	return c.pumps[0].cutOff || c.pumps[1].cutOff
}

// describe makes the exit out of the program's status.
func (c *command) describe(status syscall.WaitStatus, finished time.Time) Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	exit := Exit{Code: status.ExitStatus(), Reason: c.ending, Started: c.started, Finished: finished}
	natural := ReasonExited
	if status.Signaled() {
		exit.Code, exit.Signal, natural = -1, unix.SignalName(status.Signal()), ReasonSignaled
	}
	if exit.Reason == "" {
		exit.Reason = natural
	}
	return exit
}

func (c *command) say(text string) {
	c.spool.add(&work.Record{Stream: work.System, Data: []byte(text), Time: time.Now()})
}

// remark tells in the log what the reader could not know otherwise.
func (c *command) remark(left int, strays bool) {
	switch {
	case left == 1:
		c.say("the command left 1 process behind, which was ended")
	case left > 1:
		c.say(fmt.Sprintf("the command left %d processes behind, which were ended", left))
	}
	if strays {
		c.say("a process that left the command's process group goes on; what it prints from now on is not kept")
	}
}

// conclude closes the spool and writes the exit record, in this order: whoever sees the record may
// read the spool to its end, and write to it.
func (c *command) conclude() {
	c.insist("storing output", c.spool.Flush)
	c.exit.NextSeq = c.spool.NextSeq()
	if err := c.spool.Close(); err != nil {
		c.keeper.log.Warn("closing a spool failed", "command", c.spec.ID, "error", err)
	}
	c.insist("storing the exit record", func() error { return writeExit(c.spec.ExitFile, c.exit, c.keeper.spares.create) })
	c.announce()
	c.keeper.drop(c) // first, so that whoever was told of the end finds it kept no more
	close(c.done)
}
