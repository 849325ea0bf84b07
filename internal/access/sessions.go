package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// How long a Web session lasts.
const (
	SessionIdle     = 24 * time.Hour     // without a request of a person; an open page alone is none
	SessionLifetime = 7 * 24 * time.Hour // in all
	sessionTouch    = 5 * time.Minute    // how exactly its last request is known
	cookieBytes     = 32
	pruneEvery      = time.Hour
)

// people is what there is to log in with a password.
type people struct {
	hasher hasher
	nobody func() string // the hash of a password that nobody has, for names that nobody has

	pruneMu sync.Mutex
	pruned  time.Time
}

func newPeople() *people {
	p := &people{
		hasher: newHasher(),
	}
	p.nobody = sync.OnceValue(func() string {
		salt := make([]byte, argonSalt)
		_, _ = rand.Read(salt) // never fails
		return phc(rand.Text(), salt, argonMemory, argonPasses, argonLanes)
	})
	return p
}

// check compares a password with a hash; "" is the hash of nobody, which takes as long.
func (p *people) check(ctx context.Context, hash, password string) (bool, error) {
	known := hash != ""
	if !known {
		hash = p.nobody()
	}
	right, err := p.hasher.right(ctx, hash, password)
	return right && known, err
}

// PasswordLogin is an attempt to log in as a user.
type PasswordLogin struct {
	Name     string // of the user, in the Organization "default"; of another: "organization/name"
	Password string
	Address  string // of the browser
	Device   string // cookie that NewDevice made for this name, or ""
}

// LoggedInEvent is the data of the event "user.logged_in".
type LoggedInEvent struct {
	By      string `json:"by"`
	Address string `json:"address"`
}

// LoginRefusedEvent is the data of the event "user.login_refused", whose subject is the user, if there is one of that name.
type LoginRefusedEvent struct {
	User    string `json:"user"` // its name; what was typed is not kept where it is nobody's: people type passwords there
	Address string `json:"address"`
}

// Whom a log in is noted for that was no known user's.
const (
	unknownUser = "(unknown)"
	tokenUser   = "(token)"
)

func tooManyLogins() *fault.Fault {
	return fault.New(fault.RateLimited, "too_many_attempts", "too many attempts to log in").WithHint("wait a minute and try again")
}

// LoginWithPassword opens a Web session for a user and gives the text of its cookie. What is wrong is
// fault.Unauthenticated, after the same time and in the same words whether there is such a user or not; too many attempts
// are fault.RateLimited.
func (a *Access) LoginWithPassword(ctx context.Context, l PasswordLogin) (cookie string, err error) {
	defer func() { count(&a.refused.password, err) }()
	wrong := fault.New(fault.Unauthenticated, wrongPassword, "the name or the password is wrong")
	if len(l.Name) > 200 || len(l.Password) > maxPassword {
		return "", wrong
	}
	u, err := a.userNamed(ctx, l.Name)
	if err != nil {
		return "", err
	}
	name := throttleName(u, l.Name)
	device := a.deviceOf(l.Name, l.Device)
	a.note(ctx, name, l.Address, device)
	try, err := a.throttle.attempt(name, l.Address, device, a.now())
	if err != nil {
		return "", err
	}
	right, err := a.people.check(ctx, u.Password, l.Password)
	if right || err != nil { // an answer that was not given tells nothing
		try.giveBack(a.now())
	}
	switch {
	case err != nil:
		return "", err
	case !right:
		a.log.Warn("log in refused", "user", cmp.Or(u.Name, unknownUser), "address", l.Address)
		return "", cmp.Or[error](a.noteRefused(ctx, u, unknownUser, l.Address), wrong)
	}
	a.throttle.success(name, l.Address)
	by := catalog.Actor{OrganizationID: u.OrganizationID, ID: u.ID, Name: u.Name}
	return a.openSession(ctx, by, l.Address, func(tx *store.Tx, s *store.WebSession) error {
		s.UserID = u.ID
		now, err := tx.User(u.OrganizationID, u.ID)
		if err == nil && now.Password != u.Password { // it was changed just now
			err = wrong
		}
		if err != nil {
			return err
		}
		return tx.TouchUser(u.ID)
	})
}

// splitLogin returns the organization and the user that a person means who logs in.
func splitLogin(login string) (org, name string) {
	org, name, found := strings.Cut(login, "/")
	if !found {
		return DefaultOrganization, login
	}
	return org, name
}

// throttleName returns the name by which the attempts on a user are counted, however it is written: the same name in
// two organizations are two users. Attempts on an unknown name are counted by the name in full.
func throttleName(u store.User, login string) string {
	if u.ID != "" {
		return u.OrganizationID + " " + u.ID
	}
	org, name := splitLogin(login)
	return org + "/" + name
}

// userNamed finds who logs in; without a name when there is no such user.
func (a *Access) userNamed(ctx context.Context, login string) (u store.User, err error) {
	org, name := splitLogin(login)
	err = a.store.View(ctx, func(tx *store.Tx) error {
		o, err := tx.OrganizationByName(org)
		if err == nil {
			u, err = tx.User(o.ID, name)
		}
		return err
	})
	if fault.Is(err, fault.NotFound) || (err == nil && u.Name != name) { // an id is no name to log in by
		return store.User{}, nil
	}
	return u, err
}

