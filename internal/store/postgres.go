package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"legwork/internal/fault"
)

const (
	connectionsMost = 24
	connectionsIdle = 8
	// triesMost bounds how often an Update is run that always meets another one.
	triesMost = 50
	// strayAfter ends a transaction of a Server that stopped in the middle of it, since its locks and its place
	// among the running transactions hold up others.
	strayAfter = 30 * time.Second
	// connectMost is how long connecting may take where the URL says nothing of it.
	connectMost = 10 * time.Second
)

// postgresDB is the PostgreSQL backend.
type postgresDB struct {
	db     *sql.DB
	clock  databaseClock
	closed atomic.Bool
}

// postgresConfig reads the URL of a database.
func postgresConfig(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		// The error of the parser may show the URL, and with it the password.
		return nil, fault.New(fault.Invalid, "database_url", "the URL of the database is not valid").
			WithHint("write it as postgres://user:password@host:5432/name?sslmode=require")
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "legwork"
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectMost
	}
	return config, nil
}

func openPostgres(ctx context.Context, url string, log *slog.Logger) (backend, error) {
	config, err := postgresConfig(url)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, fmt.Sprintf("SET idle_in_transaction_session_timeout = %d", strayAfter.Milliseconds()))
		return err
	}))
	db.SetMaxOpenConns(connectionsMost)
	db.SetMaxIdleConns(connectionsIdle)
	db.SetConnMaxIdleTime(5 * time.Minute)
	if err := preparePostgres(ctx, db, log); err != nil {
		return nil, errors.Join(unreadyPostgres(config, err), db.Close())
	}
	p := &postgresDB{db: db}
	if _, err := p.now(ctx); err != nil {
		return nil, errors.Join(unreadyPostgres(config, err), db.Close())
	}
	return p, nil
}

func preparePostgres(ctx context.Context, db *sql.DB, log *slog.Logger) error {
	var version int
	if err := db.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return err
	}
	if version < 130000 {
		return fault.New(fault.Unsupported, "postgresql_old", "this PostgreSQL has version %d, which is too old", version/10000).
			WithHint("use PostgreSQL 13 or newer")
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 120)) // looks every second, two minutes long
	if err != nil {
		return err
	}
	if err := migrate(ctx, db, goose.DialectPostgres, &postgresDialect, log, goose.WithSessionLocker(locker)); err != nil {
		return err
	}
	// In a database restored into a PostgreSQL with lower transaction numbers, new events must still follow the old.
	_, err = db.ExecContext(ctx, `UPDATE event_base SET base = (SELECT coalesce(max(id), 0) FROM events)
		WHERE (SELECT coalesce(max(id), 0) FROM events) >= base + (pg_snapshot_xmax(pg_current_snapshot())::text::bigint << 14)`)
	return err
}

func unreadyPostgres(config *pgx.ConnConfig, err error) error {
	var known *fault.Fault
	if errors.As(err, &known) {
		return err
	}
	at := fmt.Sprintf("%s:%d", config.Host, config.Port)
	say := func(code, sentence, hint string, args ...any) error {
		return fault.New(fault.Unavailable, code, sentence, args...).WithHint("%s", hint).WithCause(err)
	}
	var answer *pgconn.PgError
	switch {
	case !errors.As(err, &answer):
	case answer.Code == "3D000":
		return say("database_missing", "PostgreSQL at %s has no database %q", "make it there (createdb), or correct the name in the URL of the database", at, config.Database)
	case answer.Code == "28P01":
		return say("database_login", "PostgreSQL at %s refuses the password of user %q", "check the user and the password in the URL of the database", at, config.User)
	case strings.HasPrefix(answer.Code, "28"):
		return say("database_login", "PostgreSQL at %s does not let user %q in", "check the user in the URL of the database, and the rules in pg_hba.conf", at, config.User)
	}
	var refused *pgconn.ConnectError
	if errors.As(err, &refused) || postgresTrouble(err) == unreachable {
		return say("database_unreachable", "PostgreSQL at %s cannot be reached", "look whether it runs there, and check the host, the port and sslmode in the URL of the database", at)
	}
	return fmt.Errorf("open the PostgreSQL database: %w", err)
}

// update runs fn, again and again while other transactions are in its way.
func (p *postgresDB) update(ctx context.Context, fn func(tx *Tx) error) error {
	for try := 1; ; try++ {
		again, err := p.try(ctx, fn)
		if !again || try == triesMost {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(time.Duration(min(try, 20)) * 2 * time.Millisecond)):
		}
	}
}

// try runs fn once; again tells that its transaction met another one.
func (p *postgresDB) try(ctx context.Context, fn func(tx *Tx) error) (again bool, err error) {
	db, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return false, p.begun(err)
	}
	defer func() { _ = db.Rollback() }() // after a commit it does nothing
	tx := newTx(ctx, db, &postgresDialect, true)
	tx.now = p.clock.now()
	err = fn(tx)
	if err == nil && tx.again { // fn kept the error for itself
		err = errAgain
	}
	if err != nil {
		return tx.again, err
	}
	if err := db.Commit(); err != nil {
		return postgresTrouble(err) == meetsAnother, postgresDialect.explain(err)
	}
	return false, nil
}

// begun explains why a transaction did not begin.
func (p *postgresDB) begun(err error) error {
	if p.closed.Load() {
		return errClosed
	}
	return postgresDialect.explain(err)
}

func (p *postgresDB) view(ctx context.Context, fn func(tx *Tx) error) error {
	db, err := p.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return p.begun(err)
	}
	defer func() { _ = db.Rollback() }() // it only read
	tx := newTx(ctx, db, &postgresDialect, false)
	tx.now = p.clock.now()
	return fn(tx)
}

// now asks the database for the time and sets the clock of the transactions by it.
func (p *postgresDB) now(ctx context.Context) (time.Time, error) {
	asked := time.Now()
	var us int64
	if err := p.db.QueryRowContext(ctx, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").Scan(&us); err != nil {
		return time.Time{}, p.begun(err)
	}
	p.clock.set(moment(us), asked.Add(time.Since(asked)/2))
	return p.clock.now(), nil
}

// databaseClock tells the database's time without asking it: the last answer, and what passed since. A step of this host's own
// clock does not move it. A suspension of the host does, until the next answer.
type databaseClock struct{ last atomic.Pointer[answeredTime] }

// answeredTime is what the database's clock said, and when by this host's.
type answeredTime struct{ database, here time.Time }

func (c *databaseClock) set(database, here time.Time) { c.last.Store(&answeredTime{database, here}) }

func (c *databaseClock) now() time.Time {
	last := c.last.Load()
	return last.database.Add(time.Since(last.here)).UTC().Truncate(time.Microsecond)
}

func (p *postgresDB) ping(ctx context.Context) error {
	if err := p.db.PingContext(ctx); err != nil {
		return p.begun(err)
	}
	return nil
}

func (p *postgresDB) close() error {
	p.closed.Store(true)
	return p.db.Close()
}
