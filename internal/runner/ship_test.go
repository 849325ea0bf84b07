package runner

import (
	"testing"
	"time"

	"legwork/internal/work"
)

// TestShipperEndsWhenStored asks for the result of a step once more, and the server's acknowledgement of the first
// report comes before the shipper looks. The shipper has nothing to send and ends.
func TestShipperEndsWhenStored(t *testing.T) {
	r := &Runner{life: t.Context(), changed: make(chan struct{}, 1)}
	st := &step{job: &job{}, result: &work.StepResult{Status: work.StepSucceeded}, stored: true}
	st.ship = newShipper(r, st)
	st.ship.repeat()
	done := make(chan struct{})
	go func() {
		r.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("got a shipper that runs on, want it ended: the server has the result")
	}
}

// TestFloodsAreSlowedForFollowers: output is slowed down only where a follower sees it late.
func TestFloodsAreSlowedForFollowers(t *testing.T) {
	watched := shipState{watch: true, command: "main"}
	for _, c := range []struct {
		name  string
		state shipState
		ship  *shipper
		age   time.Duration // of the oldest line that is to be sent
		want  bool
	}{
		{"a line in time", watched, &shipper{}, lateAfter / 2, false},
		{"a late line", watched, &shipper{}, lateAfter, true},
		{"a late line without followers", shipState{command: "main"}, &shipper{}, lateAfter, false},
		{"a late line between two commands", shipState{watch: true}, &shipper{}, lateAfter, false},
		{"asked for a moment ago", watched, &shipper{slowed: time.Now()}, lateAfter, false},
		{"a batch that is not stored", watched, &shipper{inflight: []sentBatch{{at: time.Now().Add(-lateAfter)}}}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.ship.mustSlow(c.state, time.Now().Add(-c.age)); got != c.want {
				t.Errorf("slowed down: got %v, want %v", got, c.want)
			}
		})
	}
}
