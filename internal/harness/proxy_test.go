package harness_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// selfSigned makes a certificate for a host name and writes it to a file.
func selfSigned(t *testing.T, host string) (pair tls.Certificate, caFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, caFile
}

// tunnel is an HTTP proxy that lets CONNECT through to one Server, in front of which it ends TLS as a load balancer
// would. It counts what came through.
func tunnel(t *testing.T, server string, pair tls.Certificate) (url string, through *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	through = new(atomic.Int64)
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				req, err := http.ReadRequest(bufio.NewReader(in))
				if err != nil || req.Method != http.MethodConnect || !strings.HasPrefix(req.Host, "legwork.test:") {
					return
				}
				out, err := net.Dial("tcp", strings.TrimPrefix(server, "http://"))
				if err != nil {
					return
				}
				defer out.Close()
				through.Add(1)
				_, _ = io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
				plain := tls.Server(in, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}})
				defer plain.Close()
				go func() {
					_, _ = io.Copy(out, plain)
					out.Close()
				}()
				_, _ = io.Copy(plain, out)
			}()
		}
	}()
	return "http://" + l.Addr().String(), through
}

// TestRunnerBehindAProxy has a Runner that reaches its Server by name through HTTPS_PROXY alone, and trusts it by CaFile.
func TestRunnerBehindAProxy(t *testing.T) {
	pair, caFile := selfSigned(t, "legwork.test")
	s := harness.StartServer(t)
	proxy, through := tunnel(t, s.URL, pair)
	r := s.NewRunner("edge-1", change(map[string]any{"Url": "https://legwork.test", "CaFile": caFile}, "Server"))
	r.SetEnv("HTTPS_PROXY=" + proxy)
	r.Start()
	r.Online()
	declare(s, "m", script("echo through the proxy"))
	id := s.Submit("run", "s/n/m")
	s.Ends(id, work.Succeeded)
	if through.Load() < 1 || !strings.Contains(s.Log(id), "through the proxy") {
		t.Fatalf("%d connections went through", through.Load())
	}
}
