// Package logs holds what Jobs print: it reads it, follows it, searches it and archives it.
//
// Records are stored by who gets them, in the transaction that takes them in; this package is told of it after the commit (Stored), and
// finds by itself what it was not told. What somebody follows at this Server is kept in memory, as far as its end goes (tail.go), so that
// a follower costs no read. Some time after a Job's end its log moves from the database into the place for blobs (archive.go); whoever
// reads it sees no difference (read.go, scan.go).
package logs

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"legwork/internal/blob"
	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// Host is what a Server is to the logs of its Jobs. A log bears the id that work.Job.LogID gives.
type Host interface {
	// Job gives a Job by its id, its number, or "#number", for who may read.
	Job(ctx context.Context, actor catalog.Actor, idOrNumber string) (*work.Job, error)
	// Await waits until rung is closed, or it is time to look without that. Its error is the end of ctx or of the Server.
	Await(ctx context.Context, rung <-chan struct{}) error
	// Grew tells the other Servers that a log grew up to a position.
	Grew(log string, last int64)
	// Follows tells the other Servers that somebody follows a log here, or nobody does any more.
	Follows(log string, on bool)
	// Ship has the Instances that are connected here and work on a log ship every line of it at once, or no more.
	Ship(log string, atOnce bool)
}

// Logs is one Server's share. It is safe for concurrent use.
type Logs struct {
	reader
	host      Host
	tails     *tails
	archiver  *archiver
	followers atomic.Int64
}

// New makes a Logs that archives a log so long after the end of its Job. Nothing happens by itself before Run.
func New(host Host, st *store.Store, blobs *blob.Store, log *slog.Logger, archiveAfter time.Duration) *Logs {
	r := reader{st, blobs}
	return &Logs{reader: r, host: host, tails: newTails(host), archiver: &archiver{reader: r, log: log, after: archiveAfter}}
}

// Run archives the logs of Jobs that are over, until ctx ends.
func (l *Logs) Run(ctx context.Context) { l.archiver.run(ctx) }

// Stored says that a log grew up to a position, by records that came in here; lines are the new ones when they are at hand.
func (l *Logs) Stored(log string, lines []store.LogLine, last int64) {
	l.tails.stored(log, lines, last)
	l.host.Grew(log, last)
}

// GrewElsewhere says that a log grew up to a position at another Server.
func (l *Logs) GrewElsewhere(log string, last int64) { l.tails.stored(log, nil, last) }

// Ended says that a Job is over and its log whole.
func (l *Logs) Ended(log string) { l.tails.ended(log) }

// ArchiveLater has the log of a Job archived that has ended, or got something since. That of one that goes on is left alone.
func (l *Logs) ArchiveLater(org, log string) { l.archiver.add(org, log) }

// Archive moves the log of a Job into the place for blobs now, if the Job is over and there is something to move.
func (l *Logs) Archive(ctx context.Context, org, log string) error {
	return l.archiver.archive(ctx, org, log)
}

// Delete deletes what the place for blobs has of a Job's log. The rest goes with the Job.
func (l *Logs) Delete(ctx context.Context, log string) error { return l.archiver.remove(ctx, log) }

// Followed tells whether somebody follows a log, here or at another Server.
func (l *Logs) Followed(log string) bool { return l.tails.watched(log) }

// FollowedElsewhere says that somebody follows a log at another Server, or nobody does any more. It is believed for a while.
func (l *Logs) FollowedElsewhere(log string, on bool) { l.tails.watchedElsewhere(log, on) }

// Refresh repeats to the other Servers what is followed here, and forgets what they no longer repeat. It is due several times within 90 s.
func (l *Logs) Refresh(now time.Time) { l.tails.refreshWatches(now) }

// Followers tells how many follow logs at this Server now.
func (l *Logs) Followers() int64 { return l.followers.Load() }
