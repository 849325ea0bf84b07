package hooks

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"legwork/internal/catalog"
	"legwork/internal/control/hooks/hookstest"
	"legwork/internal/fault"
	"legwork/internal/store"
)

func TestWebhookTriesAgainLaterAndLater(t *testing.T) {
	h := hookstest.New(t, http.StatusInternalServerError)
	callers(t, h, func(s *world, r catalog.Runner) {
		after(1900 * time.Millisecond)
		if n := h.Calls(); n != 0 {
			t.Fatalf("%d calls before the wait was over", n)
		}
		// Each bound is what all waits before it take at least, and at most, with two seconds to look on each.
		least, most := 0.0, 2.0
		at := 1.9
		for tries, wait := range []float64{0, 5, 15, 45, 135, 405, 600, 600} {
			least, most = least+0.8*wait, most+1.2*wait+2
			if early := 1.9 + least - 0.1; early > at {
				after(time.Duration((early - at) * float64(time.Second)))
				at = early
			}
			if n := h.Calls(); n > tries {
				t.Fatalf("%d calls after %.1f s", n, at)
			}
			after(time.Duration((1.9 + most - at) * float64(time.Second)))
			if at = 1.9 + most; h.Calls() < tries+1 {
				t.Fatalf("%d calls after %.1f s", h.Calls(), at)
			}
		}
		all := s.deliveries()
		first := all[len(all)-1]
		if first.Status != store.WebhookFailed || first.Tries != triesMost || first.Answer != 500 || !strings.Contains(first.Error, "500") {
			t.Errorf("the first delivery: %+v", first)
		}
		after(11 * time.Minute)
		if all = s.deliveries(); len(all) < 2 || all[0].Status != store.WebhookPending {
			t.Errorf("the demand stands, and is not called for any more: %+v", all)
		}
	})
}

func TestGoneReceiverIsLeftAlone(t *testing.T) {
	h := hookstest.New(t, http.StatusGone)
	callers(t, h, func(s *world, r catalog.Runner) {
		ctx := context.Background()
		after(12 * time.Minute)
		v, err := s.Show(ctx, s.owner(), r.ID, true)
		s.must(err)
		if h.Calls() != 1 || !v.IsGone || v.Deliveries[0].Status != store.WebhookFailed {
			t.Fatalf("%d calls, %+v", h.Calls(), v)
		}
		h.Answer(http.StatusOK)
		before := r.Webhook
		r.Webhook += "/elsewhere"
		s.must(s.store.Update(ctx, func(tx *store.Tx) error {
			if err := tx.PutRunner(&r); err != nil {
				return err
			}
			return s.Set(tx, r, before, false)
		}))
		s.wants(r)
		after(10 * time.Second)
		if h.Calls() != 2 {
			t.Errorf("%d calls after the URL changed", h.Calls())
		}
	})
}

func TestSecretsOfAWebhook(t *testing.T) {
	h := hookstest.New(t, http.StatusOK)
	callers(t, h, func(s *world, r catalog.Runner) {
		ctx := context.Background()
		hidden, err := s.Show(ctx, s.owner(), r.ID, false)
		s.must(err)
		revealed := func() (entries []store.AuditEntry) {
			s.must(s.store.View(ctx, func(tx *store.Tx) (err error) {
				entries, err = tx.Audit(s.org, store.AuditFilter{Action: "webhook.reveal"})
				return err
			}))
			return entries
		}
		if hidden.Secret != "" || len(revealed()) != 0 {
			t.Errorf("not asked for: %+v, %v", hidden, revealed())
		}
		first, err := s.Show(ctx, s.owner(), r.ID, true)
		s.must(err)
		if e := revealed(); len(e) != 1 || e[0].Subject != r.ID || e[0].Kind != "webhook.revealed" {
			t.Errorf("no trace of who saw the secret: %+v", e)
		}
		second, err := s.Rotate(ctx, s.owner(), r.ID)
		s.must(err)
		if !strings.HasPrefix(first.Secret, "whsec_") || first.Secret == second.Secret || time.Until(second.PreviousUntil) != 24*time.Hour {
			t.Errorf("%+v, then %+v", first, second)
		}
		signing := func(later time.Duration) (secrets []string) {
			s.must(s.store.View(ctx, func(tx *store.Tx) error {
				w, err := tx.Webhook(s.org, r.ID)
				s.must(err)
				if strings.Contains(string(w.Secret), "whsec_") {
					t.Error("the secret is stored as it is")
				}
				secrets, err = s.secrets(w, tx.Now().Add(later))
				return err
			}))
			return secrets
		}
		if got := signing(time.Hour); !slices.Equal(got, []string{second.Secret, first.Secret}) {
			t.Errorf("after the rotation %d secrets sign", len(got))
		}
		if got := signing(24 * time.Hour); !slices.Equal(got, []string{second.Secret}) {
			t.Errorf("a day later %d secrets sign", len(got))
		}
		viewer := catalog.Actor{OrganizationID: s.org, Name: "vic", Role: catalog.RoleViewer}
		if v, err := s.Show(ctx, viewer, r.ID, false); err != nil || v.Secret != "" {
			t.Errorf("a viewer sees %+v, %v", v, err)
		}
		for name, err := range map[string]error{
			"rotate": func() error { _, err := s.Rotate(ctx, viewer, r.ID); return err }(),
			"reveal": func() error { _, err := s.Show(ctx, viewer, r.ID, true); return err }(),
			"test":   func() error { _, err := s.Test(ctx, viewer, r.ID); return err }(),
		} {
			if !fault.Is(err, fault.Forbidden) {
				t.Errorf("%s by a viewer: %v", name, err)
			}
		}
	})
}

