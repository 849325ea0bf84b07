package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/pressly/goose/v3"

	"legwork/internal/fault"
)

const (
	// readersMost bounds the connections that read at once; each costs about a MiB.
	readersMost = 6
	// checkedAtOpen is the size up to which a whole database is looked through when it is opened; a larger one
	// would hold up the start for too long.
	checkedAtOpen = 32 << 20
	// applicationID marks a SQLite file as one of this program ("LGWK").
	applicationID = 0x4C47574B
)

// sqliteDB is the SQLite backend: one connection that writes, and some that read.
type sqliteDB struct {
	writer  *sql.DB
	readers *sql.DB
	group   *group
	lock    *os.File

	mu     sync.Mutex
	opened int           // readers so far
	idle   chan *session // readers that nobody uses
	closed bool
}

// openSQLite opens the file at path, making it with mode 0600 when it is not there.
func openSQLite(ctx context.Context, path string, log *slog.Logger) (backend, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the database: %w", err)
	}
	lock, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	db := &sqliteDB{lock: lock, idle: make(chan *session, readersMost)}
	if err := db.open(ctx, path, log); err != nil {
		return nil, errors.Join(unsound(path, err), db.closeHandles())
	}
	return db, nil
}

func (db *sqliteDB) open(ctx context.Context, path string, log *slog.Logger) (err error) {
	if db.writer, err = sql.Open("sqlite", sqliteURL(path, "cache_size(-8192)", "journal_size_limit(67108864)")); err != nil {
		return err
	}
	db.writer.SetMaxOpenConns(1)
	db.writer.SetConnMaxIdleTime(0)
	if err := checkSQLite(ctx, db.writer, path); err != nil {
		return err
	}
	if err := migrate(ctx, db.writer, goose.DialectSQLite3, &sqliteDialect, log); err != nil {
		return err
	}
	if db.readers, err = sql.Open("sqlite", sqliteURL(path, "cache_size(-2048)", "query_only(1)")); err != nil {
		return err
	}
	db.readers.SetMaxOpenConns(readersMost)
	db.readers.SetMaxIdleConns(readersMost)
	s, err := newSession(ctx, db.writer)
	if err != nil {
		return err
	}
	db.group = newGroup(s, &sqliteDialect)
	return nil
}

// sqliteURL names the file with the settings of a connection. Names of columns must be quoted with double
// quotes alone to be taken for names (_dqs), as in PostgreSQL.
func sqliteURL(path string, pragmas ...string) string {
	v := url.Values{"_dqs": {"0"}, "_pragma": append([]string{
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "temp_store(MEMORY)",
	}, pragmas...)}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: v.Encode()}).String()
}

// lockFile makes sure that one Server alone uses the file: a second one would write beside the first
// one's group of Updates. The lock ends with the process.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = touch(path)
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "database_unreachable", "the database file %s cannot be opened", path).
			WithHint("make sure that its folder exists and that this user may write there").WithCause(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		return nil, fault.New(fault.Conflict, "database_in_use", "another Server uses the database file %s", path).
			WithHint("stop the other Server, or give each its own --data folder; Servers that share one database need PostgreSQL").WithCause(err)
	}
	return f, nil
}

// touch makes the file readable by this user alone, before SQLite would make it readable by all.
func touch(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// checkSQLite refuses a file that is no sound database, or one of another program, and marks a new one.
func checkSQLite(ctx context.Context, db *sql.DB, path string) error {
	var owner, tables int64
	if err := db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&owner); err != nil {
		return err
	}
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return err
	}
	if owner != applicationID {
		if owner != 0 || tables > 0 {
			return fault.New(fault.Conflict, "database_foreign", "%s is a database of another program", path).
				WithHint("name another file, or move this one away")
		}
		_, err := db.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID))
		return err
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > checkedAtOpen {
		return err
	}
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return damagedFile(path, errors.New(verdict))
	}
	return nil
}

func damagedFile(path string, cause error) error {
	return fault.New(fault.Conflict, "database_damaged", "the database file %s is damaged or no database", path).
		WithHint("restore it from a backup, or move it away to start with an empty one").WithCause(cause)
}

// unsound gives an error of opening its meaning.
func unsound(path string, err error) error {
	var known *fault.Fault
	var broken *fs.PathError
	switch {
	case errors.As(err, &known), errors.As(err, &broken):
		return err
	case sqliteTrouble(err) == damaged:
		return damagedFile(path, err)
	}
	return fmt.Errorf("open the database %s: %w", path, sqliteDialect.explain(err))
}

func (db *sqliteDB) update(ctx context.Context, fn func(tx *Tx) error) error {
	return db.group.update(ctx, fn)
}

func (db *sqliteDB) view(ctx context.Context, fn func(tx *Tx) error) error {
	s, err := db.reader(ctx)
	if err != nil {
		return sqliteDialect.explain(err)
	}
	defer func() { db.idle <- s }()
	if err := s.do("BEGIN"); err != nil {
		return sqliteDialect.explain(err)
	}
	defer func() { _ = s.do("ROLLBACK") }() // it only read
	return fn(newTx(ctx, s, &sqliteDialect, false))
}

// reader takes an idle reader, or opens one while there are few.
func (db *sqliteDB) reader(ctx context.Context) (*session, error) {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil, errClosed
	}
	room := len(db.idle) == 0 && db.opened < readersMost
	if room {
		db.opened++
	}
	db.mu.Unlock()
	if room {
		return db.openReader(ctx)
	}
	select {
	case s := <-db.idle:
		return s, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (db *sqliteDB) openReader(ctx context.Context) (*session, error) {
	s, err := newSession(ctx, db.readers)
	if err != nil {
		db.mu.Lock()
		defer db.mu.Unlock()
		db.opened--
	}
	return s, err
}

func (db *sqliteDB) ping(ctx context.Context) error {
	return db.view(ctx, func(tx *Tx) error {
		_, err := list(tx, value[int64], "SELECT 1")
		return err
	})
}

// now is what newTx takes for the time.
func (db *sqliteDB) now(context.Context) (time.Time, error) { return time.Now().UTC(), nil }

func (db *sqliteDB) close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil
	}
	db.closed = true
	left := db.opened
	db.mu.Unlock()
	err := db.group.close()
	for range left {
		s := <-db.idle
		err = errors.Join(err, s.close())
	}
	return errors.Join(err, db.closeHandles())
}

// closeHandles closes what is open of the file, the lock last.
func (db *sqliteDB) closeHandles() (err error) {
	for _, handle := range []*sql.DB{db.readers, db.writer} {
		if handle != nil {
			err = errors.Join(err, handle.Close())
		}
	}
	return errors.Join(err, db.lock.Close())
}
