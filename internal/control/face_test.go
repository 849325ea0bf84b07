package control

import (
	"context"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

func TestOwnRunner(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	mine, other := s.runner(s.owner(), catalog.RunnerSpec{}), s.runner(s.owner(), catalog.RunnerSpec{Name: "other"})
	theirs := s.runner(s.stranger(), catalog.RunnerSpec{})
	actor := catalog.Actor{OrganizationID: s.org, ID: mine.ServicePrincipalID, Role: catalog.RoleRunner}
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
