package runner

import (
	"testing"
	"time"

	"legwork/internal/work"
)

// TestShipperEndsWhenStored asks for the result of a step once more, and the server's acknowledgement of the first report comes
// before the shipper looks. The shipper has nothing to send and ends.
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
