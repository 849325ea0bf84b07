package storetest

import (
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
)

// requests tests idempotency keys and preconditions.
func requests(t *testing.T, w *world) {
	org := w.a.org.ID
	claim := func(fingerprint string, lifetime time.Duration) (found store.KeyedRequest, ok bool) {
		w.update(func(tx *store.Tx) (err error) {
			r := store.KeyedRequest{ID: "key", OrganizationID: org, Fingerprint: []byte(fingerprint), ExpiresAt: tx.Now().Add(lifetime)}
			found, ok, err = tx.ClaimKeyedRequest(r)
			return err
		})
		return found, ok
	}
	t.Run("a key is claimed once", func(t *testing.T) {
		_, ok := claim("one", time.Hour)
		same(t, "the first claim", ok, true)
		found, ok := claim("two", time.Hour) // the record of the first one
		same(t, "the second claim", ok, false)
		same(t, "its fingerprint", string(found.Fingerprint), "one")
	})
	t.Run("a change is recorded in its own transaction", func(t *testing.T) {
		found, _ := claim("one", time.Hour)
		ctx := store.WithKeyedRequest(t.Context(), found)
		err := w.s.Update(ctx, func(tx *store.Tx) error {
			return tx.AppendEvent(store.Event{OrganizationID: org, Kind: "test", Data: []byte("{}")})
		})
		same(t, "the error", err, nil)
		w.update(func(tx *store.Tx) error {
			released, err := tx.ReleaseKeyedRequest(found)
			same(t, "released", released, false)
			return err
		})
		found, _ = claim("one", time.Hour)
		same(t, "changed after a release", found.Changed, true)
		w.update(func(tx *store.Tx) error { return tx.FinishKeyedRequest(found, 201, []byte("sealed")) })
		found, _ = claim("one", time.Hour)
		same(t, "the answer", string(found.Answer), "sealed")
	})
	t.Run("a request that lost its key changes nothing", func(t *testing.T) {
		var first store.KeyedRequest
		var second store.KeyedRequest
		w.update(func(tx *store.Tx) (err error) {
			r := store.KeyedRequest{ID: "fenced", OrganizationID: org, Fingerprint: []byte("x"),
				ExpiresAt: tx.Now().Add(time.Hour)}
			if first, _, err = tx.ClaimKeyedRequest(r); err != nil {
				return err
			}
			if _, err := tx.ReleaseKeyedRequest(first); err != nil {
				return err
			}
			second, _, err = tx.ClaimKeyedRequest(r)
			return err
		})
		change := func(tx *store.Tx) error {
			return tx.AppendEvent(store.Event{OrganizationID: org, Kind: "test", Data: []byte("{}")})
		}
		finish := func(r store.KeyedRequest, answer string) error {
			return w.s.Update(t.Context(), func(tx *store.Tx) error {
				return tx.FinishKeyedRequest(r, 201, []byte(answer))
			})
		}
		err := w.s.Update(store.WithKeyedRequest(t.Context(), first), change)
		same(t, "the change of the first before the second", fault.Code(err), "idempotency_key_lost")
		same(t, "the change of the second", w.s.Update(store.WithKeyedRequest(t.Context(), second), change), nil)
		err = w.s.Update(store.WithKeyedRequest(t.Context(), first), change)
		same(t, "the change of the first", fault.Code(err), "idempotency_key_lost")
		same(t, "the answer of the second", finish(second, "second"), nil)
		same(t, "the answer of the first", fault.Code(finish(first, "first")), "idempotency_key_lost")
		w.view(func(tx *store.Tx) error {
			found, _, err := tx.KeyedRequest("fenced")
			same(t, "the stored answer", string(found.Answer), "second")
			return err
		})
	})
	t.Run("the use of a sender", func(t *testing.T) {
		w.update(func(tx *store.Tx) error {
			for i, id := range []string{"used-1", "used-2", "expired"} {
				r := store.KeyedRequest{ID: id, OrganizationID: org, Sender: "bob",
					Fingerprint: []byte("x"), ExpiresAt: tx.Now().Add(time.Hour)}
				if i == 2 {
					r.ExpiresAt = tx.Now()
				}
				found, _, err := tx.ClaimKeyedRequest(r)
				if err != nil {
					return err
				}
				if err := tx.FinishKeyedRequest(found, 201, []byte("sealed")); err != nil {
					return err
				}
			}
			used, err := tx.KeyUsage(org, "bob")
			same(t, "used", used, store.KeyUsage{Keys: 2, Bytes: 12})
			return err
		})
	})
	t.Run("an expired key is free", func(t *testing.T) {
		w.update(func(tx *store.Tx) error {
			_, _, err := tx.ClaimKeyedRequest(store.KeyedRequest{ID: "old", OrganizationID: org, Sender: "ann",
				Fingerprint: []byte("x"), ExpiresAt: tx.Now()})
			return err
		})
		w.update(func(tx *store.Tx) error {
			used, err := tx.KeyUsage(org, "ann")
			same(t, "used before", used, store.KeyUsage{})
			return err
		})
		w.update(func(tx *store.Tx) error {
			more, err := tx.PruneKeyedRequests()
			same(t, "more to prune", more, false)
			return err
		})
		w.view(func(tx *store.Tx) error {
			_, ok, err := tx.KeyedRequest("old")
			same(t, "an expired record", ok, false)
			return err
		})
	})
	t.Run("versions", func(t *testing.T) {
		for _, kind := range store.VersionedKinds() {
			w.view(func(tx *store.Tx) error {
				v, err := tx.Version(org, kind, "none")
				same(t, kind, v.Value, "")
				return err
			})
		}
		user := store.User{OrganizationID: org, Name: "eva", Role: "viewer", Password: "hash"}
		var version store.Version
		w.update(func(tx *store.Tx) (err error) {
			if err := tx.PutUser(&user); err != nil {
				return err
			}
			version, err = tx.Version(org, "users", user.ID)
			return err
		})
		change := func(tx *store.Tx) error {
			if err := tx.LockCatalog(org); err != nil {
				return err
			}
			user.Role = "operator"
			return tx.PutUser(&user)
		}
		ctx := store.WithPrecondition(t.Context(), version)
		same(t, "the first change", w.s.Update(ctx, change), nil)
		same(t, "a later change of the same request", w.s.Update(ctx, change), nil)
		err := w.s.Update(store.WithPrecondition(t.Context(), version), change)
		same(t, "a change with the version before", fault.Code(err), "precondition_failed")
		event := func(tx *store.Tx) error {
			return tx.AppendEvent(store.Event{OrganizationID: org, Kind: "unchecked", Data: []byte("{}")})
		}
		ctx = store.WithPrecondition(t.Context(), version)
		same(t, "a change that does not check is refused", w.s.Update(ctx, event) != nil, true)
		same(t, "what belongs to no record", w.s.Update(store.WithoutPrecondition(ctx), event), nil)
	})
}
