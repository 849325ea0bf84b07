package access

import (
	"cmp"
	"context"
	"crypto/subtle"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"legwork/internal/fault"
	"legwork/internal/store"
)

// Login is a request for a token with client credentials (RFC 6749 section 4.4).
type Login struct {
	ClientID     string // "{organization id}:{client id}"
	ClientSecret string
	Address      string // of the caller, for the limit of attempts
}

// Token is a short token that Issue made.
type Token struct {
	Text    string
	Expires time.Duration // from now
}

const maxCredentialLength = 512

// Issue gives a short token for client credentials. Wrong ones are fault.Unauthenticated with the same sentence
// and the same effort whatever is wrong; only who has a secret that exists learns what does not fit it.
// Too many attempts are fault.RateLimited.
func (a *Access) Issue(ctx context.Context, login Login) (Token, error) {
	principal, credential, err := a.admit(ctx, login)
	if err != nil {
		return Token{}, err
	}
	return a.sign(principal, credential, a.now())
}

// admit checks client credentials. Failed attempts are limited. A right secret is never refused: it is too long to be
// guessed, so its owner must not suffer from the attempts of others.
func (a *Access) admit(ctx context.Context, login Login) (principal store.ServicePrincipal, credential string, err error) {
	defer func() { count(&a.refused.clientCredentials, err) }()
	if len(login.ClientID) > maxCredentialLength || len(login.ClientSecret) > maxCredentialLength {
		return principal, "", wrongLogin()
	}
	a.note(ctx, "client "+login.ClientID, login.Address, "")
	principal, credential, err = a.check(ctx, login)
	if fault.Is(err, fault.Unauthenticated) {
		_, tooMany := a.throttle.attempt("client "+login.ClientID, login.Address, "", a.now())
		err = cmp.Or(tooMany, err)
	}
	return principal, credential, err
}

func wrongLogin() *fault.Fault {
	return fault.New(fault.Unauthenticated, "login_wrong", "the Organization id, the client id or the client secret is wrong").
		WithHint("the client_id is \"{organization id}:{client id}\"; if the secret is lost, make a new credential")
}

// check finds the secret by its hash: one indexed read, whether the client exists or not. It gives the id of its Credential, too.
func (a *Access) check(ctx context.Context, login Login) (store.ServicePrincipal, string, error) {
	var none store.ServicePrincipal
	org, client, ok := strings.Cut(login.ClientID, ":")
	if _, err := uuid.Parse(org); !ok || err != nil || client == "" {
		return none, "", fault.New(fault.Unauthenticated, "client_id_malformed", "the client_id is not of the form \"{organization id}:{client id}\"").
			WithHint("put the id of the Organization and a colon before the client id")
	}
	hash := Hash(login.ClientSecret)
	var credential store.Credential
	var principal store.ServicePrincipal
	err := a.store.View(ctx, func(tx *store.Tx) (err error) {
		credential, principal, err = tx.CredentialByHash("secret", hash)
		return err
	})
	switch {
	case fault.Is(err, fault.NotFound):
		return none, "", wrongLogin()
	case err != nil:
		return none, "", err
	case subtle.ConstantTimeCompare(credential.Hash, hash) != 1:
		return none, "", wrongLogin()
	case subtle.ConstantTimeCompare([]byte(principal.OrganizationID), []byte(strings.ToLower(org))) != 1:
		return none, "", fault.New(fault.Unauthenticated, "wrong_organization", "the client secret is right, but it belongs to another Organization").
			WithHint("set Runner.OrganizationId to the organization_id that was shown when the Runner was created")
	case subtle.ConstantTimeCompare([]byte(principal.ClientID), []byte(client)) != 1:
		return none, "", fault.New(fault.Unauthenticated, "wrong_client", "the client secret is right, but it belongs to another client id").
			WithHint("use the client_id that was shown together with the client_secret")
	case over(credential, a.now()):
		return none, "", fault.New(fault.Unauthenticated, "secret_expired", "the client secret is over").WithHint("make a new credential")
	}
	if err := a.endReplaced(ctx, principal.OrganizationID, credential); err != nil {
		return none, "", err
	}
	a.touch(credential.ID)
	return principal, credential.ID, nil
}

// endReplaced ends the Credentials that one replaces that is used for the first time, as far as is known.
func (a *Access) endReplaced(ctx context.Context, org string, c store.Credential) error {
	if !c.LastUsedAt.IsZero() {
		return nil
	}
	replaces := false
	err := a.store.View(ctx, func(tx *store.Tx) (err error) {
		replaces, err = tx.Replaces(org, c.PrincipalID, c.ID)
		return err
	})
	if err != nil || !replaces {
		return err
	}
	defer a.Forget()
	return a.store.Update(ctx, func(tx *store.Tx) error { return tx.EndReplaced(org, c.PrincipalID, c.ID) })
}

func (a *Access) sign(p store.ServicePrincipal, credential string, now time.Time) (Token, error) {
	c := claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: issuer, Audience: jwt.ClaimStrings{issuer}, Subject: p.ID, ID: uuid.NewString(),
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(a.settings.TokenLifetime)),
		},
		Organization: p.OrganizationID, Credential: credential,
	}
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(a.signing)
	if err != nil {
		return Token{}, fmt.Errorf("sign a token: %w", err)
	}
	return Token{Text: text, Expires: a.settings.TokenLifetime}, nil
}
