package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

const (
	maxTokenLength = 4096
	actorTTL       = 5 * time.Second // how long a removed principal or credential may still be taken
	maxKnownActors = 20_000
	issuer         = "legwork"
	clockSkew      = 30 * time.Second // between the Servers of one database
)

// claims are what is in our own tokens. The role is not: it is looked up, so that a change of it holds at once.
type claims struct {
	jwt.RegisteredClaims
	Organization string `json:"org"`
	Credential   string `json:"cred"` // that it was had with; it ends with it
}

// Authenticate tells who a bearer token belongs to: a token of a principal ("lw_..."), or one that Issue made.
// What is missing, wrong or over is fault.Unauthenticated. A principal, a Credential or a role that was taken away
// may still count for actorTTL.
func (a *Access) Authenticate(ctx context.Context, bearer string) (catalog.Actor, error) {
	return a.authenticate(ctx, bearer, true)
}

// AuthenticateNow is Authenticate for what lasts long, such as a Session: what was taken away counts no more.
func (a *Access) AuthenticateNow(ctx context.Context, bearer string) (catalog.Actor, error) {
	return a.authenticate(ctx, bearer, false)
}

func (a *Access) authenticate(ctx context.Context, bearer string, remembered bool) (catalog.Actor, error) {
	if bearer == "" {
		return catalog.Actor{}, fault.New(fault.Unauthenticated, "token_missing", "this needs a token and none was sent").
			WithHint("set LEGWORK_TOKEN or --token-file; programs send the header \"Authorization: Bearer TOKEN\"")
	}
	if len(bearer) > maxTokenLength {
		return catalog.Actor{}, wrongToken()
	}
	key := sha256.Sum256([]byte(bearer))
	now := a.now()
	if actor, ok := a.known.get(key, now); ok && remembered {
		return actor, nil
	}
	var actor catalog.Actor
	var until time.Time
	var err error
	if strings.HasPrefix(bearer, tokenPrefix) {
		actor, until, err = a.ofToken(ctx, bearer, key[:])
	} else {
		actor, until, err = a.ofSigned(ctx, bearer)
	}
	if err != nil {
		return catalog.Actor{}, err
	}
	a.known.put(key, actor, now, until)
	return actor, nil
}

// Forget has every token looked up anew: something was taken away.
func (a *Access) Forget() { a.known.forget() }

func wrongToken() *fault.Fault {
	return fault.New(fault.Unauthenticated, "token_wrong", "the token is not one that this Server knows").
		WithHint("check that it is complete and was made by this Server")
}

func expiredToken() *fault.Fault {
	return fault.New(fault.Unauthenticated, "token_expired", "the token is over").WithHint("log in again, or have a new one made")
}

// ofToken looks a token up by its hash. until is when it ends, zero when it does not.
func (a *Access) ofToken(ctx context.Context, token string, hash []byte) (actor catalog.Actor, until time.Time, err error) {
	if !wellFormed(token) {
		return actor, until, wrongToken()
	}
	var credential store.Credential
	var principal store.ServicePrincipal
	err = a.store.View(ctx, func(tx *store.Tx) (err error) {
		credential, principal, err = tx.CredentialByHash("token", hash)
		return err
	})
	switch {
	case fault.Is(err, fault.NotFound):
		return actor, until, wrongToken()
	case err != nil:
		return actor, until, err
	case subtle.ConstantTimeCompare(credential.Hash, hash) != 1:
		return actor, until, wrongToken()
	case over(credential, a.now()):
		return actor, until, expiredToken()
	}
	a.touch(credential.ID)
	if principal.ClientID == adminName {
		a.dropAdminFile(hash)
	}
	return actorOf(principal, credential), credential.ExpiresAt, nil
}

// ofSigned takes a token that a Server of this database signed. The Credential that it was had with must still be there.
func (a *Access) ofSigned(ctx context.Context, token string) (actor catalog.Actor, until time.Time, err error) {
	var c claims
	_, err = jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return a.signing, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithIssuer(issuer), jwt.WithAudience(issuer),
		jwt.WithExpirationRequired(), jwt.WithLeeway(clockSkew), jwt.WithTimeFunc(a.now))
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return actor, until, expiredToken()
	case err != nil:
		return actor, until, wrongToken()
	}
	var credential store.Credential
	var principal store.ServicePrincipal
	err = a.store.View(ctx, func(tx *store.Tx) (err error) {
		credential, principal, err = tx.Credential(c.Organization, c.Subject, c.Credential)
		return err
	})
	switch {
	case fault.Is(err, fault.NotFound):
		return actor, until, fault.New(fault.Unauthenticated, "credential_gone", "the credential that this token was had with is not there any more").
			WithHint("log in with the one that replaced it, or create the Runner or the Service principal again")
	case err != nil:
		return actor, until, err
	case over(credential, a.now()):
		return actor, until, expiredToken()
	}
	until = c.ExpiresAt.Add(clockSkew)
	if !credential.ExpiresAt.IsZero() && credential.ExpiresAt.Before(until) {
		until = credential.ExpiresAt
	}
	return actorOf(principal, credential), until, nil
}

func over(c store.Credential, now time.Time) bool {
	return !c.ExpiresAt.IsZero() && !now.Before(c.ExpiresAt)
}

func actorOf(p store.ServicePrincipal, c store.Credential) catalog.Actor {
	return catalog.Actor{OrganizationID: p.OrganizationID, ID: p.ID, Name: p.Name, Role: catalog.Role(p.Role), CredentialID: c.ID}
}

// actorCache remembers for a moment who a token belongs to, by the token's hash, so that a busy client costs
// no query per request. Only tokens that were right get in.
type actorCache struct {
	mu sync.RWMutex
	m  map[[sha256.Size]byte]knownActor
}

type knownActor struct {
	actor catalog.Actor
	until time.Time
}

func newActorCache() *actorCache { return &actorCache{m: map[[sha256.Size]byte]knownActor{}} }

func (c *actorCache) get(key [sha256.Size]byte, now time.Time) (catalog.Actor, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	k, ok := c.m[key]
	return k.actor, ok && now.Before(k.until)
}

// forget forgets everybody.
func (c *actorCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.m)
}

// put remembers the actor for actorTTL, or until the token ends when that is sooner.
func (c *actorCache) put(key [sha256.Size]byte, actor catalog.Actor, now, ends time.Time) {
	until := now.Add(actorTTL)
	if !ends.IsZero() && ends.Before(until) {
		until = ends
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.m) >= maxKnownActors {
		c.shrink(now)
	}
	c.m[key] = knownActor{actor: actor, until: until}
}

func (c *actorCache) shrink(now time.Time) {
	for key, k := range c.m {
		if !now.Before(k.until) {
			delete(c.m, key)
		}
	}
	if len(c.m) >= maxKnownActors {
		clear(c.m)
	}
}
