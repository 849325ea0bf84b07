package api_test

import (
	"context"
	"fmt"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
)

// showing has a request prove what it holds.
func showing(r api.RegistrationRequest, held api.CreatedRunner) api.RegistrationRequest {
	r.ClientID, r.ClientSecret = held.ClientID, held.ClientSecret
	return r
}

// TestProofChangesTheSecretAlone: of a record that an owner made, and of any that a process proves to be.
func TestProofChangesTheSecretAlone(t *testing.T) {
	w, ctx := apitest.Start(t), context.Background()
	_, mine := tokenFor(w, api.RegistrationTokenRequest{Uses: -1, Labels: map[string]string{"zone": "a"}})
	_, other := tokenFor(w, api.RegistrationTokenRequest{Name: "other", Uses: -1})
	owned, err := w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "owned", Description: "of ann", Labels: map[string]string{"zone": "b"}, MaxParallelJobs: 2, OS: "linux", Webhook: "https://a.example.com/"})
	w.Must(err)
	r := asking("edge")
	r.Labels, r.MaxParallelJobs = map[string]string{"zone": "a"}, 3
	edge, err := mine.RegisterRunner(ctx, r)
	w.Must(err)
	for _, held := range []api.CreatedRunner{owned, edge} {
		r := showing(asking(held.Name), held)
		r.Description, r.MaxParallelJobs, r.OS, r.AllowMultipleInstances, r.Lifetime, r.Webhook = "taken", 99, "darwin", true, catalog.Ephemeral, "http://10.0.0.1/"
		made, err := other.RegisterRunner(ctx, r)
		w.Must(err)
		if !logsIn(w, made) || made.ID != held.ID || logsIn(w, held) {
			t.Errorf("%s: the new credential is not taken, or the earlier one goes on", held.Name)
		}
		now, err := w.Client.Runner(ctx, held.Name)
		w.Must(err)
		if fmt.Sprintf("%+v", now.RunnerSpec) != fmt.Sprintf("%+v", held.RunnerSpec) {
			t.Errorf("it was %+v and is %+v", held.RunnerSpec, now.RunnerSpec)
		}
	}
}

// TestSiblingsKeepTheirCredentials, whatever a further Instance says of the record.
func TestSiblingsKeepTheirCredentials(t *testing.T) {
	w, ctx := apitest.Start(t), context.Background()
	_, mine := tokenFor(w, api.RegistrationTokenRequest{Uses: -1})
	_, other := tokenFor(w, api.RegistrationTokenRequest{Name: "other", Uses: -1})
	join := func(client *api.Client, instance string, held api.CreatedRunner) api.CreatedRunner {
		r := showing(asking("pool"), held)
		r.Instance, r.AllowMultipleInstances = instance, held.ID == ""
		made, err := client.RegisterRunner(ctx, r)
		w.Must(err)
		return made
	}
	a, b := join(mine, "a", api.CreatedRunner{}), join(mine, "b", api.CreatedRunner{})
	for i, client := range []*api.Client{mine, other} {
		again := join(client, "a", a)
		if !logsIn(w, again) || !logsIn(w, b) || logsIn(w, a) {
			t.Errorf("%d: what it got is not taken, or its own went on, or that of b ended", i)
		}
		a = again
	}
	if moved := join(other, "b", a); !logsIn(w, moved) || !logsIn(w, b) {
		t.Error("who shows the credential of a has that of b ended")
	}
	if now, err := w.Client.Runner(ctx, "pool"); err != nil || !now.AllowMultipleInstances {
		t.Errorf("%+v %v", now.RunnerSpec, err)
	}
}
