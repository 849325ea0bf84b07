package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"legwork/internal/fault"
)

// Snapshot is one state of a database, read while Servers may go on writing it.
type Snapshot struct {
	Schema       int64 // version of the schema
	Tables       []Table
	Installation string // id
	Live         int    // Servers that use the database now
	Position     int64  // id of the newest event

	db *sql.DB
	tx *sql.Tx
}

// isPostgres reports whether url names a PostgreSQL database.
func isPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

// explainOpening turns an error with which a database could not be opened into a fault that names the cause.
func explainOpening(url string, d *dialect, err error) error {
	if err == nil || !isPostgres(url) {
		return d.explain(err)
	}
	config, configErr := postgresConfig(url)
	if configErr != nil {
		return configErr
	}
	if known := unreadyPostgres(config, err); fault.Code(known) != fault.Code(err) {
		return known
	}
	return d.explain(err)
}

// openPlain opens an existing database as SQL alone. What differs between the two is returned with it.
func openPlain(url string) (*sql.DB, goose.Dialect, *dialect, schemaQueries, error) {
	if !isPostgres(url) && strings.Contains(url, "://") {
		return nil, "", nil, schemaQueries{}, errUnknownDatabase()
	}
	if isPostgres(url) {
		config, err := postgresConfig(url)
		if err != nil {
			return nil, "", nil, schemaQueries{}, err
		}
		return stdlib.OpenDB(*config), goose.DialectPostgres, &postgresDialect, postgresSchema, nil
	}
	path, err := filepath.Abs(url)
	if err != nil {
		return nil, "", nil, schemaQueries{}, fmt.Errorf("find the database: %w", err)
	}
	if _, err := os.Stat(path); err != nil {
		return nil, "", nil, schemaQueries{}, fault.New(fault.NotFound, "database_missing", "there is no database %s", path).
			WithHint("name the data folder of the server with --data, or its database with --database").WithCause(err)
	}
	db, err := sql.Open("sqlite", sqliteURL(path))
	return db, goose.DialectSQLite3, &sqliteDialect, sqliteSchema, err
}

// OpenSnapshot opens one consistent state of a database for reading. It changes nothing and takes no lock, so Servers may go on.
func OpenSnapshot(ctx context.Context, url string) (*Snapshot, error) {
	db, kind, d, queries, err := openPlain(url)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{db: db}
	if err := s.open(ctx, kind, d, queries); err != nil {
		return nil, errors.Join(explainOpening(url, d, err), s.Close())
	}
	return s, nil
}

func (s *Snapshot) open(ctx context.Context, kind goose.Dialect, d *dialect, queries schemaQueries) (err error) {
	options := &sql.TxOptions{ReadOnly: true}
	if d == &postgresDialect {
		options.Isolation = sql.LevelRepeatableRead
	}
	if s.tx, err = s.db.BeginTx(ctx, options); err != nil {
		return err
	}
	if s.Tables, err = readTables(ctx, s.tx, queries); err != nil {
		return err
	}
	if err := s.readVersion(ctx, kind, d); err != nil {
		return err
	}
	q := newTx(ctx, s.tx, d, false)
	i, err := q.Installation()
	if err != nil {
		return err
	}
	s.Installation = i.ID
	if s.Position, err = q.Position(); err != nil {
		return err
	}
	unfinished, _, err := find(q, value[int64], "SELECT count(*) FROM import_progress")
	if err == nil && unfinished > 0 {
		err = errUnfinished()
	}
	if err != nil {
		return err
	}
	s.Live, err = liveServers(ctx, q)
	return err
}

