package access

import (
	"context"
	"fmt"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// Nobody locks a user out: an address and a device of an earlier log in are not slowed by the attempts of others.
func TestNobodyIsLockedOut(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a := open(t, openStore(t), dir)
	fixed := time.Now()
	a.now = func() time.Time { return fixed }
	newUser(t, a, admin(t, a, dir), "ann", catalog.RoleViewer)
	try := func(password, address, device string) string {
		_, err := a.LoginWithPassword(ctx, PasswordLogin{Name: "ann", Password: password, Address: address, Device: device})
		return codeOf(err)
	}
	if code := try(good, "192.0.2.1", ""); code != "" {
		t.Fatalf("first log in: got %q, want success", code)
	}
	device, foreign := a.NewDevice("ann"), a.NewDevice("bob")
	for i := range 60 { // from enough addresses to use up what the name has
		try("wrong password", fmt.Sprintf("198.51.100.%d", i), "")
	}
	for range 9 { // and from an address that ann shares with others
		try("wrong password", "203.0.113.1", "")
	}
	for _, c := range []struct{ name, address, device, want string }{ // a success frees its address: those come last
		{"new address", "192.0.2.80", "", "too_many_attempts"},
		{"shared address", "203.0.113.1", "", "too_many_attempts"},
		{"device of another user", "192.0.2.81", foreign, "too_many_attempts"},
		{"device with a wrong signature", "192.0.2.82", "made.up", "too_many_attempts"},
		{"device without a signature", "192.0.2.83", "made", "too_many_attempts"},
		{"device with a signature and no id", "192.0.2.84", "." + a.deviceSignature("ann", ""), "too_many_attempts"},
		{"address of an earlier log in", "192.0.2.1", "", ""},
		{"device at a shared address", "203.0.113.1", device, ""},
		{"device at a new address", "192.0.2.77", device, ""},
	} {
		if code := try(good, c.address, c.device); code != c.want {
			t.Errorf("%s: got %q, want %q", c.name, code, c.want)
		}
	}
	guessed := 0
	for range 100 {
		if try("wrong password", "192.0.2.1", device) == "login_wrong" {
			guessed++
		}
	}
	if guessed != 8 {
		t.Errorf("guesses with one device: got %d, want 8", guessed)
	}
}

// Attempts on a user are counted together however the name is written, and apart from those on a user of the same
// name in another organization.
func TestAttemptsAreCountedByUser(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	st := openStore(t)
	a := open(t, st, dir)
	fixed := time.Now()
	a.now = func() time.Time { return fixed }
	newUser(t, a, admin(t, a, dir), "ann", catalog.RoleViewer)
	if err := st.Update(ctx, func(tx *store.Tx) error {
		org, err := tx.CreateOrganization("other")
		if err != nil {
			return err
		}
		ann, err := a.userNamed(ctx, "ann")
		if err != nil {
			return err
		}
		return tx.PutUser(&store.User{OrganizationID: org.ID, Name: "ann", Role: string(catalog.RoleViewer), Password: ann.Password})
	}); err != nil {
		t.Fatal(err)
	}
	try := func(name, password string) string {
		_, err := a.LoginWithPassword(ctx, PasswordLogin{Name: name, Password: password, Address: "192.0.2.1"})
		return codeOf(err)
	}
	for range 8 {
		try("ann", "wrong password")
	}
	for name, want := range map[string]string{"ann": "too_many_attempts", "default/ann": "too_many_attempts", "other/ann": ""} {
		if got := try(name, good); got != want {
			t.Errorf("log in as %s: got %q, want %q", name, got, want)
		}
	}
}

// A right client secret and a right token are never refused, however many wrong ones came from the same address.
func TestRightSecretsAreNotThrottled(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a := open(t, openStore(t), dir)
	owner := admin(t, a, dir)
	made, err := a.CreatePrincipal(ctx, owner, "edge", catalog.RoleRunner, CredentialRequest{Kind: ClientSecret})
	if err != nil {
		t.Fatal(err)
	}
	client := owner.OrganizationID + ":" + made.Principal.ClientID
	refused := 0
	for range 30 {
		_, err := a.Issue(ctx, Login{ClientID: client, ClientSecret: "wrong", Address: "192.0.2.1"})
		if fault.Is(err, fault.RateLimited) {
			refused++
		}
	}
	if refused < 20 {
		t.Errorf("wrong secrets: got %d of 30 refused as too many, want 20 at least", refused)
	}
	if _, err := a.Issue(ctx, Login{ClientID: client, ClientSecret: made.Secret, Address: "192.0.2.1"}); err != nil {
		t.Errorf("right secret: got %v, want a token", err)
	}
}

// A current password can be guessed by its own user only, and each failure is an event.
func TestCurrentPasswordOfOthers(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a := open(t, openStore(t), dir)
	owner := admin(t, a, dir)
	ann := newUser(t, a, owner, "ann", catalog.RoleViewer)
	newUser(t, a, owner, "bob", catalog.RoleViewer)
	asker := catalog.Actor{OrganizationID: owner.OrganizationID, ID: ann.ID, Name: "ann", Role: catalog.RoleViewer, Address: "192.0.2.1"}
	for _, name := range []string{"bob", "nobody"} {
		for _, current := range []string{good, "wrong password"} {
			if code := codeOf(a.SetPassword(ctx, asker, name, current, good)); code != "not_your_password" {
				t.Errorf("%s with %q: got %q, want not_your_password", name, current, code)
			}
		}
	}
	if code := codeOf(a.SetPassword(ctx, asker, "ann", "wrong password", good)); code != "password_wrong" {
		t.Errorf("own, wrong: got %q, want password_wrong", code)
	}
	var refused []store.Event
	err := a.store.View(ctx, func(tx *store.Tx) error {
		all, err := tx.EventsAfter(owner.OrganizationID, 0, 0)
		for _, e := range all {
			if e.Kind == "user.login_refused" {
				refused = append(refused, e)
			}
		}
		return err
	})
	if err != nil || len(refused) != 1 || refused[0].Subject != ann.ID {
		t.Errorf("events: got %v %v, want one of ann", refused, err)
	}
}

// A user sees and ends its own Web sessions, and an owner those of everybody.
func TestWebSessions(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a := open(t, openStore(t), dir)
	owner := admin(t, a, dir)
	ann, bob := newUser(t, a, owner, "ann", catalog.RoleViewer), newUser(t, a, owner, "bob", catalog.RoleViewer)
	as := func(u User) catalog.Actor {
		return catalog.Actor{OrganizationID: owner.OrganizationID, ID: u.ID, Name: u.Name, Role: u.Role}
	}
	cookies := []string{logIn(t, a, "ann", good), logIn(t, a, "ann", good), logIn(t, a, "ann", good)}
	count := func() (open int) {
		for _, cookie := range cookies {
			if _, err := a.SessionActor(ctx, cookie, false); err == nil {
				open++
			}
		}
		return open
	}
	listed, err := a.WebSessions(ctx, as(ann), "ann")
	if err != nil || len(listed) != 3 || listed[0].Address != "192.0.2.1" {
		t.Fatalf("got %v %v, want 3 sessions from 192.0.2.1", listed, err)
	}
	if _, err := a.WebSessions(ctx, as(bob), "ann"); !fault.Is(err, fault.Forbidden) {
		t.Errorf("another user lists: got %v, want forbidden", err)
	}
	if err := a.EndWebSessions(ctx, as(bob), "ann"); !fault.Is(err, fault.Forbidden) || count() != 3 {
		t.Errorf("another user ends: got %v and %d open, want forbidden and 3", err, count())
	}
	if err := a.EndWebSession(ctx, as(ann), "ann", listed[1].ID); err != nil || count() != 2 {
		t.Errorf("one ended: got %v and %d open, want 2", err, count())
	}
	if err := a.EndWebSession(ctx, owner, "ann", "nonsense"); !fault.Is(err, fault.NotFound) {
		t.Errorf("unknown session: got %v, want not found", err)
	}
	if err := a.EndWebSessions(ctx, owner, "ann"); err != nil || count() != 0 {
		t.Errorf("all ended: got %v and %d open, want 0", err, count())
	}
}
