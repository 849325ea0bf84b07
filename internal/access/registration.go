package access

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// RegistrationToken lets Runners register themselves. Only its hash is kept.
type RegistrationToken struct {
	ID         string
	Name       string
	Labels     map[string]string // those that a Runner may have; others are refused
	GiveLabels bool              // it gets all of them, whatever it asks for
	UsesLeft   int64             // UnlimitedUses: any number
	CreatedBy  string
	CreatedAt  time.Time
	ExpiresAt  time.Time
	LastUsedAt time.Time // zero: not yet
}

// UnlimitedUses is the UsesLeft of a RegistrationToken whose uses are not counted.
const UnlimitedUses = store.UnlimitedUses

// RegistrationRequest says what RegistrationToken to make.
type RegistrationRequest struct {
	Name       string        // no other's; "" = "registration", or the first of "registration-2" and so on that is free
	Expires    time.Duration // from now; 0 = a day
	Uses       int64         // 0 = one, UnlimitedUses
	Labels     map[string]string
	GiveLabels bool
}

const (
	maxRegistrationTokens     = 1_000 // per Organization
	maxRegistrationUses       = 100_000
	minRegistrationExpiry     = time.Minute
	defaultRegistrationExpiry = 24 * time.Hour
	registrationPrefix        = "lwr_"
	maxRegistrationLength     = 512
	goneCredentialAfter       = time.Hour // how long an Instance that registered may take until it is there
	registrationKind          = "registration_token.changed"
)

// CreateRegistrationToken makes a RegistrationToken. token is shown this once.
func (a *Access) CreateRegistrationToken(ctx context.Context, actor catalog.Actor, r RegistrationRequest) (made RegistrationToken, token string, err error) {
	named := r.Name != ""
	if r, err = r.checked(); err != nil {
		return made, "", err
	}
	token, hash := mint(registrationPrefix)
	err = a.change(ctx, actor, func(tx *store.Tx) (string, string, ChangedEvent, error) {
		e := ChangedEvent{Action: "create"}
		all, err := tx.RegistrationTokens(actor.OrganizationID)
		if err != nil {
			return "", "", e, err
		}
		if len(all) >= maxRegistrationTokens {
			return "", "", e, fault.New(fault.Conflict, "too_many_registration_tokens", "there are %d registration tokens already", len(all)).
				WithHint("revoke those that are over: legwork runner token list")
		}
		if !named {
			r.Name = freeName(all, r.Name)
		}
		if hasName(all, r.Name) {
			return "", "", e, fault.New(fault.Conflict, "registration_token_exists", "there is a registration token named %q already", r.Name).
				WithHint("give this one another name, or revoke that one: legwork runner token revoke %s", r.Name)
		}
		t := store.RegistrationToken{OrganizationID: actor.OrganizationID, Name: r.Name, CreatedBy: actor.Name, Hash: hash,
			Labels: r.Labels, GiveLabels: r.GiveLabels, UsesLeft: r.Uses, ExpiresAt: tx.Now().Add(r.Expires)}
		err = tx.InsertRegistrationToken(&t)
		e.RegistrationToken = t.Name
		made = registrationTokenOf(t)
		return registrationKind, t.ID, e, err
	})
	if err != nil {
		return RegistrationToken{}, "", err
	}
	return made, token, nil
}

func hasName(all []store.RegistrationToken, name string) bool {
	return slices.ContainsFunc(all, func(t store.RegistrationToken) bool { return t.Name == name })
}

// freeName gives name, or the first of name-2, name-3 and so on that no token has.
func freeName(all []store.RegistrationToken, name string) string {
	free := name
	for n := 2; hasName(all, free); n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	return free
}

