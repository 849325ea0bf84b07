package storetest

import (
	"errors"
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
)

// crossing asks in the name of one Organization for what is another's, by its right id.
func crossing(t *testing.T, w *world) {
	a, b := w.a, w.b
	waiting, held := w.newJob(b.vpc), w.claim(w.newJob(b.dns), "x")
	p := store.ServicePrincipal{OrganizationID: b.org.ID, Name: "ci", ClientID: "ci", Role: "owner"}
	gone := store.Instance{OrganizationID: b.org.ID, RunnerID: b.runner.ID, Name: "gone", SessionID: "g", Offline: true}
	secret := store.Credential{Name: "secret", Kind: "secret", Hash: []byte{1}}
	w.update(func(tx *store.Tx) error {
		if err := errors.Join(tx.PutPrincipal(&p), tx.PutInstance(&gone)); err != nil {
			return err
		}
		secret.PrincipalID = p.ID
		return tx.PutCredential(&secret)
	})
	for what, fn := range map[string]func(tx *store.Tx) error{
		"its Credential":                func(tx *store.Tx) error { _, _, err := tx.Credential(a.org.ID, p.ID, secret.ID); return err },
		"deleting its Credential":       func(tx *store.Tx) error { return tx.DeleteCredential(a.org.ID, p.ID, secret.ID) },
		"what its Job was created with": func(tx *store.Tx) error { _, err := tx.JobSnapshot(a.org.ID, waiting.ID); return err },
		"a delivery for its Runner": func(tx *store.Tx) error {
			return tx.InsertDelivery(&store.WebhookDelivery{OrganizationID: a.org.ID, RunnerID: b.runner.ID})
		},
	} {
		w.fails(fault.NotFound, what, fn)
	}
	// seen is how much of b's an Organization sees.
	seen := func(org string) (n map[string]int) {
		n = map[string]int{}
		w.view(func(tx *store.Tx) error {
			credentials, err1 := tx.Credentials(org, p.ID)
			taken, err2 := tx.PlacesTaken(org, held.Binding.InstanceID)
			places, err3 := tx.PlacesOfRunner(org, held.Binding.RunnerID)
			away, err4 := tx.GoneInstances(org, b.runner.ID, time.Now(), 10)
			n["credentials"], n["taken"], n["places"], n["gone"] = len(credentials), taken, len(places), len(away)
			return errors.Join(err1, err2, err3, err4)
		})
		return n
	}
	sameText(t, "seen by its neighbour", seen(a.org.ID), map[string]int{"credentials": 0, "taken": 0, "places": 0, "gone": 0})
	sameText(t, "seen by itself", seen(b.org.ID), map[string]int{"credentials": 1, "taken": 1, "places": 1, "gone": 1})
	w.update(func(tx *store.Tx) error { return tx.DeleteCredential(b.org.ID, p.ID, secret.ID) })
	w.view(func(tx *store.Tx) error {
		_, err := tx.JobSnapshot(b.org.ID, waiting.ID)
		return err
	})
}
