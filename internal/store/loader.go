package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"legwork/internal/fault"
)

const (
	maxParameters    = 30_000 // of one statement; both databases allow a few more
	maxStatementRows = 500
)

// errUnfinished refuses a database that was filled in part.
func errUnfinished() error {
	return fault.New(fault.Conflict, "import_unfinished", "a restore into this database, or a migration to it, was interrupted").
		WithHint("run the same command again: it continues where it was interrupted")
}

// Loader fills an empty database with the rows of another one. What Append returned from is kept when the program is interrupted, and a
// Loader of the same source continues behind it. No Server opens the database before Finish.
type Loader struct {
	source string
	db     *sql.DB
	d      *dialect
	lock   *os.File
	done   map[string]progress
}

type progress struct {
	rows int64
	done bool
}

// OpenLoader opens a database, which is made where it is a file, with the schema of a version. source identifies what it is filled with. A
// database that has rows already is refused, unless an earlier Loader of the same source stored them.
func OpenLoader(ctx context.Context, url, source string, schema int64) (*Loader, error) {
	l := &Loader{source: source}
	if !isPostgres(url) && strings.Contains(url, "://") {
		return nil, errUnknownDatabase()
	}
	if !isPostgres(url) {
		file, err := lockFile(url)
		if err != nil {
			return nil, err
		}
		l.lock = file
	}
	db, kind, d, queries, err := openPlain(url)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.db, l.d = db, d
	if err := l.open(ctx, url, kind, queries, schema); err != nil {
		return nil, errors.Join(explainOpening(url, d, err), l.Close())
	}
	return l, nil
}

func (l *Loader) open(ctx context.Context, url string, kind goose.Dialect, queries schemaQueries, schema int64) error {
	var options []goose.ProviderOption
	if l.d == &sqliteDialect {
		l.db.SetMaxOpenConns(1)
		if err := checkSQLite(ctx, l.db, url); err != nil {
			return err
		}
	} else {
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 120))
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	if err := l.makeSchema(ctx, kind, schema, options); err != nil {
		return err
	}
	return l.begin(ctx, queries)
}

// makeSchema brings the schema to the version of what is loaded.
func (l *Loader) makeSchema(ctx context.Context, kind goose.Dialect, schema int64, options []goose.ProviderOption) error {
	p, err := migrator(l.db, kind, l.d, options...)
	if err != nil {
		return err
	}
	have, want, err := p.GetVersions(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("read the version of the database: %w", err)
	case schema > want:
		return fault.New(fault.Unsupported, "backup_newer", "the data has version %d, this program knows versions up to %d", schema, want).
			WithHint("use the version of legwork that the data comes from, or a newer one")
	case have > schema:
		return errNotEmpty()
	case have == 0:
		create := "CREATE TABLE IF NOT EXISTS " + importTable + " (unused INTEGER PRIMARY KEY)"
		if _, err := l.db.ExecContext(ctx, create); err != nil {
			return fmt.Errorf("mark the database as not complete: %w", err)
		}
	}
	if _, err := p.UpTo(ctx, schema); err != nil {
		return fmt.Errorf("make the schema of the database: %w", err)
	}
	return nil
}

// importTable exists from before the first table of a target is created until it is complete, so that no server takes a
// target whose schema is not complete for a new database. It has no rows.
const importTable = "import_started"

// refuseStarted refuses a database with the table importTable.
func refuseStarted(ctx context.Context, db *sql.DB, d *dialect) error {
	query := "SELECT count(*) FROM sqlite_master WHERE name = $1"
	if d == &postgresDialect {
		query = "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = $1"
	}
	n := 0
	if err := db.QueryRowContext(ctx, query, importTable).Scan(&n); err != nil {
		return fmt.Errorf("look for an unfinished import: %w", err)
	}
	if n > 0 {
		return errUnfinished()
	}
	return nil
}

func errNotEmpty() error {
	return fault.New(fault.Conflict, "database_not_empty", "the target database is not empty").
		WithHint("name an empty one")
}

