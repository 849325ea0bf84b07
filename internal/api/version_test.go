package api_test

import (
	"net/http"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
)

// Only callers with a valid token learn the version of the Server.
func TestVersionIsForKnownCallers(t *testing.T) {
	w := apitest.Start(t, func(o *api.Options) { o.Version = "1.2.3" })
	for _, c := range []struct{ path, token, want string }{
		{"/healthz", "", "hidden"},
		{"/readyz", "", "hidden"},
		{"/openapi.json", "", "hidden"},
		{"/api/v1/runners", "", "hidden"},
		{"/api/v1/runners", "lw_wrong", "hidden"},
		{"/api/v1/runners", w.TokenFor("default", catalog.RoleViewer), "1.2.3"},
	} {
		r, _ := do(t, w, http.MethodGet, c.path, c.token, "", nil)
		if got := r.Header.Get("Legwork-Version"); got != c.want {
			t.Errorf("%s with token %q: got version %q, want %q", c.path, c.token, got, c.want)
		}
	}
}
