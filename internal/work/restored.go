package work

import "time"

// Restored says that the record of a Job comes from a copy of the database, taken at an earlier time. What has happened to the Job since
// is not known here, so it is never started again by itself.
type Restored struct{ Reason string } // a sentence without its full stop

// RestoreOver ends a Job whose Instance did not return before the operator resumed.
type RestoreOver struct{}

// The names of these events.
const (
	onRestored    EventName = "restored"
	onRestoreOver EventName = "resumed by the operator"
)

// Name returns the name of the event.
func (Restored) Name() EventName { return onRestored }

// Name returns the name of the event.
func (RestoreOver) Name() EventName { return onRestoreOver }

// restored decides what becomes of a Job, by its status in the copy:
//
//   - bound to an Instance (claimed, running, canceling, interrupted): interrupted without a deadline, until the Instance returns with the
//     Attempt or the operator resumes
//   - awaiting approval: failed, because the approval may have been given and the plan applied since
//   - queued after a lost Attempt: failed, because it was begun at least once
//   - queued for the first time: it stays queued, and the operator decides before resuming
//   - a Runbook Job that has begun: it opens no further Round and fails once its Parts are over
func restored(m *move) {
	j := m.job
	switch {
	case j.IsRun():
		m.restoredRun()
	case j.Status == Queued || j.Status == Waiting:
		if j.Attempt > 0 && !j.IsPart() {
			m.failRestored()
		}
	case j.Status == AwaitingApproval:
		m.failRestored()
	default:
		j.Restored, j.Status = true, Interrupted
		j.Notice, j.InterruptedReason = "", m.restoredReason()
		j.LeaseUntil, j.RecoverUntil, j.ApproveUntil = time.Time{}, time.Time{}, time.Time{}
		j.InterruptedAt = m.now
		j.Wait = j.instanceAway()
	}
}

func (m *move) restoredReason() string {
	if e, ok := m.event.(Restored); ok {
		return e.Reason
	}
	return "the database was restored from a copy while the job was active, and its instance did not return with it"
}

// failRestored ends a Job of which nobody knows how far it came.
func (m *move) failRestored() {
	m.loss(m.restoredReason())
	m.job.Status, m.job.Failure = Failed, m.restoredFailure()
}

func (m *move) restoredFailure() *Failure {
	f := m.unknownOutcome(m.restoredReason())
	if f.Code = "restored"; f.Hint == "" {
		f.Hint = "check what the job has done, then submit it again"
	}
	return f
}

// restoredRun lets a Runbook Job end with what its Parts have under way.
func (m *move) restoredRun() {
	j := m.job
	switch j.Status {
	case Running:
		m.stopRun(*m.restoredFailure())
	case AwaitingApproval:
		m.settleApproval(Failed, m.restoredFailure())
	}
}

// restoreOver ends a Job that is still interrupted by a restore.
func restoreOver(m *move) {
	switch {
	case !m.job.Restored:
	case m.job.Cancel != nil:
		m.giveUp("canceled, and " + m.restoredReason())
	default:
		m.failRestored()
	}
}
