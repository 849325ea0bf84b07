package store

import (
	"encoding/json"
	"fmt"
	"time"

	"legwork/internal/fault"
)

// Webhook is what the Server keeps of a Runner's webhook. The URL is in the Runner's record.
type Webhook struct {
	RunnerID       string `json:"-"`
	OrganizationID string `json:"-"`

	// Secret signs calls, Previous signs them too until PreviousUntil. Both are sealed.
	Secret        json.RawMessage `json:"secret,omitempty"`
	Previous      json.RawMessage `json:"previous,omitempty"`
	PreviousUntil time.Time       `json:"previous_until,omitzero"`

	Registered bool `json:"registered,omitempty"` // the URL is from a registration, not from an owner: it must not lead to private addresses

	GoneURL []byte `json:"gone_url,omitempty"` // hash of the URL that wants no calls any more

	// The demand that was called for last: how often, when, and when again if it still stands.
	Calls    int       `json:"calls,omitempty"`
	CalledAt time.Time `json:"called_at,omitzero"`
	NextAt   time.Time `json:"next_at,omitzero"`
}

// WebhookStatus tells how far a delivery is.
type WebhookStatus string

// The statuses of a delivery. All but the first are final.
const (
	WebhookPending   WebhookStatus = "pending"
	WebhookDelivered WebhookStatus = "delivered"
	WebhookFailed    WebhookStatus = "failed"
	WebhookDropped   WebhookStatus = "dropped" // it was not needed any more
)

// WebhookDelivery is one event for a webhook, with what became of it.
type WebhookDelivery struct {
	ID             string    `json:"-"`
	OrganizationID string    `json:"-"`
	RunnerID       string    `json:"-"`
	Claim          string    `json:"-"` // empty while nobody tries it
	DueAt          time.Time `json:"-"` // zero when it is over
	CreatedAt      time.Time `json:"-"`

	Event      string          `json:"event"` // "runner.wanted", "webhook.test"
	Status     WebhookStatus   `json:"status"`
	Tries      int             `json:"tries"`
	TriedAt    time.Time       `json:"tried_at,omitzero"`
	FinishedAt time.Time       `json:"finished_at,omitzero"`
	Answer     int             `json:"answer,omitempty"` // status of the last answer; 0: there was none
	Error      string          `json:"error,omitempty"`  // of the last try, or why it was dropped
	Oldest     string          `json:"oldest,omitempty"` // id of the Job that waits longest
	Body       json.RawMessage `json:"body"`
}

// deliveriesKept is how many deliveries of a Runner are kept that are over.
const deliveriesKept = 50

func scanWebhook(r row) (w Webhook, err error) {
	var doc []byte
	if err := r.Scan(&w.RunnerID, &w.OrganizationID, &doc); err != nil {
		return w, err
	}
	if err := json.Unmarshal(doc, &w); err != nil {
		return w, fmt.Errorf("read a webhook: %w", err)
	}
	return w, nil
}

// Webhook finds what is kept of a Runner's webhook, locked until the end of an Update. It is an empty one when nothing is yet; the lock
// holds even then.
func (tx *Tx) Webhook(org, runnerID string) (Webhook, error) {
	if err := tx.lock("webhook " + runnerID); err != nil {
		return Webhook{}, err
	}
	w, ok, err := find(tx, scanWebhook, "SELECT runner_id, org, doc FROM webhooks WHERE runner_id = $1 AND org = $2", runnerID, org)
	if !ok {
		w = Webhook{RunnerID: runnerID, OrganizationID: org}
	}
	return w, err
}

// PutWebhook stores what Webhook gave.
func (tx *Tx) PutWebhook(w Webhook) error {
	doc, err := document(w)
	if err != nil {
		return err
	}
	return tx.ofRunner(w.RunnerID, `INSERT INTO webhooks (runner_id, org, doc) VALUES ($1, $2, $3)
		ON CONFLICT (runner_id) DO UPDATE SET doc = excluded.doc`, w.RunnerID, w.OrganizationID, doc)
}

// ofRunner writes a row that belongs to a Runner, which may have been deleted.
func (tx *Tx) ofRunner(runnerID, query string, args ...any) error {
	trouble, err := tx.guarded(func() error {
		_, err := tx.exec(query, args...)
		return err
	})
	if trouble == brokenReference {
		return absent("Runner", "runner", runnerID).WithCause(err)
	}
	return err
}

