package control

import (
	"context"
	"slices"
	"strings"
	"testing"

	"legwork/internal/fault"
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
	host := c.host(launcherName)
	c.mu.Lock()
	c.processes[unit].conn.Close(wire.CloseNormal, "")
	done := len(c.known)
	c.mu.Unlock()
	eventually(t, "the instance has lost its connection", func() bool { return !c.connected(unit) })
	s.setHosting(func(state *store.HostingState) {
		state.TidyDue, state.Hosts = true, append(state.Hosts, c.launchHost(host))
	})
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

// launchHost returns the record of the host of a launcher instance that is connected.
func (c *cloud) launchHost(f *fake) store.LaunchHost {
	return store.LaunchHost{InstanceID: c.s.c.sessions.get(f.welcome.Session).instanceID}
}

// twoHosts deploys a hosted runner whose processes run on the hosts of two launchers.
func twoHosts(t *testing.T) (c *cloud, second *fake) {
	c = newWorld(t).serve(Limits{}).hosted(nil)
	second = c.host("launcher-2")
	c.deploy()
	hosts := []store.LaunchHost{c.launchHost(c.local), c.launchHost(second)}
	c.s.setHosting(func(state *store.HostingState) { state.Hosts = hosts })
	return c, second
}

// disconnect ends the connection of a launcher, and waits until its instance is stored as disconnected.
func (c *cloud) disconnect(f *fake) {
	c.t.Helper()
	id := c.launchHost(f).InstanceID
	f.conn.Close(wire.CloseNormal, "")
	eventually(c.t, f.hello.Instance+" is not connected", func() (away bool) {
		c.s.must(c.s.store.View(context.Background(), func(tx *store.Tx) error {
			i, err := tx.Instance(c.s.org, id)
			away = !i.Connected
			return err
		}))
		return away
	})
}

// reconnect connects a launcher again, after its former connection has ended.
func (c *cloud) reconnect(f *fake) {
	c.t.Helper()
	for range f.in {
	}
	f.online(c.s)
	c.crew.Go(func() { c.serve(f, f.in) })
}

// did reports whether a launcher has performed a step.
func (c *cloud) did(step string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.performed, step)
}

// remove removes the runner, and returns the job at its end.
func (c *cloud) remove(want work.Status) *work.Job {
	c.t.Helper()
	j, err := c.s.c.RemoveRunner(context.Background(), c.s.owner(), "edge")
	c.s.must(err)
	return c.s.until(j.ID, want)
}

func (c *cloud) awaitRemoval() {
	c.t.Helper()
	eventually(c.t, "the runner is gone", func() bool {
		return fault.Is(c.s.store.View(context.Background(), func(tx *store.Tx) error {
			_, err := tx.Runner(c.s.org, c.runner.ID)
			return err
		}), fault.NotFound)
	})
}

// TestRemovalReachesEveryHost takes a runner down on each host on which its processes were started.
func TestRemovalReachesEveryHost(t *testing.T) {
	c, _ := twoHosts(t)
	c.remove(work.Succeeded)
	c.awaitRemoval()
	for _, step := range []string{"launcher teardown", "launcher-2 teardown"} {
		if !c.did(step) {
			t.Errorf("steps: got %v, want %s", c.performed, step)
		}
	}
}

// TestRemovalNamesUnreachableHosts removes a runner while one of its hosts is not connected. The runner must stay until
// that host was reached.
func TestRemovalNamesUnreachableHosts(t *testing.T) {
	c, second := twoHosts(t)
	c.disconnect(second)
	j := c.remove(work.Failed)
	if j.Failure == nil || j.Failure.Code != "teardown_incomplete" || !strings.Contains(j.Failure.Message, "launcher-2") {
		t.Errorf("failure: got %+v, want teardown_incomplete that names launcher-2", j.Failure)
	}
	c.reconnect(second)
	c.remove(work.Succeeded)
	c.awaitRemoval()
	if !c.did("launcher-2 teardown") {
		t.Errorf("steps: got %v, want launcher-2 teardown", c.performed)
	}
}

// TestCleanupReachesEveryHost keeps a cleanup due for a host that is not connected.
func TestCleanupReachesEveryHost(t *testing.T) {
	c, second := twoHosts(t)
	c.disconnect(second)
	c.s.setHosting(func(state *store.HostingState) { state.TidyDue = true })
	c.s.c.hosting.Poke()
	eventually(t, "launcher has cleaned up", func() bool { return c.did("launcher tidy") })
	if c.did("launcher-2 tidy") {
		t.Error("launcher-2: got a cleanup, want none while it is not connected")
	}
	c.reconnect(second)
	eventually(t, "launcher-2 has cleaned up", func() bool { return c.did("launcher-2 tidy") })
}

// TestDeletedHostsAreForgotten: a host whose instance record was deleted does not keep the other hosts from cleaning
// up.
func TestDeletedHostsAreForgotten(t *testing.T) {
	c := newWorld(t).serve(Limits{}).hosted(nil)
	c.deploy()
	done := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.known)
	}
	before := done()
	c.s.setHosting(func(state *store.HostingState) {
		state.TidyDue, state.Hosts = true, []store.LaunchHost{{InstanceID: "deleted"}}
	})
	c.s.c.hosting.Poke()
	eventually(t, "a cleanup was performed", func() bool { return done() > before && len(c.s.runnerJobs(work.Tidy)) == 0 })
	var state store.HostingState
	c.s.must(c.s.store.View(t.Context(), func(tx *store.Tx) (err error) {
		state, err = tx.Hosting(c.s.org, c.runner.ID)
		return err
	}))
	if len(state.Hosts) != 0 {
		t.Errorf("hosts: got %+v, want none", state.Hosts)
	}
}
