package wire

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"legwork/internal/fault"
)

// HTTPClient makes the client for everything a Runner asks of its Server: HTTP(S)_PROXY and
// NO_PROXY of the environment are kept, caFile (may be empty) is trusted besides the host's
// certificate authorities, redirects are not followed. When caFile changes, the next request
// goes by what it holds then; while it is missing or unreadable, by what it held before.
func HTTPClient(caFile string) (*http.Client, error) {
	t := &trusting{caFile: caFile, state: stateOf(caFile)}
	roots, err := readRoots(caFile)
	if err != nil {
		return nil, err
	}
	t.transport = newTransport(roots)
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// trusting is a transport that is made anew when the file of the authorities it trusts changes.
type trusting struct {
	caFile string

	mu        sync.Mutex
	state     fileState
	transport *http.Transport
}

// fileState tells one content of a file from another.
type fileState struct {
	changed time.Time
	size    int64
}

func stateOf(path string) fileState {
	info, err := os.Stat(path)
	if err != nil {
		return fileState{}
	}
	return fileState{info.ModTime(), info.Size()}
}

// RoundTrip makes one request.
func (t *trusting) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.current().RoundTrip(r)
}

// CloseIdleConnections lets go of connections that nothing uses.
func (t *trusting) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.transport.CloseIdleConnections()
}

func (t *trusting) current() *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.caFile == "" {
		return t.transport
	}
	if now := stateOf(t.caFile); now != t.state {
		if roots, err := readRoots(t.caFile); err == nil { // else it is being written, or gone for a moment
			t.transport.CloseIdleConnections()
			t.state, t.transport = now, newTransport(roots)
		}
	}
	return t.transport
}

// readRoots gives the host's authorities and those of the file; nil stands for the host's alone.
func readRoots(caFile string) (*x509.CertPool, error) {
	if caFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fault.New(fault.Invalid, "ca_file_unreadable", "the file of certificate authorities %s cannot be read", caFile).
			WithHint("check Server.CaFile").WithCause(err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fault.New(fault.Invalid, "ca_file_empty", "the file %s holds no certificate in PEM form", caFile).
			WithHint("check Server.CaFile")
	}
	return roots, nil
}

func newTransport(roots *x509.CertPool) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 20 * time.Second,
		MaxIdleConns:          1,
		IdleConnTimeout:       5 * time.Second,
	}
}
