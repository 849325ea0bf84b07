// Package store keeps the truth: every record and every state change, in transactions, in SQLite or
// PostgreSQL. It holds all SQL of the program, in one implementation for both dialects.
//
// Work is done in a Tx, inside Update or View. A Tx carries one fixed Now. What finds a record by what somebody else said (an id,
// a number, a name) takes the Organization and finds nothing beyond it. Two kinds of functions take none: those on what belongs to a
// record that was found so (the snapshot, Inputs and log of a Job, the Credentials of a Service principal), which take its id; and the
// Server's own, which go over all Organizations and say so (the queue, leases, what is due or old, Sessions, Servers,
// CredentialByHash, with which a login begins). What is not there is a fault.NotFound; a broken uniqueness is a fault.Conflict.
//
// SQLite has one writer: Updates that meet run one after the other in one transaction and share its
// commit (group.go). PostgreSQL runs every Update in a transaction of its own at READ COMMITTED, so what was
// read without a lock may change before the commit: JobForUpdate, InstanceByName, ModuleBusy, QueuedOf and
// LockCatalog lock what they name until the end of the Update.
package store

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"legwork/internal/fault"
)

// Open opens the database and brings its schema up to date. url is a path of a SQLite file, or a
// postgres:// URL. A database that is damaged, or newer than this program, is refused with a sentence.
func Open(ctx context.Context, url string, log *slog.Logger) (*Store, error) {
	open := openSQLite
	switch scheme, _, ok := strings.Cut(url, "://"); {
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		open = openPostgres
	case ok || url == "":
		return nil, errUnknownDatabase()
	}
	b, err := open(ctx, url, log)
	if err != nil {
		return nil, err
	}
	s := &Store{backend: b}
	if err := s.refuseUnfinished(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func errUnknownDatabase() error {
	return fault.New(fault.Invalid, "database_url", "the database is not one that this program knows").
		WithHint("name a file for SQLite, or write postgres://user:password@host:5432/name?sslmode=require")
}

// refuseUnfinished refuses a database that a restore or a migration has filled in part.
func (s *Store) refuseUnfinished(ctx context.Context) error {
	return s.View(ctx, func(tx *Tx) error {
		n, _, err := find(tx, value[int64], "SELECT count(*) FROM import_progress")
		if err == nil && n > 0 {
			err = errUnfinished()
		}
		return err
	})
}

// Store is an open database. It is safe for concurrent use.
type Store struct {
	backend backend
	failed  atomic.Pointer[failedWrite] // the last one
}

// failedWrite is an Update that the database could not store, for a reason that is not the Update's own.
type failedWrite struct {
	at  time.Time
	err error
}

// failedFor is how long the database counts as not writable after a write failed. Servers write every 10 s, so a disk that stays full is
// noticed again before that.
const failedFor = 15 * time.Second

// backend is what differs between the two databases beyond their dialect: how transactions are run.
type backend interface {
	update(ctx context.Context, fn func(tx *Tx) error) error
	view(ctx context.Context, fn func(tx *Tx) error) error
	ping(ctx context.Context) error
	now(ctx context.Context) (time.Time, error)
	close() error
}

// Close waits for what is being written and closes the database. It may be called twice.
func (s *Store) Close() error { return s.backend.close() }

// Ping tells whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.backend.ping(ctx) }

// Now is the time by the clock that all transactions go by: that of PostgreSQL, so that Servers that share it agree whatever their
// own clocks say, and this host's with SQLite. It may jump. Asking PostgreSQL sets the Now of the transactions that follow; between two
// calls they go by the time that passed since.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.backend.now(ctx) }

// Update runs fn in a transaction that writes and returns when it is durable. fn may be run again
// when the database asks for it, so it has no effects but on tx, and it does nothing slow: others wait for
// it, and an Update inside fn would wait for ever. In SQLite many small Updates that meet share one commit; an
// error of fn undoes its own writes alone. An Update whose ctx ends before it began is not run.
func (s *Store) Update(ctx context.Context, fn func(tx *Tx) error) error {
	err := keepPrecondition(ctx, s.backend.update, recordChange(ctx, fn))
	switch fault.Code(err) {
	case "database_full", "database_unavailable", "database_damaged":
		s.failed.Store(&failedWrite{time.Now(), err})
	}
	return err
}

// WriteFailure returns why writes failed in the last seconds, and nil when none did.
func (s *Store) WriteFailure() error {
	f := s.failed.Load()
	if f == nil || time.Since(f.at) >= failedFor {
		return nil
	}
	return f.err
}

// View runs fn in a transaction that reads one consistent state. It is short, too: it has one of few connections, and keeps
// the database from tidying up.
func (s *Store) View(ctx context.Context, fn func(tx *Tx) error) error {
	return s.backend.view(ctx, fn)
}

// micros is how times are stored: microseconds since 1970, 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// moment is the time that micros stored.
func moment(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
