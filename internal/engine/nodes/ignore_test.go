package nodes

import (
	"context"
	"strings"
	"testing"

	"legwork/internal/work"
)

// TestIgnoreErrors has a step fail on a node: the failure is shown, and the node goes on.
func TestIgnoreErrors(t *testing.T) {
	one, two := command("one"), command("two")
	one.Step.IgnoreErrors = true
	two.Step.When = `step.one.status != "succeeded"`
	m := newMemory(func(_ context.Context, at string, c Command) (Result, error) {
		if at == "web-1" && c.Env["LEGWORK_STEP"] == "one" {
			return Result{Began: true, ExitCode: 3}, nil
		}
		return Result{Began: true}, nil
	})
	d := perform(t, file(t, 2, one, two), m)
	if len(d.Bad) != 0 || d.Succeeded != 2 {
		t.Errorf("got %+v, want 2 nodes that succeeded", d.RoundResult)
	}
	for key, want := range map[pairKey]work.NodeStatus{
		{0, 0}: work.NodeSucceeded, {0, 1}: work.NodeSkipped, {1, 0}: work.NodeIgnored, {1, 1}: work.NodeSucceeded,
	} {
		if got := d.status(key.node, key.item); got != want {
			t.Errorf("node %d, step %d: got %s, want %s", key.node, key.item, got, want)
		}
	}
	events := d.events[pairKey{1, 0}]
	if e := events[len(events)-1]; e.ExitCode != 3 || e.Failure == nil {
		t.Errorf("got %+v, want the failure", e)
	}
	if got := d.text(work.System); !strings.Contains(got, "web-1: one: failed with exit status 3") {
		t.Errorf("the log says %q", got)
	}
}
