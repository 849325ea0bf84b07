package storetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
)

func registrations(t *testing.T, w *world) {
	org := w.a.org.ID
	var token store.RegistrationToken
	w.update(func(tx *store.Tx) error {
		token = store.RegistrationToken{OrganizationID: org, Name: "site", CreatedBy: "ann", Hash: []byte{1, 0, 255}, Labels: map[string]string{"zone": "a"},
			GiveLabels: true, UsesLeft: 3, ExpiresAt: tx.Now().Add(time.Hour)}
		return tx.InsertRegistrationToken(&token)
	})
	w.fails(fault.Conflict, "a hash twice", func(tx *store.Tx) error { again := token; return tx.InsertRegistrationToken(&again) })
	w.view(func(tx *store.Tx) error {
		found, err := tx.RegistrationTokenByHash([]byte{1, 0, 255})
		sameText(t, "found", found, token)
		other, otherErr := tx.RegistrationTokens(w.b.org.ID)
		same(t, "of the other", len(other), 0)
		return errors.Join(err, otherErr)
	})
	use := func(org, id string) (ok bool) {
		w.update(func(tx *store.Tx) (err error) { ok, err = tx.UseRegistrationToken(org, id); return err })
		return ok
	}
	same(t, "used out of another Organization", use(w.b.org.ID, token.ID), false)
	var used atomic.Int32
	err := together(t.Context(), 8, func(ctx context.Context, _ int) error {
		return w.s.Update(ctx, func(tx *store.Tx) error {
			ok, err := tx.UseRegistrationToken(org, token.ID)
			if ok && err == nil {
				used.Add(1)
			}
			return err
		})
	})
	if err != nil {
		t.Fatal(explain(err))
	}
	if used.Load() < 3 || use(org, token.ID) { // a transaction may have been run again
		t.Errorf("used %d times, and once more", used.Load())
	}
	unlimited, over := token, token
	w.update(func(tx *store.Tx) error {
		unlimited.Hash, unlimited.UsesLeft = []byte{2}, store.UnlimitedUses
		over.Hash, over.ExpiresAt = []byte{3}, tx.Now()
		return errors.Join(tx.InsertRegistrationToken(&unlimited), tx.InsertRegistrationToken(&over))
	})
	for range 2 {
		same(t, "unlimited", use(org, unlimited.ID), true)
	}
	same(t, "expired", use(org, over.ID), false)
	w.fails(fault.NotFound, "revoked by another", func(tx *store.Tx) error { return tx.DeleteRegistrationToken(w.b.org.ID, unlimited.ID) })
	w.update(func(tx *store.Tx) error { return tx.DeleteRegistrationToken(org, unlimited.ID) })
	same(t, "revoked", use(org, unlimited.ID), false)
	w.update(func(tx *store.Tx) error { return tx.NoteRegistration(org, w.a.runner.ID, token.ID) })
	w.fails(fault.NotFound, "of another", func(tx *store.Tx) error { return tx.NoteRegistration(org, w.b.runner.ID, token.ID) })
	w.view(func(tx *store.Tx) error {
		by, err := tx.RegisteredBy(org, w.a.runner.ID)
		same(t, "registered by", by, token.ID)
		none, noneErr := tx.RegisteredBy(w.b.org.ID, w.b.runner.ID)
		same(t, "of an owner", none, "")
		return errors.Join(err, noneErr)
	})
}