// TestServersCallOnce has many goroutines of two Servers see one demand, and take up what is due, at once.
func TestServersCallOnce(t *testing.T) {
	h := hookstest.New(t, http.StatusOK)
	w := newWorld(t, h.URL)
	d := w.Wanted()[w.runner.ID]
	w.demand = nil // no loop is to see it by itself
	servers := []*Hooks{w.Hooks, New(w, w.store, w.log, "b", Settings{})}
	ctx, cancel := context.WithCancel(t.Context())
	var loops, all sync.WaitGroup
	defer loops.Wait()
	defer cancel()
	for _, s := range servers {
		loops.Go(func() { s.Run(ctx) })
	}
	for i := range 16 { // beside the loops of both
		all.Go(func() {
			if _, err := servers[i%2].call(context.Background(), d); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(w.deliveries()); n != 1 {
		t.Fatalf("%d deliveries", n)
	}
	for deadline := time.Now().Add(time.Minute); w.deliveries()[0].Status != store.WebhookDelivered; <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is not delivered")
		}
	}
	if h.Calls() != 1 {
		t.Errorf("%d calls", h.Calls())
	}
}

func TestDeliveryHasOneSender(t *testing.T) {
	w := newWorld(t, "http://127.0.0.1:1/")
	ctx, r := context.Background(), w.runner
	var due store.WebhookDelivery
	w.must(w.store.Update(ctx, func(tx *store.Tx) error {
		due = store.WebhookDelivery{OrganizationID: w.org, RunnerID: r.ID, DueAt: tx.Now(), Event: eventWanted, Status: store.WebhookPending, Body: json.RawMessage("{}")}
		return tx.InsertDelivery(&due)
	}))
	claims := func(at time.Duration) (won int) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				w.must(w.store.Update(ctx, func(tx *store.Tx) error {
					found, err := tx.DueDeliveries(tx.Now().Add(at), 10)
					if err != nil || len(found) == 0 {
						return err
					}
					ok, err := tx.ClaimDelivery(found[0], uuid.NewString(), tx.Now().Add(at+time.Minute))
					mu.Lock()
					defer mu.Unlock()
					if ok {
						won++
					}
					return err
				}))
			})
		}
		all.Wait()
		return won
	}
	if n := claims(0); n != 1 {
		t.Errorf("%d took it up", n)
	}
	if n := claims(30 * time.Second); n != 0 {
		t.Errorf("%d took it from one who may live", n)
	}
	if n := claims(2 * time.Minute); n != 1 {
		t.Errorf("%d took it from one who is dead", n)
	}
	ok := true
	w.must(w.store.Update(ctx, func(tx *store.Tx) (err error) {
		due.Claim, due.Status, due.DueAt = "of a dead server", store.WebhookDelivered, time.Time{}
		ok, err = tx.SaveDelivery(due)
		return err
	}))
	if ok {
		t.Error("one who lost a delivery could store what came of it")
	}
}

func TestSecretThatDoesNotOpenEndsTheDelivery(t *testing.T) {
	h := hookstest.New(t, http.StatusOK)
	callers(t, h, func(s *world, r catalog.Runner) {
		ctx := context.Background()
		s.must(s.store.Update(ctx, func(tx *store.Tx) error {
			w, err := tx.Webhook(s.org, r.ID)
			s.must(err)
			w.Secret = json.RawMessage(`"b2YgYW5vdGhlciBrZXk="`)
			return tx.PutWebhook(w)
		}))
		after(5 * time.Second)
		viewer := catalog.Actor{OrganizationID: s.org, Name: "vic", Role: catalog.RoleViewer}
		v, err := s.Show(ctx, viewer, r.ID, false)
		s.must(err)
		if d := v.Deliveries; h.Calls() != 0 || len(d) != 1 || d[0].Status != store.WebhookFailed || d[0].Tries != 1 || !strings.Contains(d[0].Error, "secret") {
			t.Fatalf("%d calls, %+v", h.Calls(), d)
		}
		if _, err := s.Show(ctx, s.owner(), r.ID, true); fault.Code(err) != "webhook_secret" || !strings.Contains(fault.Of(err).Hint, "--rotate") {
			t.Errorf("an owner is told %v", err)
		}
		_, err = s.Rotate(ctx, s.owner(), r.ID)
		s.must(err)
		if d, err := s.Test(ctx, s.owner(), r.ID); err != nil || d.Status != store.WebhookDelivered {
			t.Errorf("after a rotation: %+v %v", d, err)
		}
	})
}
