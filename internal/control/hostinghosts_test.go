package control

import (
	"context"
	"testing"

	"legwork/internal/launcher"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// host adds a launcher instance on a host of its own, on which none of the processes runs.
func (c *cloud) host(name string) *fake {
	c.t.Helper()
	f := c.s.fake(c.local.runner, name)
	f.hello.Key = "key of " + name + " on another host"
	f.hello.Engines = map[string]string{string(launcher.Name): "1"}
	f.online(c.s)
	c.crew.Go(func() { c.serve(f, f.in) })
	c.s.t.Cleanup(func() { f.conn.Close(wire.CloseNormal, "") })
	return f
}

// connected reports whether an instance has a session.
func (c *cloud) connected(name string) (connected bool) {
	c.t.Helper()
	c.s.must(c.s.store.View(context.Background(), func(tx *store.Tx) error {
		i, err := tx.InstanceByName(c.s.org, c.runner.ID, name)
		connected = i.Connected
		return err
	}))
	return connected
}

// TestCleanupOnAnotherHost loses the connections of a launcher and of an instance that it started. A cleanup on
// another host does not find the process, whether its launcher has another name or the same one. The job must not start
// again while the process may still run.
func TestCleanupOnAnotherHost(t *testing.T) {
	for name, launcherName := range map[string]string{"another name": "launcher-2", "the same name": "launcher"} {
		t.Run(name, func(t *testing.T) { testCleanupOnAnotherHost(t, launcherName) })
	}
}

func testCleanupOnAnotherHost(t *testing.T, launcherName string) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(nil)
	s.scripts(s.owner(), 1)
	c.deploy()
	unit := c.made()[0]
	hold := make(chan struct{})
	c.mu.Lock()
	c.hold = hold
	c.mu.Unlock()
	j := s.submit("prod/net/m0", work.Run)
	eventually(t, "the instance has the job", func() bool { return s.job(j.ID).HasLease() })
	c.local.cut()
	c.host(launcherName)
	c.mu.Lock()
	c.processes[unit].conn.Close(wire.CloseNormal, "")
	done := len(c.known)
	c.mu.Unlock()
	eventually(t, "the instance has lost its connection", func() bool { return !c.connected(unit) })
	s.setHosting(func(state *store.HostingState) { state.TidyDue = true })
	s.c.hosting.Poke()
	eventually(t, "the other host has looked for orphans", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.known) > done && len(s.runnerJobs(work.Tidy)) == 0
	})
	s.c.hosting.Look(context.Background())
	all, err := s.c.Launches(t.Context(), s.owner(), "edge")
	s.must(err)
	if len(all) != 1 || all[0].Stopped || all[0].State != store.LaunchOnline {
		t.Errorf("launch history: got %+v, want %s online", all, unit)
	}
	if got := s.job(j.ID); got.Attempt != 1 || len(got.Losses) > 0 {
		t.Errorf("the job: got attempt %d, %s, losses %v, want attempt 1", got.Attempt, got.Status, got.Losses)
	}
}
