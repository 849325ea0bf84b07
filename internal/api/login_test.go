package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/wire"
)

// TestTokenEndpointWithAStandardClient logs in with a client library, both ways of naming oneself.
func TestTokenEndpointWithAStandardClient(t *testing.T) {
	w := apitest.Start(t)
	made, err := w.Client.CreateRunner(context.Background(), catalog.RunnerSpec{Name: "edge"})
	w.Must(err)
	for name, style := range map[string]oauth2.AuthStyle{"form": oauth2.AuthStyleInParams, "basic": oauth2.AuthStyleInHeader} {
		c := clientcredentials.Config{ClientID: made.OrganizationID + ":" + made.ClientID, ClientSecret: made.ClientSecret, TokenURL: w.URL + "/connect/token", AuthStyle: style}
		token, err := c.Token(context.Background())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		actor, err := w.Access.Authenticate(context.Background(), token.AccessToken)
		if err != nil || actor.Role != catalog.RoleRunner || actor.OrganizationID != made.OrganizationID {
			t.Errorf("%s: %+v %v", name, actor, err)
		}
		if resp, _ := do(t, w, "GET", "/api/v1/stacks", token.AccessToken, "", nil); resp.StatusCode != http.StatusForbidden {
			t.Errorf("a Runner reads the API: %d", resp.StatusCode)
		}
	}
}

func TestTokenEndpointRefuses(t *testing.T) {
	w := apitest.Start(t)
	ctx := context.Background()
	made, err := w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "edge"})
	w.Must(err)
	second, err := w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "edge-2"})
	w.Must(err)
	id := made.OrganizationID + ":" + made.ClientID
	form := func(pairs ...string) string {
		v := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			v.Add(pairs[i], pairs[i+1])
		}
		return v.Encode()
	}
	const grant = "client_credentials"
	for _, c := range []struct {
		name, kind, body string
		status           int
		code             string
	}{
		{"JSON", "application/json", `{}`, 400, "invalid_request"},
		{"no grant", "", form("client_id", id, "client_secret", made.ClientSecret), 400, "invalid_request"},
		{"other grant", "", form("grant_type", "password", "client_id", id), 400, "unsupported_grant_type"},
		{"twice", "", form("grant_type", grant, "grant_type", grant), 400, "invalid_request"},
		{"no secret", "", form("grant_type", grant, "client_id", id), 401, "invalid_client"},
		{"wrong secret", "", form("grant_type", grant, "client_id", id, "client_secret", "lws_x"), 401, "invalid_client"},
		{"unknown client", "", form("grant_type", grant, "client_id", made.OrganizationID+":nobody", "client_secret", "lws_x"), 401, "invalid_client"},
		{"secret of another", "", form("grant_type", grant, "client_id", id, "client_secret", second.ClientSecret), 401, "invalid_client"},
		{"no organization", "", form("grant_type", grant, "client_id", made.ClientID, "client_secret", made.ClientSecret), 401, "invalid_client"},
		{"other organization", "", form("grant_type", grant, "client_id", "00000000-0000-7000-8000-000000000000:"+made.ClientID, "client_secret", made.ClientSecret), 401, "invalid_client"},
		{"large", "", form("grant_type", grant, "client_id", strings.Repeat("x", 1<<20)), 400, "invalid_request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind := c.kind
			if kind == "" {
				kind = "application/x-www-form-urlencoded"
			}
			resp, text := do(t, w, "POST", "/connect/token", "", kind, strings.NewReader(c.body))
			var answer struct {
				Error       string
				Description string `json:"error_description"`
			}
			if err := json.Unmarshal(text, &answer); err != nil || resp.StatusCode != c.status || answer.Error != c.code || answer.Description == "" {
				t.Errorf("%d %s", resp.StatusCode, text)
			}
			if resp.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%v", resp.Header)
			}
		})
	}
	unknown, known := answerTo(t, w, form("grant_type", grant, "client_id", made.OrganizationID+":nobody", "client_secret", "lws_x")),
		answerTo(t, w, form("grant_type", grant, "client_id", id, "client_secret", "lws_x"))
	if unknown != known {
		t.Errorf("the answers tell whether a client exists:\n%s\n%s", unknown, known)
	}
}

func answerTo(t *testing.T, w *apitest.World, form string) string {
	_, text := do(t, w, "POST", "/connect/token", "", "application/x-www-form-urlencoded", strings.NewReader(form))
	return string(text)
}

func TestGuessingSecretsIsSlowedDown(t *testing.T) {
	w := apitest.Start(t)
	made, err := w.Client.CreateRunner(context.Background(), catalog.RunnerSpec{Name: "edge"})
	w.Must(err)
	v := url.Values{"grant_type": {"client_credentials"}, "client_id": {made.OrganizationID + ":" + made.ClientID}, "client_secret": {"wrong"}}
	for range 30 {
		resp, _ := do(t, w, "POST", "/connect/token", "", "application/x-www-form-urlencoded", strings.NewReader(v.Encode()))
		if resp.StatusCode == http.StatusTooManyRequests {
			if resp.Header.Get("Retry-After") == "" {
				t.Error("without Retry-After")
			}
			return
		}
	}
	t.Error("30 wrong secrets and none was refused unseen")
}

