package runner

import (
	"path/filepath"
	"testing"

	"legwork/internal/wire"
)

// TestOneOffTakesOneJob offers and gives a second Job to a Runner that takes one.
func TestOneOffTakesOneJob(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	cfg.OneOff, cfg.Capacity = true, 5
	r := start(t, cfg)
	one, lost, second := ref("one", 1), ref("lost", 1), ref("second", 1)
	s.send(&wire.Offer{Ref: lost, Engine: "script"})
	s.wait("it accepts", func() bool { return tallied[*wire.Accept](s) == 1 })
	s.send(&wire.Offer{Ref: second, Engine: "script"})
	s.wait("not two at a time", func() bool { return tallied[*wire.Refuse](s) == 1 })
	s.send(&wire.Withdrawn{Ref: lost})
	gate := filepath.Join(t.TempDir(), "gate")
	s.begin(one, scriptSpec("echo ready; "+until(gate), false), 1)
	s.sees(one, 1, "ready")
	s.wait("it drains", func() bool { return tallied[*wire.Draining](s) == 1 })
	s.send(&wire.Offer{Ref: second, Engine: "script"})
	s.send(&wire.RunStep{Ref: second, Step: 0, Spec: scriptSpec("echo no", false)})
	s.wait("it refuses both", func() bool { return tallied[*wire.Refuse](s) == 3 })
	touch(t, gate)
	s.result(one, 1)
	s.send(&wire.Drop{Ref: one})
	if err := <-r.done; err != nil {
		t.Fatal(err)
	}
	r.done <- nil
}

// tallied is count for who holds the lock.
func tallied[M wire.Message](s *fakeServer) (n int) {
	for _, m := range s.got {
		if _, ok := m.(M); ok {
			n++
		}
	}
	return n
}
