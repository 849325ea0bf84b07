package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/wire"
)

// tokenFor makes a registration token and a client that shows it.
func tokenFor(w *apitest.World, r api.RegistrationTokenRequest) (api.CreatedRegistrationToken, *api.Client) {
	w.T.Helper()
	made, err := w.Client.CreateRegistrationToken(context.Background(), r)
	w.Must(err)
	return made, w.ClientWith(made.Token)
}

func asking(name string) api.RegistrationRequest {
	return api.RegistrationRequest{Registration: catalog.Registration{Name: name, Instance: "i-1"}}
}

// logsIn tells whether the Server takes a credential.
func logsIn(w *apitest.World, made api.CreatedRunner) bool {
	w.T.Helper()
	_, err := wire.FetchToken(context.Background(), http.DefaultClient, w.URL, wire.Client{OrganizationID: made.OrganizationID, ID: made.ClientID, Secret: made.ClientSecret})
	if err != nil && !fault.Is(err, fault.Unauthenticated) {
		w.T.Fatal(err)
	}
	return err == nil
}

func TestRegisteredRunnerHasNoRights(t *testing.T) {
	w, ctx := apitest.Start(t), context.Background()
	_, client := tokenFor(w, api.RegistrationTokenRequest{Labels: map[string]string{"zone": "a", "tier": "x"}})
	r := asking("edge")
	r.Labels, r.Description, r.MaxParallelJobs, r.OS = map[string]string{"zone": "a"}, "at the edge", 3, "linux"
	made, err := client.RegisterRunner(ctx, r)
	w.Must(err)
	if made.IsAssignedToAllModules || made.IsDisabled || fmt.Sprint(made.Labels) != "map[zone:a]" || made.Description != "at the edge" || made.MaxParallelJobs != 3 {
		t.Errorf("%+v", made.Runner)
	}
	if assigned, err := w.Client.Assignments(ctx, made.ID); err != nil || len(assigned) != 0 {
		t.Errorf("%v %v", assigned, err)
	}
	if !logsIn(w, made) {
		t.Error("the new credential is not taken")
	}
	w.Connect(made, nil)
}

// TestRegistrationTokensAreRefusedAlike: whoever holds a wrong one learns nothing.
func TestRegistrationTokensAreRefusedAlike(t *testing.T) {
	w, ctx := apitest.Start(t), context.Background()
	usedUp, once := tokenFor(w, api.RegistrationTokenRequest{Name: "once"})
	_, err := once.RegisterRunner(ctx, asking("first"))
	w.Must(err)
	revoked, _ := tokenFor(w, api.RegistrationTokenRequest{Name: "revoked"})
	w.Must(w.Client.RevokeRegistrationToken(ctx, "revoked"))
	short, _ := tokenFor(w, api.RegistrationTokenRequest{Name: "short", ExpiresIn: catalog.Duration(time.Minute)})
	answers := map[string]bool{}
	for name, token := range map[string]string{"used up": usedUp.Token, "revoked": revoked.Token, "cut": short.Token[:20], "none": "", "of an owner": w.Token, "long": strings.Repeat("x", 4000)} {
		resp, text := do(t, w, "POST", "/api/v1/runners/register", token, "application/json", strings.NewReader(`{"name":"x"}`))
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, resp.StatusCode, text)
		}
		before, _, _ := strings.Cut(string(text), `"request_id"`)
		answers[before] = true
	}
	if len(answers) != 1 {
		t.Errorf("the answers differ: %v", answers)
	}
	for range 30 {
		_, err = w.ClientWith("lwr_guess").RegisterRunner(ctx, asking("x"))
		if fault.Is(err, fault.RateLimited) {
			return
		}
	}
	t.Errorf("guessing is not slowed down: %v", err)
}

