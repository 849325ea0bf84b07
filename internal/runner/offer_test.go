package runner

import (
	"testing"
	"time"

	"legwork/internal/launcher"
	"legwork/internal/wire"
)

// TestOffersWithoutAPlace holds that an accepted Offer of a launcher is waited for before an update, takes no place, and that there is an end
// of them.
func TestOffersWithoutAPlace(t *testing.T) {
	r := New(Config{Capacity: 1})
	defer r.leave()
	offer := func(n int) wire.Message {
		return r.answer(&wire.Offer{Ref: ref("launch", n), Engine: string(launcher.Name)})
	}
	for n := range launchesMost {
		if _, ok := offer(n).(*wire.Accept); !ok {
			t.Fatalf("offer %d is refused", n)
		}
	}
	if m, ok := offer(launchesMost).(*wire.Refuse); !ok || m.Code != refusedBusy {
		t.Errorf("one too many is answered with %+v", m)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	free := r.free(time.Now())
	if _, waited := r.taken(time.Now()); free != 1 || waited != launchesMost || len(r.reserved) != launchesMost {
		t.Errorf("%d places are free, %d Offers are waited for, %d are known", free, waited, len(r.reserved))
	}
	if _, n := r.taken(time.Now().Add(2 * reserveFor)); n != 0 || len(r.reserved) != 0 {
		t.Errorf("after a while %d are on their way, %d are known", n, len(r.reserved))
	}
}
