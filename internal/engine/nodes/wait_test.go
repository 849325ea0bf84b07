package nodes

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAskURL asks for what is named alone: a redirect is an answer, and nobody else is asked.
func TestAskURL(t *testing.T) {
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/broken":
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer server.Close()
	for _, c := range []struct {
		path   string
		status int
		want   string
	}{
		{"/", 0, ""}, {"/", 200, ""}, {"/", 204, "200"}, {"/broken", 0, "502"}, {"/broken", 502, ""}, {"/moved", 302, ""}, {"/moved", 200, "302"},
	} {
		if got := askURL(t.Context(), server.URL+c.path, c.status); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s, wants %d: %q", c.path, c.status, got)
		}
	}
	if elsewhere > 0 {
		t.Errorf("another server was asked %d times", elsewhere)
	}
	if asker.Transport.(*http.Transport).Proxy != nil {
		t.Error("it goes through a proxy")
	}
}
