package store

import (
	"fmt"
	"strings"
	"time"

	"legwork/internal/catalog"
)

// AuditEntry is an Event that somebody caused.
type AuditEntry struct {
	Event
	Action  string // "job.submit", "manifest.apply", ...
	ActorID string // of the principal
	Actor   string // its name at that time
	Address string // that the request came from, "" when it is not known
}

// author is who a transaction is by.
type author struct{ action, id, name, address string }

// Sign says on whose behalf the transaction acts and what they do: the events that it appends from here on are the audit of it.
func (tx *Tx) Sign(actor catalog.Actor, action string) {
	tx.author = author{action, actor.ID, actor.Name, actor.Address}
}

// Consequence runs what follows from an action rather than being it: its events are no entries of the audit.
func (tx *Tx) Consequence(run func() error) error {
	signed := tx.author
	tx.author = author{}
	defer func() { tx.author = signed }()
	return run()
}

// signature is an action on a subject.
type signature struct{ action, org, subject string }

// authorOf returns who an event is by. Of several events about one subject only the first is an entry of the audit: one
// action is one entry.
func (tx *Tx) authorOf(e Event) author {
	if tx.author.action == "" || e.Subject == "" {
		return tx.author
	}
	entry := signature{tx.author.action, e.OrganizationID, e.Subject}
	if tx.entries[entry] {
		return author{}
	}
	if tx.entries == nil {
		tx.entries = map[signature]bool{}
	}
	tx.entries[entry] = true
	return tx.author
}

// AuditFilter narrows a listing of the audit. Zero fields let everything through.
type AuditFilter struct {
	Actor    string    // name or id
	Action   string    // all of it, or the part before its dot: "job"
	Subject  string    // id of what was changed
	Since    time.Time // at or after
	Until    time.Time // before
	BeforeID int64     // for the next page: the id of the last entry of this one

	OldestFirst bool  // the oldest first
	AfterID     int64 // for the next page with OldestFirst: the id of the last entry of this one

	Limit int // at most 1000, 0 = 1000
}

// Audit returns the audit log of an organization, newest first unless OldestFirst is set.
func (tx *Tx) Audit(org string, f AuditFilter) ([]AuditEntry, error) {
	scan := func(r row) (e AuditEntry, err error) {
		var at int64
		err = r.Scan(&e.ID, &e.OrganizationID, &at, &e.Kind, &e.Subject, &e.Data, &e.Action, &e.ActorID, &e.Actor, &e.Address)
		e.Time = moment(at)
		return e, err
	}
	query, args := tx.auditQuery(org, f)
	return list(tx, scan, query, args...)
}

// auditQuery holds those conditions alone that the filter asks for, so that each finds its index.
func (tx *Tx) auditQuery(org string, f AuditFilter) (string, []any) {
	where, args := []string{"org = $1", "action <> ''", tx.d.eventSeen}, []any{org}
	add := func(wanted bool, condition string, values ...any) {
		if !wanted {
			return
		}
		var numbers []any
		for _, v := range values {
			args = append(args, v)
			numbers = append(numbers, len(args))
		}
		where = append(where, fmt.Sprintf(condition, numbers...))
	}
	add(f.Actor != "", "(actor = $%[1]d OR actor_id = $%[1]d)", f.Actor)
	add(f.Action != "", "(action = $%d OR (action >= $%d AND action < $%d))", f.Action, f.Action+".", f.Action+"/") // '/' follows '.'
	add(f.Subject != "", "subject = $%d", f.Subject)
	add(!f.Since.IsZero(), "at >= $%d", micros(f.Since))
	add(!f.Until.IsZero(), "at < $%d", micros(f.Until))
	add(f.BeforeID > 0, "id < $%d", f.BeforeID)
	add(f.AfterID > 0, "id > $%d", f.AfterID)
	args = append(args, bounded(f.Limit, 1000, 1000))
	order := "id DESC"
	if f.OldestFirst {
		order = "id"
	}
	return fmt.Sprintf(`SELECT id, org, at, kind, subject, data, action, actor_id, actor, address FROM events
		WHERE %s ORDER BY %s LIMIT $%d`, strings.Join(where, " AND "), order, len(args)), args
}
