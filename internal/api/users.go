package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"legwork/internal/access"
	"legwork/internal/catalog"
	"legwork/internal/control"
)

// User is a person who logs in to the dashboard.
type User struct {
	ID         string       `json:"id"`
	Name       string       `json:"name"`
	Role       catalog.Role `json:"role" enum:"owner,operator,viewer"`
	CreatedAt  time.Time    `json:"created_at"`
	PasswordAt time.Time    `json:"password_at" doc:"When the password was set."`
	LastUsedAt time.Time    `json:"last_used_at,omitzero" doc:"Of the last log in. Missing: not yet."`
}

// UserRequest asks for a user.
type UserRequest struct {
	Name     string       `json:"name" maxLength:"63"`
	Role     catalog.Role `json:"role" enum:"owner,operator,viewer"`
	Password string       `json:"password" maxLength:"256" doc:"At least 10 characters. Only a hash of it is kept."`
}

// RoleRequest asks for another role.
type RoleRequest struct {
	Role catalog.Role `json:"role" enum:"owner,operator,viewer"`
}

// PasswordRequest asks for another password.
type PasswordRequest struct {
	Password string `json:"password" maxLength:"256"`
	Current  string `json:"current,omitempty" maxLength:"256" doc:"Current password. Required unless an owner sets the password."`
}

func (s *Server) registerUsers(h huma.API) {
	handle(s, h, operation("list-users", http.MethodGet, "/users", "Users", "Every user"), s.users)
	create := operation("create-user", http.MethodPost, "/users", "Users", "Create a user, who logs in to the dashboard with a password")
	create.DefaultStatus = http.StatusCreated
	handle(s, h, create, s.createUser)
	handle(s, h, operation("delete-user", http.MethodDelete, "/users/{id}", "Users", "Delete a user; its Web sessions end"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*none, error) {
			return nil, s.Access.DeleteUser(ctx, actor, in.ID)
		})
	handle(s, h, operation("list-web-sessions", http.MethodGet, "/users/{id}/sessions", "Users", "The Web sessions of a user; everybody may list their own"), s.webSessions)
	handle(s, h, operation("end-web-sessions", http.MethodDelete, "/users/{id}/sessions", "Users", "Log a user out everywhere; everybody may do so for themselves"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*none, error) {
			return nil, s.Access.EndWebSessions(ctx, actor, in.ID)
		})
	handle(s, h, operation("end-web-session", http.MethodDelete, "/users/{id}/sessions/{session}", "Users", "End one Web session of a user"),
		func(ctx context.Context, actor catalog.Actor, in *webSessionIn) (*none, error) {
			return nil, s.Access.EndWebSession(ctx, actor, in.ID, in.Session)
		})
	handle(s, h, operation("get-user", http.MethodGet, "/users/{id}", "Users", "One user, by id or name"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*body[User], error) {
			found, err := s.Access.Users(ctx, actor)
			return answerOne("user", in.ID, found, err, userOf)
		})
	handle(s, h, operation("set-user-role", http.MethodPut, "/users/{id}/role", "Users", "Give a user another role"), s.setRole)
	password := operation("set-user-password", http.MethodPut, "/users/{id}/password", "Users",
		"Set the password of a user; its Web sessions end. Only an owner may set that of another user")
	password.MaxBodyBytes = smallBody // everybody may send it
	password.Middlewares = huma.Middlewares{s.guardPassword}
	handle(s, h, password, s.setPassword)
}

// WebSession is one browser in which a user is logged in.
type WebSession struct {
	ID        string    `json:"id"`
	Address   string    `json:"address,omitempty" doc:"Address from which it was opened. Missing: unknown."`
	CreatedAt time.Time `json:"created_at"`
	SeenAt    time.Time `json:"seen_at" doc:"Time of the last request, up to five minutes behind."`
}

type webSessionIn struct {
	ByID
	Session string `path:"session" maxLength:"64" doc:"Id of the Web session."`
}

func (s *Server) webSessions(ctx context.Context, actor catalog.Actor,
	in *newestPageByID) (*body[listOf[WebSession]], error) {
	key := func(one WebSession) sortKey { return sortKey{microseconds(one.CreatedAt), one.ID} }
	return listPage(in, key, sorted(key, newestFirst, func() ([]WebSession, error) {
		found, err := s.Access.WebSessions(ctx, actor, in.ID)
		return each(found, err, func(one access.WebSession) WebSession {
			return WebSession{ID: one.ID, Address: one.Address, CreatedAt: one.CreatedAt, SeenAt: one.SeenAt}
		})
	}))
}

func userOf(u access.User) User {
	return User{ID: u.ID, Name: u.Name, Role: u.Role, CreatedAt: u.CreatedAt, PasswordAt: u.PasswordAt, LastUsedAt: u.LastUsedAt}
}

func (s *Server) users(ctx context.Context, actor catalog.Actor, in *Page) (*body[listOf[User]], error) {
	key := func(one User) sortKey { return sortKey{one.Name} }
	return listPage(in, key, func(p control.Page) ([]User, error) {
		found, err := s.Access.Users(ctx, actor, p)
		return each(found, err, userOf)
	})
}

type userIn struct{ Body UserRequest }

func (s *Server) createUser(ctx context.Context, actor catalog.Actor, in *userIn) (*body[User], error) {
	made, err := s.Access.CreateUser(ctx, actor, in.Body.Name, in.Body.Role, in.Body.Password)
	return answer(userOf(made), err)
}

type roleIn struct {
	ByID
	Body RoleRequest
}

func (s *Server) setRole(ctx context.Context, actor catalog.Actor, in *roleIn) (*none, error) {
	return nil, s.Access.SetRole(ctx, actor, in.ID, in.Body.Role)
}

// guardPassword refuses, before the body is read, who may not set the password of a user.
func (s *Server) guardPassword(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	if err := s.Access.MaySetPassword(r.Context(), actorOf(r.Context()), ctx.Param("id")); err != nil {
		s.writeProblem(w, r, err)
		return
	}
	next(ctx)
}

type passwordIn struct {
	ByID
	Body PasswordRequest
}

func (s *Server) setPassword(ctx context.Context, actor catalog.Actor, in *passwordIn) (*none, error) {
	return nil, s.Access.SetPassword(ctx, actor, in.ID, in.Body.Current, in.Body.Password)
}