// TestRegistrationIsForRegistrationTokens: no other path takes one, and this one takes no other.
func TestRegistrationIsForRegistrationTokens(t *testing.T) {
	w, ctx := apitest.Start(t), context.Background()
	made, client := tokenFor(w, api.RegistrationTokenRequest{Uses: 3})
	for _, path := range []string{"/api/v1/runners", "/api/v1/runners/register", "/api/v1/registration-tokens"} {
		if resp, text := do(t, w, "GET", path, made.Token, "", nil); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
	_, err := client.RegisterRunner(ctx, asking("register")) // a Runner may be named as the path is
	w.Must(err)
	if r, err := w.Client.Runner(ctx, "register"); err != nil || r.Name != "register" {
		t.Errorf("%+v %v", r, err)
	}
	w.Must(w.Client.DeleteRunner(ctx, "register"))
}

func TestLabelsOfARegistration(t *testing.T) {
	w, ctx := apitest.Start(t), context.Background()
	_, client := tokenFor(w, api.RegistrationTokenRequest{Labels: map[string]string{"zone": "a"}, Uses: 5})
	for _, labels := range []map[string]string{{"zone": "b"}, {"zone": "a", "tier": "prod"}, {"": "x"}} {
		r := asking("edge")
		r.Labels = labels
		if _, err := client.RegisterRunner(ctx, r); fault.Code(err) != "label_not_allowed" {
			t.Errorf("%v: %v", labels, err)
		}
	}
	_, giving := tokenFor(w, api.RegistrationTokenRequest{Name: "giving", Labels: map[string]string{"zone": "a", "tier": "x"}, GiveLabels: true})
	made, err := giving.RegisterRunner(ctx, asking("edge"))
	w.Must(err)
	if fmt.Sprint(made.Labels) != "map[tier:x zone:a]" {
		t.Errorf("%v", made.Labels)
	}
	tokens, err := w.Client.RegistrationTokens(ctx)
	w.Must(err)
	if tokens[0].UsesLeft != 5 || tokens[1].UsesLeft != 0 {
		t.Errorf("what was refused counted, or what was not did not: %+v", tokens)
	}
}

// TestUsesAreCountedOnce, however many register at the same moment.
func TestUsesAreCountedOnce(t *testing.T) {
	w, ctx := apitest.Start(t), context.Background()
	_, client := tokenFor(w, api.RegistrationTokenRequest{Uses: 3})
	var done atomic.Int32
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			_, err := client.RegisterRunner(ctx, asking(fmt.Sprint("edge-", i)))
			switch {
			case err == nil:
				done.Add(1)
			case !fault.Is(err, fault.Unauthenticated) && !fault.Is(err, fault.RateLimited):
				t.Error(err)
			}
		})
	}
	all.Wait()
	runners, err := w.Client.Runners(ctx)
	w.Must(err)
	if done.Load() != 3 || len(runners) != 3 {
		t.Errorf("%d registered, %d are there", done.Load(), len(runners))
	}
}

func TestRegisteringAgain(t *testing.T) {
	w, ctx := apitest.Start(t), context.Background()
	_, mine := tokenFor(w, api.RegistrationTokenRequest{Uses: 9})
	_, other := tokenFor(w, api.RegistrationTokenRequest{Name: "other", Uses: 9})
	first, err := mine.RegisterRunner(ctx, asking("edge"))
	w.Must(err)
	if _, err := other.RegisterRunner(ctx, asking("edge")); fault.Code(err) != "runner_exists" {
		t.Errorf("by another token: %v", err)
	}
	second, err := mine.RegisterRunner(ctx, asking("edge"))
	w.Must(err)
	if second.ID != first.ID || !logsIn(w, second) || logsIn(w, first) {
		t.Error("the same token: the record is another, or the first credential goes on")
	}
	extra, err := w.Client.CreateCredential(ctx, second.ClientID, api.CredentialRequest{Name: "of an owner"})
	w.Must(err)
	proving := asking("edge")
	proving.ClientID, proving.ClientSecret = second.ClientID, second.ClientSecret
	third, err := other.RegisterRunner(ctx, proving)
	w.Must(err)
	owners := third
	owners.ClientSecret = extra.ClientSecret
	if third.ID != first.ID || !logsIn(w, third) || logsIn(w, second) || !logsIn(w, owners) {
		t.Error("with proof: the record is another, the shown credential goes on, or an owner's ended")
	}
	if _, err := other.RegisterRunner(ctx, asking("edge")); fault.Code(err) != "runner_exists" {
		t.Errorf("the other token took the Runner over: %v", err)
	}
	_, err = w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "owned", IsAssignedToAllModules: true})
	w.Must(err)
	if _, err := mine.RegisterRunner(ctx, asking("owned")); fault.Code(err) != "runner_exists" {
		t.Errorf("an owner's: %v", err)
	}
	third.Runner.RunnerSpec.IsAssignedToAllModules, third.Runner.RunnerSpec.IsDisabled = true, true
	_, err = w.Client.PutRunner(ctx, "edge", third.Runner.RunnerSpec)
	w.Must(err)
	again, err := mine.RegisterRunner(ctx, asking("edge"))
	w.Must(err)
	if !again.IsAssignedToAllModules || !again.IsDisabled {
		t.Error("registering again changed what an owner decides")
	}
}

// TestInstancesJoin: each of a Runner of several has a credential of its own.
func TestInstancesJoin(t *testing.T) {
	w, ctx := apitest.Start(t), context.Background()
	_, client := tokenFor(w, api.RegistrationTokenRequest{Uses: -1})
	join := func(instance string) api.CreatedRunner {
		r := asking("pool")
		r.Instance, r.Lifetime = instance, catalog.Ephemeral
		made, err := client.RegisterRunner(ctx, r)
		w.Must(err)
		return made
	}
	a, b := join("a"), join("b")
	if a.ID != b.ID || !a.AllowMultipleInstances || !logsIn(w, a) || !logsIn(w, b) {
		t.Errorf("%+v %+v", a.Runner, b.Runner)
	}
	again := join("a")
	if !logsIn(w, again) || logsIn(w, a) || !logsIn(w, b) {
		t.Error("the earlier credential of an Instance goes on, or another's ended")
	}
	for i := range 120 { // more than the credentials that an owner may make
		join(fmt.Sprint("many-", i))
	}
	if _, err := w.Client.CreateCredential(ctx, a.ClientID, api.CredentialRequest{}); err != nil {
		t.Errorf("those of Instances take the room of others: %v", err)
	}
	leave := func(made api.CreatedRunner) (api.Unregistered, error) {
		token, err := wire.FetchToken(ctx, http.DefaultClient, w.URL, wire.Client{OrganizationID: made.OrganizationID, ID: made.ClientID, Secret: made.ClientSecret})
		w.Must(err)
		return w.ClientWith(token.Value).UnregisterRunner(ctx, api.UnregisterRequest{ID: made.ID})
	}
	if done, err := leave(b); err != nil || done.Deleted || logsIn(w, b) || !logsIn(w, again) {
		t.Errorf("%+v %v", done, err)
	}
	if _, err := w.Client.Runner(ctx, "pool"); err != nil {
		t.Error(err)
	}
}

