package web_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"legwork/internal/catalog"
)

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func TestCookie(t *testing.T) {
	w := start(t)
	v := newVisitor(t, w)
	v.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := v.client.PostForm(w.URL+"/login", url.Values{"token": {w.Token}, "next": {"//evil.example/"}})
	w.Must(err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != "/" {
		t.Errorf("%d %s", answer.StatusCode, answer.Header.Get("Location"))
	}
	cookies := answer.Cookies()
	if len(cookies) != 1 {
		t.Fatalf("%v", cookies)
	}
	if c := cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || len(c.Value) != 43 || strings.Contains(c.Value, "lw_") {
		t.Errorf("%v", c)
	}
}

func TestNobodyGetsIn(t *testing.T) {
	w := start(t)
	v := newVisitor(t, w)
	v.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, path := range append(pages, "/nothing", "/users/ann/delete") {
		if status, text := v.get(path); status != http.StatusSeeOther || strings.Contains(text, "<main") {
			t.Errorf("%s: %d", path, status)
		}
	}
	for _, path := range []string{"/users/new", "/users/ann/delete"} {
		if status, _ := v.post(path, url.Values{"name": {"x"}}); status != http.StatusSeeOther {
			t.Errorf("%s done: %d", path, status)
		}
	}
	if _, text := v.get("/-/live?at=/runners"); !strings.Contains(text, "event: over") || strings.Contains(text, "event: parts") {
		t.Errorf("the stream: %s", text)
	}
}

// Roles are held by the Server, not by what a page shows.
func TestRoles(t *testing.T) {
	w := start(t)
	for _, role := range []catalog.Role{catalog.RoleViewer, catalog.RoleOperator} {
		_, err := w.Access.CreateUser(context.Background(), owner(w), string(role), role, password)
		w.Must(err)
		v := newVisitor(t, w)
		v.logIn(url.Values{"name": {string(role)}, "password": {password}})
		for _, path := range []string{"/users", "/users/new", "/users/viewer/role"} {
			if status, _ := v.get(path); status != http.StatusForbidden {
				t.Errorf("%s: %s: %d", role, path, status)
			}
		}
		if status, _ := v.post("/users/new", url.Values{"name": {"eve"}, "password": {password}, "role": {"owner"}}); status != http.StatusForbidden {
			t.Errorf("%s makes an owner: %d", role, status)
		}
		if _, text := v.get("/-/live?at=/users"); strings.Contains(text, "event: parts") {
			t.Errorf("%s follows the users", role)
		}
	}
}

func TestOtherSitesSendNothing(t *testing.T) {
	w := start(t)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for name, header := range map[string][2]string{
		"by what browsers say":  {"Sec-Fetch-Site", "cross-site"},
		"another site's origin": {"Origin", "https://evil.example"},
	} {
		r, err := http.NewRequest(http.MethodPost, w.URL+"/users/new", strings.NewReader("name=eve&role=owner&password=correct+horse+battery"))
		w.Must(err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set(header[0], header[1])
		answer, err := v.client.Do(r)
		w.Must(err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", name, answer.StatusCode)
		}
	}
	users, err := w.Access.Users(context.Background(), owner(w))
	if err != nil || len(users) != 0 {
		t.Errorf("%v %v", users, err)
	}
}

// What is typed comes back as text.
func TestTypedTextIsNoHTML(t *testing.T) {
	w := start(t)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	const hostile = `"><script>alert(1)</script>`
	for _, text := range []string{
		second(v.post("/users/new", url.Values{"name": {hostile}, "password": {hostile}})),
		second(v.get("/runners?q=" + url.QueryEscape(hostile))),
		second(v.get("/login?next=" + url.QueryEscape("/"+hostile))),
	} {
		if strings.Contains(text, "<script>alert") || len(htmlProblems(text)) > 0 {
			t.Errorf("%v", htmlProblems(text))
		}
	}
}

func second(_ int, text string) string { return text }
