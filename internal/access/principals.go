package access

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// Principal is who a person, a program or a Runner logs in as.
type Principal struct {
	ID        string
	Name      string
	ClientID  string // what it logs in as at /connect/token, behind the Organization's id and a colon
	Role      catalog.Role
	CreatedAt time.Time
}

// CredentialKind tells how a Credential is used.
type CredentialKind string

// The kinds of Credentials.
const (
	BearerToken  CredentialKind = "token"  // is sent with every request
	ClientSecret CredentialKind = "secret" // gets short tokens at /connect/token
)

// Credential is one token or client secret of a Principal, without itself: only its hash is kept.
type Credential struct {
	ID         string
	Name       string
	Kind       CredentialKind
	CreatedAt  time.Time
	ExpiresAt  time.Time // zero: never
	LastUsedAt time.Time // zero: not yet; up to half a minute behind
}

// CredentialRequest says what Credential to make.
type CredentialRequest struct {
	Kind    CredentialKind // "" = BearerToken, for a Runner ClientSecret
	Name    string         // "" = the kind
	Expires time.Duration  // from now; 0 = never
}

// NewCredential is a Credential with what it proves itself by, which is shown this once.
type NewCredential struct {
	Credential
	Principal      Principal
	OrganizationID string
	Secret         string
}

const (
	maxPrincipals  = 10_000 // per Organization
	maxCredentials = 100    // per Principal
	maxExpiry      = 10 * 366 * 24 * time.Hour
	maxNameLength  = 100
)

// ChangedEvent is the data of the events "principal.changed", "credential.changed" and "user.changed".
type ChangedEvent struct {
	Action     string `json:"action"` // create, delete, or of users: role, password
	Principal  string `json:"principal,omitempty"`
	Credential string `json:"credential,omitempty"` // its name
	User       string `json:"user,omitempty"`

	RegistrationToken string `json:"registration_token,omitempty"` // its name

	Role string `json:"role,omitempty"` // of a user, the new one
	By   string `json:"by"`
}

// change runs a change by an Actor who may administer. fn gives the kind of the event, its subject and its data.
func (a *Access) change(ctx context.Context, actor catalog.Actor, fn func(tx *store.Tx) (kind, subject string, e ChangedEvent, err error)) error {
	if err := actor.Need(catalog.Administer); err != nil {
		return err
	}
	return a.record(ctx, actor, fn)
}

// record runs a change that was allowed, and writes its event beside it.
func (a *Access) record(ctx context.Context, actor catalog.Actor, fn func(tx *store.Tx) (kind, subject string, e ChangedEvent, err error)) error {
	err := a.store.Update(ctx, func(tx *store.Tx) error {
		if err := tx.LockCatalog(actor.OrganizationID); err != nil { // what is counted below stays so
			return err
		}
		kind, subject, event, err := fn(tx)
		if err != nil {
			return err
		}
		event.By = actor.Name
		tx.Sign(actor, strings.TrimSuffix(kind, "changed")+event.Action)
		data, err := json.Marshal(event)
		if err != nil {
			return err
		}
		return tx.AppendEvent(store.Event{OrganizationID: actor.OrganizationID, Time: tx.Now(), Kind: kind, Subject: subject, Data: data})
	})
	if err == nil {
		a.known.forget()
	}
	return err
}

// Principals lists the Principals by name, those of Runners among them.
func (a *Access) Principals(ctx context.Context, actor catalog.Actor,
	pages ...store.Page) (all []Principal, err error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return nil, err
	}
	err = a.store.View(ctx, func(tx *store.Tx) error {
		stored, err := tx.Principals(actor.OrganizationID, pages...)
		for _, p := range stored {
			all = append(all, principalOf(p))
		}
		return err
	})
	return all, err
}

func principalOf(p store.ServicePrincipal) Principal {
	return Principal{ID: p.ID, Name: p.Name, ClientID: p.ClientID, Role: catalog.Role(p.Role), CreatedAt: p.CreatedAt}
}

// CreatePrincipal makes a Principal for a person or a program, with a first Credential. Its name is its client id, too.
func (a *Access) CreatePrincipal(ctx context.Context, actor catalog.Actor, name string, role catalog.Role, first CredentialRequest) (made NewCredential, err error) {
	if problem := catalog.NameProblem(name); problem != "" {
		return made, fault.New(fault.Invalid, "principal_invalid", "the name of the Service principal %s", problem)
	}
	if !slices.Contains([]catalog.Role{catalog.RoleOwner, catalog.RoleOperator, catalog.RoleViewer, catalog.RoleRunner}, role) {
		return made, fault.New(fault.Invalid, "role_unknown", "%q is not a role of a Service principal", role).
			WithHint("the roles are owner, operator, viewer, and runner for one that Runners share: legwork runner create --service-principal")
	}
	err = a.change(ctx, actor, func(tx *store.Tx) (string, string, ChangedEvent, error) {
		e := ChangedEvent{Action: "create", Principal: name}
		all, err := tx.Principals(actor.OrganizationID)
		if err != nil {
			return "", "", e, err
		}
		if len(all) >= maxPrincipals {
			return "", "", e, fault.New(fault.Conflict, "too_many_principals", "there are %d Service principals already", len(all)).WithHint("delete some")
		}
		p := store.ServicePrincipal{OrganizationID: actor.OrganizationID, Name: name, ClientID: name, Role: string(role)}
		if err := tx.PutPrincipal(&p); err != nil {
			return "", "", e, err
		}
		made, err = addCredential(tx, p, first)
		return "principal.changed", p.ID, e, err
	})
	return made, err
}

