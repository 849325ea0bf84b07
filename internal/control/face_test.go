package control

import (
	"context"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

func TestOwnRunner(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	mine, other := s.runner(s.owner(), catalog.RunnerSpec{}), s.runner(s.owner(), catalog.RunnerSpec{Name: "other"})
	theirs := s.runner(s.stranger(), catalog.RunnerSpec{})
	actor := s.actorOf(mine, "")
	for name, c := range map[string]struct{ id, code string }{
		"its own":                 {mine.ID, ""},
		"by name":                 {mine.Name, "no_such_runner"},
		"nobody's":                {"nobody", "no_such_runner"},
		"of another organization": {theirs.ID, "no_such_runner"},
		"another's":               {other.ID, "other_runner"},
	} {
		err := s.c.OwnRunner(ctx, actor, RunnerIdentity{OrganizationID: s.org, RunnerID: c.id})
		if (err == nil) != (c.code == "") || (err != nil && fault.Code(err) != c.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.c.OwnRunner(ctx, catalog.Actor{OrganizationID: s.org, Role: catalog.RoleViewer}, RunnerIdentity{RunnerID: mine.ID}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a viewer: %v", err)
	}
}

// actorOf returns who a Runner logs in as, with a Credential for one of its Instances, or for any where instance is empty.
func (s *server) actorOf(r catalog.Runner, instance string) catalog.Actor {
	s.t.Helper()
	c := store.Credential{PrincipalID: r.ServicePrincipalID, Name: "test " + instance, Kind: "secret", Instance: instance,
		Hash: []byte("hash for " + r.ID + instance)}
	s.must(s.store.Update(context.Background(), func(tx *store.Tx) error { return tx.PutCredential(&c) }))
	return catalog.Actor{OrganizationID: r.OrganizationID, ID: r.ServicePrincipalID, Role: catalog.RoleRunner, CredentialID: c.ID}
}

// TestCredentialOfOneInstance covers a credential that was made for one instance: it opens no other one, registered or not.
func TestCredentialOfOneInstance(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	bound, free := s.actorOf(r, "inst-a"), s.actorOf(r, "")
	for _, c := range []struct {
		name     string
		actor    catalog.Actor
		instance string
		want     string
	}{
		{"its own instance", bound, "inst-a", ""},
		{"another instance", bound, "inst-b", "other_instance"},
		{"an instance that was never registered", bound, "never-registered", "other_instance"},
		{"a credential of the whole runner", free, "inst-b", ""},
	} {
		err := s.c.OwnRunner(t.Context(), c.actor, RunnerIdentity{OrganizationID: s.org, RunnerID: r.ID, Instance: c.instance})
		if got := fault.Code(err); got != c.want {
			t.Errorf("%s: got %q (%v), want %q", c.name, got, err, c.want)
		}
	}
}

// TestCredentialEndsWithItsLaunch: whoever copied the credential of a hosted instance has nothing after its launch, however
// often it is used. While a Job is bound to the instance, its process may come back with the result.
func TestCredentialEndsWithItsLaunch(t *testing.T) {
	w := newWorld(t)
	s := &server{world: w, c: w.still()}
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true, Lifetime: catalog.Ephemeral,
		Hosting: &catalog.Hosting{Launcher: catalog.LaunchProcess}})
	actor := s.actorOf(r, "edge-1")
	at := RunnerIdentity{OrganizationID: s.org, RunnerID: r.ID, Instance: "edge-1"}
	l := store.Launch{OrganizationID: s.org, RunnerID: r.ID, Name: "edge-1", State: store.LaunchOnline}
	s.must(s.store.Update(t.Context(), func(tx *store.Tx) error { return tx.InsertLaunch(&l) }))
	s.must(s.c.OwnRunner(t.Context(), actor, at))
	s.must(s.store.Update(t.Context(), func(tx *store.Tx) error { // the thief uses it all the time
		if err := tx.TouchCredential(actor.CredentialID, tx.Now()); err != nil {
			return err
		}
		l.State = store.LaunchEnded
		return tx.SaveLaunch(l)
	}))
	if got := fault.Code(s.c.OwnRunner(t.Context(), actor, at)); got != "credential_gone" {
		t.Errorf("after the launch: got %q, want credential_gone", got)
	}
}

// TestNameOfTheServersRunnerIsReserved: launcher jobs go to the runner of that name, with cloud secrets and bootstrap tokens.
func TestNameOfTheServersRunnerIsReserved(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx, spec := t.Context(), catalog.RunnerSpec{Name: catalog.LocalRunner}
	by := catalog.Registrar{OrganizationID: s.org, ID: "a token", Name: "a token", AnyLabels: true}
	want := func(what string, err error) {
		t.Helper()
		if got := fault.Code(err); got != "runner_name_reserved" {
			t.Errorf("%s: got %q (%v), want runner_name_reserved", what, got, err)
		}
	}
	_, err := s.c.RegisterRunner(ctx, by, catalog.Registration{Name: catalog.LocalRunner}, Proof{})
	want("registration", err)
	_, err = s.c.CreateRunner(ctx, s.owner(), spec)
	want("create", err)
	edge := s.runner(s.owner(), catalog.RunnerSpec{})
	_, err = s.c.UpdateRunner(ctx, s.owner(), edge.ID, spec)
	want("rename", err)
	m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: []byte("kind: Runner\nname: local\n")}})
	s.must(err)
	_, err = s.c.ApplyManifest(ctx, s.owner(), m, false)
	want("manifest", err)

	local := s.runner(s.owner(), spec)
	if !local.ServerOwned {
		t.Error("the server's own record is not marked")
	}
	_, err = s.c.UpdateRunner(ctx, s.owner(), local.ID, catalog.RunnerSpec{Name: "other"})
	want("rename of the server's own", err)
}