// checked fills in what a request leaves out, and says what is wrong with it.
func (r RegistrationRequest) checked() (RegistrationRequest, error) {
	invalid := func(field, format string, args ...any) (RegistrationRequest, error) {
		text := fmt.Sprintf(format, args...)
		return r, fault.New(fault.Invalid, "registration_token_invalid", "%s", text).WithDetails(fault.Problem{Field: field, Message: text})
	}
	if r.Name == "" {
		r.Name = "registration"
	}
	if r.Expires == 0 {
		r.Expires = defaultRegistrationExpiry
	}
	if r.Uses == 0 {
		r.Uses = 1
	}
	if problem := catalog.NameProblem(r.Name); problem != "" {
		return invalid("name", "the name of the registration token %s", problem)
	}
	switch {
	case r.Expires < minRegistrationExpiry || r.Expires > maxExpiry:
		return invalid("expires_in", "a registration token expires after %s to %s", minRegistrationExpiry, maxExpiry)
	case r.Uses != UnlimitedUses && (r.Uses < 0 || r.Uses > maxRegistrationUses):
		return invalid("uses", "a registration token has 1 to %d uses, or any number of them", maxRegistrationUses)
	case r.GiveLabels && len(r.Labels) == 0:
		return invalid("give_labels", "a registration token that gives its labels needs some")
	}
	if err := (catalog.RunnerSpec{Name: "x", Labels: r.Labels}).Validate(); err != nil {
		return invalid("labels", "the labels of the registration token are wrong: %s", fault.Of(err).Details[0])
	}
	return r, nil
}

func registrationTokenOf(t store.RegistrationToken) RegistrationToken {
	return RegistrationToken{ID: t.ID, Name: t.Name, Labels: t.Labels, GiveLabels: t.GiveLabels, UsesLeft: t.UsesLeft,
		CreatedBy: t.CreatedBy, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, LastUsedAt: t.LastUsedAt}
}

// RegistrationTokens lists the RegistrationTokens, oldest first, with those that are over until they are revoked.
func (a *Access) RegistrationTokens(ctx context.Context, actor catalog.Actor,
	pages ...store.Page) (all []RegistrationToken, err error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return nil, err
	}
	err = a.store.View(ctx, func(tx *store.Tx) error {
		stored, err := tx.RegistrationTokens(actor.OrganizationID, pages...)
		for _, t := range stored {
			all = append(all, registrationTokenOf(t))
		}
		return err
	})
	return all, err
}

// RevokeRegistrationToken ends a RegistrationToken, by id, or by its name where no other has that. Runners that it
// registered go on.
func (a *Access) RevokeRegistrationToken(ctx context.Context, actor catalog.Actor, idOrName string) error {
	return a.change(ctx, actor, func(tx *store.Tx) (string, string, ChangedEvent, error) {
		e := ChangedEvent{Action: "delete"}
		all, err := tx.RegistrationTokens(actor.OrganizationID)
		if err != nil {
			return "", "", e, err
		}
		t, err := oneToken(all, idOrName)
		if err != nil {
			return "", "", e, err
		}
		e.RegistrationToken = t.Name
		return registrationKind, t.ID, e, tx.DeleteRegistrationToken(actor.OrganizationID, t.ID)
	})
}

func oneToken(all []store.RegistrationToken, idOrName string) (found store.RegistrationToken, err error) {
	named := 0
	for _, t := range all {
		if t.ID == idOrName {
			return t, nil
		}
		if t.Name == idOrName {
			found = t
			named++
		}
	}
	switch named {
	case 0:
		return found, fault.New(fault.NotFound, "registration_token_not_found", "there is no registration token %q", idOrName).WithHint("see legwork runner token list")
	case 1:
		return found, nil
	}
	return found, fault.New(fault.Conflict, "registration_token_ambiguous", "%d registration tokens are named %q", named, idOrName).
		WithHint("revoke one by its id: legwork runner token list")
}

