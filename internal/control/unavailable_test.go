package control

import (
	"fmt"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// TestUnavailableHostedInstance runs a job on another instance when the first one of a hosted runner takes no jobs.
func TestUnavailableHostedInstance(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(nil)
	s.scripts(s.owner(), 1)
	c.deploy()
	c.mu.Lock()
	first := c.processes[c.launched[0]]
	c.mu.Unlock()
	first.send(&wire.Heartbeat{Unavailable: "the disk is full"})
	eventually(t, "the instance is unavailable", func() bool {
		views, err := s.c.Instances(t.Context(), s.owner(), "edge")
		s.must(err)
		return len(views) == 1 && views[0].UnavailableReason != ""
	})
	j := s.submit("prod/net/m0", work.Run)
	s.until(j.ID, work.Succeeded)
	if got := len(c.made()); got != 2 {
		t.Errorf("processes: got %d, want 2", got)
	}
}

// TestManyReasonsOfUnavailability sends heartbeats that each have another reason. They must not become one event each.
func TestManyReasonsOfUnavailability(t *testing.T) {
	const heartbeats = 200
	s := newWorld(t).serve(Limits{})
	f := s.fake(s.runner(s.owner(), catalog.RunnerSpec{Name: "edge"}), "a").online(s)
	for n := range heartbeats {
		f.send(&wire.Heartbeat{Unavailable: fmt.Sprintf("%d bytes are free", n)})
	}
	last := fmt.Sprintf("%d bytes are free", heartbeats-1)
	known := s.c.sessions.get(f.welcome.Session).known
	eventually(t, "the server has read the heartbeats", func() bool { return known.State().Unavailable == last })
	s.stop() // waits for the writes
	if got := len(s.events("runner.unavailable")); got == 0 || got > 4 {
		t.Errorf("events after %d heartbeats: got %d, want 1 to 4", heartbeats, got)
	}
}
