package access

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

const good = "correct horse battery"

func codeOf(err error) string {
	if err == nil {
		return ""
	}
	return fault.Of(err).Code
}

func newUser(t *testing.T, a *Access, owner catalog.Actor, name string, role catalog.Role) User {
	t.Helper()
	u, err := a.CreateUser(context.Background(), owner, name, role, good)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func logIn(t *testing.T, a *Access, name, password string) string {
	t.Helper()
	cookie, err := a.LoginWithPassword(context.Background(), PasswordLogin{Name: name, Password: password, Address: "192.0.2.1"})
	if err != nil {
		t.Fatal(err)
	}
	return cookie
}

func TestUsers(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a := open(t, openStore(t), dir)
	owner := admin(t, a, dir)
	newUser(t, a, owner, "ann", catalog.RoleOperator)
	viewer := catalog.Actor{OrganizationID: owner.OrganizationID, ID: "v", Name: "v", Role: catalog.RoleViewer}
	stranger := catalog.Actor{OrganizationID: "other", ID: "s", Name: "s", Role: catalog.RoleOwner}
	for name, c := range map[string]struct {
		err  error
		code string
	}{
		"twice":             {second(a.CreateUser(ctx, owner, "ann", catalog.RoleViewer, good)), "user_exists"},
		"a Runner's role":   {second(a.CreateUser(ctx, owner, "r", catalog.RoleRunner, good)), "user_invalid"},
		"a short password":  {second(a.CreateUser(ctx, owner, "r", catalog.RoleViewer, "short")), "user_invalid"},
		"no name":           {second(a.CreateUser(ctx, owner, "A b", catalog.RoleViewer, good)), "user_invalid"},
		"by a viewer":       {second(a.CreateUser(ctx, viewer, "b", catalog.RoleViewer, good)), "not_allowed"},
		"listed by viewers": {second(a.Users(ctx, viewer)), "not_allowed"},
		"role by a viewer":  {a.SetRole(ctx, viewer, "ann", catalog.RoleOwner), "not_allowed"},
		"across":            {a.SetRole(ctx, stranger, "ann", catalog.RoleOwner), "user_not_found"},
		"deleted across":    {a.DeleteUser(ctx, stranger, "ann"), "user_not_found"},
		"password across":   {a.SetPassword(ctx, stranger, "ann", "", good), "user_not_found"},
		"password, wrong":   {a.SetPassword(ctx, viewer, "ann", "wrong password", good), "not_your_password"},
		"password, nobody":  {a.SetPassword(ctx, viewer, "nobody", "wrong password", good), "not_your_password"},
		"nobody":            {a.DeleteUser(ctx, owner, "bob"), "user_not_found"},
	} {
		if codeOf(c.err) != c.code {
			t.Errorf("%s: %v, want %s", name, c.err, c.code)
		}
	}
	cookie := logIn(t, a, "ann", good)
	actor, err := a.SessionActor(ctx, cookie, true)
	if err != nil || actor.Name != "ann" || actor.Role != catalog.RoleOperator || actor.OrganizationID != owner.OrganizationID {
		t.Fatalf("%+v %v", actor, err)
	}
	if err := a.SetRole(ctx, owner, "ann", catalog.RoleViewer); err != nil {
		t.Fatal(err)
	}
	if actor, err = a.SessionActor(ctx, cookie, true); err != nil || actor.Role != catalog.RoleViewer {
		t.Errorf("a new role holds at once: %+v %v", actor, err)
	}
	const other = "another good password"
	if err := a.SetPassword(ctx, actor, "ann", good, other); err != nil { // one's own, knowing it
		t.Fatal(err)
	}
	if _, err := a.SessionActor(ctx, cookie, true); codeOf(err) != "session_over" {
		t.Errorf("a changed password ends what is open: %v", err)
	}
	if _, err := a.LoginWithPassword(ctx, PasswordLogin{Name: "ann", Password: good}); codeOf(err) != "login_wrong" {
		t.Errorf("the old password: %v", err)
	}
	cookie = logIn(t, a, "ann", other)
	if err := a.Logout(ctx, cookie); err != nil {
		t.Fatal(err)
	}
	if _, err := a.SessionActor(ctx, cookie, true); codeOf(err) != "session_over" {
		t.Errorf("after log out: %v", err)
	}
}

func TestUserOfAnotherOrganization(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	st := openStore(t)
	a := open(t, st, dir)
	newUser(t, a, admin(t, a, dir), "ann", catalog.RoleOwner)
	var other catalog.Actor
	err := st.Update(ctx, func(tx *store.Tx) error {
		org, err := tx.CreateOrganization("other")
		other = catalog.Actor{OrganizationID: org.ID, ID: "o", Name: "o", Role: catalog.RoleOwner}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const theirs = "quite another password"
	if _, err := a.CreateUser(ctx, other, "ann", catalog.RoleViewer, theirs); err != nil {
		t.Fatal(err)
	}
	actor, err := a.SessionActor(ctx, logIn(t, a, "other/ann", theirs), true)
	if err != nil || actor.OrganizationID != other.OrganizationID || actor.Role != catalog.RoleViewer {
		t.Errorf("%+v %v", actor, err)
	}
	if _, err := a.LoginWithPassword(ctx, PasswordLogin{Name: "ann", Password: theirs}); codeOf(err) != "login_wrong" {
		t.Errorf("the password of a namesake: %v", err)
	}
}

func TestTheLastOwnerStays(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a := open(t, openStore(t), dir)
	owner := admin(t, a, dir)
	credentials, err := a.Credentials(ctx, owner, "admin")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.DeleteCredential(ctx, owner, "admin", credentials[0].ID); codeOf(err) != "last_owner" {
		t.Fatalf("the last token: %v", err)
	}
	newUser(t, a, owner, "ann", catalog.RoleOwner)
	if err := a.DeleteCredential(ctx, owner, "admin", credentials[0].ID); err != nil {
		t.Fatalf("ann can come in: %v", err)
	}
	for what, err := range map[string]error{
		"deleted": a.DeleteUser(ctx, owner, "ann"),
		"demoted": a.SetRole(ctx, owner, "ann", catalog.RoleViewer),
	} {
		if codeOf(err) != "last_owner" {
			t.Errorf("%s: %v", what, err)
		}
	}
	newUser(t, a, owner, "bob", catalog.RoleOwner)
	if err := a.DeleteUser(ctx, owner, "ann"); err != nil {
		t.Error(err)
	}
}

func TestWebSessionsOfTokens(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a := open(t, openStore(t), dir)
	owner := admin(t, a, dir)
	made, err := a.CreatePrincipal(ctx, owner, "ci", catalog.RoleViewer, CredentialRequest{})
	if err != nil {
		t.Fatal(err)
	}
	cookie, err := a.LoginWithToken(ctx, " "+made.Secret+"\n", "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	if actor, err := a.SessionActor(ctx, cookie, true); err != nil || actor.Name != "ci" || actor.Role != catalog.RoleViewer {
		t.Errorf("%+v %v", actor, err)
	}
	if err := a.DeleteCredential(ctx, owner, "ci", made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := a.SessionActor(ctx, cookie, true); codeOf(err) != "session_over" {
		t.Errorf("the token is gone: %v", err)
	}
	if _, err := a.LoginWithToken(ctx, "lw_nonsense", "192.0.2.1"); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("nonsense: %v", err)
	}
}

func TestWebSessionsEnd(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a := open(t, openStore(t), dir)
	newUser(t, a, admin(t, a, dir), "ann", catalog.RoleViewer)
	begun := time.Now()
	at := func(d time.Duration) { a.now = func() time.Time { return begun.Add(d) } }
	at(0)
	cookie := logIn(t, a, "ann", good)
	at(SessionIdle - time.Minute)
	if _, err := a.SessionActor(ctx, cookie, false); err != nil {
		t.Errorf("not idle yet: %v", err)
	}
	at(SessionIdle + time.Minute)
	if _, err := a.SessionActor(ctx, cookie, true); codeOf(err) != "session_over" {
		t.Errorf("idle: %v", err)
	}
	at(0)
	cookie = logIn(t, a, "ann", good)
	for d := time.Duration(0); d < SessionLifetime; d += SessionIdle / 2 {
		at(d)
		if _, err := a.SessionActor(ctx, cookie, true); err != nil {
			t.Fatalf("after %s of use: %v", d, err)
		}
	}
	at(SessionLifetime + time.Minute)
	if _, err := a.SessionActor(ctx, cookie, true); codeOf(err) != "session_over" {
		t.Errorf("too old: %v", err)
	}
	for _, cookie := range []string{"", "x", cookie + "A", cookie[1:]} {
		if _, err := a.SessionActor(ctx, cookie, true); codeOf(err) != "session_over" {
			t.Errorf("%q: %v", cookie, err)
		}
	}
}

func TestWrongPasswordsAreCounted(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a := open(t, openStore(t), dir)
	fixed := time.Now()
	a.now = func() time.Time { return fixed }
	newUser(t, a, admin(t, a, dir), "ann", catalog.RoleViewer)
	try := func(name, password, address string) string {
		_, err := a.LoginWithPassword(ctx, PasswordLogin{Name: name, Password: password, Address: address})
		return codeOf(err)
	}
	for range 8 {
		if code := try("ann", "wrong password", "2001:db8::1"); code != "login_wrong" {
			t.Fatal(code)
		}
	}
	if code := try("ann", good, "2001:db8::2"); code != "too_many_attempts" {
		t.Errorf("the same network, now right: %q", code)
	}
	if code := try("ann", good, "192.0.2.9"); code != "" {
		t.Errorf("from elsewhere: %q", code)
	}
	fixed = fixed.Add(time.Minute)
	if code := try("ann", good, "2001:db8::2"); code != "" {
		t.Errorf("a minute later: %q", code)
	}
}

// An unknown name costs one hash as a known one does: it is the hash that takes the time.
func TestNobodyTakesAsLongAsSomebody(t *testing.T) {
	p := newPeople()
	somebody, err := p.hasher.hash(context.Background(), good)
	if err != nil {
		t.Fatal(err)
	}
	for _, hash := range []string{"", somebody} {
		if right, err := p.check(context.Background(), hash, "wrong password"); right || err != nil {
			t.Errorf("%q: %v %v", hash, right, err)
		}
	}
	cost := func(s string) string { return s[:len("$argon2id$v=19$m=19456,t=2,p=1$")] }
	if cost(p.nobody()) != cost(somebody) {
		t.Errorf("%s and %s", p.nobody(), somebody)
	}
	if right, err := p.check(context.Background(), somebody, good); !right || err != nil {
		t.Errorf("%v %v", right, err)
	}
	if _, err := p.check(context.Background(), "$argon2id$damaged", good); err == nil {
		t.Error("a damaged hash is taken")
	}
}

// Attempts that are made at once are counted before any of them is answered.
func TestAttemptsAtOnceAreCounted(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a := open(t, openStore(t), dir)
	fixed := time.Now()
	a.now = func() time.Time { return fixed }
	owner := admin(t, a, dir)
	newUser(t, a, owner, "ann", catalog.RoleViewer)
	bob := newUser(t, a, owner, "bob", catalog.RoleViewer)
	for range 2 * hashesAtOnce * 10 { // what was right takes nothing
		logIn(t, a, "bob", good)
	}
	wrong := map[string]func(i int) error{
		"log in": func(int) error {
			return second(a.LoginWithPassword(ctx, PasswordLogin{Name: "ann", Password: "wrong password", Address: "192.0.2.7"}))
		},
		"log in with a token": func(int) error { return second(a.LoginWithToken(ctx, "lw_nonsense", "192.0.2.8")) },
		"set password": func(i int) error { // however the user is named
			asker := catalog.Actor{OrganizationID: owner.OrganizationID, ID: bob.ID, Name: "bob", Role: catalog.RoleViewer, Address: "192.0.2.9"}
			return a.SetPassword(ctx, asker, []string{"bob", bob.ID}[i%2], "wrong password", good)
		},
	}
	for name, try := range wrong {
		codes := make(chan string)
		for i := range 30 {
			go func() { codes <- codeOf(try(i)) }()
		}
		counted := map[string]int{}
		for range 30 {
			counted[<-codes]++
		}
		if counted["too_many_attempts"] != 22 {
			t.Errorf("%s: of 30 attempts 8 are looked at: %v", name, counted)
		}
	}
}

// Who waits for a hash is one of few; more are told to come back.
func TestFewWaitForAHash(t *testing.T) {
	h := newHasher()
	release, held := make(chan struct{}), make(chan error)
	for range hashesAtOnce + hashesWaiting {
		go func() { held <- h.run(context.Background(), func() { <-release }) }()
	}
	deadline := time.Now().Add(time.Minute)
	for len(h.waiting) < hashesAtOnce+hashesWaiting && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	err := h.run(context.Background(), func() { t.Error("hashed") })
	if !fault.Is(err, fault.RateLimited) || !strings.Contains(fault.Of(err).Hint, "second") {
		t.Errorf("%v", err)
	}
	close(release)
	for range hashesAtOnce + hashesWaiting {
		if err := <-held; err != nil {
			t.Error(err)
		}
	}
	if err := h.run(context.Background(), func() {}); err != nil {
		t.Errorf("once there is room: %v", err)
	}
}

// TestRefusedLoginsAreNoted: whoever reads the audit sees that somebody tries, and from where; never what was typed.
func TestRefusedLoginsAreNoted(t *testing.T) {
	dir, ctx, st := t.TempDir(), context.Background(), openStore(t)
	var log bytes.Buffer
	a, err := New(ctx, st, Settings{Dir: dir}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	owner := admin(t, a, dir)
	newUser(t, a, owner, "ann", catalog.RoleOperator)
	for _, name := range []string{"ann", "hunter2-typed-in-the-wrong-field"} {
		if _, err := a.LoginWithPassword(ctx, PasswordLogin{Name: name, Password: "hunter2", Address: "192.0.2.9"}); codeOf(err) != "login_wrong" {
			t.Fatal(err)
		}
	}
	if _, err := a.LoginWithToken(ctx, "hunter2", "192.0.2.10"); !fault.Is(err, fault.Unauthenticated) {
		t.Fatal(err)
	}
	var got []string
	if err := st.View(ctx, func(tx *store.Tx) error {
		entries, err := tx.Audit(owner.OrganizationID, store.AuditFilter{Action: "user.login_refused"})
		for _, e := range entries {
			got = append(got, e.Actor+" "+e.Address+" "+string(e.Data))
			if known := strings.Contains(string(e.Data), "ann"); known != (e.Subject != "") {
				t.Errorf("subject: %+v", e)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`(nobody) 192.0.2.10 {"user":"(token)","address":"192.0.2.10"}`,
		`(nobody) 192.0.2.9 {"user":"(unknown)","address":"192.0.2.9"}`,
		`(nobody) 192.0.2.9 {"user":"ann","address":"192.0.2.9"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if n := strings.Count(log.String(), "refused"); n != 3 || strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log speaks of %d: %s", n, &log)
	}
}
