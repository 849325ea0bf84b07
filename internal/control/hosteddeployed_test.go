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

// TestDeleteCancelsItsTasks: a Job about a Runner that was deleted waits for no launcher any more.
func TestDeleteCancelsItsTasks(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	s.runner(s.owner(), catalog.RunnerSpec{Name: catalog.LocalRunner})
	s.runner(s.owner(), catalog.RunnerSpec{Name: "edge", AllowMultipleInstances: true, Lifetime: catalog.Ephemeral, Hosting: &catalog.Hosting{Launcher: catalog.LaunchProcess}})
	s.setHosting(func(state *store.HostingState) { state.TidyDue = true })
	s.c.hosting.Poke()
	tidies := func() (all []*work.Job) {
		s.must(s.store.View(ctx, func(tx *store.Tx) (err error) {
			all, err = tx.OpenTasks(s.org)
			return err
		}))
		return all
	}
	eventually(t, "a tidy is queued, for which there is no launcher", func() bool { return len(tidies()) == 1 })
	j := tidies()[0]
	s.must(s.c.DeleteRunner(ctx, s.owner(), "edge"))
	if now := s.job(j.ID); now.Status != work.Canceled || now.Cancel == nil || now.Cancel.By != s.owner().Name {
		t.Errorf("the tidy is %s: %+v", now.Status, now.Cancel)
	}
}
