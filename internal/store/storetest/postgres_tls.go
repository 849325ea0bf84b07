package storetest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// PostgresTLS starts a PostgreSQL that speaks TLS at a port of localhost, with a certificate and a key in PEM, and
// returns the URL of its database "postgres". The URL verifies the certificate with the file authority. PostgreSQL ends
// with the test.
func PostgresTLS(t testing.TB, port int, certificate, key []byte, authority string) string {
	t.Helper()
	if os.Getenv("LEGWORK_TEST_POSTGRES") == "off" {
		t.Skip("tests on PostgreSQL are off: LEGWORK_TEST_POSTGRES=off")
	}
	dir, err := tlsFolder(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cluster, err := startAt(port, "listen_addresses=localhost", "port="+strconv.Itoa(port), "ssl=on",
		"ssl_cert_file="+filepath.Join(dir, "cert.pem"), "ssl_key_file="+filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.stop(); err != nil {
			t.Errorf("stop PostgreSQL: %v", err)
		}
	})
	query := url.Values{"sslmode": {"verify-full"}, "sslrootcert": {authority}}
	return fmt.Sprintf("postgres://legwork@localhost:%d/postgres?%s", port, query.Encode())
}

// tlsFolder writes a certificate and its key into a folder that belongs to the user of PostgreSQL.
func tlsFolder(certificate, key []byte) (string, error) {
	owner, err := account()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "legwork-postgres-tls-")
	if err != nil {
		return "", err
	}
	for name, content := range map[string][]byte{"cert.pem": certificate, "key.pem": key, ".": nil} {
		path := filepath.Join(dir, name)
		if content != nil {
			err = os.WriteFile(path, content, 0o600)
		}
		if owner != nil {
			err = errors.Join(err, os.Chown(path, int(owner.Uid), int(owner.Gid)))
		}
		if err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
	}
	return dir, nil
}
