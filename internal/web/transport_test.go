package web_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/web"
)

// Behind a trusted proxy that has TLS the cookie is for TLS alone; what anybody else says of it counts for nothing.
func TestCookieBehindAProxy(t *testing.T) {
	for name, c := range map[string]struct {
		proxies []netip.Prefix
		proto   string
		cookie  string
		secure  bool
	}{
		"trusted": {[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "https", "__Host-legwork", true}, "plain": {[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "http", "legwork", false},
		"nobody": {nil, "https", "legwork", false},
	} {
		var face *api.Server
		w := apitest.Start(t, func(o *api.Options) { o.TrustedProxies = c.proxies })
		face = api.New(api.Options{Control: w.Control, Access: w.Access, TrustedProxies: c.proxies, Log: quiet()})
		pages := web.New(web.Options{Control: w.Control, Access: w.Access, Log: quiet(), TLS: func(r *http.Request) bool { return face.ClientTLS(r) }})
		answer := postLogin(pages, url.Values{"token": {w.Token}}, "X-Forwarded-Proto", c.proto)
		if got := answer.Cookies(); len(got) != 1 || got[0].Name != c.cookie || got[0].Secure != c.secure {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func postLogin(pages http.Handler, form url.Values, header, value string) *http.Response {
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(form.Encode()))
	r.RemoteAddr = "127.0.0.1:4711"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set(header, value)
	seen := httptest.NewRecorder()
	pages.ServeHTTP(seen, r)
	return seen.Result()
}

// Who opens by http what is for https is told, and not sent round.
func TestLoginByHTTPWhereHTTPSIsMeant(t *testing.T) {
	w := apitest.Start(t)
	pages := web.New(web.Options{Control: w.Control, Access: w.Access, Log: quiet(), PublicURL: "https://example.com"})
	for origin, status := range map[string]int{"http://example.com": 422, "https://example.com": 303, "http://127.0.0.1:8080": 303} {
		r := postLogin(pages, url.Values{"token": {w.Token}}, "Origin", origin)
		text, err := io.ReadAll(r.Body)
		w.Must(err)
		if origin == "http://127.0.0.1:8080" && r.StatusCode == http.StatusForbidden {
			continue // another origin is refused before
		}
		if r.StatusCode != status || status == 422 && !strings.Contains(string(text), "https://example.com") {
			t.Errorf("%s: %d\n%s", origin, r.StatusCode, text)
		}
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
