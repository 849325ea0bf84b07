package access

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

var quiet = slog.New(slog.DiscardHandler)

func openStore(t *testing.T) *store.Store {
	t.Helper()
	st, err := store.Open(context.Background(), filepath.Join(t.TempDir(), "legwork.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func open(t *testing.T, st *store.Store, dir string) *Access {
	t.Helper()
	a, err := New(context.Background(), st, Settings{Dir: dir}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func adminToken(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, adminTokenFile))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestFirstStart(t *testing.T) {
	st, dir := openStore(t), t.TempDir()
	a := open(t, st, dir)
	token := adminToken(t, dir)
	info, err := os.Stat(filepath.Join(dir, adminTokenFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	actor, err := a.Authenticate(context.Background(), token)
	if err != nil || actor.Role != catalog.RoleOwner || actor.Name != "admin" || actor.OrganizationID == "" {
		t.Errorf("%+v %v", actor, err)
	}
	if _, err := os.Stat(filepath.Join(dir, adminTokenFile)); err == nil {
		t.Error("the file of the token is there after its first use")
	}
	again := open(t, st, dir)
	if _, err := again.Authenticate(context.Background(), token); err != nil {
		t.Error(err)
	}
	open(t, st, dir)
	if _, err := os.Stat(filepath.Join(dir, adminTokenFile)); err == nil {
		t.Error("a third start gave the admin a second token")
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

// TestFirstStartAfterACrash begins where a crash between database and file left things.
func TestFirstStartAfterACrash(t *testing.T) {
	st, dir := openStore(t), t.TempDir()
	open(t, st, dir)
	token := adminToken(t, dir)
	path := filepath.Join(dir, adminTokenFile)
	if err := os.Rename(path, path+".new"); err != nil {
		t.Fatal(err)
	}
	open(t, st, dir)
	if adminToken(t, dir) != token {
		t.Error("the token got lost")
	}
	if err := os.WriteFile(path+".new", []byte("lw_of_a_start_that_lost\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, st, dir)
	if _, err := os.Stat(path + ".new"); err == nil || adminToken(t, dir) != token {
		t.Error("a token that is not stored was kept or took the place of the right one")
	}
}

func TestServersOfOneDatabaseStartAtOnce(t *testing.T) {
	st := openStore(t)
	key := t.TempDir()
	if _, err := makeMasterKey(MasterKeyFile{Path: filepath.Join(key, masterKeyFile)}); err != nil {
		t.Fatal(err)
	}
	master, _ := os.ReadFile(filepath.Join(key, masterKeyFile))
	dirs := make([]string, 4)
	var wg sync.WaitGroup
	for i := range dirs {
		dirs[i] = t.TempDir()
		if err := os.WriteFile(filepath.Join(dirs[i], masterKeyFile), master, 0o600); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if _, err := New(context.Background(), st, Settings{Dir: dirs[i]}, slog.New(slog.DiscardHandler)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	tokens := 0
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, adminTokenFile)); err == nil {
			tokens++
		}
	}
	if tokens != 1 {
		t.Errorf("%d admin tokens", tokens)
	}
	empty, other := t.TempDir(), t.TempDir()
	if _, err := makeMasterKey(MasterKeyFile{Path: filepath.Join(other, masterKeyFile)}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{empty, other} {
		if _, err := New(context.Background(), st, Settings{Dir: dir}, slog.New(slog.DiscardHandler)); fault.Code(err) != "master_key_wrong" {
			t.Errorf("without the master key: %v", err)
		}
	}
	if files, err := os.ReadDir(empty); err != nil || len(files) > 0 {
		t.Errorf("a start without the master key leaves %v, %v", files, err)
	}
}

// runnerPrincipal makes a principal with a client secret.
func runnerPrincipal(t *testing.T, st *store.Store, client string) (store.ServicePrincipal, store.Credential, string) {
	t.Helper()
	secret, hash := NewSecret()
	var p store.ServicePrincipal
	var c store.Credential
	err := st.Update(context.Background(), func(tx *store.Tx) error {
		org, err := tx.OrganizationByName(DefaultOrganization)
		if err != nil {
			return err
		}
		p = store.ServicePrincipal{OrganizationID: org.ID, Name: client, ClientID: client, Role: string(catalog.RoleRunner)}
		if err := tx.PutPrincipal(&p); err != nil {
			return err
		}
		c = store.Credential{PrincipalID: p.ID, Name: "secret", Kind: "secret", Hash: hash}
		return tx.PutCredential(&c)
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, c, secret
}

func TestIssueAndAuthenticate(t *testing.T) {
	st := openStore(t)
	dir := t.TempDir()
	a := open(t, st, dir)
	ctx := context.Background()
	p, c, secret := runnerPrincipal(t, st, "edge")
	token, err := a.Issue(ctx, Login{ClientID: p.OrganizationID + ":edge", ClientSecret: secret})
	if err != nil || token.Expires != 15*time.Minute {
		t.Fatalf("%+v %v", token, err)
	}
	for name, server := range map[string]*Access{"the same Server": a, "another Server": open(t, st, dir)} {
		actor, err := server.Authenticate(ctx, token.Text)
		if err != nil || actor.ID != p.ID || actor.Role != catalog.RoleRunner {
			t.Errorf("%s: %+v %v", name, actor, err)
		}
	}
	late := open(t, st, dir)
	late.now = func() time.Time { return time.Now().Add(15*time.Minute + 2*clockSkew) }
	if _, err := late.Authenticate(ctx, token.Text); fault.Code(err) != "token_expired" {
		t.Errorf("an old token: %v", err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if err := a.Run(ended); err != nil { // what is left to write is written when it ends
		t.Fatal(err)
	}
	var stored []store.Credential
	if err := st.View(ctx, func(tx *store.Tx) (err error) {
		stored, err = tx.Credentials(p.OrganizationID, p.ID)
		return err
	}); err != nil || len(stored) != 1 || stored[0].ID != c.ID || stored[0].LastUsedAt.IsZero() {
		t.Errorf("last use: %+v %v", stored, err)
	}
	if err := st.Update(ctx, func(tx *store.Tx) error { return tx.DeletePrincipal(p.OrganizationID, p.ID) }); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, st, dir).Authenticate(ctx, token.Text); fault.Code(err) != "credential_gone" {
		t.Errorf("a token of a principal that is gone: %v", err)
	}
	now := time.Now()
	a.now = func() time.Time { return now.Add(actorTTL) }
	if _, err := a.Authenticate(ctx, token.Text); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("it is remembered too long: %v", err)
	}
}

// TestForgedTokens tries what is known to fool checkers of signed tokens.
func TestForgedTokens(t *testing.T) {
	st := openStore(t)
	a := open(t, st, t.TempDir())
	p, credential, _ := runnerPrincipal(t, st, "edge")
	good := claims{
		RegisteredClaims: jwt.RegisteredClaims{Issuer: issuer, Audience: jwt.ClaimStrings{issuer}, Subject: p.ID, ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour))},
		Organization:     p.OrganizationID,
		Credential:       credential.ID,
	}
	signed := func(method jwt.SigningMethod, key any, change func(*claims)) string {
		c := good
		change(&c)
		text, err := jwt.NewWithClaims(method, c).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	same := func(*claims) {}
	if _, err := a.Authenticate(context.Background(), signed(jwt.SigningMethodHS256, a.signing, same)); err != nil {
		t.Fatalf("the pattern itself is not taken: %v", err)
	}
	for name, token := range map[string]string{
		"no signature":       signed(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, same),
		"another key":        signed(jwt.SigningMethodHS256, []byte("0123456789abcdef0123456789abcdef"), same),
		"an empty key":       signed(jwt.SigningMethodHS256, []byte{}, same),
		"another method":     signed(jwt.SigningMethodHS512, a.signing, same),
		"another issuer":     signed(jwt.SigningMethodHS256, a.signing, func(c *claims) { c.Issuer = "x" }),
		"another audience":   signed(jwt.SigningMethodHS256, a.signing, func(c *claims) { c.Audience = jwt.ClaimStrings{"x"} }),
		"no end":             signed(jwt.SigningMethodHS256, a.signing, func(c *claims) { c.ExpiresAt = nil }),
		"another principal":  signed(jwt.SigningMethodHS256, a.signing, func(c *claims) { c.Subject = "00000000-0000-7000-8000-000000000000" }),
		"other organization": signed(jwt.SigningMethodHS256, a.signing, func(c *claims) { c.Organization = "00000000-0000-7000-8000-000000000000" }),
		"no credential":      signed(jwt.SigningMethodHS256, a.signing, func(c *claims) { c.Credential = "" }),
		"nonsense":           "a.b.c",
		"very long":          strings.Repeat("a", 1<<20),
	} {
		if actor, err := a.Authenticate(context.Background(), token); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%s: %+v %v", name, actor, err)
		}
	}
}

func TestExpiredCredentials(t *testing.T) {
	st := openStore(t)
	a := open(t, st, t.TempDir())
	ctx := context.Background()
	p, _, _ := runnerPrincipal(t, st, "edge")
	token, tokenHash := NewToken()
	secret, secretHash := NewSecret()
	if err := st.Update(ctx, func(tx *store.Tx) error {
		past := tx.Now().Add(-time.Second)
		if err := tx.PutCredential(&store.Credential{PrincipalID: p.ID, Name: "t", Kind: "token", Hash: tokenHash, ExpiresAt: past}); err != nil {
			return err
		}
		return tx.PutCredential(&store.Credential{PrincipalID: p.ID, Name: "s", Kind: "secret", Hash: secretHash, ExpiresAt: past})
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(ctx, token); fault.Code(err) != "token_expired" {
		t.Errorf("token: %v", err)
	}
	if _, err := a.Issue(ctx, Login{ClientID: p.OrganizationID + ":edge", ClientSecret: secret}); fault.Code(err) != "secret_expired" {
		t.Errorf("secret: %v", err)
	}
	if _, err := a.Authenticate(ctx, secret); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("a client secret as a token: %v", err)
	}
}
