package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/web"
)

// TestAnswersNameTheirRateLimit checks the headers of answers whose failed attempts are counted.
func TestAnswersNameTheirRateLimit(t *testing.T) {
	w := apitest.Start(t, func(o *api.Options) {
		o.Pages = web.New(web.Options{Control: o.Control, Access: o.Access, Log: o.Log})
	})
	form := "application/x-www-form-urlencoded"
	for _, c := range []struct{ name, path, body, token string }{
		{"token endpoint", "/connect/token", url.Values{"grant_type": {"client_credentials"},
			"client_id": {"00000000-0000-0000-0000-000000000000:x"}, "client_secret": {"wrong"}}.Encode(), ""},
		{"log in", "/login", url.Values{"name": {"ann"}, "password": {"wrong"}}.Encode(), ""},
		{"registration", "/api/v1/runners/register", `{"name":"x"}`, "lwr_wrong"},
	} {
		kind := form
		if strings.HasPrefix(c.body, "{") {
			kind = "application/json"
		}
		resp, text := do(t, w, "POST", c.path, c.token, kind, strings.NewReader(c.body))
		if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusForbidden {
			t.Fatalf("%s: the first attempt got %d %s", c.name, resp.StatusCode, text)
		}
		var policy string
		left := -1
		if _, err := fmt.Sscanf(resp.Header.Get("RateLimit"), `"login";r=%d;t=10`, &left); err != nil || left != 7 {
			t.Errorf("%s: got RateLimit %q (%v) of %d, want 7 left", c.name, resp.Header.Get("RateLimit"), err, resp.StatusCode)
		}
		if policy = resp.Header.Get("RateLimit-Policy"); policy != `"login";q=8;w=80` {
			t.Errorf("%s: got RateLimit-Policy %q, want 8 in 80 s", c.name, policy)
		}
		for range 8 {
			resp, _ = do(t, w, "POST", c.path, c.token, kind, strings.NewReader(c.body))
		}
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || !strings.Contains(resp.Header.Get("RateLimit"), ";r=0;") {
			t.Errorf("%s: got %d, RateLimit %q and Retry-After %q, want 429 with both", c.name, resp.StatusCode,
				resp.Header.Get("RateLimit"), resp.Header.Get("Retry-After"))
		}
	}
	resp, _ := do(t, w, "GET", "/api/v1/stacks", w.Token, "", nil)
	if got := resp.Header.Get("RateLimit"); got != "" {
		t.Errorf("a request without a limit: got RateLimit %q, want none", got)
	}
}
