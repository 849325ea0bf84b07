package control

import (
	"context"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/wire"
)

// Connections that do not say hello are read up to a limit for each runner, and hold up no other runner.
func TestConnectionsWithoutHello(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	hostile := s.runner(s.owner(), catalog.RunnerSpec{Name: "hostile", AllowMultipleInstances: true})
	silent := maxRunnerHandshakes + 40
	for range silent {
		conn, err := wire.Dial(t.Context(), wire.DialConfig{URL: s.hub.URL, Token: "-", HTTPClient: s.hub.Client(),
			OrganizationID: hostile.OrganizationID, RunnerID: hostile.ID, Instance: "a"})
		s.must(err)
		t.Cleanup(func() { conn.Close(wire.CloseNormal, "") })
	}
	h := s.c.handshakes
	eventually(t, "all connections are there", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		own := h.byRunner[hostile.ID]
		return own != nil && own.users == silent
	})
	if !h.all.TryAcquire(maxHandshakes - maxRunnerHandshakes) {
		t.Errorf("connections being read: got more than %d of one runner", maxRunnerHandshakes)
	} else {
		h.all.Release(maxHandshakes - maxRunnerHandshakes)
	}
	if h.all.TryAcquire(maxHandshakes - maxRunnerHandshakes + 1) {
		t.Errorf("connections being read: got fewer than %d of one runner", maxRunnerHandshakes)
	}
	s.fake(s.runner(s.owner(), catalog.RunnerSpec{}), "other").online(s)
}

// A connection releases its place when its hello was read or its wait was canceled.
func TestHandshakesGiveBack(t *testing.T) {
	h := newHandshakes()
	var done []func()
	for range maxRunnerHandshakes {
		one, err := h.begin(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, one)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.begin(over, "a"); wire.CodeOf(err) != wire.CloseUnavailable {
		t.Errorf("one more: got %v, want code %v", err, wire.CloseUnavailable)
	}
	for _, end := range done {
		end()
	}
	if len(h.byRunner) != 0 || !h.all.TryAcquire(maxHandshakes) {
		t.Errorf("after all ended: got %d runners with connections, want none and all places free", len(h.byRunner))
	}
	for range maxLargeHellos {
		if _, err := h.admitLarge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.admitLarge(over); wire.CodeOf(err) != wire.CloseUnavailable {
		t.Errorf("one more large hello: got %v, want code %v", err, wire.CloseUnavailable)
	}
}
