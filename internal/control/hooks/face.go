package hooks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"time"

	"github.com/google/uuid"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/webhook"
)

// previousSecretTime is how long the secret before the last rotation still signs beside the new one.
const previousSecretTime = 24 * time.Hour

// deliveriesShown is how many deliveries are shown.
const deliveriesShown = 20

// View is a Runner's webhook as it is shown.
type View struct {
	Runner        catalog.Runner // its Webhook is the URL, empty when it has none
	IsGone        bool           // the receiver answered 410: it is not called until the URL changes
	Secret        string         // when it was asked for, and there is a URL
	PreviousUntil time.Time      // until then the secret before signs, too; zero: there is none
	Calls         int            // for the last demand
	CalledAt      time.Time
	Deliveries    []store.WebhookDelivery // the last ones, newest first
}

// RevealedEvent is the data of the event "webhook.revealed": somebody got the secret of a Runner's webhook.
type RevealedEvent struct {
	Runner string `json:"runner"`
	By     string `json:"by"`
}

// Show gives the webhook of a Runner, by id or name. reveal asks for its secret, too, which is made with the first URL: that is
// for who may administer, and stands in the audit.
func (h *Hooks) Show(ctx context.Context, actor catalog.Actor, idOrName string, reveal bool) (View, error) {
	if !reveal {
		return h.view(ctx, actor, idOrName, false)
	}
	if err := actor.Need(catalog.Administer); err != nil {
		return View{}, err
	}
	err := h.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "webhook.reveal")
		r, err := h.host.Runner(tx, actor.OrganizationID, idOrName)
		if err != nil {
			return err
		}
		if err := needWebhook(r); err != nil {
			return err
		}
		return h.host.Publish(tx, actor.OrganizationID, "webhook.revealed", r.ID, RevealedEvent{Runner: r.Name, By: actor.Name})
	})
	if err != nil {
		return View{}, err
	}
	h.host.Signal(actor.OrganizationID)
	return h.view(ctx, actor, idOrName, true)
}

// view reads a webhook, with its secret for who was allowed that.
func (h *Hooks) view(ctx context.Context, actor catalog.Actor, idOrName string, secret bool) (v View, err error) {
	if err := actor.Need(catalog.Read); err != nil {
		return v, err
	}
	var w store.Webhook
	var now time.Time
	err = h.store.View(ctx, func(tx *store.Tx) (err error) {
		now = tx.Now()
		if v.Runner, err = h.host.Runner(tx, actor.OrganizationID, idOrName); err != nil {
			return err
		}
		if w, err = tx.Webhook(actor.OrganizationID, v.Runner.ID); err != nil {
			return err
		}
		v.Deliveries, err = tx.Deliveries(actor.OrganizationID, v.Runner.ID, deliveriesShown)
		return err
	})
	if err != nil {
		return View{}, err
	}
	v.Calls, v.CalledAt, v.IsGone = w.Calls, w.CalledAt, isGone(w, v.Runner.Webhook)
	if now.Before(w.PreviousUntil) {
		v.PreviousUntil = w.PreviousUntil
	}
	if !secret || v.Runner.Webhook == "" || len(w.Secret) == 0 {
		return v, nil
	}
	secrets, err := h.secrets(w, now)
	if err != nil {
		return View{}, err
	}
	v.Secret = secrets[0]
	return v, nil
}

// RotatedEvent is the data of the event "webhook.rotated" in the outbox, as JSON. Its subject is the Runner.
type RotatedEvent struct {
	Action string `json:"action"` // rotate
	Path   string `json:"path"`   // of the Runner
	By     string `json:"by"`
}

// Rotate gives a Runner's webhook a new secret. Calls are signed with the one before, too, for 24 hours.
func (h *Hooks) Rotate(ctx context.Context, actor catalog.Actor, idOrName string) (View, error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return View{}, err
	}
	err := h.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "webhook.rotate")
		r, err := h.host.Runner(tx, actor.OrganizationID, idOrName)
		if err != nil {
			return err
		}
		if err := needWebhook(r); err != nil {
			return err
		}
		w, err := tx.Webhook(actor.OrganizationID, r.ID)
		if err != nil {
			return err
		}
		if _, err := h.secrets(w, tx.Now()); len(w.Secret) > 0 && err == nil {
			w.Previous, w.PreviousUntil = w.Secret, tx.Now().Add(previousSecretTime)
		} else { // one that does not open would keep calls from being signed
			w.Previous, w.PreviousUntil = nil, time.Time{}
		}
		if w.Secret, err = h.newSecret(r.ID); err != nil {
			return err
		}
		if err := tx.PutWebhook(w); err != nil {
			return err
		}
		return h.host.Publish(tx, actor.OrganizationID, "webhook.rotated", r.ID, RotatedEvent{Action: "rotate", Path: r.Name, By: actor.Name})
	})
	if err != nil {
		return View{}, err
	}
	h.host.Signal(actor.OrganizationID)
	return h.view(ctx, actor, idOrName, true)
}

