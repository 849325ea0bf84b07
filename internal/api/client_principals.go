package api

import (
	"context"
	"net/http"
)

func principalPath(idOrName string) string { return prefix + "/principals/" + escapedPath(idOrName) }

// Principals lists every Service principal.
func (c *Client) Principals(ctx context.Context) ([]Principal, error) {
	return list[Principal](ctx, c, "/principals", nil)
}

// CreatePrincipal makes a Service principal with a first Credential.
func (c *Client) CreatePrincipal(ctx context.Context, r PrincipalRequest) (made CreatedCredential, err error) {
	return made, c.call(ctx, http.MethodPost, prefix+"/principals", nil, r, &made)
}

// DeletePrincipal deletes a Service principal with its Credentials.
func (c *Client) DeletePrincipal(ctx context.Context, idOrName string) error {
	return c.call(ctx, http.MethodDelete, principalPath(idOrName), nil, nil, nil)
}

// Credentials lists the Credentials of a Service principal.
func (c *Client) Credentials(ctx context.Context, principal string) ([]Credential, error) {
	return list[Credential](ctx, c, "/principals/"+escapedPath(principal)+"/credentials", nil)
}

// CreateCredential gives a Service principal one more Credential.
func (c *Client) CreateCredential(ctx context.Context, principal string, r CredentialRequest) (made CreatedCredential, err error) {
	return made, c.call(ctx, http.MethodPost, principalPath(principal)+"/credentials", nil, r, &made)
}

// DeleteCredential ends a Credential.
func (c *Client) DeleteCredential(ctx context.Context, principal, id string) error {
	return c.call(ctx, http.MethodDelete, principalPath(principal)+"/credentials/"+escapedPath(id), nil, nil, nil)
}
