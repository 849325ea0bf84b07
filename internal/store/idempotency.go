package store

import (
	"context"
	"time"
)

// KeyedRequest is the record of a request with an idempotency key.
type KeyedRequest struct {
	ID             string // hash of the sender and the key
	OrganizationID string
	Fingerprint    []byte // of the request
	Changed        bool   // an Update of the request changed something
	Status         int    // of the answer; 0: there is none yet
	Answer         []byte // sealed
	CreatedAt      time.Time
	ExpiresAt      time.Time
}

// ClaimKeyedRequest stores the record of a request that is about to run. When there is a record with its ID already, it
// returns that one, and ok is false.
func (tx *Tx) ClaimKeyedRequest(r KeyedRequest) (found KeyedRequest, ok bool, err error) {
	if _, err := tx.exec("DELETE FROM idempotency_keys WHERE id = $1 AND expires_at <= $2", r.ID,
		micros(tx.now)); err != nil {
		return found, false, err
	}
	n, err := tx.exec(`INSERT INTO idempotency_keys (id, org, fingerprint, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO NOTHING`, r.ID, r.OrganizationID, r.Fingerprint, micros(tx.now), micros(r.ExpiresAt))
	if err != nil || n == 1 {
		return r, true, err
	}
	found, ok, err = tx.KeyedRequest(r.ID)
	if err == nil && !ok {
		return found, false, errAgain // it ended just now
	}
	return found, false, err
}

// KeyedRequest returns the record of a request with an idempotency key.
func (tx *Tx) KeyedRequest(id string) (found KeyedRequest, ok bool, err error) {
	scan := func(row row) (r KeyedRequest, err error) {
		var created, expires int64
		err = row.Scan(&r.ID, &r.OrganizationID, &r.Fingerprint, &r.Changed, &r.Status, &r.Answer, &created, &expires)
		r.CreatedAt, r.ExpiresAt = moment(created), moment(expires)
		return r, err
	}
	return find(tx, scan, `SELECT id, org, fingerprint, changed, status, answer, created_at, expires_at
		FROM idempotency_keys WHERE id = $1`, id)
}

// FinishKeyedRequest stores the sealed answer of a request.
func (tx *Tx) FinishKeyedRequest(id string, status int, answer []byte) error {
	_, err := tx.exec("UPDATE idempotency_keys SET status = $2, answer = $3 WHERE id = $1", id, status, answer)
	return err
}

// ReleaseKeyedRequest deletes the record of a request that has changed nothing, so that its key can be used again.
func (tx *Tx) ReleaseKeyedRequest(id string) error {
	_, err := tx.exec("DELETE FROM idempotency_keys WHERE id = $1 AND status = 0 AND NOT changed", id)
	return err
}

// PruneKeyedRequests deletes records that have expired, at most 10,000 at a time.
func (tx *Tx) PruneKeyedRequests() error {
	_, err := tx.exec(`DELETE FROM idempotency_keys WHERE id IN
		(SELECT id FROM idempotency_keys WHERE expires_at <= $1 ORDER BY expires_at LIMIT 10000)`, micros(tx.now))
	return err
}

type keyedRequestKey struct{}

// WithKeyedRequest returns a context whose Updates record, in their own transactions, that the request has changed
// something.
func WithKeyedRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, keyedRequestKey{}, id)
}

// recordChange wraps an Update of a request with an idempotency key. Every change of state appends an event.
func recordChange(ctx context.Context, fn func(tx *Tx) error) func(tx *Tx) error {
	id, ok := ctx.Value(keyedRequestKey{}).(string)
	if !ok {
		return fn
	}
	return func(tx *Tx) error {
		if err := fn(tx); err != nil || tx.events == 0 {
			return err
		}
		_, err := tx.exec("UPDATE idempotency_keys SET changed = TRUE WHERE id = $1 AND NOT changed", id)
		return err
	}
}
