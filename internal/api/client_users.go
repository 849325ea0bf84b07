package api

import (
	"context"
	"net/http"

	"legwork/internal/catalog"
)

func userPath(idOrName string) string { return prefix + "/users/" + escapedPath(idOrName) }

// Users lists every user.
func (c *Client) Users(ctx context.Context) ([]User, error) {
	return list[User](ctx, c, "/users", nil)
}

// CreateUser makes a user.
func (c *Client) CreateUser(ctx context.Context, r UserRequest) (u User, err error) {
	return u, c.call(ctx, http.MethodPost, prefix+"/users", nil, r, &u)
}

// DeleteUser deletes a user.
func (c *Client) DeleteUser(ctx context.Context, idOrName string) error {
	return c.call(ctx, http.MethodDelete, userPath(idOrName), nil, nil, nil)
}

// SetUserRole gives a user another role.
func (c *Client) SetUserRole(ctx context.Context, idOrName string, role catalog.Role) error {
	return c.call(ctx, http.MethodPut, userPath(idOrName)+"/role", nil, RoleRequest{Role: role}, nil)
}

// SetUserPassword gives a user another password.
func (c *Client) SetUserPassword(ctx context.Context, idOrName string, r PasswordRequest) error {
	return c.call(ctx, http.MethodPut, userPath(idOrName)+"/password", nil, r, nil)
}

// WebSessions lists the Web sessions of a user, the newest first.
func (c *Client) WebSessions(ctx context.Context, idOrName string) ([]WebSession, error) {
	return listNewest[WebSession](ctx, c, "/users/"+escapedPath(idOrName)+"/sessions", nil)
}

// EndWebSession ends one Web session of a user.
func (c *Client) EndWebSession(ctx context.Context, idOrName, session string) error {
	return c.call(ctx, http.MethodDelete, userPath(idOrName)+"/sessions/"+escapedPath(session), nil, nil, nil)
}

// EndWebSessions ends all Web sessions of a user.
func (c *Client) EndWebSessions(ctx context.Context, idOrName string) error {
	return c.call(ctx, http.MethodDelete, userPath(idOrName)+"/sessions", nil, nil, nil)
}
