package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"legwork/internal/fault"
)

// TestClientNamesAWrongScheme: http where https is spoken, and the reverse.
func TestClientNamesAWrongScheme(t *testing.T) {
	secured := httptest.NewTLSServer(http.NotFoundHandler())
	defer secured.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for asked, right := range map[*httptest.Server]string{secured: secured.URL, plain: plain.URL} {
		wrong := strings.Replace(right, "https://", "http://", 1)
		if asked == plain {
			wrong = strings.Replace(right, "http://", "https://", 1)
		}
		c, err := NewClient(ClientOptions{Server: wrong})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Stacks(t.Context())
		c.Close()
		if f := fault.Of(err); f.Code != "wrong_scheme" || !strings.Contains(f.Hint, right) {
			t.Errorf("%s: got %s %v, hint %q", wrong, f.Code, err, f.Hint)
		}
	}
}
