package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"legwork/internal/control/secrets"
	"legwork/internal/fault"
	"legwork/internal/store"
)

const (
	keyedRetention   = 24 * time.Hour
	maxKeyedDuration = 5 * time.Minute // after this a request without an answer is not running any more
	maxKeyedAnswer   = 1 << 20

	// Limits of one sender.
	maxLiveKeys       = 50_000
	maxLiveKeyedBytes = 256 << 20
)

// Sender is who sends a request with an idempotency key.
type Sender struct {
	OrganizationID string
	ID             string // of the principal, the user or the registration token
	Role           string
}

// KeyedAnswer is the answer to a request with an idempotency key.
type KeyedAnswer struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"`
	Body   []byte            `json:"body,omitempty"`
}

// KeyedRequest is a request with an idempotency key that runs now. Of all servers that share the database, exactly one
// can make its change: the one whose claim is in the record of the key.
type KeyedRequest struct {
	control *Control
	record  store.KeyedRequest
}

// Errors about idempotency keys.
var (
	ErrKeyReused = fault.New(fault.Invalid, "idempotency_key_reused",
		"this Idempotency-Key was sent with another request").
		WithHint("use a new key for every request, and the same key only to repeat the same request")
	ErrKeyRunning = fault.New(fault.Conflict, "idempotency_key_running",
		"a request with this Idempotency-Key is still running").
		WithHint("wait a few seconds and repeat the request with the same key")
	ErrTooManyKeys = fault.New(fault.RateLimited, "idempotency_keys_full",
		"this sender has as many stored answers to requests with an Idempotency-Key as it may have").
		WithHint("wait until older keys expire, 24 hours after their use, or send the request without an Idempotency-Key")
	ErrAnswerLost = fault.New(fault.Conflict, "idempotency_answer_lost",
		"the request with this Idempotency-Key made its change, but its answer was not kept").
		WithHint("look at what exists now before you send the request with another key")
)

// BeginKeyed claims an idempotency key for a request with a fingerprint. When the request has been answered before, it
// returns that answer and no KeyedRequest.
func (c *Control) BeginKeyed(ctx context.Context, by Sender, key string, fingerprint []byte) (*KeyedRequest,
	*KeyedAnswer, error) {
	sum := sha256.Sum256([]byte(strings.Join([]string{by.OrganizationID, by.ID, by.Role, key}, "\x00")))
	id := hex.EncodeToString(sum[:])
	var found store.KeyedRequest
	var isNew bool
	var isLost bool
	err := c.store.Update(ctx, func(tx *store.Tx) (err error) {
		found, isNew, err = claimKey(tx, store.KeyedRequest{ID: id, OrganizationID: by.OrganizationID,
			Sender: by.ID, Fingerprint: fingerprint, ExpiresAt: tx.Now().Add(keyedRetention)})
		isLost = answerLost(found, tx.Now())
		if err != nil || !isNew {
			return err
		}
		used, err := tx.KeyUsage(by.OrganizationID, by.ID)
		if err == nil && exceedsLimits(used) {
			err = ErrTooManyKeys
		}
		return err
	})
	switch {
	case err != nil:
		return nil, nil, err
	case isNew:
		return &KeyedRequest{c, found}, nil, nil
	case !bytes.Equal(found.Fingerprint, fingerprint):
		return nil, nil, ErrKeyReused
	case found.Status != 0:
		answer, err := c.openKeyed(found)
		return nil, answer, err
	case isLost:
		return nil, nil, ErrAnswerLost
	}
	return nil, nil, ErrKeyRunning
}

// claimKey stores the record of a request. It takes the place of a request that was abandoned.
func claimKey(tx *store.Tx, r store.KeyedRequest) (found store.KeyedRequest, isNew bool, err error) {
	found, isNew, err = tx.ClaimKeyedRequest(r)
	if err != nil || isNew || !abandoned(found, tx.Now()) {
		return found, isNew, err
	}
	if _, err := tx.ReleaseKeyedRequest(found); err != nil {
		return found, false, err
	}
	return tx.ClaimKeyedRequest(r)
}

// exceedsLimits reports whether a sender stores too much, with the key that it just claimed.
func exceedsLimits(used store.KeyUsage) bool {
	return used.Keys > maxLiveKeys || used.Bytes > maxLiveKeyedBytes
}

// unanswered reports whether the server that ran a request ended before it stored an answer.
func unanswered(r store.KeyedRequest, now time.Time) bool {
	return r.Status == 0 && now.Sub(r.CreatedAt) > maxKeyedDuration
}

// abandoned reports whether the server that ran a request ended before the request had changed anything.
func abandoned(r store.KeyedRequest, now time.Time) bool { return unanswered(r, now) && !r.Changed }

// answerLost reports whether the server that ran a request ended after the change and before the answer.
func answerLost(r store.KeyedRequest, now time.Time) bool { return unanswered(r, now) && r.Changed }

func (c *Control) openKeyed(r store.KeyedRequest) (*KeyedAnswer, error) {
	if len(r.Answer) == 0 {
		return nil, ErrAnswerLost
	}
	plain, err := c.safe.Open(r.Answer, secrets.OfKeyedAnswer(r.ID))
	if err != nil {
		return nil, err
	}
	var answer KeyedAnswer
	if err := json.Unmarshal(plain, &answer); err != nil {
		return nil, fmt.Errorf("read the answer of a request: %w", err)
	}
	return &answer, nil
}

// Context returns the context in which the request runs. A client that disconnects does not end it, because the answer
// is kept for when the client repeats the request.
func (r *KeyedRequest) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	running, cancel := context.WithCancel(store.WithKeyedRequest(context.WithoutCancel(ctx), r.record))
	deadline, ok := ctx.Deadline()
	if !ok {
		return running, cancel
	}
	timed, stop := context.WithDeadline(running, deadline)
	return timed, func() { stop(); cancel() }
}

// Finish keeps the answer of the request if the request succeeded or changed something. Otherwise the key is free
// again. The answer is sealed, because it may hold a secret that is shown once.
//
// After a change, Finish does not keep an answer that asks the client to retry: every retry would get it again. Finish
// returns ErrAnswerLost instead, which then answers the request and its repetitions.
func (r *KeyedRequest) Finish(ctx context.Context, a KeyedAnswer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	sealed, err := r.control.sealKeyed(r.record.ID, a)
	if err != nil {
		return err
	}
	var isLost bool
	err = r.control.store.Update(ctx, func(tx *store.Tx) error {
		isLost = false
		if a.Status >= 300 {
			if released, err := tx.ReleaseKeyedRequest(r.record); err != nil || released {
				return err
			}
		}
		isLost = a.isTemporary()
		if isLost {
			return tx.FinishKeyedRequest(r.record, a.Status, nil)
		}
		return tx.FinishKeyedRequest(r.record, a.Status, sealed)
	})
	if err == nil && isLost {
		err = ErrAnswerLost
	}
	return err
}

// isTemporary reports whether an answer asks the client to retry later.
func (a KeyedAnswer) isTemporary() bool {
	return a.Status >= 500 || a.Status == http.StatusTooManyRequests
}

// sealKeyed returns nil for an answer that is too large to be kept.
func (c *Control) sealKeyed(id string, a KeyedAnswer) ([]byte, error) {
	if len(a.Body) > maxKeyedAnswer {
		return nil, nil
	}
	plain, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("write the answer of a request: %w", err)
	}
	return c.safe.Seal(plain, secrets.OfKeyedAnswer(id))
}
