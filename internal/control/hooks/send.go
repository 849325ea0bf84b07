package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/webhook"
	"legwork/internal/work"
)

// secretBroken is the code of the error that the secret of a webhook cannot sign.
const secretBroken = "webhook_secret"

// try is one delivery that this Server claimed, with what it needs to be sent.
type try struct {
	delivery store.WebhookDelivery
	url      string
	public   bool // private addresses are not called
	secrets  []string
	broken   error // why it cannot be signed; it is not sent then
}

// sendDue begins the calls that are due, as many as there are places.
func (h *Hooks) sendDue(ctx context.Context) {
	free := h.sender.Free()
	if free <= 0 {
		return
	}
	var due []store.WebhookDelivery
	err := h.store.View(ctx, func(tx *store.Tx) (err error) {
		due, err = tx.DueDeliveries(tx.Now(), free)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			h.log.Error("could not look for due calls of webhooks", "error", err)
		}
		return
	}
	for _, d := range due {
		t, err := h.claim(ctx, d)
		switch {
		case err != nil && ctx.Err() == nil:
			h.log.Error("could not take up a call of a webhook", "delivery_id", d.ID, "error", err)
		case t != nil:
			h.sending.Go(func() { h.send(ctx, t) })
		}
	}
}

// claim takes a delivery for this Server. It is nil when another one has it, or when there is nothing to send any more.
func (h *Hooks) claim(ctx context.Context, d store.WebhookDelivery) (t *try, err error) {
	claim := h.server + " " + uuid.NewString()
	var w store.Webhook
	var now time.Time
	err = h.store.Update(ctx, func(tx *store.Tx) error {
		t, now = nil, tx.Now()
		ok, err := tx.ClaimDelivery(d, claim, now.Add(h.sender.Timeout()+slack))
		if err != nil || !ok {
			return err
		}
		mine := d
		mine.Claim = claim
		if paused, err := tx.Paused(d.OrganizationID); err != nil || paused {
			return errors.Join(err, letGo(tx, mine, now.Add(deferredFor)))
		}
		r, err := tx.Runner(d.OrganizationID, d.RunnerID)
		if err != nil {
			return ignoreGone(err)
		}
		if w, err = h.kept(tx, d.OrganizationID, r.ID); err != nil {
			return err
		}
		why, err := h.needless(tx, r, w, mine)
		if err != nil {
			return err
		}
		if why != "" {
			return h.drop(tx, mine, why)
		}
		t = &try{delivery: mine, url: r.Webhook, public: w.Registered}
		return nil
	})
	if err != nil || t == nil {
		return nil, err
	}
	t.secrets, t.broken = h.secrets(w, now)
	return t, nil
}

// letGo has a delivery be due again at a time, without a try.
func letGo(tx *store.Tx, d store.WebhookDelivery, until time.Time) error {
	d.DueAt = until
	_, err := tx.SaveDelivery(d)
	return err
}

// needless says why a delivery need not be sent any more, "" when it has to be.
func (h *Hooks) needless(tx *store.Tx, r catalog.Runner, w store.Webhook, d store.WebhookDelivery) (string, error) {
	switch {
	case !callableNow(r):
		return "the runner is disabled or has no webhook any more", nil
	case isGone(w, r.Webhook):
		return "the receiver wants no more calls", nil
	}
	if wanted := h.wanted[r.ID]; wanted != nil {
		instances, err := tx.Instances(r.OrganizationID, r.ID)
		if err == nil && wanted.met(instances) {
			return "an instance is online", nil
		}
		return "", err
	}
	// Another Server may have seen the demand, or this one before its restart.
	j, err := tx.Job(r.OrganizationID, d.Oldest)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", err
	}
	if err != nil || j.Status != work.Queued || !waitsForInstance(j.Wait.Code) {
		return "no job waits for an instance any more", nil
	}
	return "", nil
}

// waitsForInstance tells whether a reason to wait is the lack of an Instance, as far as it is known yet.
func waitsForInstance(code work.WaitCode) bool {
	return code == "" || code == work.WaitMaintenance || code == work.WaitOnHold || code == work.WaitNoInstance || code == work.WaitPinnedOffline
}

// send makes one try and stores what came of it. When ctx ends first, the delivery is let go of, for another Server or later.
func (h *Hooks) send(ctx context.Context, t *try) {
	status, sendErr := 0, t.broken
	if sendErr == nil {
		status, sendErr = h.sender.Send(ctx, webhook.Call{URL: t.url, ID: t.delivery.ID, Body: t.delivery.Body, Secrets: t.secrets, DenyPrivate: t.public})
	}
	stopped := ctx.Err() != nil && sendErr != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	d := t.delivery
	var ok bool
	err := h.store.Update(ctx, func(tx *store.Tx) (err error) {
		d = t.delivery
		if stopped {
			d.DueAt = tx.Now()
			ok, err = tx.SaveDelivery(d)
			return err
		}
		ok, err = h.settle(tx, &d, t.url, status, sendErr)
		return err
	})
	switch {
	case err != nil:
		h.log.Error("could not store what came of a call of a webhook", "runner_id", d.RunnerID, "delivery_id", d.ID, "error", err)
	case ok && !stopped:
		h.count(d, sendErr)
		h.host.Signal(d.OrganizationID)
	}
}