// DeletePrincipal deletes a Principal, by id or name, with its Credentials. One that a Runner logs in as stays.
func (a *Access) DeletePrincipal(ctx context.Context, actor catalog.Actor, idOrName string) error {
	return a.change(ctx, actor, func(tx *store.Tx) (string, string, ChangedEvent, error) {
		e := ChangedEvent{Action: "delete"}
		p, err := findPrincipal(tx, actor.OrganizationID, idOrName)
		if err != nil {
			return "", "", e, err
		}
		e.Principal = p.Name
		if err := notOfRunner(tx, p); err != nil {
			return "", "", e, err
		}
		if p.ClientID == adminName { // a Server that starts would make it anew
			return "", "", e, fault.New(fault.Conflict, "principal_admin", "the Service principal %s stays", p.Name).
				WithHint("delete its credentials instead: legwork principal credential list %s", p.Name)
		}
		if err := keepsAnOwner(tx, p.OrganizationID, func(c store.Credential) bool { return c.PrincipalID == p.ID }); err != nil {
			return "", "", e, err
		}
		return "principal.changed", p.ID, e, tx.DeletePrincipal(p.OrganizationID, p.ID)
	})
}

// notOfRunner refuses a Principal that Runners log in as.
func notOfRunner(tx *store.Tx, p store.ServicePrincipal) error {
	runners, err := tx.RunnersOf(p.OrganizationID, p.ID)
	if err != nil || len(runners) == 0 {
		return err
	}
	named := runners
	if len(named) > 5 {
		named = append(slices.Clone(runners[:5]), "...")
	}
	return fault.New(fault.Conflict, "principal_of_runner", "the Service principal %s is what the runners log in as: %s", p.Name, strings.Join(named, ", ")).
		WithHint("delete them first, or give them another: legwork runner delete %s", runners[0])
}

// Credentials lists the Credentials of a Principal, by id, name or client id, oldest first.
func (a *Access) Credentials(ctx context.Context, actor catalog.Actor, principal string,
	pages ...store.Page) (all []Credential, err error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return nil, err
	}
	if err := a.writeTouched(ctx); err != nil { // so that the last use is up to date
		return nil, err
	}
	err = a.store.View(ctx, func(tx *store.Tx) error {
		p, err := findPrincipal(tx, actor.OrganizationID, principal)
		if err != nil {
			return err
		}
		stored, err := tx.Credentials(p.OrganizationID, p.ID, pages...)
		for _, c := range stored {
			all = append(all, credentialOf(c))
		}
		return err
	})
	return all, err
}

func credentialOf(c store.Credential) Credential {
	return Credential{ID: c.ID, Name: c.Name, Kind: CredentialKind(c.Kind), CreatedAt: c.CreatedAt, ExpiresAt: c.ExpiresAt, LastUsedAt: c.LastUsedAt}
}

// CreateCredential gives a Principal one more Credential. Those that it has go on.
func (a *Access) CreateCredential(ctx context.Context, actor catalog.Actor, principal string, r CredentialRequest) (made NewCredential, err error) {
	err = a.change(ctx, actor, func(tx *store.Tx) (string, string, ChangedEvent, error) {
		e := ChangedEvent{Action: "create"}
		p, err := findPrincipal(tx, actor.OrganizationID, principal)
		if err != nil {
			return "", "", e, err
		}
		made, err = addCredential(tx, p, r)
		e.Principal, e.Credential = p.Name, made.Name
		return "credential.changed", p.ID, e, err
	})
	return made, err
}

// DeleteCredential ends a Credential, and the short tokens that were had with it: here at once, at other Servers within
// actorTTL. The last one that an owner can use stays.
func (a *Access) DeleteCredential(ctx context.Context, actor catalog.Actor, principal, id string) error {
	return a.change(ctx, actor, func(tx *store.Tx) (string, string, ChangedEvent, error) {
		e := ChangedEvent{Action: "delete"}
		p, err := findPrincipal(tx, actor.OrganizationID, principal)
		if err != nil {
			return "", "", e, err
		}
		c, _, err := tx.Credential(p.OrganizationID, p.ID, id)
		if err != nil {
			return "", "", e, err
		}
		e.Principal, e.Credential = p.Name, c.Name
		if err := keepsAnOwner(tx, p.OrganizationID, func(other store.Credential) bool { return other.ID == id }); err != nil {
			return "", "", e, err
		}
		return "credential.changed", p.ID, e, tx.DeleteCredential(p.OrganizationID, p.ID, id)
	})
}

