package api

import (
	"context"
	"net/http"
)

// RegistrationTokens lists every registration token.
func (c *Client) RegistrationTokens(ctx context.Context) ([]RegistrationToken, error) {
	return list[RegistrationToken](ctx, c, "/registration-tokens", nil)
}

// CreateRegistrationToken makes a registration token.
func (c *Client) CreateRegistrationToken(ctx context.Context, r RegistrationTokenRequest) (made CreatedRegistrationToken, err error) {
	return made, c.call(ctx, http.MethodPost, prefix+"/registration-tokens", nil, r, &made)
}

// RevokeRegistrationToken ends a registration token, by id or name.
func (c *Client) RevokeRegistrationToken(ctx context.Context, idOrName string) error {
	return c.call(ctx, http.MethodDelete, prefix+"/registration-tokens/"+escapedPath(idOrName), nil, nil, nil)
}

// RegisterRunner registers a Runner. The Client's token must be a registration token.
func (c *Client) RegisterRunner(ctx context.Context, r RegistrationRequest) (made CreatedRunner, err error) {
	return made, c.call(ctx, http.MethodPost, registerPath, nil, r, &made)
}

// UnregisterRunner deletes the Runner that the Client's token belongs to.
func (c *Client) UnregisterRunner(ctx context.Context, r UnregisterRequest) (done Unregistered, err error) {
	return done, c.call(ctx, http.MethodPost, prefix+"/runners/unregister", nil, r, &done)
}

// Ready tells whether the Server takes requests. It needs no token.
func (c *Client) Ready(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, "/readyz", nil, nil, nil)
}
