package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/wire"
)

// shortToken logs in with a Runner's credential.
func shortToken(w *apitest.World, made api.CreatedRunner) string {
	w.T.Helper()
	token, err := wire.FetchToken(context.Background(), http.DefaultClient, w.URL, wire.Client{OrganizationID: made.OrganizationID, ID: made.ClientID, Secret: made.ClientSecret})
	w.Must(err)
	return token.Value
}

// TestUnregisterTakesOnlyItsOwn: which Instance goes is that of the credential, and nothing that the process says.
func TestUnregisterTakesOnlyItsOwn(t *testing.T) {
	w, ctx := apitest.Start(t), context.Background()
	_, client := tokenFor(w, api.RegistrationTokenRequest{Uses: -1})
	var pool []api.CreatedRunner
	for _, instance := range []string{"a", "b", "c"} {
		r := asking("pool")
		r.Instance, r.AllowMultipleInstances = instance, true
		made, err := client.RegisterRunner(ctx, r)
		w.Must(err)
		pool = append(pool, made)
	}
	owners, err := w.Client.CreateCredential(ctx, pool[0].ClientID, api.CredentialRequest{})
	w.Must(err)
	byOwner := pool[0]
	byOwner.ClientSecret = owners.ClientSecret
	w.Apply("{kind: Stack, name: s}\n")
	_, err = w.Client.CreateAssignment(ctx, catalog.AssignmentSpec{Runner: "pool", Scope: "s"})
	w.Must(err)
	for i, made := range []api.CreatedRunner{byOwner, pool[0], pool[1]} {
		done, err := w.ClientWith(shortToken(w, made)).UnregisterRunner(ctx, api.UnregisterRequest{ID: made.ID})
		if err != nil || done.Deleted || logsIn(w, made) {
			t.Errorf("%d: %+v %v", i, done, err)
		}
		for _, other := range pool[i:] {
			if other.ClientSecret != made.ClientSecret && !logsIn(w, other) {
				t.Errorf("%d took a sibling's credential", i)
			}
		}
		if all, err := w.Client.Assignments(ctx, "pool"); err != nil || len(all) != 1 {
			t.Errorf("%d: %v %v", i, all, err)
		}
	}
	done, err := w.ClientWith(shortToken(w, pool[2])).UnregisterRunner(ctx, api.UnregisterRequest{ID: pool[2].ID})
	if err != nil || !done.Deleted {
		t.Errorf("the last one: %+v %v", done, err)
	}
	if _, err := w.Client.Runner(ctx, "pool"); !fault.Is(err, fault.NotFound) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestUnregisterNamesNobody: a request that names an Instance is one of another program, and is not taken.
func TestUnregisterNamesNobody(t *testing.T) {
	w := apitest.Start(t)
	_, client := tokenFor(w, api.RegistrationTokenRequest{})
	made, err := client.RegisterRunner(context.Background(), asking("edge"))
	w.Must(err)
	resp, text := do(t, w, "POST", "/api/v1/runners/unregister", shortToken(w, made), "application/json", strings.NewReader(`{"id":"`+made.ID+`","instance":"x"}`))
	if resp.StatusCode != http.StatusBadRequest || !logsIn(w, made) {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
}
