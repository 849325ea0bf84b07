package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/access"
	"legwork/internal/catalog"
	"legwork/internal/control"
)

// Principal is who a person, a program or a Runner logs in as.
type Principal struct {
	ID        string       `json:"id"`
	Name      string       `json:"name"`
	ClientID  string       `json:"client_id" doc:"Behind the id of the Organization and a colon it is the client_id at /connect/token."`
	Role      catalog.Role `json:"role" enum:"owner,operator,viewer,runner"`
	CreatedAt time.Time    `json:"created_at"`
}

// Credential is one bearer token or client secret of a Principal, without itself.
type Credential struct {
	ID         string                `json:"id"`
	Name       string                `json:"name"`
	Kind       access.CredentialKind `json:"kind" enum:"token,secret"`
	CreatedAt  time.Time             `json:"created_at"`
	ExpiresAt  time.Time             `json:"expires_at,omitzero" doc:"Missing: never."`
	LastUsedAt time.Time             `json:"last_used_at,omitzero" doc:"Up to half a minute behind. Missing: not yet."`
}

// CredentialRequest asks for a Credential.
type CredentialRequest struct {
	Kind      access.CredentialKind `json:"kind,omitempty" enum:"token,secret" doc:"A token is sent with every request; a secret gets short tokens at /connect/token. Default token, for a Runner secret."`
	Name      string                `json:"name,omitempty" maxLength:"100" doc:"To tell it from others. Default is the kind."`
	ExpiresIn catalog.Duration      `json:"expires_in,omitempty" doc:"From now, for example 720h. Missing: it does not expire."`
}

// PrincipalRequest asks for a Principal with a first Credential.
type PrincipalRequest struct {
	Name       string            `json:"name" maxLength:"63"`
	Role       catalog.Role      `json:"role" enum:"owner,operator,viewer,runner" doc:"runner: for several Runners that share it."`
	Credential CredentialRequest `json:"credential,omitzero" required:"false"`
}

// CreatedCredential is a new Credential. What proves it is in no other answer.
type CreatedCredential struct {
	Credential
	Principal      Principal `json:"principal"`
	OrganizationID string    `json:"organization_id"`
	Token          string    `json:"token,omitempty" doc:"Shown this once."`
	ClientSecret   string    `json:"client_secret,omitempty" doc:"Shown this once."`
}

func (s *Server) registerPrincipals(h huma.API) {
	handle(s, h, operation("list-principals", http.MethodGet, "/principals", "Principals", "Every Service principal"), s.principals)
	handle(s, h, operation("get-principal", http.MethodGet, "/principals/{id}", "Principals",
		"One Service principal, by id or name"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*body[Principal], error) {
			found, err := s.Access.Principals(ctx, actor)
			return answerOne("principal", in.ID, found, err, principalOf)
		})
	create := operation("create-principal", http.MethodPost, "/principals", "Principals", "Create a Service principal with a first credential")
	create.DefaultStatus = http.StatusCreated
	handle(s, h, create, s.createPrincipal)
	handle(s, h, operation("delete-principal", http.MethodDelete, "/principals/{id}", "Principals", "Delete a Service principal with its credentials"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*none, error) {
			return nil, s.Access.DeletePrincipal(ctx, actor, in.ID)
		})
	handle(s, h, operation("list-credentials", http.MethodGet, "/principals/{id}/credentials", "Principals", "The credentials of a Service principal"), s.credentials)
	add := operation("create-credential", http.MethodPost, "/principals/{id}/credentials", "Principals", "Give a Service principal one more credential")
	add.DefaultStatus = http.StatusCreated
	handle(s, h, add, s.createCredential)
	remove := operation("delete-credential", http.MethodDelete, "/principals/{id}/credentials/{credential}", "Principals", "End a credential")
	remove.Description = "Short tokens that were had with it end within seconds. Sessions of Runners go on."
	handle(s, h, remove, s.deleteCredential)
}

func principalOf(p access.Principal) Principal {
	return Principal{ID: p.ID, Name: p.Name, ClientID: p.ClientID, Role: p.Role, CreatedAt: p.CreatedAt}
}

func credentialOf(c access.Credential) Credential {
	return Credential{ID: c.ID, Name: c.Name, Kind: c.Kind, CreatedAt: c.CreatedAt, ExpiresAt: c.ExpiresAt, LastUsedAt: c.LastUsedAt}
}

func createdCredential(made access.NewCredential, err error) (*body[CreatedCredential], error) {
	if err != nil {
		return nil, err
	}
	c := CreatedCredential{Credential: credentialOf(made.Credential), Principal: principalOf(made.Principal), OrganizationID: made.OrganizationID}
	if made.Kind == access.ClientSecret {
		c.ClientSecret = made.Secret
	} else {
		c.Token = made.Secret
	}
	return &body[CreatedCredential]{c}, nil
}

func (r CredentialRequest) request() access.CredentialRequest {
	return access.CredentialRequest{Kind: r.Kind, Name: r.Name, Expires: time.Duration(r.ExpiresIn)}
}

func (s *Server) principals(ctx context.Context, actor catalog.Actor, in *Page) (*body[listOf[Principal]], error) {
	key := func(one Principal) sortKey { return sortKey{one.Name, one.ID} }
	return listPage(in, key, func(p control.Page) ([]Principal, error) {
		found, err := s.Access.Principals(ctx, actor, p)
		return each(found, err, principalOf)
	})
}

type principalIn struct{ Body PrincipalRequest }

func (s *Server) createPrincipal(ctx context.Context, actor catalog.Actor, in *principalIn) (*body[CreatedCredential], error) {
	return createdCredential(s.Access.CreatePrincipal(ctx, actor, in.Body.Name, in.Body.Role, in.Body.Credential.request()))
}

func (s *Server) credentials(ctx context.Context, actor catalog.Actor,
	in *pageByID) (*body[listOf[Credential]], error) {
	key := func(one Credential) sortKey { return sortKey{microseconds(one.CreatedAt), one.ID} }
	return listPage(in, key, func(p control.Page) ([]Credential, error) {
		found, err := s.Access.Credentials(ctx, actor, in.ID, p)
		return each(found, err, credentialOf)
	})
}

type credentialIn struct {
	ByID
	Body *CredentialRequest
}

func (s *Server) createCredential(ctx context.Context, actor catalog.Actor, in *credentialIn) (*body[CreatedCredential], error) {
	var r CredentialRequest
	if in.Body != nil {
		r = *in.Body
	}
	return createdCredential(s.Access.CreateCredential(ctx, actor, in.ID, r.request()))
}

type deleteCredentialIn struct {
	ByID
	Credential string `path:"credential" maxLength:"100"`
}

func (s *Server) deleteCredential(ctx context.Context, actor catalog.Actor, in *deleteCredentialIn) (*none, error) {
	return nil, s.Access.DeleteCredential(ctx, actor, in.ID, in.Credential)
}
