package store

import (
	"context"
	"crypto/rand"
	"time"

	"legwork/internal/fault"
)

// KeyedRequest is the record of a request with an idempotency key.
type KeyedRequest struct {
	ID             string // hash of the sender and the key
	Claim          string // random: who runs the request
	OrganizationID string
	Fingerprint    []byte // of the request
	Changed        bool   // an Update of the request changed something
	Status         int    // of the answer; 0: there is none yet
	Answer         []byte // sealed
	CreatedAt      time.Time
	ExpiresAt      time.Time
}

// ErrKeyLost is why a change is refused whose request lost its idempotency key to a repetition of the request.
var ErrKeyLost = fault.New(fault.Conflict, "idempotency_key_lost",
	"the request was interrupted for so long that its Idempotency-Key was given to a repetition of it").
	WithHint("repeat the request with the same key to get the answer of the repetition")

// ClaimKeyedRequest stores the record of a request that is about to run, with a new claim. When there is a record with
// its ID already, it returns that one, and ok is false.
func (tx *Tx) ClaimKeyedRequest(r KeyedRequest) (found KeyedRequest, ok bool, err error) {
	if _, err := tx.exec("DELETE FROM idempotency_keys WHERE id = $1 AND expires_at <= $2", r.ID,
		micros(tx.now)); err != nil {
		return found, false, err
	}
	r.Claim, r.CreatedAt = rand.Text(), tx.now
	n, err := tx.exec(`INSERT INTO idempotency_keys (id, claim, org, fingerprint, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING`, r.ID, r.Claim, r.OrganizationID, r.Fingerprint,
		micros(r.CreatedAt), micros(r.ExpiresAt))
	if err != nil || n == 1 {
		return r, true, err
	}
	found, ok, err = tx.KeyedRequest(r.ID)
	if err == nil && !ok {
		tx.again = true
		return found, false, errAgain // it ended just now
	}
	return found, false, err
}

// KeyedRequest returns the record of a request with an idempotency key.
func (tx *Tx) KeyedRequest(id string) (found KeyedRequest, ok bool, err error) {
	scan := func(row row) (r KeyedRequest, err error) {
		var created, expires int64
		err = row.Scan(&r.ID, &r.Claim, &r.OrganizationID, &r.Fingerprint, &r.Changed, &r.Status, &r.Answer, &created,
			&expires)
		r.CreatedAt, r.ExpiresAt = moment(created), moment(expires)
		return r, err
	}
	return find(tx, scan, `SELECT id, claim, org, fingerprint, changed, status, answer, created_at, expires_at
		FROM idempotency_keys WHERE id = $1`, id)
}

// FinishKeyedRequest stores the sealed answer of a request. It fails with ErrKeyLost if the request lost its key.
func (tx *Tx) FinishKeyedRequest(r KeyedRequest, status int, answer []byte) error {
	n, err := tx.exec("UPDATE idempotency_keys SET status = $3, answer = $4 WHERE id = $1 AND claim = $2", r.ID, r.Claim,
		status, answer)
	if err == nil && n == 0 {
		err = ErrKeyLost
	}
	return err
}

// ReleaseKeyedRequest deletes the record of a request that has changed nothing, so that its key can be used again. It
// reports whether it did.
func (tx *Tx) ReleaseKeyedRequest(r KeyedRequest) (released bool, err error) {
	n, err := tx.exec("DELETE FROM idempotency_keys WHERE id = $1 AND claim = $2 AND status = 0 AND NOT changed", r.ID,
		r.Claim)
	return n == 1, err
}

// PruneKeyedRequests deletes records that have expired, at most 10,000 at a time.
func (tx *Tx) PruneKeyedRequests() error {
	_, err := tx.exec(`DELETE FROM idempotency_keys WHERE id IN
		(SELECT id FROM idempotency_keys WHERE expires_at <= $1 ORDER BY expires_at LIMIT 10000)`, micros(tx.now))
	return err
}

type keyedRequestKey struct{}

// WithKeyedRequest returns a context whose Updates record, in their own transactions, that the request has changed
// something. Such an Update fails with ErrKeyLost if the request lost its key.
func WithKeyedRequest(ctx context.Context, r KeyedRequest) context.Context {
	return context.WithValue(ctx, keyedRequestKey{}, r)
}

// recordChange wraps an Update of a request with an idempotency key. Every change of state appends an event. The row
// stays locked until the commit, so no other server can delete its claim in between.
func recordChange(ctx context.Context, fn func(tx *Tx) error) func(tx *Tx) error {
	r, ok := ctx.Value(keyedRequestKey{}).(KeyedRequest)
	if !ok {
		return fn
	}
	return func(tx *Tx) error {
		if err := fn(tx); err != nil || tx.events == 0 {
			return err
		}
		n, err := tx.exec("UPDATE idempotency_keys SET changed = TRUE WHERE id = $1 AND claim = $2", r.ID, r.Claim)
		if err == nil && n == 0 {
			err = ErrKeyLost
		}
		return err
	}
}
