package access

import (
	"context"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// admin gives the Actor of the admin token.
func admin(t *testing.T, a *Access, dir string) catalog.Actor {
	t.Helper()
	actor, err := a.Authenticate(context.Background(), adminToken(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	return actor
}

func TestPrincipalsOfPeople(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a := open(t, openStore(t), dir)
	owner := admin(t, a, dir)
	for _, role := range []catalog.Role{catalog.RoleOwner, catalog.RoleOperator, catalog.RoleViewer} {
		made, err := a.CreatePrincipal(ctx, owner, "ann-"+string(role), role, CredentialRequest{Expires: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		actor, err := a.Authenticate(ctx, made.Secret)
		if err != nil || actor.Role != role || actor.Name != "ann-"+string(role) || actor.OrganizationID != owner.OrganizationID {
			t.Errorf("%s: %+v %v", role, actor, err)
		}
	}
	program, err := a.CreatePrincipal(ctx, owner, "ci", catalog.RoleOperator, CredentialRequest{Kind: ClientSecret})
	if err != nil {
		t.Fatal(err)
	}
	token, err := a.Issue(ctx, Login{ClientID: program.OrganizationID + ":ci", ClientSecret: program.Secret})
	if err != nil {
		t.Fatal(err)
	}
	if actor, err := a.Authenticate(ctx, token.Text); err != nil || actor.Role != catalog.RoleOperator {
		t.Errorf("%+v %v", actor, err)
	}
	for name, c := range map[string]struct {
		err  error
		code string
	}{
		"twice":          {second(a.CreatePrincipal(ctx, owner, "ci", catalog.RoleViewer, CredentialRequest{})), "principal_exists"},
		"no role":        {second(a.CreatePrincipal(ctx, owner, "r", "chief", CredentialRequest{})), "role_unknown"},
		"no name":        {second(a.CreatePrincipal(ctx, owner, "A b", catalog.RoleViewer, CredentialRequest{})), "principal_invalid"},
		"kind":           {second(a.CreateCredential(ctx, owner, "ci", CredentialRequest{Kind: "key"})), "credential_invalid"},
		"a negative end": {second(a.CreateCredential(ctx, owner, "ci", CredentialRequest{Expires: -1})), "credential_invalid"},
		"nobody":         {second(a.CreateCredential(ctx, owner, "bob", CredentialRequest{})), "principal_not_found"},
		"delete nobody":  {a.DeletePrincipal(ctx, owner, "bob"), "principal_not_found"},
		"delete admin":   {a.DeletePrincipal(ctx, owner, "admin"), "principal_admin"},
		"no credential":  {a.DeleteCredential(ctx, owner, "ci", "none"), "credential_not_found"},
	} {
		if fault.Code(c.err) != c.code {
			t.Errorf("%s: %v (%s), want %s", name, c.err, fault.Code(c.err), c.code)
		}
	}
	if err := a.DeletePrincipal(ctx, owner, "ci"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(ctx, token.Text); fault.Code(err) != "credential_gone" {
		t.Errorf("after its principal is gone: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestAdminTokenIsRotated makes another one and ends the first; the last one cannot be ended.
func TestAdminTokenIsRotated(t *testing.T) {
	dir, ctx, st := t.TempDir(), context.Background(), openStore(t)
	a := open(t, st, dir)
	first := adminToken(t, dir)
	owner := admin(t, a, dir)
	before, err := a.Credentials(ctx, owner, "admin")
	if err != nil || len(before) != 1 {
		t.Fatalf("%v %v", before, err)
	}
	if err := a.DeleteCredential(ctx, owner, "admin", before[0].ID); fault.Code(err) != "last_owner" {
		t.Fatalf("the last credential of the last owner: %v", err)
	}
	made, err := a.CreateCredential(ctx, owner, "admin", CredentialRequest{Name: "new"})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.DeleteCredential(ctx, owner, "admin", before[0].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(ctx, first); fault.Code(err) != "token_wrong" {
		t.Errorf("the old token: %v", err)
	}
	again := open(t, st, dir) // a Server that starts makes no other one
	if _, err := again.Authenticate(ctx, made.Secret); err != nil {
		t.Errorf("the new token: %v", err)
	}
	if after, err := again.Credentials(ctx, owner, "admin"); err != nil || len(after) != 1 || after[0].Name != "new" {
		t.Errorf("%+v %v", after, err)
	}
}

// TestTokenEndsWithItsCredential: rotation is revocation, also of the short tokens that were had before.
func TestTokenEndsWithItsCredential(t *testing.T) {
	dir, ctx, st := t.TempDir(), context.Background(), openStore(t)
	a, other := open(t, st, dir), open(t, st, dir)
	owner := admin(t, a, dir)
	p, old, secret := runnerPrincipal(t, st, "edge")
	login := Login{ClientID: p.OrganizationID + ":edge", ClientSecret: secret}
	token, err := a.Issue(ctx, login)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := a.CreateCredential(ctx, owner, "edge", CredentialRequest{})
	if err != nil || fresh.Kind != ClientSecret {
		t.Fatalf("%+v %v", fresh, err)
	}
	for _, server := range []*Access{a, other} {
		if _, err := server.Authenticate(ctx, token.Text); err != nil {
			t.Fatalf("while both are there: %v", err)
		}
	}
	if err := a.DeleteCredential(ctx, owner, "edge", old.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(ctx, token.Text); fault.Code(err) != "credential_gone" {
		t.Errorf("at this Server: %v", err)
	}
	if _, err := other.AuthenticateNow(ctx, token.Text); fault.Code(err) != "credential_gone" {
		t.Errorf("at the door of another: %v", err)
	}
	now := time.Now()
	other.now = func() time.Time { return now.Add(actorTTL) }
	if _, err := other.Authenticate(ctx, token.Text); fault.Code(err) != "credential_gone" {
		t.Errorf("at another, a moment later: %v", err)
	}
	if _, err := a.Issue(ctx, login); fault.Code(err) != "login_wrong" {
		t.Errorf("the old secret: %v", err)
	}
	login.ClientSecret = fresh.Secret
	if token, err = a.Issue(ctx, login); err != nil {
		t.Fatal(err)
	}
	expire(t, st, fresh.ID, p.ID)
	if _, err := a.AuthenticateNow(ctx, token.Text); fault.Code(err) != "token_expired" {
		t.Errorf("a token of a secret that is over: %v", err)
	}
}

func expire(t *testing.T, st *store.Store, id, principal string) {
	t.Helper()
	if err := st.Update(context.Background(), func(tx *store.Tx) error {
		return tx.PutCredential(&store.Credential{ID: id, PrincipalID: principal, ExpiresAt: tx.Now().Add(-time.Second)})
	}); err != nil {
		t.Fatal(err)
	}
}

func TestChangesOfPrincipalsLeaveEvents(t *testing.T) {
	dir, ctx, st := t.TempDir(), context.Background(), openStore(t)
	a := open(t, st, dir)
	owner := admin(t, a, dir)
	made, err := a.CreatePrincipal(ctx, owner, "ann", catalog.RoleViewer, CredentialRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.DeleteCredential(ctx, owner, "ann", made.ID); err != nil {
		t.Fatal(err)
	}
	if err := a.DeletePrincipal(ctx, owner, "ann"); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	if err := st.View(ctx, func(tx *store.Tx) error {
		events, err := tx.EventsAfter(owner.OrganizationID, 0, 10)
		for _, e := range events {
			kinds = append(kinds, e.Kind+" "+string(e.Data))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`principal.changed {"action":"create","principal":"ann","by":"admin"}`,
		`credential.changed {"action":"delete","principal":"ann","credential":"token","by":"admin"}`,
		`principal.changed {"action":"delete","principal":"ann","by":"admin"}`,
	}
	for i := range want {
		if len(kinds) != len(want) || kinds[i] != want[i] {
			t.Fatalf("got %q", kinds)
		}
	}
}

// TestPrincipalsOfRunnersAreNamed as they are listed, where the name is no other's.
func TestPrincipalsOfRunnersAreNamed(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	s := openStore(t)
	a := open(t, s, dir)
	owner := admin(t, a, dir)
	add := func(clientID string) {
		t.Helper()
		if err := s.Update(ctx, func(tx *store.Tx) error {
			return tx.PutPrincipal(&store.ServicePrincipal{OrganizationID: owner.OrganizationID, Name: "runner host", ClientID: clientID, Role: string(catalog.RoleRunner)})
		}); err != nil {
			t.Fatal(err)
		}
	}
	add("c-1")
	made, err := a.CreateCredential(ctx, owner, "runner host", CredentialRequest{})
	if err != nil || made.Kind != ClientSecret {
		t.Fatalf("%+v %v", made.Credential, err)
	}
	if all, err := a.Credentials(ctx, owner, "runner host"); err != nil || len(all) != 1 {
		t.Errorf("%v %v", all, err)
	}
	add("c-2")
	if _, err := a.Credentials(ctx, owner, "runner host"); fault.Code(err) != "principal_ambiguous" {
		t.Errorf("of two: %v", err)
	}
	if all, err := a.Credentials(ctx, owner, "c-1"); err != nil || len(all) != 1 {
		t.Errorf("by client id: %v %v", all, err)
	}
}
