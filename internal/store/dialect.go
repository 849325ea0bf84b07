package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"legwork/internal/fault"
)

// dialect is all that differs between the SQL of the two databases.
type dialect struct {
	// Types of columns in migrations, and a record's document as JSON.
	text, blob, eventKey, json string
	fingerprint                string // of an Instance key, out of key_hash

	// eventID makes the id of an event; $1 counts the events of the transaction, from 1. eventSeen says which ids a
	// reader may see, so that none appears later below one that was seen.
	eventID, eventSeen string

	forUpdate string // locks the rows of a SELECT
	lock      string // holds the lock named $1 until the end of the transaction
	share     string // the same, together with others that share it
	size      string // selects the size of the database in bytes
	home      string // selects what identifies the place of the database; empty where it cannot tell
	spoils    bool   // a failed statement spoils its transaction

	trouble func(error) trouble
}

// trouble is what an error of a database means, as far as the store acts on it.
type trouble uint8

const (
	noTrouble       trouble = iota
	brokenUnique            // a unique index
	brokenReference         // a foreign key
	meetsAnother            // another transaction was in the way: run this one again
	unreachable             // the database does not answer, or is shutting down
	full                    // no space is left
	damaged                 // the file is not a sound database
	badText                 // text that the database cannot hold
)

// sqliteDialect: ids of events are those of their rows. One writer gives and commits them in order, and the newest
// event is never deleted, so they rise.
var sqliteDialect = dialect{
	text: "TEXT", blob: "BLOB", eventKey: "INTEGER", json: "doc",
	fingerprint: "lower(hex(substr(key_hash, 1, 16)))",
	eventID:     "nullif($1, $1)", eventSeen: "id > 0",
	size:    "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
	trouble: sqliteTrouble,
}

// eventsPerTx bounds the events of one transaction, so that each has its own range of ids.
const eventsPerTx = 1 << 14

// postgresDialect: a sequence would give ids in another order than commits make them visible. So the id of an event is
// made of its transaction's number, and a reader sees events of those transactions alone that are older than
// every one still under way (pg_snapshot_xmin). What becomes visible later has higher ids. It takes no lock; the price is that a
// transaction that writes for long, anywhere in that PostgreSQL, holds back events until it ends.
// event_base lifts the ids of a database that was restored into a younger PostgreSQL.
var postgresDialect = dialect{
	text: `TEXT COLLATE "C"`, blob: "BYTEA", eventKey: "BIGINT", json: "doc::json",
	fingerprint: "encode(substring(key_hash FROM 1 FOR 16), 'hex')",
	eventID:     "(SELECT base FROM event_base) + (pg_current_xact_id()::text::bigint << 14) + CAST($1 AS BIGINT)",
	eventSeen:   "id <= (SELECT base FROM event_base) + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 14)",
	forUpdate:   " FOR NO KEY UPDATE", // rows that refer to it may still be added
	lock:        "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
	share:       "SELECT pg_advisory_xact_lock_shared(hashtextextended($1, 0))",
	home: `SELECT (SELECT system_identifier FROM pg_control_system())::text || '/' ||
		(SELECT oid FROM pg_database WHERE datname = current_database())::text`,
	size:    "SELECT pg_database_size(current_database())",
	spoils:  true,
	trouble: postgresTrouble,
}

func sqliteTrouble(err error) trouble {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return noTrouble
	}
	switch e.Code() {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return brokenUnique
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return brokenReference
	case sqlite3.SQLITE_IOERR_SHMSIZE: // the shared memory file beside the database does not fit
		return full
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return full
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return damaged
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM:
		return unreachable
	}
	return noTrouble
}

// postgresTrouble reads SQLSTATE codes (PostgreSQL documentation, appendix A).
func postgresTrouble(err error) trouble {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return networkTrouble(err)
	}
	switch e.Code {
	case "23505":
		return brokenUnique
	case "23503":
		return brokenReference
	case "40001", "40P01": // serialization failure, deadlock
		return meetsAnother
	case "53100":
		return full
	case "XX001", "XX002":
		return damaged
	case "22021", "22P05":
		return badText
	case "25006": // the server was made read-only, as a standby is
		return unreachable
	}
	switch e.Code[:2] {
	case "08", "53", "57": // connection, resources, operator intervention
		return unreachable
	}
	return noTrouble
}

func networkTrouble(err error) trouble {
	var dial *pgconn.ConnectError
	var network net.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return noTrouble
	case errors.As(err, &dial), errors.As(err, &network), pgconn.SafeToRetry(err):
		return unreachable
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, driver.ErrBadConn):
		return unreachable
	}
	return noTrouble
}

// explain turns an error of the database into a fault where its meaning is known.
func (d *dialect) explain(err error) error {
	var known *fault.Fault
	if err == nil || errors.As(err, &known) {
		return err
	}
	switch d.trouble(err) {
	case unreachable:
		return fault.New(fault.Unavailable, "database_unavailable", "the database cannot be reached now").
			WithHint("look at the program's own log for the cause, and try again").WithCause(err)
	case full:
		return fault.New(fault.Unavailable, "database_full", "the disk of the database is full").
			WithHint("free some space there; nothing that was acknowledged is lost").WithCause(err)
	case damaged:
		return fault.New(fault.Internal, "database_damaged", "the database is damaged").
			WithHint("restore it from a backup").WithCause(err)
	case badText:
		return fault.New(fault.Invalid, "bad_text", "a text holds bytes that cannot be stored").WithCause(err)
	}
	return err
}