const selectDelivery = "SELECT id, org, runner_id, claim, due_at, created_at, doc FROM webhook_deliveries"

func scanDelivery(r row) (d WebhookDelivery, err error) {
	var due *int64
	var created int64
	var doc []byte
	if err := r.Scan(&d.ID, &d.OrganizationID, &d.RunnerID, &d.Claim, &due, &created, &doc); err != nil {
		return d, err
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return d, fmt.Errorf("read a delivery of a webhook: %w", err)
	}
	if d.CreatedAt = moment(created); due != nil {
		d.DueAt = moment(*due)
	}
	return d, nil
}

// InsertDelivery stores a new delivery, gives it CreatedAt and, when it has none, an ID (else one of UUID version 7), and deletes old
// ones of its Runner that are over.
func (tx *Tx) InsertDelivery(d *WebhookDelivery) (err error) {
	id := d.ID
	if id == "" {
		if id, err = newID(); err != nil {
			return err
		}
	}
	doc, err := document(d)
	if err != nil {
		return err
	}
	err = tx.ofRunner(d.RunnerID, `INSERT INTO webhook_deliveries (id, org, runner_id, claim, due_at, created_at, doc)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`, id, d.OrganizationID, d.RunnerID, d.Claim, dueOrNull(d.DueAt), micros(tx.now), doc)
	if err != nil {
		return err
	}
	d.ID, d.CreatedAt = id, tx.now
	_, err = tx.exec(`DELETE FROM webhook_deliveries WHERE runner_id = $1 AND org = $3 AND due_at IS NULL AND id NOT IN
		(SELECT id FROM webhook_deliveries WHERE runner_id = $1 AND org = $3 ORDER BY id DESC LIMIT $2)`, d.RunnerID, deliveriesKept, d.OrganizationID)
	return err
}

func dueOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return micros(t)
}

// Deliveries gives the newest deliveries of a Runner, newest first. limit is at most 1000, 0 = 1000.
func (tx *Tx) Deliveries(org, runnerID string, limit int) ([]WebhookDelivery, error) {
	return list(tx, scanDelivery, selectDelivery+" WHERE runner_id = $1 AND org = $2 ORDER BY id DESC LIMIT $3",
		runnerID, org, bounded(limit, 1000, 1000))
}

// PendingDelivery finds the delivery of a Runner that is not over; ok is false when there is none.
func (tx *Tx) PendingDelivery(org, runnerID string) (d WebhookDelivery, ok bool, err error) {
	return find(tx, scanDelivery, selectDelivery+" WHERE runner_id = $1 AND org = $2 AND due_at IS NOT NULL ORDER BY id DESC LIMIT 1"+tx.forUpdate(),
		runnerID, org)
}

// DueDeliveries gives deliveries that are to be tried, of all Organizations, the longest due first.
func (tx *Tx) DueDeliveries(now time.Time, limit int) ([]WebhookDelivery, error) {
	return list(tx, scanDelivery, selectDelivery+" WHERE due_at <= $1 ORDER BY due_at, id LIMIT $2", micros(now), bounded(limit, 1000, 1000))
}

// ClaimDelivery gives a delivery that DueDeliveries gave to one who tries it until a time, after which it is due again. ok is false
// when another one has it, or it is over.
func (tx *Tx) ClaimDelivery(d WebhookDelivery, claim string, until time.Time) (ok bool, err error) {
	n, err := tx.exec("UPDATE webhook_deliveries SET claim = $3, due_at = $4 WHERE id = $1 AND claim = $5 AND due_at = $2",
		d.ID, micros(d.DueAt), claim, micros(until), d.Claim)
	return n == 1, err
}

// SaveDelivery writes what became of a delivery, which is let go of. A zero DueAt ends it. ok is false when it is not held by that claim
// any more.
func (tx *Tx) SaveDelivery(d WebhookDelivery) (ok bool, err error) {
	if (d.Status == WebhookPending) == d.DueAt.IsZero() {
		return false, fault.New(fault.Internal, "delivery_due", "a delivery is pending and not due, or the other way round")
	}
	doc, err := document(d)
	if err != nil {
		return false, err
	}
	n, err := tx.exec("UPDATE webhook_deliveries SET claim = '', due_at = $3, doc = $4 WHERE id = $1 AND claim = $2 AND due_at IS NOT NULL",
		d.ID, d.Claim, dueOrNull(d.DueAt), doc)
	return n == 1, err
}
