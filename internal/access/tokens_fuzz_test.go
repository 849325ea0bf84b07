package access

import (
	"context"
	"encoding/base64"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// FuzzTokens checks that only tokens that were made are accepted: API tokens, access tokens (JWT), registration
// tokens and bootstrap tokens.
func FuzzTokens(f *testing.F) {
	ctx, dir := context.Background(), f.TempDir()
	st, err := store.Open(ctx, filepath.Join(dir, "legwork.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = st.Close() })
	a, err := New(ctx, st, Settings{Dir: dir}, slog.New(slog.DiscardHandler))
	if err != nil {
		f.Fatal(err)
	}
	var org catalog.Organization
	err = st.View(ctx, func(tx *store.Tx) (err error) {
		org, err = tx.OrganizationByName(DefaultOrganization)
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	owner := catalog.Actor{OrganizationID: org.ID, Name: "ann", Role: catalog.RoleOwner}
	_, registration, err := a.CreateRegistrationToken(ctx, owner, RegistrationRequest{})
	if err != nil {
		f.Fatal(err)
	}
	signed, err := a.sign(store.ServicePrincipal{OrganizationID: org.ID, ID: "p"}, "c", a.now())
	if err != nil {
		f.Fatal(err)
	}
	token, _ := NewToken()
	launch := a.BootstrapToken("0198c0de-0000-7000-8000-000000000001") // of a launch that is not known
	// A signed token with each of its parts changed, exchanged or cut.
	parts := strings.Split(signed.Text, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`))
	for _, changed := range [][]string{
		{none, parts[1], ""}, {none, parts[1], parts[2]}, {parts[0], parts[1], ""}, {parts[0], parts[1]},
		{parts[0], parts[1], parts[2], parts[2]}, {parts[1], parts[0], parts[2]}, {parts[0], parts[1] + "=", parts[2]},
	} {
		f.Add(strings.Join(changed, "."))
	}
	for _, real := range []string{signed.Text, registration, launch, token} {
		f.Add(" " + real)
		f.Add(real + "\n")
		f.Add(strings.ToUpper(real))
		f.Add(real[:len(real)-1])
	}
	for _, text := range []string{
		token, signed.Text, registration, launch, "", "eyJhbGciOiJub25lIn0.e30.", bootstrapPrefix + "_", token[:20],
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		actor, err := a.Authenticate(ctx, text)
		if !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("authenticate %q: got %+v, %v, want it refused", text, actor, err)
		}
		if actor != (catalog.Actor{}) {
			t.Errorf("authenticate %q: got %+v with the refusal, want no actor", text, actor)
		}
		if len(text) > 12 && strings.Contains(err.Error(), text) {
			t.Errorf("authenticate %q: the error shows the token: %v", text, err)
		}
		by, err := a.Registrar(ctx, text, "192.0.2.1")
		refused := fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.RateLimited)
		if text != registration && !refused {
			t.Errorf("register with %q: got %+v, %v, want it refused", text, by, err)
		}
	})
}