// findPrincipal finds a Principal by its client id, which of people is their name, by its id, or by a name that is no other's.
func findPrincipal(tx *store.Tx, org, name string) (store.ServicePrincipal, error) {
	p, err := tx.PrincipalByClientID(org, name)
	if fault.Is(err, fault.NotFound) {
		p, err = tx.Principal(org, name)
	}
	if fault.Is(err, fault.NotFound) {
		p, err = principalNamed(tx, org, name)
	}
	return p, err
}

// principalNamed finds the one Principal of a name. Those of Runners are named after these, which may share one.
func principalNamed(tx *store.Tx, org, name string) (found store.ServicePrincipal, err error) {
	all, err := tx.Principals(org)
	if err != nil {
		return found, err
	}
	all = slices.DeleteFunc(all, func(p store.ServicePrincipal) bool { return p.Name != name })
	switch len(all) {
	case 0:
		return found, fault.New(fault.NotFound, "principal_not_found", "there is no Service principal %q", name).WithHint("see legwork principal list")
	case 1:
		return all[0], nil
	}
	return found, fault.New(fault.Conflict, "principal_ambiguous", "%d Service principals are named %q", len(all), name).
		WithHint("name one by its id: legwork principal list")
}

// addCredential makes a Credential of a Principal.
func addCredential(tx *store.Tx, p store.ServicePrincipal, r CredentialRequest) (made NewCredential, err error) {
	if r, err = r.checked(catalog.Role(p.Role)); err != nil {
		return made, err
	}
	have, err := tx.Credentials(p.OrganizationID, p.ID)
	if err != nil {
		return made, err
	}
	have = slices.DeleteFunc(have, func(c store.Credential) bool { return c.Instance != "" }) // of which registration keeps count
	if len(have) >= maxCredentials {
		return made, fault.New(fault.Conflict, "too_many_credentials", "%s has %d credentials already", p.Name, len(have)).WithHint("delete some")
	}
	secret, hash := NewToken()
	if r.Kind == ClientSecret {
		secret, hash = NewSecret()
	}
	c := store.Credential{PrincipalID: p.ID, Name: r.Name, Kind: string(r.Kind), Hash: hash}
	if r.Expires > 0 {
		c.ExpiresAt = tx.Now().Add(r.Expires)
	}
	if err := tx.PutCredential(&c); err != nil {
		return made, fmt.Errorf("store a credential: %w", err)
	}
	return NewCredential{Credential: credentialOf(c), Principal: principalOf(p), OrganizationID: p.OrganizationID, Secret: secret}, nil
}

// checked fills in what a request leaves out, and says what is wrong with it.
func (r CredentialRequest) checked(role catalog.Role) (CredentialRequest, error) {
	ofRunner := role == catalog.RoleRunner
	if r.Kind == "" {
		if r.Kind = BearerToken; ofRunner {
			r.Kind = ClientSecret
		}
	}
	if r.Name == "" {
		r.Name = string(r.Kind)
	}
	invalid := func(field, format string, args ...any) error {
		text := fmt.Sprintf(format, args...)
		return fault.New(fault.Invalid, "credential_invalid", "%s", text).WithDetails(fault.Problem{Field: field, Message: text})
	}
	switch {
	case r.Kind != BearerToken && r.Kind != ClientSecret:
		return r, invalid("kind", "%q is not a kind of credential: token or secret", r.Kind)
	case ofRunner && r.Kind != ClientSecret:
		return r, invalid("kind", "a Runner logs in with a client secret, not with a token")
	case len(r.Name) > maxNameLength:
		return r, invalid("name", "the name of the credential has more than %d letters", maxNameLength)
	case r.Expires < 0 || r.Expires > maxExpiry:
		return r, invalid("expires", "a credential expires after 0s (never) to %s", maxExpiry)
	}
	return r, nil
}

// keepsAnOwner refuses to take away the last Credential by which an owner can come in: nobody could undo that. A user who
// is an owner can come in, too.
func keepsAnOwner(tx *store.Tx, org string, goes func(store.Credential) bool) error {
	if there, err := anotherOwner(tx, org, ""); there || err != nil {
		return err
	}
	all, err := tx.Principals(org)
	if err != nil {
		return err
	}
	touched := false
	for _, p := range all {
		if p.Role != string(catalog.RoleOwner) {
			continue
		}
		credentials, err := tx.Credentials(p.OrganizationID, p.ID)
		if err != nil {
			return err
		}
		for _, c := range credentials {
			if over(c, tx.Now()) {
				continue
			}
			if !goes(c) {
				return nil
			}
			touched = true
		}
	}
	if !touched { // it is not an owner's, or over anyway
		return nil
	}
	return fault.New(fault.Conflict, "last_owner", "this is the last credential by which an owner can come in").
		WithHint("make another one first: legwork principal credential create NAME")
}