// Registrar tells on whose behalf a Runner registers that shows a registration token: one of those that are stored, or the
// Server's own setting. Whatever is wrong with it, the answer is the same; too many wrong ones from an address are fault.RateLimited.
// A stored one is never refused because of others' wrong ones: many hosts may share an address, and nobody guesses 256 bits. The
// Server's setting is what people chose: it is held back with the wrong ones.
// Its use is counted by who registers the Runner, and refuses one that is used up: a request that was answered once may be made
// again.
func (a *Access) Registrar(ctx context.Context, token, address string) (by catalog.Registrar, err error) {
	defer func() { count(&a.refused.registrationToken, err) }()
	by, err = a.registrar(ctx, token)
	if err != nil && !fault.Is(err, fault.Unauthenticated) || err == nil && by.Stored {
		return by, err
	}
	a.note(ctx, "registration\x00"+networkOf(address), address, "")
	try, tooMany := a.throttle.attempt("registration\x00"+networkOf(address), address, "", a.now())
	if tooMany != nil {
		return catalog.Registrar{}, fault.New(fault.RateLimited, "too_many_attempts", "too many wrong registration tokens came from this address; one more is looked at in 10 seconds").
			WithHint("check the registration token: legwork runner token list shows an owner which are good")
	}
	if err == nil {
		try.giveBack(a.now())
	}
	return by, err
}

func (a *Access) registrar(ctx context.Context, token string) (by catalog.Registrar, err error) {
	if len(token) > maxRegistrationLength {
		return by, catalog.RegistrationRefused()
	}
	if strings.HasPrefix(token, bootstrapPrefix) {
		return a.bootstrapped(ctx, token)
	}
	hash, own := Hash(token), Hash(a.settings.RegistrationToken)
	ofSetting := subtle.ConstantTimeCompare(hash, own) == 1 && a.settings.RegistrationToken != ""
	var t store.RegistrationToken
	var org catalog.Organization
	err = a.store.View(ctx, func(tx *store.Tx) (err error) {
		if ofSetting {
			org, err = tx.OrganizationByName(DefaultOrganization)
			return err
		}
		t, err = tx.RegistrationTokenByHash(hash)
		return err
	})
	switch {
	case err == nil && ofSetting:
		return catalog.Registrar{OrganizationID: org.ID, ID: a.settingID(), Name: "of the Server", AnyLabels: true}, nil
	case fault.Is(err, fault.NotFound):
		return by, catalog.RegistrationRefused()
	case err != nil:
		return by, err
	case subtle.ConstantTimeCompare(hash, t.Hash) != 1 || !a.now().Before(t.ExpiresAt):
		return by, catalog.RegistrationRefused()
	}
	return catalog.Registrar{OrganizationID: t.OrganizationID, ID: t.ID, Name: t.Name, Stored: true,
		Labels: maps.Clone(t.Labels), GiveLabels: t.GiveLabels}, nil
}

// settingID tells one value of the Server's setting from another. People choose it: without the key that signs tokens
// nobody can guess it from the database.
func (a *Access) settingID() string {
	mac := hmac.New(sha256.New, a.signing)
	_, _ = mac.Write([]byte("registration\x00" + a.settings.RegistrationToken)) // never fails
	return catalog.SettingRegistrar + hex.EncodeToString(mac.Sum(nil)[:16])
}

// Prove checks client credentials as Issue does, with the same limits, and gives the ids of the Service principal and of
// the Credential instead of a token.
func (a *Access) Prove(ctx context.Context, login Login) (principalID, credentialID string, err error) {
	principal, credentialID, err := a.admit(ctx, login)
	return principal.ID, credentialID, err
}

// dropGone deletes the Credentials of Instances that are not there any more.
func (a *Access) dropGone(ctx context.Context) {
	err := a.store.Update(ctx, func(tx *store.Tx) error {
		n, err := tx.DeleteGoneCredentials(tx.Now().Add(-goneCredentialAfter))
		if n > 0 {
			a.log.Info("credentials of instances that are gone deleted", "count", n)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		a.log.Warn("credentials of instances that are gone not deleted", "error", err)
	}
}
