package harness_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"legwork/internal/bus/bustest"
	"legwork/internal/harness"
	"legwork/internal/harness/ports"
	"legwork/internal/store"
	"legwork/internal/store/storetest"
	"legwork/internal/work"
)

// clusterFiles is the folder with the files that the chapter "Several servers" of the documentation tells to use.
const clusterFiles = "../../deploy/cluster"

const clusterModules = `
kind: Stack
name: prod
---
kind: Namespace
stack: prod
name: net
defaults: {engine: script, runner: edge}
---
kind: Module
stack: prod
namespace: net
name: slow
script: {run: 'echo started; until [ -e GATE ]; do sleep 0.1; done; echo ended'}
---
kind: Module
stack: prod
namespace: net
name: first
script: {run: 'echo worked'}
---
kind: Module
stack: prod
namespace: net
name: second
script: {run: 'echo worked'}
`

// TestSeveralServers runs two servers, PostgreSQL, NATS and HAProxy with the files of deploy/cluster. A rolling upgrade
// and an outage of NATS neither lose nor repeat work.
func TestSeveralServers(t *testing.T) {
	c := startCluster(t)
	c.one.StartRunner("edge", func(settings map[string]any) {
		settings["Server"] = map[string]any{"Url": c.url, "CaFile": c.authority}
	})
	gate := filepath.Join(t.TempDir(), "gate")
	c.one.Apply(strings.Replace(clusterModules, "GATE", gate, 1))
	c.eventually("both servers use NATS with TLS", func() bool { return c.nats.Connections("legwork") == 2 })

	id := c.one.Submit("run", "prod/net/slow")
	c.one.Says(id, "started")
	next := harness.BinaryOf(t, "1.2.0")
	var during []string
	for i, s := range []*harness.Server{c.one, c.two} { // a rolling upgrade
		s.SetBinary(next)
		s.Signal(syscall.SIGTERM)
		if got := s.Wait(); got != 0 {
			t.Fatalf("got exit status %d of a server that was stopped, want 0", got)
		}
		c.eventually("the other server answers", c.ready)
		during = append(during, c.submit([]string{"prod/net/first", "prod/net/second"}[i]))
		s.Start()
		if want := "version=v1.2.0"; !strings.Contains(s.Output(), want) {
			t.Errorf("log of a server after its upgrade: got no %s", want)
		}
	}
	for _, id := range during {
		c.one.Ends(id, work.Succeeded)
		if got := strings.Count(c.one.Log(id), "worked"); got != 1 {
			t.Errorf("runs of a job that was submitted during the upgrade: got %d, want 1", got)
		}
	}
	c.nats.Stop()
	c.eventually("the servers answer without NATS", c.ready)
	events := c.events()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	job := c.one.Ends(id, work.Succeeded)
	if got := len(job.Losses); got != 0 {
		t.Errorf("got %d lost attempts, want none", got)
	}
	if got := strings.Count(c.one.Log(id), "started"); got != 1 {
		t.Errorf("got %d runs of the script, want 1", got)
	}
	if !events(job.ID) {
		t.Error("the event stream through the load balancer ended without the events of the job")
	}
	c.nats.Restart()
	c.eventually("both servers use NATS again", func() bool { return c.nats.Connections("legwork") == 2 })
}

// serverCluster is two servers behind HAProxy.
type serverCluster struct {
	t         *testing.T
	url       string // of the load balancer
	authority string // file of the certificate that HAProxy and NATS have
	client    *http.Client
	nats      *bustest.Server
	one, two  *harness.Server
}

