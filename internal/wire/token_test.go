package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"legwork/internal/fault"
)

func TestFetchToken(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != TokenPath || r.FormValue("grant_type") != "client_credentials" ||
			r.FormValue("client_id") != "org:edge" || r.FormValue("client_secret") != "s3cret" {
			t.Errorf("%s %v", r.URL, r.Form)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"abc","token_type":"Bearer","expires_in":600}`)
	}))
	defer server.Close()
	token, err := FetchToken(t.Context(), client(t, ""), server.URL+"/", Client{"org", "edge", "s3cret"})
	if err != nil || token.Value != "abc" || !token.Fresh(time.Now()) || token.Fresh(time.Now().Add(590*time.Second)) {
		t.Fatalf("%+v, %v", token, err)
	}
}

func client(t *testing.T, caFile string) *http.Client {
	t.Helper()
	c, err := HTTPClient(caFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func TestTokenErrorsSayWhatTheyMean(t *testing.T) {
	const asJSON, asProblem, asHTML = "application/json", "application/problem+json", "text/html"
	for _, c := range []struct {
		name      string
		status    int
		kind      string
		body      string
		want      fault.Kind
		code      string
		retryable bool
	}{
		{"wrong secret", 401, asJSON, `{"error":"invalid_client"}`, fault.Unauthenticated, "login_refused", false},
		{"wrong secret by 400", 400, asJSON, `{"error":"invalid_client"}`, fault.Unauthenticated, "login_refused", false},
		{"problem details", 401, asProblem, `{"title":"Unauthorized","detail":"no"}`, fault.Unauthenticated, "login_refused", false},
		{"not allowed", 400, asJSON, `{"error":"unauthorized_client","error_description":"the Runner is gone"}`, fault.Unauthenticated, "login_refused", false},
		{"starting", 503, asProblem, `{"title":"x"}`, fault.Unavailable, "server_unavailable", true},
		{"bad gateway", 502, asHTML, `<html>`, fault.Unavailable, "server_unavailable", true},
		{"too many", 429, asJSON, `{"error":"slow_down"}`, fault.Unavailable, "server_unavailable", true},
		{"a web page", 200, asHTML, `<html>hello</html>`, fault.Unsupported, NotLegwork, false},
		{"not found", 404, asHTML, `<html>404</html>`, fault.Unsupported, NotLegwork, false},
		{"other JSON", 200, asJSON, `{"hello":"world"}`, fault.Unsupported, NotLegwork, false},
		{"not implemented", 501, asHTML, `<html>`, fault.Unsupported, NotLegwork, false},
		{"an error page", 500, asHTML, `<html>`, fault.Unsupported, NotLegwork, false},
		{"a Server in trouble", 500, asProblem, `{"detail":"something went wrong","code":"internal"}`, fault.Unavailable, "internal", true},
		{"redirect", 302, asHTML, ``, fault.Unsupported, NotLegwork, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				w.Header().Set("Location", "https://elsewhere.example/")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer server.Close()
			_, err := FetchToken(t.Context(), client(t, ""), server.URL, Client{"o", "i", "topsecret"})
			f := fault.Of(err)
			if f.Kind != c.want || f.Code != c.code || f.Retryable() != c.retryable {
				t.Errorf("got %v %s %q retryable %v", f.Kind, f.Code, f.Message, f.Retryable())
			}
			if strings.Contains(f.Message+f.Hint, "topsecret") {
				t.Error("the secret is in the message")
			}
			if c.code != "login_refused" { // Dial meets the same strangers
				_, err = Dial(t.Context(), DialConfig{URL: server.URL, HTTPClient: client(t, "")})
				if f := fault.Of(err); f.Code != c.code && c.status != 200 {
					t.Errorf("dial: got %s %q", f.Code, f.Message)
				}
			}
		})
	}
}

func TestDialPassesOnWhatTheServerSays(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"title":"Not Found","detail":"there is no such Runner","code":"no_such_runner","hint":"look again"}`)
	}))
	defer server.Close()
	_, err := Dial(t.Context(), DialConfig{URL: server.URL, HTTPClient: client(t, "")})
	if f := fault.Of(err); f.Kind != fault.NotFound || f.Code != "no_such_runner" || f.Message != "there is no such Runner" || f.Hint != "look again" {
		t.Errorf("got %+v", f)
	}
}

func TestUnreachable(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	_, err := FetchToken(t.Context(), client(t, ""), server.URL, Client{})
	if f := fault.Of(err); f.Code != "server_unreachable" || !f.Retryable() {
		t.Errorf("got %v", err)
	}
	_, err = Dial(t.Context(), DialConfig{URL: server.URL, HTTPClient: client(t, "")})
	if f := fault.Of(err); f.Code != "server_unreachable" || !f.Retryable() {
		t.Errorf("dial: got %v", err)
	}
}

func TestCAFile(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"abc","expires_in":600}`)
	}))
	server.Config.ErrorLog = nil
	defer server.Close()
	_, err := FetchToken(t.Context(), client(t, ""), server.URL, Client{})
	if f := fault.Of(err); !f.Retryable() || !strings.Contains(f.Hint, "CaFile") {
		t.Errorf("unknown authority: got %v, hint %q", err, f.Hint)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := FetchToken(t.Context(), client(t, file), server.URL, Client{}); err != nil {
		t.Errorf("with the authority's file: %v", err)
	}
	if _, err := HTTPClient(filepath.Join(t.TempDir(), "missing")); fault.Code(err) != "ca_file_unreadable" {
		t.Errorf("missing file: %v", err)
	}
}

// TestSchemeIsNamed: http where https is spoken, and the reverse.
func TestSchemeIsNamed(t *testing.T) {
	secured := httptest.NewTLSServer(http.NotFoundHandler())
	defer secured.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	alerting, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer alerting.Close()
	go func() { // answers plain HTTP as programs outside of Go do
		for {
			conn, err := alerting.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1024))
			_, _ = conn.Write([]byte{0x15, 0x03, 0x01, 0, 2, 2, 70})
			_ = conn.Close()
		}
	}()
	host := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	for url, hint := range map[string]string{
		"http://" + host(secured):            "https://" + host(secured),
		"https://" + host(plain):             "http://" + host(plain),
		"http://" + alerting.Addr().String(): "https://" + alerting.Addr().String(),
	} {
		_, err := FetchToken(t.Context(), client(t, ""), url, Client{})
		if f := fault.Of(err); f.Code != WrongScheme || f.Retryable() || !strings.Contains(f.Hint, hint) {
			t.Errorf("%s: got %s %v, hint %q", url, f.Code, err, f.Hint)
		}
	}
}

// TestCAFileIsReadAgain: a new authority is trusted without a restart, and a file that is gone for a moment does no harm.
func TestCAFileIsReadAgain(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, `{"access_token":"abc","expires_in":600}`)
	}))
	defer server.Close()
	right := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	file := filepath.Join(t.TempDir(), "ca.pem")
	put := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(otherAuthority(t))
	c := client(t, file)
	ask := func() error {
		_, err := FetchToken(t.Context(), c, server.URL, Client{})
		return err
	}
	if err := ask(); !strings.Contains(fault.Of(err).Hint, "CaFile") {
		t.Fatalf("another authority: got %v", err)
	}
	put(right)
	if err := ask(); err != nil {
		t.Errorf("the file was changed: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err != nil {
		t.Errorf("the file is gone: %v", err)
	}
	put([]byte("half a certi"))
	if err := ask(); err != nil {
		t.Errorf("the file is being written: %v", err)
	}
}

func otherAuthority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "other"}, IsCA: true,
		NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, text, text, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
