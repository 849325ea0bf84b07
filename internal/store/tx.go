package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"legwork/internal/fault"
)

// Tx is one transaction. It ends with the function it was given to and belongs to one goroutine.
type Tx struct {
	ctx     context.Context
	q       querier
	d       *dialect
	now     time.Time
	writes  bool
	events  int64 // appended so far
	author  author
	entries map[signature]bool // of the audit
	again   bool               // the database wants the transaction to be run anew
	broken  error              // the database gave the transaction up: what follows would run outside of it

	conditional bool // the precondition of the request was checked
}

// querier runs statements: a *sql.Tx, or a session of SQLite.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// errAgain makes Update run its function anew.
var errAgain = fault.New(fault.Unavailable, "database_busy", "too many changes of the same record meet in the database").
	WithHint("try again")

func newTx(ctx context.Context, q querier, d *dialect, writes bool) *Tx {
	return &Tx{ctx: ctx, q: q, d: d, writes: writes, now: time.Now().UTC().Truncate(time.Microsecond)}
}

// Now is the time of the transaction, the same for all it does, in microseconds and UTC.
func (tx *Tx) Now() time.Time { return tx.now }

// LockCatalog makes Updates that change what is declared in an Organization run one after the other, so
// that checks over several records hold until the commit. It refuses the Update when the precondition of its request
// does not hold.
func (tx *Tx) LockCatalog(org string) error {
	if err := tx.lock("catalog " + org); err != nil {
		return err
	}
	return tx.checkPrecondition()
}

// lock holds a named lock until the end of an Update. Where writers are alone anyway it does nothing.
func (tx *Tx) lock(name string) error { return tx.hold(tx.d.lock, name) }

func (tx *Tx) hold(how, name string) error {
	if how == "" || !tx.writes {
		return nil
	}
	_, err := tx.exec(how, name)
	return err
}

// forUpdate is the clause that locks the rows of a SELECT, where that is needed.
func (tx *Tx) forUpdate() string {
	if !tx.writes {
		return ""
	}
	return tx.d.forUpdate
}

// exec runs a statement and tells how many rows it changed.
func (tx *Tx) exec(query string, args ...any) (int64, error) {
	if tx.broken != nil {
		return 0, tx.broken
	}
	r, err := tx.q.ExecContext(tx.ctx, query, args...)
	if err != nil {
		return 0, tx.failed(err)
	}
	n, err := r.RowsAffected()
	return n, tx.failed(err)
}

// failed gives a database's error its meaning.
func (tx *Tx) failed(err error) error {
	if err == nil {
		return nil
	}
	explained := tx.d.explain(err)
	switch tx.d.trouble(err) {
	case meetsAnother:
		tx.again = true
	case full, unreachable, damaged:
		tx.broken = explained
	}
	return explained
}

// guarded runs one statement that may break a rule of the schema. After such a failure the
// transaction goes on as if the statement had not been there, in both dialects.
func (tx *Tx) guarded(run func() error) (trouble, error) {
	if !tx.d.spoils {
		err := run()
		return tx.d.trouble(err), err
	}
	if _, err := tx.exec("SAVEPOINT guarded"); err != nil {
		return noTrouble, err
	}
	err := run()
	end := "RELEASE SAVEPOINT guarded"
	if err != nil {
		end = "ROLLBACK TO SAVEPOINT guarded"
	}
	if _, endErr := tx.exec(end); endErr != nil {
		return noTrouble, errors.Join(err, endErr)
	}
	return tx.d.trouble(err), err
}

// row is what a scan function reads from.
type row interface{ Scan(dest ...any) error }

// list gives all rows of a query.
func list[T any](tx *Tx, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	if tx.broken != nil {
		return nil, tx.broken
	}
	rows, err := tx.q.QueryContext(tx.ctx, query, args...)
	if err != nil {
		return nil, tx.failed(err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("read a row: %w", err)
		}
		all = append(all, v)
	}
	return all, tx.failed(rows.Err())
}

// find gives the only row of a query; ok is false when there is none.
func find[T any](tx *Tx, scan func(row) (T, error), query string, args ...any) (v T, ok bool, err error) {
	all, err := list(tx, scan, query, args...)
	if err != nil || len(all) == 0 {
		return v, false, err
	}
	return all[0], true, nil
}

// need is find where a missing row is the fault missing.
func need[T any](tx *Tx, missing *fault.Fault, scan func(row) (T, error), query string, args ...any) (T, error) {
	v, ok, err := find(tx, scan, query, args...)
	if err == nil && !ok {
		return v, missing
	}
	return v, err
}

// value scans a row of one column.
func value[T any](r row) (v T, err error) {
	err = r.Scan(&v)
	return v, err
}

// absent is the fault of what is not there.
func absent(what, code, name string) *fault.Fault {
	return fault.New(fault.NotFound, code+"_not_found", "there is no %s %q", what, name)
}

// taken is the fault of a name that another record has.
func taken(what, code, name string) *fault.Fault {
	article := "a"
	if strings.ContainsAny(what[:1], "AEIO") {
		article = "an"
	}
	f := fault.New(fault.Conflict, code+"_exists", "there is already %s %s named %q", article, what, name)
	if code == "assignment" {
		return f.WithHint("nothing is left to do: see legwork assignment list")
	}
	return f
}

// newID makes a UUID version 7: unique, and rising with time, so that indexes grow at their end.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return id.String(), nil
}

// document gives the JSON that is stored of a record.
func document(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fault.New(fault.Invalid, "not_storable", "the record holds a value that is no valid JSON").WithCause(err)
	}
	return string(b), nil
}
