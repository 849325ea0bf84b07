package api_test

import (
	"net/http"
	"testing"
	"time"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
)

// TestRequestTimeoutIsAnAnswer: a request whose time is over gets a problem document.
func TestRequestTimeoutIsAnAnswer(t *testing.T) {
	w := apitest.Start(t, func(o *api.Options) { o.RequestTimeout = time.Nanosecond })
	resp, text := send(t, w, http.MethodGet, "/api/v1/stacks", "", nil)
	wantStatus(t, "a request without time", resp, text, http.StatusGatewayTimeout)
	if got := resp.Header.Get("Retry-After"); got == "" {
		t.Error("got no Retry-After")
	}
}
