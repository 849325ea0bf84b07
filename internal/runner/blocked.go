package runner

import (
	"fmt"
	"strings"
	"syscall"

	"legwork/internal/process"
)

// lookBlocked notes whether the command of the Step waits because its output cannot be stored.
func (s *shipper) lookBlocked() {
	if s.grew == nil {
		return
	}
	state := s.grew.State()
	why := state.Blocked
	if state.ID == "" { // nothing was told in this connection
		s.mu.Lock()
		why = s.stuck
		s.mu.Unlock()
	}
	if why != s.blocked {
		s.blocked = why
		s.r.setBlocked(s.st, why)
	}
}

// askBlocked asks the keeper how a command is that an earlier process had it start: only changes are told.
func (r *Runner) askBlocked(st *step, keeper *process.Client, id string) {
	kept, err := keeper.List(r.life)
	if err != nil {
		return // the next change will be told
	}
	for _, k := range kept {
		if k.ID == id && k.Blocked != "" {
			st.ship.mu.Lock()
			st.ship.stuck = k.Blocked
			st.ship.mu.Unlock()
			st.ship.poke()
		}
	}
}

// setBlocked notes why the output of a Step cannot be stored, which its command waits for, and says it in the log and
// to the Server when that begins and when it is over.
func (r *Runner) setBlocked(st *step, why string) {
	j := st.job
	r.mu.Lock()
	was := st.blocked
	st.blocked = why
	l, number := r.link, j.Number
	r.mu.Unlock()
	if (was == "") == (why == "") {
		return
	}
	log := r.jobLog.With("directory", r.home.dir, "job", j.Job, "number", number, "step", st.kind)
	if why != "" {
		log.Warn("output of a Step cannot be written: the Job waits until it can", "cause", why)
	} else {
		log.Info("output of a Step can be written again: the Job goes on")
	}
	if l != nil {
		l.send(r.heartbeat())
	}
}

// blocked says why the Attempt cannot go on, or nothing. The caller holds the Runner's mu.
func (j *job) blocked() string {
	for _, st := range j.steps {
		switch {
		case st.waiting != "":
			return st.waiting
		case st.blocked == "":
		case strings.Contains(st.blocked, syscall.ENOSPC.Error()), strings.Contains(st.blocked, syscall.EDQUOT.Error()):
			return "the disk of the Runner's working directory is full: the Job waits until there is room"
		default:
			return fmt.Sprintf("the Runner cannot write the output: the Job waits until it can (%s)", st.blocked)
		}
	}
	return ""
}

// mend cuts off what a crash of the host left torn at the end of a log that nobody writes any more, and says so in its
// place. It tells whether there is something new to send.
func (s *shipper) mend() bool {
	if s.mended || s.reader == nil || !s.reader.Torn() {
		return false
	}
	s.mended = true
	s.st.openSpool()
	s.st.closeSpool()
	s.expect()
	return true
}
