package harness_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"legwork/internal/harness"
)

// TestBrowserSpeaksHTTP2 opens the dashboard of a server with TLS in a real browser: the page and all that it loads
// come over HTTP/2.
func TestBrowserSpeaksHTTP2(t *testing.T) {
	t.Parallel()
	pair, certificate := selfSigned(t, "127.0.0.1")
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := harness.StartServer(t, "--tls-cert", certificate, "--tls-key", key)
	b := openBrowser(t, s)
	b.open("/login")
	b.until(`performance.getEntriesByType("navigation")[0].nextHopProtocol === "h2"`)
	b.until(`performance.getEntriesByType("resource").length > 0`)
	if got := b.text(`performance.getEntriesByType("resource").filter((e) => e.nextHopProtocol !== "h2").map((e) => e.name).join()`); got != "" {
		t.Errorf("loaded over another protocol: %s", got)
	}
}