// TestLauncherJobsGoToTheServersRunnerOnly: a record that took the name before it was reserved is given no launcher job.
func TestLauncherJobsGoToTheServersRunnerOnly(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	taken := s.runner(s.owner(), catalog.RunnerSpec{Name: "taken"})
	taken.Name = catalog.LocalRunner
	s.must(s.store.Update(t.Context(), func(tx *store.Tx) error { return tx.PutRunner(&taken) }))
	s.c.queue.Stale(s.org)
	f := s.fake(taken, "a")
	f.hello.Engines = map[string]string{string(launcher.Name): "1"}
	f.online(s)
	s.runner(s.owner(), catalog.RunnerSpec{Name: "edge", AllowMultipleInstances: true, Lifetime: catalog.Ephemeral,
		Hosting: &catalog.Hosting{Launcher: catalog.LaunchProcess}})
	s.setHosting(func(state *store.HostingState) { state.TidyDue = true })
	s.c.hosting.Poke()
	eventually(t, "a launcher job waits", func() bool {
		var open []*work.Job
		s.must(s.store.View(t.Context(), func(tx *store.Tx) (err error) {
			open, err = tx.OpenTasks(s.org)
			return err
		}))
		return len(open) > 0 && open[0].Wait.Code == work.WaitNoAssignment
	})
	for _, m := range drained(f) {
		if o, ok := m.(*wire.Offer); ok {
			t.Errorf("it was offered job %s", o.Job)
		}
	}
}

// TestForeignLocalRunner covers a record that took the reserved name before: owners read it in the audit log and at the
// runner.
func TestForeignLocalRunner(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	taken := s.runner(s.owner(), catalog.RunnerSpec{Name: "taken"})
	taken.Name = catalog.LocalRunner
	s.must(s.store.Update(t.Context(), func(tx *store.Tx) error { return tx.PutRunner(&taken) }))
	by := catalog.Registrar{OrganizationID: s.org, ID: catalog.ServerRegistrar, AnyLabels: true}
	broken, cancel := context.WithCancel(t.Context())
	cancel()
	refused := fault.New(fault.Conflict, "runner_exists", "")
	s.c.noteForeignLocal(broken, catalog.Actor{}, by, refused) // must not count: the database did not store it
	for range 2 {
		_, err := s.c.RegisterRunner(t.Context(), by, catalog.Registration{Name: catalog.LocalRunner}, Proof{})
		if got := fault.Code(err); got != "runner_exists" {
			t.Errorf("registration: got %q (%v), want runner_exists", got, err)
		}
	}
	if got := len(s.events("runner.name_taken")); got != 1 {
		t.Errorf("events: got %d, want 1", got)
	}
	warnings := s.view(catalog.LocalRunner).Warnings
	if len(warnings) != 1 || !strings.Contains(warnings[0], "reserved") {
		t.Errorf("warnings of the runner: got %q, want one about the reserved name", warnings)
	}
}

func TestWhatFacesAsk(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	s.must(s.c.Ping(ctx))
	if last, err := s.c.LastEvent(ctx, s.stranger()); err != nil || last != 0 {
		t.Fatalf("last event %d, %v", last, err)
	}
	s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 2)
	if last, err := s.c.LastEvent(ctx, s.owner()); err != nil || last == 0 {
		t.Fatalf("last event %d, %v", last, err)
	}
	if o, err := s.c.Organization(ctx, s.owner()); err != nil || o.ID != s.org || o.Name != "default" {
		t.Fatalf("organization %+v, %v", o, err)
	}
	gone := s.owner()
	gone.OrganizationID = "gone"
	if _, err := s.c.Organization(ctx, gone); fault.Code(err) != "organization_not_found" {
		t.Fatalf("%v", err)
	}
}

func TestOpenJobsAreCountedSeldom(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 3)
	s.submit("prod/net/m0", work.Run)
	over, err := s.c.CancelJob(context.Background(), s.owner(), s.submit("prod/net/m1", work.Run).ID, "", "")
	s.must(err)
	got := s.c.Stats().Jobs
	s.c.census.at = time.Now().Add(time.Hour) // however long the test takes
	if got[work.Queued] != 1 || got[over.Status] != 0 || len(got) != 6 {
		t.Fatalf("counted %v", got)
	}
	s.submit("prod/net/m2", work.Run)
	if got := s.c.Stats().Jobs[work.Queued]; got != 1 {
		t.Fatalf("counted anew at once: %d", got)
	}
	s.c.census.at = time.Now().Add(-countEvery)
	if got := s.c.Stats().Jobs[work.Queued]; got != 2 {
		t.Fatalf("not counted anew: %d", got)
	}
}
