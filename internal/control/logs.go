package control

import (
	"context"

	"legwork/internal/catalog"
	"legwork/internal/control/logs"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// What is known of logs outside, under the names that it has there.
type (
	LogLine   = store.LogLine   // one record of a log, as FollowLog emits it
	LogFilter = store.LogFilter // narrows ReadLog and FollowLog
	LogEnd    = logs.End        // where a log ends
	LogNames  = logs.Names      // what the numbers in a log stand for
)

// ReadLog gives some lines of a Job's log, from a position on: see logs.Logs.Read.
func (c *Control) ReadLog(ctx context.Context, actor catalog.Actor, idOrNumber string, after int64, limit int, filter LogFilter) ([]LogLine, LogEnd, error) {
	return c.logs.Read(ctx, actor, idOrNumber, after, limit, filter)
}

// ScanLog visits all of a Job's log, from a position on: see logs.Logs.Scan.
func (c *Control) ScanLog(ctx context.Context, actor catalog.Actor, idOrNumber string, after int64, visit func(*LogLine) bool) error {
	return c.logs.Scan(ctx, actor, idOrNumber, after, visit)
}

// FollowLog emits a Job's log as it grows, from a position on, until the Job is over: see logs.Logs.Follow.
func (c *Control) FollowLog(ctx context.Context, actor catalog.Actor, idOrNumber string, after int64, filter LogFilter, emit func([]LogLine) error) error {
	return c.logs.Follow(ctx, actor, idOrNumber, after, filter, emit)
}

// LogNames looks up what the log of a Job speaks of; it is nil for a Job that is neither a Runbook Job nor a Part of one.
func (c *Control) LogNames(ctx context.Context, actor catalog.Actor, j *work.Job) (*LogNames, error) {
	return c.logs.Names(ctx, actor, j)
}

// logHost is what a Control is to its logs, and to nobody else.
type logHost struct{ c *Control }

func (h logHost) Job(ctx context.Context, actor catalog.Actor, idOrNumber string) (*work.Job, error) {
	return h.c.Job(ctx, actor, idOrNumber)
}

func (h logHost) Await(ctx context.Context, rung <-chan struct{}) error { return h.c.await(ctx, rung) }

func (h logHost) Grew(log string, last int64) {
	h.c.hint(subjectLog, logHint{h.c.from(), log, last})
}

func (h logHost) Follows(log string, on bool) {
	h.c.hint(subjectWatch, watchHint{h.c.from(), log, on})
}

// Ship tells the Instances whose Sessions are here. Which Attempts are under way the Sessions know.
func (h logHost) Ship(log string, atOnce bool) {
	for _, s := range h.c.sessions.ofJob(log) {
		for _, ref := range s.attemptsOf(log) {
			s.send(&wire.Configure{Ref: ref, Watch: atOnce})
		}
	}
}

// attemptsOf gives the newest Attempts that the Instance works on of a Job, or of the Parts of a Runbook Job.
func (s *session) attemptsOf(log string) []wire.Ref {
	newest := map[string]int{} // Attempt by Job
	s.mu.Lock()
	for ref, l := range s.lanes {
		if l.log == log && l.adopted && !l.dropped {
			newest[ref.Job] = max(newest[ref.Job], ref.Attempt)
		}
	}
	s.mu.Unlock()
	var refs []wire.Ref
	for job, attempt := range newest {
		refs = append(refs, wire.Ref{Job: job, Attempt: attempt})
	}
	return refs
}
