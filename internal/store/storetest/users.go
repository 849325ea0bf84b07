package storetest

import (
	"errors"
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
)

func users(t *testing.T, w *world) {
	ann := store.User{OrganizationID: w.a.org.ID, Name: "ann", Role: "owner", Password: "hash"}
	other := store.User{OrganizationID: w.b.org.ID, Name: "ann", Role: "viewer", Password: "other"}
	t.Run("of two Organizations with one name", func(t *testing.T) {
		w.update(func(tx *store.Tx) error { return errors.Join(tx.PutUser(&ann), tx.PutUser(&other)) })
		w.view(func(tx *store.Tx) error {
			byName, err := tx.User(w.a.org.ID, "ann")
			same(t, "by name", byName, ann)
			byID, idErr := tx.User(w.b.org.ID, other.ID)
			same(t, "by id", byID, other)
			if _, err := tx.User(w.b.org.ID, ann.ID); !fault.Is(err, fault.NotFound) {
				t.Errorf("of another Organization: %v", err)
			}
			all, allErr := tx.Users(w.a.org.ID)
			same(t, "all", len(all), 1)
			return errors.Join(err, idErr, allErr)
		})
		err := w.s.Update(t.Context(), func(tx *store.Tx) error { return tx.PutUser(&store.User{OrganizationID: w.a.org.ID, Name: "ann"}) })
		if !fault.Is(err, fault.Conflict) {
			t.Errorf("twice: %v", err)
		}
		err = w.s.Update(t.Context(), func(tx *store.Tx) error { return tx.DeleteUser(w.b.org.ID, ann.ID) })
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("deleted across: %v", err)
		}
	})
	t.Run("Web sessions", func(t *testing.T) {
		s := store.WebSession{Hash: []byte("h"), UserID: ann.ID}
		w.update(func(tx *store.Tx) error { return tx.CreateWebSession(&s) })
		later := s.SeenAt.Add(time.Minute)
		w.update(func(tx *store.Tx) error { return tx.TouchWebSession(s.Hash, later) })
		w.update(func(tx *store.Tx) error {
			found, err := tx.WebSession(s.Hash)
			same(t, "seen", found.SeenAt, later)
			u, userErr := tx.UserOfSession(found)
			same(t, "user", u.ID, ann.ID)
			return errors.Join(err, userErr, tx.PruneWebSessions(s.CreatedAt.Add(-time.Hour), later))
		})
		gone := func(why string) {
			w.view(func(tx *store.Tx) error {
				if _, err := tx.WebSession(s.Hash); !fault.Is(err, fault.NotFound) {
					t.Errorf("%s: %v", why, err)
				}
				return nil
			})
		}
		w.update(func(tx *store.Tx) error {
			return tx.PruneWebSessions(s.CreatedAt.Add(-time.Hour), later.Add(time.Second))
		})
		gone("idle")
		w.update(func(tx *store.Tx) error { return tx.CreateWebSession(&s) })
		w.update(func(tx *store.Tx) error { return tx.DeleteWebSessions(ann.ID) })
		gone("the password was changed")
		w.update(func(tx *store.Tx) error { return tx.CreateWebSession(&s) })
		w.update(func(tx *store.Tx) error { return tx.DeleteUser(w.a.org.ID, ann.ID) })
		gone("the user was deleted")
	})
}
