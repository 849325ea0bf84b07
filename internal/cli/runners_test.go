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
		"at zero 0":   {RunnerView: api.RunnerView{Runner: catalog.Runner{RunnerSpec: catalog.RunnerSpec{Hosting: &catalog.Hosting{}}}}, Instances: ended},
		"offline 0":   {RunnerView: api.RunnerView{Runner: catalog.Runner{RunnerSpec: catalog.RunnerSpec{Hosting: &catalog.Hosting{Min: 1}}}}, Instances: ended},
	} {
		r.Status, r.Health = string(work.StatusOffline), string(work.RunnerOffline)
		if got := r.state() + " " + r.counted(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		ill := slices.ContainsFunc(runnerDetails(r, time.Now()).rows, func(cells []string) bool { return cells[0] == "health" })
		if ill == strings.HasPrefix(want, "at zero") {
			t.Errorf("%s: its health is shown: %v", want, ill)
		}
	}
}
