//go:build bench

package harness_test

import (
	"strings"
	"testing"
	"time"

	"legwork/internal/harness"
)

// hostedStart measures how long Jobs wait for a hosted Runner of processes: one that has no Instance, and one that has, beside a self-hosted one.
func hostedStart(t *testing.T) {
	s, _ := hosted(t, "{launcher: process, max: 3, one_off: true}")
	a := newAPI(s)
	s.Apply(scripts(1, "cold", ":"))
	a.ended(t, a.submit(t, "b/cold/m0")) // deploys it, too
	var cold []time.Duration
	for range 20 {
		harness.Eventually(t, "no Instance is there", func() bool {
			all := launches(s, "edge-1")
			return count(all, "ended") == len(all)
		})
		j := a.ended(t, a.submit(t, "b/cold/m0"))
		cold = append(cold, j.Steps[0].StartedAt.Sub(j.CreatedAt))
	}
	latency("created -> first Step running, no process yet", cold, 1500, 1500)

	s.Apply(scripts(3, "three", ":"))
	var slowest []time.Duration
	for range 10 {
		harness.Eventually(t, "no Instance is there", func() bool {
			all := launches(s, "edge-1")
			return count(all, "ended") == len(all)
		})
		ids := []string{a.submit(t, "b/three/m0"), a.submit(t, "b/three/m1"), a.submit(t, "b/three/m2")}
		var last time.Duration
		for _, id := range ids {
			j := a.ended(t, id)
			last = max(last, j.Steps[0].StartedAt.Sub(j.CreatedAt))
		}
		slowest = append(slowest, last)
	}
	latency("  three Jobs at once, the slowest of them", slowest, 1500, 1500)

	s.Apply("{kind: Runner, name: warm-1, is_assigned_to_all_modules: true, hosting: {launcher: process, min: 1, jobs_per_instance: 10}}\n---\n" +
		strings.ReplaceAll(scripts(1, "warm", ":"), "edge-1", "warm-1"))
	s.StartRunner("self-1")
	s.Apply(strings.ReplaceAll(scripts(1, "self", ":"), "edge-1", "self-1"))
	a.ended(t, a.submit(t, "b/warm/m0"))
	var warm, self []time.Duration
	for range 50 { // by turns, so that the machine is the same for both
		j := a.ended(t, a.submit(t, "b/warm/m0"))
		warm = append(warm, j.Steps[0].StartedAt.Sub(j.CreatedAt))
		j = a.ended(t, a.submit(t, "b/self/m0"))
		self = append(self, j.Steps[0].StartedAt.Sub(j.CreatedAt))
	}
	latency("created -> first Step running, a warm hosted process", warm, 10, 25)
	latency("  beside it a self-hosted one", self, 10, 25)
}