// settle stores what came of a try: the end of the delivery, or when it is tried again.
func (h *Hooks) settle(tx *store.Tx, d *store.WebhookDelivery, url string, status int, sendErr error) (ok bool, err error) {
	d.Tries++
	d.TriedAt, d.Answer, d.Error = tx.Now(), status, errorText(sendErr)
	switch {
	case sendErr == nil:
		d.Status = store.WebhookDelivered
	case status == http.StatusGone || d.Tries >= triesMost || fault.Code(sendErr) == secretBroken: // no later try is better
		d.Status = store.WebhookFailed
	}
	d.DueAt, d.FinishedAt = time.Time{}, tx.Now()
	if d.Status == store.WebhookPending {
		d.DueAt, d.FinishedAt = tx.Now().Add(retryAfter(d.Tries, jitter())), time.Time{}
	}
	if ok, err = tx.SaveDelivery(*d); err != nil || !ok {
		return ok, err
	}
	if status == http.StatusGone {
		if err := noteGone(tx, d.OrganizationID, d.RunnerID, url); err != nil {
			return false, err
		}
	}
	return true, h.noteDelivery(tx, *d)
}

// noteGone remembers that the receiver behind a URL wants no more calls.
func noteGone(tx *store.Tx, org, runnerID, url string) error {
	w, err := tx.Webhook(org, runnerID)
	if err != nil {
		return err
	}
	w.GoneURL = hashOf(url)
	return tx.PutWebhook(w)
}

// DeliveryEvent is the data of the events "webhook.delivered" and "webhook.failed" in the outbox, as JSON. Their subject is the Runner.
type DeliveryEvent struct {
	DeliveryID string    `json:"delivery_id"`
	Event      string    `json:"event"`
	Tries      int       `json:"tries"`
	Answer     int       `json:"answer,omitempty"` // status
	Error      string    `json:"error,omitempty"`
	RetryAt    time.Time `json:"retry_at,omitzero"` // zero when it is given up
}

func (h *Hooks) noteDelivery(tx *store.Tx, d store.WebhookDelivery) error {
	kind := "webhook.failed"
	if d.Status == store.WebhookDelivered {
		kind = "webhook.delivered"
	}
	return h.host.Publish(tx, d.OrganizationID, kind, d.RunnerID,
		DeliveryEvent{DeliveryID: d.ID, Event: d.Event, Tries: d.Tries, Answer: d.Answer, Error: d.Error, RetryAt: d.DueAt})
}

// count counts a try, and logs one that failed.
func (h *Hooks) count(d store.WebhookDelivery, sendErr error) {
	switch d.Status {
	case store.WebhookDelivered:
		h.counts.delivered.Add(1)
		return
	case store.WebhookPending:
		h.counts.retried.Add(1)
	default:
		h.counts.failed.Add(1)
	}
	// Its cause may repeat the URL, which may hold a secret: the sentence is enough.
	h.log.Warn("a webhook was called in vain", "runner_id", d.RunnerID, "delivery_id", d.ID, "tries", d.Tries,
		"given_up", d.Status == store.WebhookFailed, "reason", errorText(sendErr))
}

// errorText is the sentence of an error.
func errorText(err error) string {
	var f *fault.Fault
	switch {
	case err == nil:
		return ""
	case errors.As(err, &f):
		return f.Message
	}
	return "the call failed"
}

// kept gives what is kept of a Runner's webhook, with a secret: one whose URL is from an earlier version has none yet.
func (h *Hooks) kept(tx *store.Tx, org, runnerID string) (store.Webhook, error) {
	w, err := tx.Webhook(org, runnerID)
	if err != nil || len(w.Secret) > 0 {
		return w, err
	}
	if w.Secret, err = h.newSecret(runnerID); err != nil {
		return w, err
	}
	return w, tx.PutWebhook(w)
}

func (h *Hooks) newSecret(runnerID string) (json.RawMessage, error) {
	text, err := json.Marshal(webhook.NewSecret())
	if err != nil {
		return nil, err
	}
	return h.host.Seal(text, SealedFor(runnerID))
}

// SealedFor is what the sealed secrets of a webhook belong to.
func SealedFor(runnerID string) []byte { return []byte("webhook\x00" + runnerID) }

// secrets opens the secrets that sign now, the newest first.
func (h *Hooks) secrets(w store.Webhook, now time.Time) ([]string, error) {
	sealed := []json.RawMessage{w.Secret}
	if len(w.Previous) > 0 && now.Before(w.PreviousUntil) {
		sealed = append(sealed, w.Previous)
	}
	secrets := make([]string, len(sealed))
	for i, s := range sealed {
		text, err := h.host.Unseal(s, SealedFor(w.RunnerID))
		if err != nil || json.Unmarshal(text, &secrets[i]) != nil { // the cause may quote it
			return nil, fault.New(fault.Failed, secretBroken, "the secret of the webhook cannot be opened: it was sealed with another master key, or is damaged").
				WithHint("give the Server its master key back, or make a new secret: legwork runner webhook RUNNER --rotate")
		}
	}
	return secrets, nil
}
