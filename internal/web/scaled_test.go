package web

import (
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/store"
	"legwork/internal/work"
)

// TestScaledToZero shows a hosted Runner without a Job as scaled to zero, calm and with 0 instances, wherever it is
// shown.
func TestScaledToZero(t *testing.T) {
	ended := control.InstanceView{Instance: store.Instance{Name: "pool-1"}, State: work.InstanceOffline}
	r := runnerView{RunnerView: control.RunnerView{Runner: catalog.Runner{RunnerSpec: catalog.RunnerSpec{Name: "pool", Hosting: &catalog.Hosting{}}},
		Condition: work.Fleet{AtRest: true}.Condition(time.Now()), Instances: []control.InstanceView{ended}}}
	if got := r.statusMood(); got.word != "Scaled to zero" || got.tone != "calm" {
		t.Errorf("badge: got %+v, want a calm \"Scaled to zero\"", got)
	}
	if got, want := instancesOf(r), "0 instances online"; got != want {
		t.Errorf("instances: got %q, want %q", got, want)
	}
	if got, want := fleetText(r), "An Instance starts when a Job waits."; got != want {
		t.Errorf("fleet: got %q, want %q", got, want)
	}
}
