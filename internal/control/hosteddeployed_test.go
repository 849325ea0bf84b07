package control

import (
	"context"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// TestDeployedStaysFindable: a deployed Runner is neither deleted, nor made self-hosted, nor moved, before it is taken down: nobody would know of
// what was made for it.
func TestDeployedStaysFindable(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(nil)
	c.deploy()
	c.empty() // no Instance is there
	ctx := context.Background()
	r, err := s.c.Runner(ctx, s.owner(), "edge")
	s.must(err)
	change := func(hosting *catalog.Hosting) string {
		spec := r.RunnerSpec
		spec.Hosting = hosting
		_, err := s.c.UpdateRunner(ctx, s.owner(), "edge", spec)
		return fault.Code(err)
	}
	other := *r.Hosting
	other.Launcher = catalog.LaunchDocker
	if code := change(&other); code != "runner_deployed" {
		t.Errorf("moved: %q", code)
	}
	if code := change(nil); code != "runner_deployed" {
		t.Errorf("made self-hosted: %q", code)
	}
	if code := fault.Code(s.c.DeleteRunner(ctx, s.owner(), "edge")); code != "runner_deployed" {
		t.Errorf("deleted: %q", code)
	}
	idle := *r.Hosting
	idle.Idle = catalog.Duration(time.Minute)
	if code := change(&idle); code != "" {
		t.Errorf("another idle time: %q", code)
	}
	s.must(s.store.Update(ctx, func(tx *store.Tx) error { // as a removal that failed leaves it
		state, err := tx.Hosting(r.OrganizationID, r.ID)
		s.must(err)
		state.DeployedAt, state.Torn = time.Time{}, true
		return tx.PutHosting(r.OrganizationID, r.ID, state)
	}))
	s.must(s.c.DeleteRunner(ctx, s.owner(), "edge"))
}