func startCluster(t *testing.T) *serverCluster {
	t.Helper()
	c := &serverCluster{t: t}
	dir := t.TempDir()
	pair, authority := selfSigned(t, "localhost")
	c.authority = authority
	certificate, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	keyFile, both := filepath.Join(dir, "key.pem"), filepath.Join(dir, "both.pem")
	writePrivate(t, keyFile, string(private))
	writePrivate(t, both, string(certificate)+string(private))
	natsPort, proxyPort := ports.Free(t), ports.Free(t)
	databasePort := ports.Free(t)
	superuser := storetest.PostgresTLS(t, databasePort, certificate, private, authority)
	createDatabase(t, superuser)
	refusesOtherAuthority(t, superuser)
	database := fmt.Sprintf("localhost:%d/several?", databasePort)
	c.nats = bustest.Start(t, clusterFile(t, dir, "nats.conf", "0.0.0.0:4222", fmt.Sprintf("127.0.0.1:%d", natsPort),
		"/etc/nats/nats.pem", authority, "/etc/nats/nats-key.pem", keyFile))
	c.url = fmt.Sprintf("https://localhost:%d", proxyPort)
	master := filepath.Join(dir, "master-key")
	settings := clusterFile(t, dir, "server.yaml",
		"https://legwork.example.com", c.url, "10.0.0.10", "127.0.0.1", "nats.internal:4222", fmt.Sprintf("localhost:%d", natsPort),
		"postgres.internal:5432/legwork?", database, "/etc/legwork/ca.pem", authority, "postgres://legwork:", "postgres://several:",
		"/srv/legwork/blobs", filepath.Join(dir, "blobs"), "/etc/legwork/master-key", master)
	trust := []string{"SSL_CERT_FILE=" + authority}
	c.one = harness.StartServerEnv(t, trust, "--config", settings)
	c.two = harness.StartServerEnv(t, trust, "--config", settings)
	startHAProxy(t, clusterFile(t, dir, "haproxy.cfg", "maxconn 20000", "maxconn 500", "0.0.0.0:443", fmt.Sprintf("127.0.0.1:%d", proxyPort), "/etc/haproxy/legwork.pem", both,
		"10.0.0.11:8440", strings.TrimPrefix(c.one.URL, "http://"), "10.0.0.12:8440", strings.TrimPrefix(c.two.URL, "http://")))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	c.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}, Timeout: harness.Patience}
	t.Cleanup(c.client.CloseIdleConnections)
	c.eventually("the load balancer answers", c.ready)
	return c
}

// clusterFile writes a file of deploy/cluster with other addresses and paths, each of which must be in it.
func clusterFile(t *testing.T, dir, name string, replacements ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(clusterFiles, name))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(string(text), replacements[i]) {
			t.Fatalf("%s does not contain %s", name, replacements[i])
		}
	}
	path := filepath.Join(dir, name)
	writePrivate(t, path, strings.NewReplacer(replacements...).Replace(string(text)))
	return path
}

func writePrivate(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// refusesOtherAuthority checks that a server does not trust a database whose certificate another authority signed.
func refusesOtherAuthority(t *testing.T, database string) {
	t.Helper()
	_, other := selfSigned(t, "localhost")
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("sslrootcert", other)
	u.RawQuery = query.Encode()
	st, err := store.Open(t.Context(), u.String(), slog.New(slog.DiscardHandler))
	if err == nil {
		st.Close()
		t.Fatal("a database with the certificate of another authority: got no error, want one")
	}
}

// createDatabase creates the role and the database as documented. The name legwork is taken by the tests themselves.
func createDatabase(t *testing.T, address string) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(clusterFiles, "postgres.sql"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	run := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	var code []string
	for line := range strings.Lines(string(script)) {
		if !strings.HasPrefix(line, "--") {
			code = append(code, line)
		}
	}
	for statement := range strings.SplitSeq(strings.ReplaceAll(strings.Join(code, ""), "legwork", "several"), ";") {
		if strings.TrimSpace(statement) != "" {
			run(statement)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func startHAProxy(t *testing.T, config string) {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		if program = "/usr/sbin/haproxy"; !fileExists(program) {
			t.Fatal("HAProxy is not installed: apt-get install haproxy")
		}
	}
	cmd := exec.Command(program, "-db", "-f", config)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("haproxy: %s", out.String())
		}
	})
}

// submit submits a job through the load balancer and returns its number.
func (c *serverCluster) submit(module string) string {
	c.t.Helper()
	r := c.one.RunWith([]string{"LEGWORK_SERVER=" + c.url, "LEGWORK_TOKEN=" + c.one.Token(), "LEGWORK_CA_FILE=" + c.authority},
		"module", "run", module, "--no-follow")
	for word := range strings.FieldsSeq(r.Out) {
		if strings.HasPrefix(word, "#") {
			return strings.TrimRight(word, ".,:;")
		}
	}
	c.t.Fatalf("got no number of a job in %q and %q", r.Out, r.Err)
	return ""
}

func (c *serverCluster) eventually(what string, done func() bool) {
	c.t.Helper()
	harness.Eventually(c.t, what, done)
}

// ready reports whether a server answers through the load balancer.
func (c *serverCluster) ready() bool {
	r, err := c.client.Get(c.url + "/readyz")
	if err != nil {
		return false
	}
	r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// events follows the events of the organization through the load balancer. The result waits until a text was in them.
func (c *serverCluster) events() (contain func(text string) bool) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url+"/api/v1/events", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.one.Token())
	answer, err := c.client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		c.t.Fatalf("got %s for the event stream, want 200", answer.Status)
	}
	lines := bufio.NewScanner(answer.Body)
	return func(text string) bool {
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return true
			}
		}
		return false
	}
}
