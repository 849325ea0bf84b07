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
	Sender         string
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
	n, err := tx.exec(`INSERT INTO idempotency_keys (id, claim, org, sender, fingerprint, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING`, r.ID, r.Claim, r.OrganizationID, r.Sender,
		r.Fingerprint, micros(r.CreatedAt), micros(r.ExpiresAt))
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
		err = row.Scan(&r.ID, &r.Claim, &r.OrganizationID, &r.Sender, &r.Fingerprint, &r.Changed, &r.Status, &r.Answer,
			&created, &expires)
		r.CreatedAt, r.ExpiresAt = moment(created), moment(expires)
		return r, err
	}
	return find(tx, scan, `SELECT id, claim, org, sender, fingerprint, changed, status, answer, created_at, expires_at
		FROM idempotency_keys WHERE id = $1`, id)
}

// FinishKeyedRequest stores the sealed answer of a request. It fails with ErrKeyLost if the request lost its key.
func (tx *Tx) FinishKeyedRequest(r KeyedRequest, status int, answer []byte) error {
	n, err := tx.exec(`UPDATE idempotency_keys SET status = $3, answer = $4, answer_bytes = $5
		WHERE id = $1 AND claim = $2`, r.ID, r.Claim, status, answer, len(answer))
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

// KeyUsage is how much of the database the idempotency keys of one sender use.
type KeyUsage struct{ Keys, Bytes int64 }

// KeyUsage returns how many idempotency keys of a sender have not expired, and how large their answers are.
func (tx *Tx) KeyUsage(org, sender string) (KeyUsage, error) {
	scan := func(r row) (u KeyUsage, err error) {
		err = r.Scan(&u.Keys, &u.Bytes)
		return u, err
	}
	used, _, err := find(tx, scan, `SELECT count(*), CAST(coalesce(sum(answer_bytes), 0) AS BIGINT) FROM idempotency_keys
		WHERE org = $1 AND sender = $2 AND expires_at > $3`, org, sender, micros(tx.now))
	return used, err
}

// maxPrunedKeys is how many records PruneKeyedRequests deletes at a time.
const maxPrunedKeys = 10000

// PruneKeyedRequests deletes records that have expired. It reports whether there are more.
func (tx *Tx) PruneKeyedRequests() (more bool, err error) {
	n, err := tx.exec(`DELETE FROM idempotency_keys WHERE id IN
		(SELECT id FROM idempotency_keys WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)`, micros(tx.now),
		maxPrunedKeys)
	return n == maxPrunedKeys, err
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
