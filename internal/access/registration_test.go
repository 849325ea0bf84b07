package access

import (
	"context"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

func TestRegistrationTokens(t *testing.T) {
	st := openStore(t)
	a, ctx := open(t, st, t.TempDir()), context.Background()
	var org catalog.Organization
	if err := st.View(ctx, func(tx *store.Tx) (err error) { org, err = tx.OrganizationByName(DefaultOrganization); return err }); err != nil {
		t.Fatal(err)
	}
	owner := catalog.Actor{OrganizationID: org.ID, Name: "ann", Role: catalog.RoleOwner}
	stranger := catalog.Actor{OrganizationID: "00000000-0000-7000-8000-000000000000", Name: "eve", Role: catalog.RoleOwner}
	made, token, err := a.CreateRegistrationToken(ctx, owner, RegistrationRequest{Labels: map[string]string{"zone": "a"}})
	if err != nil || made.UsesLeft != 1 || made.Name != "registration" || made.CreatedBy != "ann" || time.Until(made.ExpiresAt) > 24*time.Hour {
		t.Fatalf("%+v %v", made, err)
	}
	if by, err := a.Registrar(ctx, token, "1"); err != nil || by.ID != made.ID || !by.Stored || by.AnyLabels || by.Labels["zone"] != "a" {
		t.Errorf("%+v %v", by, err)
	}
	a.now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	if _, err := a.Registrar(ctx, token, "1"); fault.Code(err) != "registration_refused" {
		t.Errorf("expired: %v", err)
	}
	a.now = time.Now
	if err := a.RevokeRegistrationToken(ctx, stranger, made.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a stranger: %v", err)
	}
	if err := a.RevokeRegistrationToken(ctx, owner, "registration"); err != nil {
		t.Error(err)
	}
	if _, err := a.Registrar(ctx, token, "1"); fault.Code(err) != "registration_refused" {
		t.Errorf("revoked: %v", err)
	}
	for name, r := range map[string]RegistrationRequest{"uses": {Uses: -2}, "expiry": {Expires: time.Second}, "for ever": {Expires: maxExpiry + time.Hour},
		"name": {Name: "A b"}, "labels": {Labels: map[string]string{"": "x"}}, "nothing to give": {GiveLabels: true}} {
		if _, _, err := a.CreateRegistrationToken(ctx, owner, r); fault.Code(err) != "registration_token_invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
	var kinds []string
	err = st.View(ctx, func(tx *store.Tx) error {
		events, err := tx.EventsAfter(org.ID, 0, 100)
		for _, e := range events {
			kinds = append(kinds, e.Kind)
		}
		return err
	})
	if err != nil || len(kinds) != 2 || kinds[0] != registrationKind {
		t.Errorf("events %v %v", kinds, err)
	}
}

// TestTheServersOwnRegistrationToken: an empty setting lets nobody in, and another value is another maker.
func TestTheServersOwnRegistrationToken(t *testing.T) {
	a, ctx := open(t, openStore(t), t.TempDir()), context.Background()
	for _, token := range []string{"", "anything at all, really"} {
		if _, err := a.Registrar(ctx, token, "1"); fault.Code(err) != "registration_refused" {
			t.Errorf("%q: %v", token, err)
		}
	}
	ids := map[string]bool{}
	for _, token := range []string{"the first one of all", "the second one of all"} {
		a.settings.RegistrationToken = token
		by, err := a.Registrar(ctx, token, "1")
		if err != nil || by.Stored || !by.AnyLabels {
			t.Errorf("%+v %v", by, err)
		}
		ids[by.ID] = true
		if _, err := a.Registrar(ctx, token+"x", "1"); fault.Code(err) != "registration_refused" {
			t.Errorf("nearly: %v", err)
		}
	}
	if len(ids) != 2 {
		t.Errorf("%v", ids)
	}
}

// TestAValidTokenIsTakenBesideWrongOnes: hosts behind one address do not pay for one that guesses.
func TestAValidTokenIsTakenBesideWrongOnes(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a := open(t, openStore(t), dir)
	_, token, err := a.CreateRegistrationToken(ctx, admin(t, a, dir), RegistrationRequest{})
	if err != nil {
		t.Fatal(err)
	}
	fixed := time.Now()
	a.now = func() time.Time { return fixed } // however slow the guesses are
	for range 20 {
		_, err = a.Registrar(ctx, token+"x", "1")
	}
	if fault.Code(err) != "too_many_attempts" || fault.Of(err).Hint == "" {
		t.Errorf("guessing is not slowed down: %v", err)
	}
	if _, err := a.Registrar(ctx, token, "1"); err != nil {
		t.Errorf("a valid one: %v", err)
	}
}

func TestRegistrationTokensHaveNamesOfTheirOwn(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a := open(t, openStore(t), dir)
	owner := admin(t, a, dir)
	if _, _, err := a.CreateRegistrationToken(ctx, owner, RegistrationRequest{Name: "site"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.CreateRegistrationToken(ctx, owner, RegistrationRequest{Name: "site"}); fault.Code(err) != "registration_token_exists" {
		t.Errorf("twice: %v", err)
	}
	for _, want := range []string{"registration", "registration-2", "registration-3"} {
		if made, _, err := a.CreateRegistrationToken(ctx, owner, RegistrationRequest{}); err != nil || made.Name != want {
			t.Errorf("%s, not %s: %v", made.Name, want, err)
		}
	}
}
