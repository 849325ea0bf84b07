package store

import (
	"time"

	"legwork/internal/fault"
)

// Event is one entry of the outbox. IDs rise, with gaps; a reader that has seen N asks for what follows N. IDs become
// visible in order.
type Event struct {
	ID             int64     `json:"id"`
	OrganizationID string    `json:"-"`
	Time           time.Time `json:"time"`
	Kind           string    `json:"kind"`    // "job.queued", "job.running", "runner.online", "module.changed", ...
	Subject        string    `json:"subject"` // id of what changed
	Data           []byte    `json:"data"`    // JSON
}

// AppendEvent adds an entry to the outbox; its ID and, when it is zero, its Time are set by the store.
// One transaction holds at most 16,383 events.
func (tx *Tx) AppendEvent(e Event) error {
	if tx.events++; tx.events >= eventsPerTx {
		return fault.New(fault.TooLarge, "too_many_events", "one change makes more than %d events", eventsPerTx-1).
			WithHint("make it in smaller parts")
	}
	at := e.Time
	if at.IsZero() {
		at = tx.now
	}
	a := tx.authorOf(e)
	_, err := tx.exec(`INSERT INTO events (id, org, at, kind, subject, data, action, actor_id, actor, address)
		VALUES (`+tx.d.eventID+`, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		tx.events, e.OrganizationID, micros(at), e.Kind, e.Subject, string(e.Data), a.action, a.id, a.name, a.address)
	return err
}

// EventsAfter gives the events of an Organization that follow id, in order. limit is at most 1000, 0 = 1000.
func (tx *Tx) EventsAfter(org string, id int64, limit int) ([]Event, error) {
	scan := func(r row) (e Event, err error) {
		var at int64
		err = r.Scan(&e.ID, &e.OrganizationID, &at, &e.Kind, &e.Subject, &e.Data)
		e.Time = moment(at)
		return e, err
	}
	return list(tx, scan, "SELECT id, org, at, kind, subject, data FROM events WHERE org = $1 AND id > $2 AND "+tx.d.eventSeen+
		" ORDER BY id LIMIT $3", org, id, bounded(limit, 1000, 1000))
}

// LastEvent gives the id of the newest event of an Organization that a reader may see, 0 when there is none.
func (tx *Tx) LastEvent(org string) (int64, error) {
	id, _, err := find(tx, value[int64], "SELECT id FROM events WHERE org = $1 AND "+tx.d.eventSeen+" ORDER BY id DESC LIMIT 1", org)
	return id, err
}

// PruneEvents deletes events older than before, and those of the audit older than auditBefore: at most 10,000 of each at a time
// and never the newest, whose id the next one has to follow.
func (tx *Tx) PruneEvents(before, auditBefore time.Time) error {
	for _, p := range []struct {
		which string
		at    time.Time
	}{{"action = ''", before}, {"action <> ''", auditBefore}} {
		_, err := tx.exec(`DELETE FROM events WHERE at < $1 AND id < (SELECT max(id) FROM events)
			AND id IN (SELECT id FROM events WHERE `+p.which+` ORDER BY id LIMIT 10000)`, micros(p.at))
		if err != nil {
			return err
		}
	}
	return nil
}
