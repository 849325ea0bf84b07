//go:build linux || darwin

package process

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Orphan is what is left of a command whose keeper was killed: it has a start record, no exit
// record, and no keeper keeps it. What it prints is lost.
type Orphan struct {
	ID      string
	Pid     int       // of the program; 0 when the keeper could not write it down
	Started time.Time //
	Alive   bool      // some process of it still runs
	Pids    []int     // those processes
}

// FindOrphan looks for the processes of a start record. A process counts only when it is that very
// one, or belongs to its process group and session: a number that passed to another process
// meanwhile does not. ok is false when there is no start record. Ask only when no keeper keeps the
// command and there is no exit record.
func FindOrphan(startFile string) (o Orphan, ok bool, err error) {
	r, ok, err := readStart(startFile)
	if err != nil || !ok {
		return Orphan{}, false, err
	}
	o = Orphan{ID: r.ID, Pid: r.Pid, Started: r.Started}
	living, err := r.living()
	for _, m := range living {
		o.Pids = append(o.Pids, m.pid)
	}
	o.Alive = len(living) > 0
	return o, true, err
}

// living lists the processes of a start record that still run.
func (r startRecord) living() ([]member, error) {
	if r.Boot != bootID() {
		return nil, nil // the host was started anew since
	}
	if r.Pid == 0 {
		return marked(CommandVar + "=" + r.ID)
	}
	members, err := groupMembers(r.Pgid)
	if err != nil {
		return nil, err
	}
	ours := members[:0]
	for _, m := range members {
		// The program itself must be the same one; its children are of its session and younger.
		if m.session == r.Session && (m.birth == r.Birth || m.pid != r.Pid && m.birth > r.Birth) {
			ours = append(ours, m)
		}
	}
	return ours, nil
}

// EndOrphan ends what FindOrphan finds, by the same ladder as a keeper, and returns when nothing is
// left of it or ctx ends. left is how many processes it found at first.
func EndOrphan(ctx context.Context, startFile string, grace Ladder) (left int, err error) {
	r, ok, err := readStart(startFile)
	if err != nil || !ok {
		return 0, err
	}
	grace = grace.orDefault()
	next := time.NewTimer(0)
	defer next.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	rungs := []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGKILL}
	waits := []time.Duration{grace.Interrupt, grace.Terminate, killWait}
	for {
		living, err := r.living()
		if err != nil || len(living) == 0 {
			return left, err
		}
		left = max(left, len(living))
		select {
		case <-next.C:
			if len(rungs) == 0 {
				return left, errors.New("ending an orphan: its processes cannot be killed")
			}
			for _, m := range living {
				signalMember(m, rungs[0])
			}
			next.Reset(waits[0])
			rungs, waits = rungs[1:], waits[1:]
		case <-tick.C:
		case <-ctx.Done():
			return left, context.Cause(ctx)
		}
	}
}

// signalMember signals one process if it still is the one that was listed.
func signalMember(m member, signal unix.Signal) {
	if again, err := stat(m.pid); err != nil || again.birth != m.birth {
		return
	}
	_ = unix.Kill(m.pid, signal)
	if signal != unix.SIGKILL {
		_ = unix.Kill(m.pid, unix.SIGCONT)
	}
}