// begin takes the database for this source, or continues.
func (l *Loader) begin(ctx context.Context, queries schemaQueries) error {
	var err error
	if l.done, err = l.readProgress(ctx); err != nil || len(l.done) > 0 {
		return err
	}
	tables, err := readTables(ctx, l.db, queries)
	if err != nil {
		return err
	}
	for _, t := range tables {
		var rows int
		if err := l.db.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM "+t.Name+" LIMIT 1) AS first").Scan(&rows); err != nil {
			return err
		}
		if rows > 0 {
			return errNotEmpty()
		}
	}
	return l.transaction(ctx, func(tx *Tx) error { return l.note(tx, "", 0, true) })
}

func (l *Loader) readProgress(ctx context.Context) (map[string]progress, error) {
	done := map[string]progress{}
	rows, err := l.db.QueryContext(ctx, "SELECT source, table_name, row_count, done FROM import_progress")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var source, table string
		var p progress
		if err := rows.Scan(&source, &table, &p.rows, &p.done); err != nil {
			return nil, err
		}
		if source != l.source {
			return nil, fault.New(fault.Conflict, "import_other", "the target database was filled in part from another source").
				WithHint("name an empty database")
		}
		done[table] = p
	}
	return done, rows.Err()
}

func (l *Loader) transaction(ctx context.Context, fn func(tx *Tx) error) error {
	db, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return l.d.explain(err)
	}
	defer func() { _ = db.Rollback() }() // after a commit it does nothing
	if err := fn(newTx(ctx, db, l.d, true)); err != nil {
		return err
	}
	return l.d.explain(db.Commit())
}

func (l *Loader) note(tx *Tx, table string, rows int64, done bool) error {
	_, err := tx.exec(`INSERT INTO import_progress (source, table_name, row_count, done) VALUES ($1, $2, $3, $4)
		ON CONFLICT (source, table_name) DO UPDATE SET row_count = excluded.row_count, done = excluded.done`, l.source, table, rows, done)
	return err
}

// Loaded returns how many rows of a table are stored, and whether these are all.
func (l *Loader) Loaded(table string) (rows int64, done bool) {
	p := l.done[table]
	return p.rows, p.done
}

// Sum reads a table of the target and returns its sum.
func (l *Loader) Sum(ctx context.Context, t Table) (TableSum, error) { return sumRows(ctx, l.db, t) }

// Append stores the next rows of a table; last says that no more follow.
func (l *Loader) Append(ctx context.Context, t Table, rows [][]any, last bool) error {
	if err := t.valid(); err != nil {
		return err
	}
	count := l.done[t.Name].rows + int64(len(rows))
	err := l.transaction(ctx, func(tx *Tx) error {
		most := min(maxStatementRows, max(1, maxParameters/len(t.Columns)))
		for len(rows) > 0 {
			n := min(most, len(rows))
			if err := insertRows(tx, t, rows[:n]); err != nil {
				return fmt.Errorf("fill the table %s: %w", t.Name, err)
			}
			rows = rows[n:]
		}
		return l.note(tx, t.Name, count, last)
	})
	if err == nil {
		l.done[t.Name] = progress{rows: count, done: last}
	}
	return err
}

func insertRows(tx *Tx, t Table, rows [][]any) error {
	tuples := make([]string, len(rows))
	marks := make([]string, len(t.Columns))
	args := make([]any, 0, len(rows)*len(t.Columns))
	for i, row := range rows {
		if len(row) != len(t.Columns) {
			return fault.New(fault.Invalid, "backup_row", "a row has %d values and the table %d columns", len(row), len(t.Columns))
		}
		for j, value := range row {
			args = append(args, value)
			marks[j] = "$" + strconv.Itoa(len(args))
		}
		tuples[i] = "(" + strings.Join(marks, ", ") + ")"
	}
	_, err := tx.exec("INSERT INTO "+t.Name+" ("+strings.Join(t.Columns, ", ")+") VALUES "+strings.Join(tuples, ", "), args...)
	return err
}

