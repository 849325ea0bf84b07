package api_test

import (
	"bufio"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/web"
)

// The server closes a connection whose body does not arrive, on every path and for every client.
func TestSlowBodies(t *testing.T) {
	w := apitest.Start(t, func(o *api.Options) {
		o.BodyTimeout = 50 * time.Millisecond
		o.Pages = web.New(web.Options{Control: o.Control, Access: o.Access, Log: o.Log})
	})
	for _, request := range []string{
		"POST /connect/token", "POST /api/v1/jobs", "POST /api/v1/runners/register", "POST /api/v1/manifest/apply", "GET /api/v1/jobs",
		"GET /healthz", "GET /metrics", "GET /runnerhub", "POST /login", "POST /logout", "GET /nope", "PUT /healthz",
		"PUT /api/v1/releases/1.0.0/assets/x",
	} {
		for _, size := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
			for _, token := range []string{"", "Authorization: Bearer " + w.Token + "\r\n"} {
				head := request + " HTTP/1.1\r\nHost: x\r\n" + token + "Content-Type: application/x-www-form-urlencoded\r\n" + size + "\r\n\r\n"
				c, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "http://"))
				w.Must(err)
				w.Must(c.SetDeadline(time.Now().Add(apitest.Patience)))
				_, err = io.WriteString(c, head)
				w.Must(err)
				if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
					t.Errorf("%s, %s: got %v, want the end of the connection", request, size, err)
				}
				c.Close()
			}
		}
	}
}

// A refusal does not wait for the body, and ends the connection. A body that was read leaves it open, also when the
// handler takes longer than the body may.
func TestUnreadBody(t *testing.T) {
	w := apitest.Start(t)
	ask := func(head, body string) *http.Response {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "http://"))
		w.Must(err)
		t.Cleanup(func() { c.Close() })
		w.Must(c.SetDeadline(time.Now().Add(apitest.Patience)))
		_, err = io.WriteString(c, head+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+body)
		w.Must(err)
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		w.Must(err)
		return answer
	}
	refused := ask("POST /api/v1/jobs", "Content-Length: 100\r\n\r\n")
	if refused.StatusCode != http.StatusUnauthorized || !refused.Close {
		t.Errorf("unread body: got %s, close %v; want 401, close true", refused.Status, refused.Close)
	}
	read := ask("POST /api/v1/jobs", "Authorization: Bearer "+w.Token+"\r\nContent-Length: 2\r\n\r\n{}")
	if read.StatusCode != http.StatusBadRequest || read.Close {
		t.Errorf("read body: got %s, close %v; want 400, close false", read.Status, read.Close)
	}
}

// Every operation refuses who may not use it before it reads the body. The bodies in this test never arrive: an
// operation that waits for one answers that it did not come in time.
func TestRightsBeforeBodies(t *testing.T) {
	w := apitest.Start(t, func(o *api.Options) { o.BodyTimeout = 20 * time.Millisecond })
	tokens := map[catalog.Role]string{"": ""}
	roles := []catalog.Role{catalog.RoleOwner, catalog.RoleOperator, catalog.RoleViewer, catalog.RoleRunner}
	for _, role := range roles {
		tokens[role] = w.TokenFor("default", role)
	}
	tried := 0
	for _, op := range operations(t) {
		if !strings.HasPrefix(op.path, "/api/") {
			continue
		}
		for role, token := range tokens {
			want := http.StatusForbidden
			switch {
			case role == "" || op.id == "register-runner":
				want = http.StatusUnauthorized
			case catalog.Actor{Role: role}.Can(needs[op.id].permission):
				continue
			}
			tried++
			if got := refusalWithoutBody(t, w, op, token); got != want {
				t.Errorf("%s as %q: got status %d without a body, want %d", op.id, role, got, want)
			}
		}
	}
	if tried < 200 {
		t.Errorf("got %d requests, want those of all operations", tried)
	}
}

// refusalWithoutBody announces a body, does not send it, and returns the status of the answer.
func refusalWithoutBody(t *testing.T, w *apitest.World, op route, token string) int {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "http://"))
	w.Must(err)
	defer c.Close()
	w.Must(c.SetDeadline(time.Now().Add(apitest.Patience)))
	head := op.method + " " + op.path + " HTTP/1.1\r\nHost: x\r\n" +
		"Content-Type: application/json\r\nContent-Length: 100\r\n"
	if token != "" {
		head += "Authorization: Bearer " + token + "\r\n"
	}
	_, err = io.WriteString(c, head+"\r\n")
	w.Must(err)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	w.Must(err)
	answer.Body.Close()
	return answer.StatusCode
}

// A principal with large requests that are slow to arrive leaves room for those of others.
func TestLargeRequestsOfOneLeaveRoom(t *testing.T) {
	w := apitest.Start(t)
	for range 8 {
		c, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "http://"))
		w.Must(err)
		t.Cleanup(func() { c.Close() })
		_, err = io.WriteString(c, "POST /api/v1/manifest/apply HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+w.Token+
			"\r\nContent-Type: application/json\r\nContent-Length: 16000000\r\n\r\n"+`{"files":[{"name":"x","data":"`+strings.Repeat("#", 1<<20))
		w.Must(err)
	}
	manifest := "{kind: Stack, name: a}\n" + strings.Repeat("#", 1<<20)
	large := `{"files":[{"name":"x.yaml","data":"` + base64.StdEncoding.EncodeToString([]byte(manifest)) + `"}]}`
	for name, token := range map[string]string{"the same principal": w.Token, "another": w.TokenFor("default", catalog.RoleOwner)} {
		resp, text := do(t, w, "POST", "/api/v1/manifest/diff", token, "application/json", strings.NewReader(large))
		if resp.StatusCode != http.StatusOK {
			t.Errorf("a large request of %s: got %d %s, want 200", name, resp.StatusCode, text)
		}
	}
}