func TestUnregister(t *testing.T) {
	w, ctx := apitest.Start(t), context.Background()
	_, client := tokenFor(w, api.RegistrationTokenRequest{Uses: 9})
	made, err := client.RegisterRunner(ctx, asking("edge"))
	w.Must(err)
	victim, err := client.RegisterRunner(ctx, asking("victim"))
	w.Must(err)
	token, err := wire.FetchToken(ctx, http.DefaultClient, w.URL, wire.Client{OrganizationID: made.OrganizationID, ID: made.ClientID, Secret: made.ClientSecret})
	w.Must(err)
	self := w.ClientWith(token.Value)
	for _, id := range []string{victim.ID, "victim", "edge", "nothing"} {
		if _, err := self.UnregisterRunner(ctx, api.UnregisterRequest{ID: id}); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	w.Apply("{kind: Stack, name: s}\n---\n{kind: Namespace, stack: s, name: n, defaults: {engine: script}}\n---\n" +
		"{kind: Module, stack: s, namespace: n, name: m, runner: edge, script: {run: 'true'}}\n")
	if _, err := self.UnregisterRunner(ctx, api.UnregisterRequest{ID: made.ID}); fault.Code(err) != "runner_named" {
		t.Errorf("a Module names it: %v", err)
	}
	w.Must(w.Client.DeleteModule(ctx, "s/n/m", true))
	done, err := self.UnregisterRunner(ctx, api.UnregisterRequest{ID: made.ID})
	if err != nil || !done.Deleted || logsIn(w, made) {
		t.Errorf("%+v %v", done, err)
	}
	if _, err := w.Client.Runner(ctx, "edge"); !fault.Is(err, fault.NotFound) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestRunnersShareAPrincipal that an owner made.
func TestRunnersShareAPrincipal(t *testing.T) {
	w, ctx := apitest.Start(t), context.Background()
	shared, err := w.Client.CreatePrincipal(ctx, api.PrincipalRequest{Name: "site", Role: catalog.RoleRunner})
	w.Must(err)
	var made [2]api.CreatedRunner
	for i := range made {
		made[i], err = w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: fmt.Sprint("r-", i), ServicePrincipalID: shared.Principal.ID})
		w.Must(err)
		if made[i].ClientSecret != "" || made[i].ClientID != "site" || made[i].ServicePrincipalID != shared.Principal.ID {
			t.Errorf("%+v", made[i])
		}
		made[i].ClientSecret = shared.ClientSecret
		w.Connect(made[i], nil)
	}
	if _, err := w.Client.RotateCredential(ctx, "r-0", false); fault.Code(err) != "principal_shared" {
		t.Errorf("rotate: %v", err)
	}
	if err := w.Client.DeletePrincipal(ctx, "site"); fault.Code(err) != "principal_of_runner" || !strings.Contains(err.Error(), "r-0, r-1") {
		t.Errorf("delete: %v", err)
	}
	export, err := w.Client.ExportManifest(ctx, false)
	w.Must(err)
	if !strings.Contains(string(export), shared.Principal.ID) {
		t.Errorf("%s", export)
	}
	w.Apply("{kind: Runner, name: r-0}\n")
	if r, err := w.Client.Runner(ctx, "r-0"); err != nil || r.ServicePrincipalID != shared.Principal.ID {
		t.Errorf("a manifest without it took it away: %+v %v", r, err)
	}
	w.Must(w.Client.DeleteRunner(ctx, "r-0"))
	if !logsIn(w, made[1]) {
		t.Error("the shared principal went with one of its Runners")
	}
	w.Must(w.Client.DeleteRunner(ctx, "r-1"))
	w.Must(w.Client.DeletePrincipal(ctx, "site"))
	own, err := w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "own"})
	w.Must(err)
	same, err := w.Client.PutRunner(ctx, "own", catalog.RunnerSpec{Name: "own", ServicePrincipalID: own.ServicePrincipalID})
	if err != nil || same.ServicePrincipalID != own.ServicePrincipalID || !logsIn(w, own) {
		t.Errorf("putting back what was read: %+v %v", same, err)
	}
	viewer, err := w.Client.CreatePrincipal(ctx, api.PrincipalRequest{Name: "v", Role: catalog.RoleViewer})
	w.Must(err)
	for _, id := range []string{viewer.Principal.ID, "nothing"} {
		if _, err := w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "bad", ServicePrincipalID: id}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", id, err)
		}
	}
}
