package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/work"
)

// TestRunnerAtZero: ended Instances of a hosted Runner are none of its own any more, and having none is no fault where none is wanted.
func TestRunnerAtZero(t *testing.T) {
	ended := []api.Instance{{Name: "pool-1", State: string(work.InstanceOffline)}, {Name: "pool-2", State: string(work.InstanceOffline)}}
	for want, r := range map[string]shownRunner{
		"offline 0/2": {Instances: ended},
		"scaled to zero 0": {RunnerView: api.RunnerView{Runner: catalog.Runner{RunnerSpec: catalog.RunnerSpec{Hosting: &catalog.Hosting{}}}, Status: string(work.StatusScaledToZero), Health: string(work.RunnerHealthy)},
			Instances: ended},
		"offline 0": {RunnerView: api.RunnerView{Runner: catalog.Runner{RunnerSpec: catalog.RunnerSpec{Hosting: &catalog.Hosting{Min: 1}}}}, Instances: ended},
	} {
		if r.Status == "" {
			r.Status, r.Health = string(work.StatusOffline), string(work.RunnerOffline)
		}
		if got := r.state(time.Now()) + " " + r.counted(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		ill := slices.ContainsFunc(runnerDetails(r, time.Now()).rows, func(cells []string) bool { return cells[0] == "health" })
		if ill == strings.HasPrefix(want, "scaled to zero") {
			t.Errorf("%s: its health is shown: %v", want, ill)
		}
	}
}

// TestLostConnectionIsShown distinguishes an instance whose connection was lost a moment ago from one that is connected.
func TestLostConnectionIsShown(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	lost := api.Instance{Name: "a", State: string(work.InstanceOnline), DisconnectedAt: now.Add(-12 * time.Second), LastSeen: now.Add(-20 * time.Second)}
	connected := api.Instance{Name: "b", State: string(work.InstanceOnline), Connected: true, LastSeen: now}
	gone := api.Instance{Name: "c", State: string(work.InstanceOffline), DisconnectedAt: now.Add(-time.Hour)}
	for want, instances := range map[string][]api.Instance{
		"online, connection lost 12s ago": {lost, gone},
		"online":                          {lost, connected},
	} {
		r := shownRunner{RunnerView: api.RunnerView{Status: string(work.StatusOnline)}, Instances: instances}
		if got := r.state(now); got != want {
			t.Errorf("state: got %q, want %q", got, want)
		}
	}
	r := shownRunner{RunnerView: api.RunnerView{Status: string(work.StatusOnline)}, Instances: []api.Instance{lost, connected}}
	rows := runnerDetails(r, now).rows
	if got, want := rows[len(rows)-2][1], "a: online, connection lost 12s ago,"; !strings.HasPrefix(got, want) {
		t.Errorf("instance: got %q, want the prefix %q", got, want)
	}
}
