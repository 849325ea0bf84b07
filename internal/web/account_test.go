package web_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"legwork/internal/catalog"
)

// TestOwnPassword: a viewer, who may not administer, changes the own password, knowing the current one, and is logged out by that.
func TestOwnPassword(t *testing.T) {
	w := start(t)
	_, err := w.Access.CreateUser(context.Background(), owner(w), "vic", catalog.RoleViewer, password)
	w.Must(err)
	v := newVisitor(t, w)
	v.logIn(url.Values{"name": {"vic"}, "password": {password}})
	const better = "another horse battery"
	if status, text := v.post("/account", url.Values{"current": {"wrong horse battery"}, "password": {better}}); status == http.StatusOK || strings.Contains(text, better) {
		t.Fatalf("with a wrong current password: %d", status)
	}
	if status, _ := v.post("/account", url.Values{"current": {password}, "password": {"short"}}); status != http.StatusUnprocessableEntity {
		t.Fatalf("a short password: %d", status)
	}
	if status, text := v.post("/account", url.Values{"current": {password}, "password": {better}}); status != http.StatusOK || !strings.Contains(text, `action="/login"`) {
		t.Fatalf("%d, and not sent to log in", status)
	}
	again := newVisitor(t, w)
	again.logIn(url.Values{"name": {"vic"}, "password": {better}})
	if status, text := again.post("/login", url.Values{"name": {"vic"}, "password": {password}}); status == http.StatusOK && !strings.Contains(text, `action="/login"`) {
		t.Fatal("the old password still lets in")
	}

	token := newVisitor(t, w)
	token.logIn(url.Values{"token": {w.TokenFor("default", catalog.RoleViewer)}})
	if status, _ := token.post("/account", url.Values{"current": {password}, "password": {better}}); status == http.StatusOK {
		t.Fatal("a token has got a password")
	}
}
