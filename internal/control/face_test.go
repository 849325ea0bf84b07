package control

import (
	"context"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
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