// goneCredentials: those of Instances that are not there go, after a while; any other stays.
func goneCredentials(t *testing.T, w *world) {
	p := store.ServicePrincipal{OrganizationID: w.a.org.ID, Name: "pool", ClientID: "pool", Role: "runner"}
	w.update(func(tx *store.Tx) error {
		if err := tx.PutPrincipal(&p); err != nil {
			return err
		}
		w.a.runner.ServicePrincipalID = p.ID
		here := store.Instance{OrganizationID: w.a.org.ID, RunnerID: w.a.runner.ID, Name: "here", KeyHash: []byte{1}, SessionID: "s"}
		return errors.Join(tx.PutRunner(&w.a.runner), tx.PutInstance(&here),
			tx.PutCredential(&store.Credential{PrincipalID: p.ID, Name: "owner", Kind: "secret", Hash: []byte{1}}),
			tx.PutCredential(&store.Credential{PrincipalID: p.ID, Name: "here", Kind: "secret", Hash: []byte{2}, Instance: "here"}),
			tx.PutCredential(&store.Credential{PrincipalID: p.ID, Name: "gone", Kind: "secret", Hash: []byte{3}, Instance: "gone"}))
	})
	left := func(before time.Duration) (names string) {
		w.update(func(tx *store.Tx) error {
			if _, err := tx.DeleteGoneCredentials(tx.Now().Add(before)); err != nil {
				return err
			}
			all, err := tx.Credentials(w.a.org.ID, p.ID)
			for _, c := range all {
				names += c.Name + " "
			}
			return err
		})
		return names
	}
	same(t, "at once", left(-time.Hour), "owner here gone ")
	same(t, "later", left(time.Hour), "owner here ")
	w.view(func(tx *store.Tx) error {
		users, err := tx.RunnersOf(w.a.org.ID, p.ID)
		sameText(t, "runners", users, []string{"edge"})
		return err
	})
}

// replacedCredentials end with the first use of what replaces them, or at their time.
func replacedCredentials(t *testing.T, w *world) {
	p := store.ServicePrincipal{OrganizationID: w.a.org.ID, Name: "pool", ClientID: "pool", Role: "runner"}
	var old, next, last store.Credential
	w.update(func(tx *store.Tx) error {
		err := tx.PutPrincipal(&p)
		old = store.Credential{PrincipalID: p.ID, Name: "old", Kind: "secret", Hash: []byte{1}}
		next = store.Credential{PrincipalID: p.ID, Name: "next", Kind: "secret", Hash: []byte{2}, Request: "r"}
		last = store.Credential{PrincipalID: p.ID, Name: "last", Kind: "secret", Hash: []byte{3}}
		return errors.Join(err, tx.PutCredential(&old), tx.PutCredential(&next), tx.PutCredential(&last))
	})
	var until time.Time
	w.update(func(tx *store.Tx) error {
		until = tx.Now().Add(time.Hour)
		return errors.Join(tx.ReplaceCredential(p.OrganizationID, p.ID, old.ID, next.ID, until), tx.ReplaceCredential(p.OrganizationID, p.ID, old.ID, next.ID, until.Add(time.Hour)))
	})
	w.view(func(tx *store.Tx) error {
		all, err := tx.Credentials(w.a.org.ID, p.ID)
		same(t, "replaced by", all[0].ReplacedBy, next.ID)
		same(t, "ends no later", all[0].ExpiresAt.Equal(until), true)
		same(t, "request", all[1].Request, "r")
		replaces, replacesErr := tx.Replaces(p.OrganizationID, p.ID, next.ID)
		same(t, "replaces", replaces, true)
		return errors.Join(err, replacesErr)
	})
	names := func() (names string) {
		w.view(func(tx *store.Tx) error {
			all, err := tx.Credentials(w.a.org.ID, p.ID)
			for _, c := range all {
				names += c.Name + " "
			}
			return err
		})
		return names
	}
	w.update(func(tx *store.Tx) error {
		return errors.Join(tx.PassReplaced(p.OrganizationID, p.ID, next.ID, last.ID), tx.EndReplaced(p.OrganizationID, p.ID, next.ID), tx.EndReplaced(w.b.org.ID, p.ID, last.ID))
	})
	same(t, "passed on", names(), "old next last ")
	w.update(func(tx *store.Tx) error { return tx.EndReplaced(p.OrganizationID, p.ID, last.ID) })
	same(t, "used", names(), "next last ")
	w.update(func(tx *store.Tx) error {
		if err := tx.ReplaceCredential(p.OrganizationID, p.ID, next.ID, last.ID, tx.Now().Add(-time.Minute)); err != nil {
			return err
		}
		_, err := tx.DeleteGoneCredentials(tx.Now().Add(-time.Hour))
		return err
	})
	same(t, "ended", names(), "last ")
}