// TestDoorOfRunners knocks with what does not fit. None of these becomes a Session.
func TestDoorOfRunners(t *testing.T) {
	w := apitest.Start(t)
	ctx := context.Background()
	made, err := w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "edge"})
	w.Must(err)
	other, err := w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "edge-2"})
	w.Must(err)
	c := clientcredentials.Config{ClientID: made.OrganizationID + ":" + made.ClientID, ClientSecret: made.ClientSecret, TokenURL: w.URL + "/connect/token"}
	token, err := c.Token(ctx)
	w.Must(err)
	const unknown = "00000000-0000-7000-8000-000000000000"
	for _, c := range []struct {
		name, org, runner, instance string
		status                      int
		code                        string
	}{
		{"nothing", "", "", "", 400, "query_incomplete"},
		{"no instance", made.OrganizationID, made.ID, "", 400, "instance_invalid"},
		{"long instance", made.OrganizationID, made.ID, strings.Repeat("x", 200), 400, "instance_invalid"},
		{"other organization", unknown, made.ID, "i", 403, "wrong_organization"},
		{"unknown runner", made.OrganizationID, unknown, "i", 404, "no_such_runner"},
		{"a name for an id", made.OrganizationID, "edge", "i", 404, "no_such_runner"},
		{"another runner", made.OrganizationID, other.ID, "i", 403, "other_runner"},
	} {
		q := url.Values{"organization_id": {c.org}, "runner_id": {c.runner}, "runner_instance": {c.instance}}
		resp, text := do(t, w, "GET", "/runnerhub?"+q.Encode(), token.AccessToken, "", nil)
		var p api.Problem
		if err := json.Unmarshal(text, &p); err != nil || resp.StatusCode != c.status || p.Code != c.code || p.Hint == "" {
			t.Errorf("%s: %d %s", c.name, resp.StatusCode, text)
		}
	}
	w.Must(w.Client.DeleteRunner(ctx, "edge"))
	if resp, _ := do(t, w, "POST", "/connect/token", "", "application/x-www-form-urlencoded",
		strings.NewReader(url.Values{"grant_type": {"client_credentials"}, "client_id": {c.ClientID}, "client_secret": {c.ClientSecret}}.Encode())); resp.StatusCode != 401 {
		t.Errorf("a deleted Runner logs in: %d", resp.StatusCode)
	}
}

// TestSessionsAreLimited: the one too many is told to come again, and gets in once there is room.
func TestSessionsAreLimited(t *testing.T) {
	w := apitest.Start(t, func(o *api.Options) { o.MaxSessions = 1 })
	ctx, cancel := context.WithTimeout(context.Background(), apitest.Patience)
	defer cancel()
	first := w.Runner("edge", nil)
	made, err := w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "edge-2"})
	w.Must(err)
	token, err := wire.FetchToken(ctx, http.DefaultClient, w.URL, wire.Client{OrganizationID: made.OrganizationID, ID: made.ClientID, Secret: made.ClientSecret})
	w.Must(err)
	dial := func() (*wire.Conn, error) {
		return wire.Dial(ctx, wire.DialConfig{URL: w.URL, Token: token.Value, HTTPClient: http.DefaultClient,
			OrganizationID: made.OrganizationID, RunnerID: made.ID, Instance: "i-1"})
	}
	_, err = dial()
	if f := fault.Of(err); f == nil || f.Code != "too_many_sessions" || !f.Retryable() {
		t.Fatalf("one too many: %v", err)
	}
	first.Leave()
	for {
		conn, err := dial()
		if err == nil {
			conn.Close(wire.CloseNormal, "")
			return
		}
		if ctx.Err() != nil || fault.Code(err) != "too_many_sessions" {
			t.Fatalf("after the first left: %v", err)
		}
	}
}

func TestClientAddressBehindProxies(t *testing.T) {
	server := &api.Server{Options: api.Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
	for _, c := range []struct {
		remote, forwarded, want string
	}{
		{"192.0.2.1:99", "", "192.0.2.1"},
		{"192.0.2.1:99", "198.51.100.7", "192.0.2.1"},
		{"10.0.0.1:99", "198.51.100.7", "198.51.100.7"},
		{"10.0.0.1:99", "203.0.113.9, 198.51.100.7", "198.51.100.7"},
		{"10.0.0.1:99", "203.0.113.9, 198.51.100.7, 10.1.1.1", "198.51.100.7"},
		{"10.0.0.1:99", "nonsense", "10.0.0.1"},
		{"[::ffff:10.0.0.1]:99", "2001:db8::1", "2001:db8::1"},
		{"10.0.0.1:99", "", "10.0.0.1"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.remote
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := server.ClientAddress(r); got != c.want {
			t.Errorf("%s with %q: %s, want %s", c.remote, c.forwarded, got, c.want)
		}
	}
}
