package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
)

// webhooks: what is kept of a Runner's webhook is its Organization's alone, and goes with the Runner.
func webhooks(t *testing.T, w *world) {
	a, b := w.a.runner, w.b.runner
	kept := func(org, runner string) (hook store.Webhook) {
		w.update(func(tx *store.Tx) (err error) { hook, err = tx.Webhook(org, runner); return err })
		return hook
	}
	sameText(t, "before there is one", kept(a.OrganizationID, a.ID), store.Webhook{RunnerID: a.ID, OrganizationID: a.OrganizationID})
	var first store.Webhook
	w.update(func(tx *store.Tx) error {
		first = store.Webhook{RunnerID: a.ID, OrganizationID: a.OrganizationID, Secret: json.RawMessage(`"one"`), Previous: json.RawMessage(`"none"`),
			PreviousUntil: tx.Now().Add(time.Hour), Registered: true, GoneURL: []byte{0, 255}, Calls: 2, CalledAt: tx.Now(), NextAt: tx.Now().Add(time.Minute)}
		return tx.PutWebhook(first)
	})
	sameText(t, "stored", kept(a.OrganizationID, a.ID), first)
	sameText(t, "seen by its neighbour", kept(b.OrganizationID, a.ID), store.Webhook{RunnerID: a.ID, OrganizationID: b.OrganizationID})
	second := store.Webhook{RunnerID: a.ID, OrganizationID: a.OrganizationID, Secret: json.RawMessage(`"two"`)}
	w.update(func(tx *store.Tx) error { return tx.PutWebhook(second) })
	sameText(t, "changed", kept(a.OrganizationID, a.ID), second)
	w.fails(fault.NotFound, "one of a neighbour's Runner", func(tx *store.Tx) error {
		return tx.PutWebhook(store.Webhook{RunnerID: b.ID, OrganizationID: a.OrganizationID})
	})
	countTogether(t, w)

	d := newDelivery(w, w.b, store.WebhookPending)
	w.update(func(tx *store.Tx) error { return tx.DeleteRunner(b.OrganizationID, b.ID) })
	w.fails(fault.NotFound, "one of a Runner that is gone", func(tx *store.Tx) error {
		return tx.PutWebhook(store.Webhook{RunnerID: b.ID, OrganizationID: b.OrganizationID})
	})
	w.fails(fault.NotFound, "a delivery for it", func(tx *store.Tx) error { again := d; return tx.InsertDelivery(&again) })
	same(t, "deliveries of it that are due", len(due(w, time.Hour)), 0)
}

// countTogether: Webhook locks, so that no change is lost even where there was no row before.
func countTogether(t *testing.T, w *world) {
	b := w.b.runner
	err := together(t.Context(), 8, func(ctx context.Context, _ int) error {
		return w.s.Update(ctx, func(tx *store.Tx) error {
			hook, err := tx.Webhook(b.OrganizationID, b.ID)
			if err != nil {
				return err
			}
			hook.Calls++
			return tx.PutWebhook(hook)
		})
	})
	if err != nil {
		t.Fatal(explain(err))
	}
	w.update(func(tx *store.Tx) error {
		hook, err := tx.Webhook(b.OrganizationID, b.ID)
		same(t, "counted by eight", hook.Calls, 8)
		return err
	})
}

// newDelivery stores a delivery for the Runner of a tenant; one that is pending is due at once.
func newDelivery(w *world, of tenant, status store.WebhookStatus) (d store.WebhookDelivery) {
	w.t.Helper()
	w.update(func(tx *store.Tx) error {
		d = store.WebhookDelivery{OrganizationID: of.org.ID, RunnerID: of.runner.ID, Event: "runner.wanted", Status: status, Oldest: "j",
			Body: json.RawMessage(`{"type":"runner.wanted"}`)}
		if status == store.WebhookPending {
			d.DueAt = tx.Now()
		}
		return tx.InsertDelivery(&d)
	})
	return d
}

// due gives the deliveries that are due some time from now.
func due(w *world, in time.Duration) (all []store.WebhookDelivery) {
	w.t.Helper()
	w.view(func(tx *store.Tx) (err error) { all, err = tx.DueDeliveries(tx.Now().Add(in), 10); return err })
	return all
}

// deliveries: each is stored whole, held by one at a time, and ends once.
func deliveries(t *testing.T, w *world) {
	a, b := w.a, w.b
	mine, theirs := newDelivery(w, a, store.WebhookPending), newDelivery(w, b, store.WebhookPending)
	if mine.ID == "" || mine.CreatedAt.IsZero() {
		t.Fatalf("without an id or a time: %+v", mine)
	}
	w.view(func(tx *store.Tx) error {
		all, err := tx.Deliveries(a.org.ID, a.runner.ID, 0)
		sameText(t, "stored", all, []store.WebhookDelivery{mine})
		foreign, foreignErr := tx.Deliveries(b.org.ID, a.runner.ID, 0)
		same(t, "seen by the neighbour", len(foreign), 0)
		return errors.Join(err, foreignErr)
	})
	sameText(t, "due in all Organizations, in order", due(w, 0), []store.WebhookDelivery{mine, theirs})
	same(t, "due before they are", len(due(w, -time.Hour)), 0)

	mine.Claim = claimOnce(t, w, mine)
	sameText(t, "due while one is held", due(w, 0), []store.WebhookDelivery{theirs})
	overdue := due(w, 2*time.Minute)
	same(t, "due when its holder is lost", len(overdue), 2)
	endDelivery(t, w, mine)
	keepOnlyTheLast(t, w)
}