func liveServers(ctx context.Context, q *Tx) (int, error) {
	now := micros(q.now)
	if q.d == &postgresDialect {
		at, _, err := find(q, value[int64], "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
		if err != nil {
			return 0, err
		}
		now = at
	}
	n, _, err := find(q, value[int], "SELECT count(*) FROM servers WHERE lease_until > $1", now)
	return n, err
}

// readVersion refuses a database whose schema this program does not know, or has not brought up to date yet.
func (s *Snapshot) readVersion(ctx context.Context, kind goose.Dialect, d *dialect) error {
	steps, err := migrationSteps(d)
	if err != nil {
		return err
	}
	want := steps[len(steps)-1].Version
	if len(s.Tables) == 0 {
		return fault.New(fault.NotFound, "database_empty", "the database is empty").WithHint("name the database of a server that has been started before")
	}
	err = s.tx.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version").Scan(&s.Schema)
	switch {
	case err != nil:
		return fmt.Errorf("read the version of the database: %w", err)
	case s.Schema != want:
		return fault.New(fault.Unsupported, "database_version", "the database has version %d, this program has version %d", s.Schema, want).
			WithHint("use the same version of legwork as the server that uses the database")
	}
	return nil
}

// Close ends the reading.
func (s *Snapshot) Close() error {
	var err error
	if s.tx != nil {
		err = s.tx.Rollback()
	}
	return errors.Join(err, s.db.Close())
}

// LogArchive is the blob that holds the beginning of a job's log.
type LogArchive struct {
	Job  string
	Key  string // of the blob
	Last int64  // position up to which the log is in it
}

// LogArchives returns the archives of logs, by the id of their job.
func (s *Snapshot) LogArchives(ctx context.Context) (map[string]LogArchive, error) {
	rows, err := s.tx.QueryContext(ctx, "SELECT job_id, archive, archived FROM log_jobs WHERE archive <> ''")
	if err != nil {
		return nil, fmt.Errorf("read the archives of logs: %w", err)
	}
	defer rows.Close()
	archives := map[string]LogArchive{}
	for rows.Next() {
		var a LogArchive
		if err := rows.Scan(&a.Job, &a.Key, &a.Last); err != nil {
			return nil, fmt.Errorf("read the archives of logs: %w", err)
		}
		archives[a.Job] = a
	}
	return archives, rows.Err()
}

// Rows calls fn with each row of a table in the order of its key. The values are nil, bool, int64, string or []byte.
func (s *Snapshot) Rows(ctx context.Context, t Table, fn func(values []any) error) error {
	return eachRow(ctx, s.tx, t, fn)
}

func eachRow(ctx context.Context, q queryer, t Table, fn func(values []any) error) error {
	rows, err := q.QueryContext(ctx, t.selectRows())
	if err != nil {
		return fmt.Errorf("read the table %s: %w", t.Name, err)
	}
	defer rows.Close()
	values := make([]any, len(t.Columns))
	pointers := make([]any, len(values))
	for i := range values {
		pointers[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(pointers...); err != nil {
			return fmt.Errorf("read the table %s: %w", t.Name, err)
		}
		for i, column := range t.Columns {
			switch v := values[i].(type) {
			case int64:
				if slices.Contains(t.Booleans, column) { // as SQLite stores it
					values[i] = v != 0
				}
			case []byte:
				if v == nil { // the driver of SQLite returns empty bytes as nil, which would be encoded as NULL
					values[i] = []byte{}
				}
			}
		}
		if err := fn(values); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the table %s: %w", t.Name, err)
	}
	return nil
}

// TableSum is what the rows of a table are compared by.
type TableSum struct {
	Name   string `json:"name"`
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"` // of the encoded rows, in the order of the key
}

// Sum reads a table and returns its sum.
func (s *Snapshot) Sum(ctx context.Context, t Table) (TableSum, error) { return sumRows(ctx, s.tx, t) }

func sumRows(ctx context.Context, q queryer, t Table) (TableSum, error) {
	sum, h := TableSum{Name: t.Name}, sha256.New()
	err := eachRow(ctx, q, t, func(values []any) error {
		b, err := EncodeRow(values)
		sum.Rows++
		h.Write(b)
		return err
	})
	sum.SHA256 = hex.EncodeToString(h.Sum(nil))
	return sum, err
}