// LoginWithToken opens a Web session for who has a bearer token, such as the admin's. It ends with that token.
func (a *Access) LoginWithToken(ctx context.Context, token, address string) (cookie string, err error) {
	defer func() { count(&a.refused.token, err) }()
	token = strings.TrimSpace(token)
	if len(token) > maxTokenLength {
		token = ""
	}
	hash := Hash(token)
	actor, _, err := a.ofToken(ctx, token, hash)
	if err == nil {
		err = actor.Need(catalog.Read)
	}
	if fault.Is(err, fault.Unauthenticated) { // a right token is never refused: nobody guesses one
		return "", a.refuseToken(ctx, address, err)
	}
	if err != nil {
		return "", err
	}
	return a.openSession(ctx, actor, address, func(tx *store.Tx, s *store.WebSession) error {
		credential, _, err := tx.CredentialByHash(string(BearerToken), hash)
		s.CredentialID = credential.ID
		return err
	})
}

// refuseToken counts and notes a wrong token. It returns why the log in is refused.
func (a *Access) refuseToken(ctx context.Context, address string, wrong error) error {
	a.note(ctx, tokenUser+networkOf(address), address, "")
	if _, err := a.throttle.attempt(tokenUser+networkOf(address), address, "", a.now()); err != nil {
		return err
	}
	a.log.Warn("log in with a token refused", "address", address)
	return cmp.Or(a.noteRefused(ctx, store.User{}, tokenUser, address), wrong)
}

// noteRefused leaves an event of a log in that failed, in the Organization "default" where it was no known user's: the same work, so that
// the time that it takes tells nobody whether there is such a user.
func (a *Access) noteRefused(ctx context.Context, u store.User, otherwise, address string) error {
	data, err := json.Marshal(LoginRefusedEvent{User: cmp.Or(u.Name, otherwise), Address: address})
	if err != nil {
		return err
	}
	return a.store.Update(store.WithoutPrecondition(ctx), func(tx *store.Tx) error {
		o, err := tx.OrganizationByName(DefaultOrganization)
		if err != nil {
			return err
		}
		tx.Sign(catalog.Actor{Name: "(nobody)", Address: address}, "user.login_refused")
		return tx.AppendEvent(store.Event{OrganizationID: cmp.Or(u.OrganizationID, o.ID), Kind: "user.login_refused", Subject: u.ID, Data: data})
	})
}

// openSession stores a Web session, which fn says whose it is, and its event.
func (a *Access) openSession(ctx context.Context, by catalog.Actor, address string, fn func(*store.Tx, *store.WebSession) error) (string, error) {
	random := make([]byte, cookieBytes)
	_, _ = rand.Read(random) // never fails
	cookie := base64.RawURLEncoding.EncodeToString(random)
	by.Address = address
	err := a.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(by, "user.login")
		s := store.WebSession{Hash: Hash(cookie), Address: address}
		if err := fn(tx, &s); err != nil {
			return err
		}
		if err := tx.CreateWebSession(&s); err != nil {
			return err
		}
		data, err := json.Marshal(LoggedInEvent{By: by.Name, Address: address})
		if err != nil {
			return err
		}
		return tx.AppendEvent(store.Event{OrganizationID: by.OrganizationID, Kind: "user.logged_in", Subject: by.ID, Data: data})
	})
	return cookie, err
}

func sessionOver() *fault.Fault {
	return fault.New(fault.Unauthenticated, "session_over", "you are not logged in any more").WithHint("log in again")
}

// SessionActor tells who a cookie belongs to, with the role as it is now. A cookie that is unknown or over is
// fault.Unauthenticated. seen says that a person asks, which keeps the Web session from idling out.
func (a *Access) SessionActor(ctx context.Context, cookie string, seen bool) (actor catalog.Actor, err error) {
	if raw, err := base64.RawURLEncoding.DecodeString(cookie); err != nil || len(raw) != cookieBytes {
		return actor, sessionOver()
	}
	hash := Hash(cookie)
	var s store.WebSession
	err = a.store.View(ctx, func(tx *store.Tx) error {
		if s, err = tx.WebSession(hash); err != nil {
			return err
		}
		actor, err = actorOfSession(tx, s)
		return err
	})
	now := a.now()
	switch {
	case fault.Is(err, fault.NotFound):
		return catalog.Actor{}, sessionOver()
	case err != nil:
		return catalog.Actor{}, err
	case subtle.ConstantTimeCompare(s.Hash, hash) != 1, sessionEnded(s, now):
		return catalog.Actor{}, sessionOver()
	}
	if seen && now.Sub(s.SeenAt) > sessionTouch {
		err = a.store.Update(ctx, func(tx *store.Tx) error { return tx.TouchWebSession(hash, now) })
	}
	return actor, err
}

func actorOfSession(tx *store.Tx, s store.WebSession) (catalog.Actor, error) {
	if s.UserID != "" {
		u, err := tx.UserOfSession(s)
		return catalog.Actor{OrganizationID: u.OrganizationID, ID: u.ID, Name: u.Name, Role: catalog.Role(u.Role)}, err
	}
	credential, principal, err := tx.PrincipalOfSession(s)
	if err == nil && over(credential, tx.Now()) {
		err = sessionOver()
	}
	return actorOf(principal, credential), err
}

// Logout ends the Web session of a cookie.
func (a *Access) Logout(ctx context.Context, cookie string) error {
	return a.store.Update(ctx, func(tx *store.Tx) error { return tx.DeleteWebSession(Hash(cookie)) })
}

// pruneSessions deletes, once in a while, the Web sessions that are over.
func (a *Access) pruneSessions(ctx context.Context) {
	a.people.pruneMu.Lock()
	defer a.people.pruneMu.Unlock()
	now := a.now()
	if now.Sub(a.people.pruned) < pruneEvery {
		return
	}
	a.people.pruned = now
	err := a.store.Update(ctx, func(tx *store.Tx) error {
		return tx.PruneWebSessions(now.Add(-SessionLifetime), now.Add(-SessionIdle))
	})
	if err != nil && ctx.Err() == nil {
		a.log.Warn("web sessions that are over not deleted", "error", err)
	}
}