// claimOnce has several take up a delivery at once, and gives the claim of the one who got it.
func claimOnce(t *testing.T, w *world, d store.WebhookDelivery) string {
	t.Helper()
	var winner atomic.Int32
	var won atomic.Int32
	err := together(t.Context(), 8, func(ctx context.Context, i int) error {
		ok := false
		err := w.s.Update(ctx, func(tx *store.Tx) (err error) {
			ok, err = tx.ClaimDelivery(d, fmt.Sprint("server ", i), tx.Now().Add(time.Minute))
			return err
		})
		if ok && err == nil {
			winner.Store(int32(i))
			won.Add(1)
		}
		return err
	})
	if err != nil {
		t.Fatal(explain(err))
	}
	same(t, "who got it", won.Load(), 1)
	return fmt.Sprint("server ", winner.Load())
}

// endDelivery lets go of a delivery that is held, takes it up again, and ends it.
func endDelivery(t *testing.T, w *world, d store.WebhookDelivery) {
	t.Helper()
	a := w.a
	save := func(d store.WebhookDelivery) (ok bool) {
		w.update(func(tx *store.Tx) (err error) { ok, err = tx.SaveDelivery(d); return err })
		return ok
	}
	w.fails(fault.Internal, "pending and not due", func(tx *store.Tx) error {
		lost := d
		lost.DueAt = time.Time{}
		_, err := tx.SaveDelivery(lost)
		return err
	})
	w.fails(fault.Internal, "over and due", func(tx *store.Tx) error {
		odd := d
		odd.Status = store.WebhookFailed
		_, err := tx.SaveDelivery(odd)
		return err
	})
	stranger := d
	stranger.Claim = "another"
	same(t, "saved by one who does not hold it", save(stranger), false)
	d.Tries, d.Answer, d.Error = 1, 502, "the receiver answered 502"
	same(t, "put off", save(d), true)
	same(t, "put off twice", save(d), false) // it is let go of
	d.Claim = ""
	w.update(func(tx *store.Tx) error {
		pending, ok, err := tx.PendingDelivery(a.org.ID, a.runner.ID)
		same(t, "one is pending", ok, true)
		sameText(t, "pending", pending, d)
		_, ok, otherErr := tx.PendingDelivery(w.b.org.ID, a.runner.ID)
		same(t, "pending for the neighbour", ok, false)
		return errors.Join(err, otherErr)
	})
	d.Claim = claimOnce(t, w, d)
	d.Status, d.DueAt, d.Tries = store.WebhookDelivered, time.Time{}, 2
	same(t, "ended", save(d), true)
	d.Claim = ""
	same(t, "ended twice", save(d), false)
	w.update(func(tx *store.Tx) error {
		_, ok, err := tx.PendingDelivery(a.org.ID, a.runner.ID)
		same(t, "one is pending still", ok, false)
		all, listErr := tx.Deliveries(a.org.ID, a.runner.ID, 1)
		sameText(t, "as it ended", all, []store.WebhookDelivery{d})
		ok2, claimErr := tx.ClaimDelivery(d, "late", tx.Now().Add(time.Minute))
		same(t, "taken up after its end", ok2, false)
		return errors.Join(err, listErr, claimErr)
	})
}

// keepOnlyTheLast: of what is over the newest are kept; what is pending stays, and so does what other Runners have.
func keepOnlyTheLast(t *testing.T, w *world) {
	t.Helper()
	const kept, more = 50, 3
	pending := newDelivery(w, w.a, store.WebhookPending)
	var last store.WebhookDelivery
	for range kept + more {
		last = newDelivery(w, w.a, store.WebhookFailed)
	}
	w.view(func(tx *store.Tx) error {
		all, err := tx.Deliveries(w.a.org.ID, w.a.runner.ID, 0)
		n := 0
		for _, d := range all {
			if d.ID == pending.ID {
				n++
			}
		}
		same(t, "pending ones kept", n, 1)
		if len(all) < kept || len(all) > kept+1 {
			t.Errorf("%d are kept, not %d", len(all), kept)
		}
		same(t, "the newest first", all[0].ID, last.ID)
		few, fewErr := tx.Deliveries(w.a.org.ID, w.a.runner.ID, 2)
		same(t, "of two asked for", len(few), 2)
		theirs, theirErr := tx.Deliveries(w.b.org.ID, w.b.runner.ID, 0)
		same(t, "of the neighbour", len(theirs), 1)
		return errors.Join(err, fewErr, theirErr)
	})
}
