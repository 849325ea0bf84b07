package wire

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
)

// The first frame of a session is bounded: a large one needs permission, and a larger one ends the session. Later
// frames are not.
func TestFirstFrame(t *testing.T) {
	batch := func(size int) *LogBatch {
		m := &LogBatch{Ref: Ref{Job: "j", Attempt: 1}, First: 1, Count: 1, Records: make([]byte, size)}
		_, _ = rand.Read(m.Records) // never fails
		return m
	}
	refused := errors.New("refused")
	for _, c := range []struct {
		name  string
		size  int
		admit error
		asked int
		code  CloseCode
		err   error
	}{
		{name: "small", size: smallHello / 2},
		{name: "large", size: 2 * smallHello, asked: 1},
		{name: "large and refused", size: 2 * smallHello, admit: refused, asked: 1, err: refused},
		{name: "too large", size: MaxHello + 1, asked: 1, code: CloseTooBig},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, server := pair(t, defaultTuning())
			if err := client.Send(batch(c.size)); err != nil {
				t.Fatal(err)
			}
			asked, released := 0, 0
			_, err := server.ReceiveHello(t.Context(), func(context.Context) (func(), error) {
				asked++
				return func() { released++ }, c.admit
			})
			if asked != c.asked {
				t.Errorf("permission: got asked %d times, want %d", asked, c.asked)
			}
			if want := c.asked; c.admit == nil && released != want {
				t.Errorf("release: got %d calls, want %d", released, want)
			}
			if c.code != 0 && CodeOf(err) != c.code {
				t.Errorf("error: got %v, want code %v", err, c.code)
			}
			if c.err != nil && err == nil {
				t.Errorf("error: got none, want one because of %v", c.err)
			}
			if c.code != 0 || c.err != nil {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Send(batch(3 << 20)); err != nil {
				t.Fatal(err)
			}
			if _, err := server.Receive(t.Context()); err != nil {
				t.Errorf("a later frame: got %v, want it read", err)
			}
		})
	}
}