// Finish makes the database usable. hold is the reason why Servers start nothing from it until an operator resumes; empty for none.
func (l *Loader) Finish(ctx context.Context, hold string) error {
	return l.transaction(ctx, func(tx *Tx) error {
		i, err := tx.Installation()
		if err != nil {
			return err
		}
		i.Home = ""
		if hold != "" {
			i.Hold = &Hold{Reason: hold, Since: tx.Now()}
		}
		if hold != "" || i.ID != "" { // without an ID, the source never served with this schema
			if err := tx.putIdentified(i); err != nil {
				return err
			}
		}
		if _, err := tx.exec("UPDATE instances SET connected = FALSE WHERE connected"); err != nil {
			return err
		}
		if _, err := tx.exec("DELETE FROM import_progress"); err != nil {
			return err
		}
		_, err = tx.exec("DROP TABLE IF EXISTS " + importTable)
		return err
	})
}

// EndHold removes the hold that was copied from the source, if that is its reason.
func (l *Loader) EndHold(ctx context.Context, reason string) error {
	return l.transaction(ctx, func(tx *Tx) error {
		i, err := tx.Installation()
		if err != nil || i.Hold == nil || i.Hold.Reason != reason {
			return err
		}
		i.Hold = nil
		return tx.PutInstallation(i)
	})
}

// Close closes the database.
func (l *Loader) Close() error {
	var err error
	if l.db != nil {
		err = l.db.Close()
	}
	if l.lock != nil {
		err = errors.Join(err, l.lock.Close())
	}
	return err
}

// Clear removes the tables of this program from a PostgreSQL database, all or none, so that it can be filled again. It refuses a schema
// with other tables. A file of SQLite is renamed instead: kept is its new name.
func Clear(ctx context.Context, url string) (kept string, err error) {
	if !isPostgres(url) {
		return setAside(url)
	}
	db, _, d, queries, err := openPlain(url)
	if err != nil {
		return "", err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return "", d.explain(err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := dropTables(ctx, tx, d, queries); err != nil {
		return "", d.explain(err)
	}
	return "", d.explain(tx.Commit())
}

func dropTables(ctx context.Context, tx *sql.Tx, d *dialect, queries schemaQueries) error {
	live, err := liveIfAny(ctx, tx, newTx(ctx, tx, d, false))
	if err != nil || live > 0 {
		return errors.Join(err, CheckUnused(live))
	}
	tables, err := schemaNames(ctx, tx, queries.tables)
	if err != nil || len(tables) == 0 {
		return err
	}
	known, err := knownTables()
	if err != nil {
		return err
	}
	unknown := slices.DeleteFunc(slices.Clone(tables), func(name string) bool { return slices.Contains(known, name) })
	if len(unknown) > 0 {
		return fault.New(fault.Conflict, "database_shared", "the database has tables that are not of this program: %s", strings.Join(unknown, ", ")).
			WithHint("name a database that only legwork uses, or move these tables to another schema")
	}
	_, err = tx.ExecContext(ctx, `DROP TABLE "`+strings.Join(tables, `", "`)+`"`)
	return err
}

// liveIfAny is liveServers for a database that may have no schema.
func liveIfAny(ctx context.Context, db *sql.Tx, q *Tx) (int, error) {
	var there bool
	if err := db.QueryRowContext(ctx, "SELECT to_regclass('servers') IS NOT NULL").Scan(&there); err != nil || !there {
		return 0, err
	}
	return liveServers(ctx, q)
}

// CheckUnused returns a fault that tells the user to stop the servers, when there are any that use a database.
func CheckUnused(servers int) error {
	if servers == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "database_in_use", "%d running servers use the database", servers).
		WithHint("stop them; a server that was killed counts for 30 seconds more")
}

// setAside renames the files of a SQLite database.
func setAside(path string) (kept string, err error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	lock, err := lockFile(path)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	for n := 1; ; n++ {
		kept = fmt.Sprintf("%s.replaced-%d", path, n)
		if _, err := os.Stat(kept); errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(path+suffix, kept+suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("set the database aside: %w", err)
		}
	}
	return kept, nil
}
