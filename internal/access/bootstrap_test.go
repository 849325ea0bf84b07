package access

import (
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// TestBootstrapTokens: a bootstrap token names its launch, at any Server with the same key; one that was changed, and one of a launch that is
// not there, name none.
func TestBootstrapTokens(t *testing.T) {
	st, dir := openStore(t), t.TempDir()
	a, ctx := open(t, st, dir), t.Context()
	l := store.Launch{Name: "edge-1", State: store.LaunchStarting}
	err := st.Update(ctx, func(tx *store.Tx) error {
		org, err := tx.OrganizationByName(DefaultOrganization)
		if err != nil {
			return err
		}
		r := catalog.Runner{Identity: catalog.Identity{OrganizationID: org.ID}, RunnerSpec: catalog.RunnerSpec{Name: "edge"}}
		if err := tx.PutRunner(&r); err != nil {
			return err
		}
		l.OrganizationID, l.RunnerID = org.ID, r.ID
		return tx.InsertLaunch(&l)
	})
	if err != nil {
		t.Fatal(err)
	}
	token := a.BootstrapToken(l.ID)
	if !strings.HasPrefix(token, "lwb_"+strings.ReplaceAll(l.ID, "-", "")+"_") {
		t.Errorf("the token is %q", token)
	}
	other := open(t, st, dir)
	if again := other.BootstrapToken(l.ID); again != token {
		t.Errorf("another Server makes %q", again)
	}
	by, err := other.Registrar(ctx, token, "1")
	if err != nil || by.Launch != l.ID || by.OrganizationID != l.OrganizationID {
		t.Errorf("%+v %v", by, err)
	}
	last := "0"
	if strings.HasSuffix(token, "0") {
		last = "1"
	}
	const nobody = "00000000-0000-7000-8000-000000000000"
	for what, wrong := range map[string]struct{ token, code string }{
		"another mac":          {token[:len(token)-1] + last, "registration_refused"},
		"a short mac":          {token[:len(token)-2], "registration_refused"},
		"no mac":               {"lwb_" + strings.ReplaceAll(l.ID, "-", ""), "registration_refused"},
		"a mac of another":     {"lwb_" + strings.ReplaceAll(nobody, "-", "") + token[strings.LastIndex(token, "_"):], "registration_refused"},
		"no id":                {"lwb_x_" + token[strings.LastIndex(token, "_")+1:], "registration_refused"},
		"one that is not here": {a.BootstrapToken(nobody), "bootstrap_token_unknown"},
	} {
		if by, err := a.Registrar(ctx, wrong.token, what); fault.Code(err) != wrong.code || !fault.Is(err, fault.Unauthenticated) || by.Launch != "" {
			t.Errorf("%s: %+v %v", what, by, err)
		}
	}
}
