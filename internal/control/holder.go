package control

import (
	"context"
	"fmt"
	"time"

	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// holds reports whether the process of this Session is the one that a Job is bound to.
func (s *session) holds(j *work.Job) bool { return j.HeldBy(s.instanceID, s.fingerprint) }

// made reports whether a lost Attempt was this process's. Attempts that were lost before fingerprints were kept have none.
func (s *session) made(lost work.Loss) bool {
	return lost.Fingerprint == "" || lost.Fingerprint == s.fingerprint
}

// atHello returns what a hello means for a Job that is bound to the name of the Instance, or nil when it means nothing.
func atHello(s *session, j *work.Job, goesOn bool) work.Event {
	switch {
	case goesOn:
		return work.Resumed{Attempt: j.Attempt}
	case s.holds(j):
		return work.Forgotten(j)
	}
	return work.Displaced(j)
}

// mayDisplace refuses a process whose key is not the one that its Instance name had so far, while the other process is
// connected or holds a Lease. Nobody can tell whether that process still runs: only the sweeper ends its Lease. A process
// that comes back to a Job of its own is admitted in place of one that has none.
func (c *Control) mayDisplace(tx *store.Tx, s *session, other store.Instance) error {
	bound, err := tx.BoundJobs(s.org, other.ID)
	if err != nil {
		return err
	}
	returns := false
	var leased *work.Job
	for _, j := range bound {
		switch {
		case j.HeldBy(other.ID, s.fingerprint):
			returns = true
		case j.HasLease() && leased == nil:
			leased = j
		}
	}
	switch connected := c.living(other, tx.Now()); {
	case connected && (leased != nil || !returns):
		return &wire.CloseError{Code: wire.CloseDuplicate, Reason: fmt.Sprintf(
			"another process is connected as instance %q of runner %s: stop it, or set another Runner.Instance", other.Name, s.runner)}
	case leased != nil:
		return &wire.CloseError{Code: wire.CloseHeld, Reason: fmt.Sprintf(
			"a process with another working directory holds job #%d as instance %q of runner %s: this one is admitted when that lease ends, %s; "+
				"if the other process is on another host, set another Runner.Instance here",
			leased.Number, other.Name, s.runner, leaseEnds(leased, tx.Now()))}
	}
	return nil
}

// leaseEnds says when a Lease ends unless it is renewed. One that should be over waits for the sweeper.
func leaseEnds(j *work.Job, now time.Time) string {
	left := j.LeaseUntil.Sub(now).Round(time.Second)
	if left <= 0 {
		return "in a moment"
	}
	return fmt.Sprintf("in %s at the latest", left)
}

// endDisplaced ends the Session that had the Instance before, if it is still here, and waits until what it sent is stored.
func (c *Control) endDisplaced(ctx context.Context, sessionID string) {
	old := c.sessions.get(sessionID)
	if old == nil {
		return
	}
	old.fail(wire.CloseReplaced, wire.CloseReplaced.Sentence())
	select {
	case <-old.over:
	case <-ctx.Done():
	}
}