// Test calls a Runner's webhook once, now, with the event webhook.test, whether it is wanted or not, and gives what came of it. That
// the receiver did not take it is no error. One that answered 410 before is called, too: a success lets it be called again.
func (h *Hooks) Test(ctx context.Context, actor catalog.Actor, idOrName string) (d store.WebhookDelivery, err error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return d, err
	}
	var r catalog.Runner
	var secrets []string
	public := false
	err = h.store.Update(ctx, func(tx *store.Tx) error {
		if r, err = h.host.Runner(tx, actor.OrganizationID, idOrName); err != nil {
			return err
		}
		if err := needWebhook(r); err != nil {
			return err
		}
		w, err := h.kept(tx, r.OrganizationID, r.ID)
		if err != nil {
			return err
		}
		public = w.Registered
		d = store.WebhookDelivery{OrganizationID: r.OrganizationID, RunnerID: r.ID, Event: eventTest, Tries: 1, TriedAt: tx.Now()}
		if d.Body, err = bodyOf(tx, eventTest, r, Data{}); err != nil {
			return err
		}
		secrets, err = h.secrets(w, tx.Now())
		return err
	})
	if err != nil {
		return store.WebhookDelivery{}, err
	}
	d.ID = uuid.Must(uuid.NewV7()).String()
	status, sendErr := h.sender.Send(ctx, webhook.Call{URL: r.Webhook, ID: d.ID, Body: d.Body, Secrets: secrets, DenyPrivate: public})
	if ctx.Err() != nil {
		return store.WebhookDelivery{}, ctx.Err()
	}
	d.Answer, d.Error, d.Status = status, errorText(sendErr), store.WebhookDelivered
	if sendErr != nil {
		d.Status = store.WebhookFailed
	}
	err = h.store.Update(ctx, func(tx *store.Tx) error {
		d.FinishedAt = tx.Now()
		tx.Sign(actor, "webhook.test")
		if err := tx.InsertDelivery(&d); err != nil {
			return err
		}
		if sendErr == nil {
			if err := forgetGone(tx, r); err != nil {
				return err
			}
		}
		return h.noteDelivery(tx, d)
	})
	if err != nil {
		return store.WebhookDelivery{}, err
	}
	h.count(d, sendErr)
	h.host.Signal(r.OrganizationID)
	return d, nil
}

// Set notes that a Runner has another URL than before: it has a secret from then on. One that was
// registered leads to no private address until an owner sets another.
func (h *Hooks) Set(tx *store.Tx, r catalog.Runner, before string, registered bool) error {
	if r.Webhook == "" || r.Webhook == before {
		return nil
	}
	w, err := h.kept(tx, r.OrganizationID, r.ID)
	if err != nil || w.Registered == registered {
		return err
	}
	w.Registered = registered
	return tx.PutWebhook(w)
}

func needWebhook(r catalog.Runner) error {
	if r.Webhook != "" {
		return nil
	}
	return fault.New(fault.Conflict, "no_webhook", "runner %s has no webhook", r.Name).
		WithHint("give its record a URL: webhook in a manifest of kind Runner, or by the API")
}

// isGone tells whether the receiver behind a URL said that it wants no more calls.
func isGone(w store.Webhook, url string) bool {
	return len(w.GoneURL) > 0 && bytes.Equal(w.GoneURL, hashOf(url))
}

func forgetGone(tx *store.Tx, r catalog.Runner) error {
	w, err := tx.Webhook(r.OrganizationID, r.ID)
	if err != nil || len(w.GoneURL) == 0 {
		return err
	}
	w.GoneURL = nil
	return tx.PutWebhook(w)
}

func hashOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// ignoreGone lets pass that a record was deleted meanwhile.
func ignoreGone(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// Stats counts the calls of webhooks that this Server made since its start.
type Stats struct {
	Delivered int64
	Retried   int64 // tries that failed and were not the last
	Failed    int64 // deliveries that were given up
	Dropped   int64 // deliveries that were not needed any more
}

func (h *Hooks) Stats() Stats {
	return Stats{h.counts.delivered.Load(), h.counts.retried.Load(), h.counts.failed.Load(), h.counts.dropped.Load()}
}
