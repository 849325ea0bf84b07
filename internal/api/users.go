package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/access"
	"legwork/internal/catalog"
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
	Current  string `json:"current,omitempty" maxLength:"256" doc:"The password until now: needed from who is no owner."`
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
	handle(s, h, operation("set-user-role", http.MethodPut, "/users/{id}/role", "Users", "Give a user another role"), s.setRole)
	handle(s, h, operation("set-user-password", http.MethodPut, "/users/{id}/password", "Users", "Give a user another password; its Web sessions end"), s.setPassword)
}

func userOf(u access.User) User {
	return User{ID: u.ID, Name: u.Name, Role: u.Role, CreatedAt: u.CreatedAt, PasswordAt: u.PasswordAt, LastUsedAt: u.LastUsedAt}
}

func (s *Server) users(ctx context.Context, actor catalog.Actor, _ *none) (*body[listOf[User]], error) {
	found, err := s.Access.Users(ctx, actor)
	users := make([]User, len(found))
	for i := range found {
		users[i] = userOf(found[i])
	}
	return answerList(users, err)
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

type passwordIn struct {
	ByID
	Body PasswordRequest
}

func (s *Server) setPassword(ctx context.Context, actor catalog.Actor, in *passwordIn) (*none, error) {
	return nil, s.Access.SetPassword(ctx, actor, in.ID, in.Body.Current, in.Body.Password)
}
