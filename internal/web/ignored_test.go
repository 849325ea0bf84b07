package web

import (
	"testing"

	"legwork/internal/control"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

// TestIgnoredFailureIsNoSuccess: a step that failed on all nodes, which go on nevertheless, has no green badge.
func TestIgnoredFailureIsNoSuccess(t *testing.T) {
	for _, c := range []struct {
		counts map[work.NodeStatus]int
		want   mood
	}{
		{map[work.NodeStatus]int{work.NodeIgnored: 1}, nodeMoods[work.NodeIgnored]},
		{map[work.NodeStatus]int{work.NodeIgnored: 1, work.NodeSucceeded: 1}, stepMoods[work.StepSucceeded]},
		{map[work.NodeStatus]int{work.NodeSkipped: 2}, stepMoods[work.StepSkipped]},
	} {
		r := &runDetails{RunView: control.RunView{
			Job:    &work.Job{Status: work.Succeeded, Steps: []work.Step{{Status: work.StepSucceeded}}},
			Plan:   &runbook.Plan{Items: []runbook.Item{{Name: "one"}}},
			Counts: []map[work.NodeStatus]int{c.counts},
		}}
		if got := r.itemMood(0); got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.counts, got, c.want)
		}
	}
}
