package nodes

import (
	"context"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

// TestErrorHandlerOfAReference: it sees how the step failed, and a node that it recovers goes on after the reference.
func TestErrorHandlerOfAReference(t *testing.T) {
	for name, c := range map[string]struct {
		recover bool
		want    []work.NodeStatus
	}{
		"recovers": {true, []work.NodeStatus{work.NodeRecovered, work.NodeSkipped, work.NodeSucceeded}},
		"reports":  {false, []work.NodeStatus{work.NodeFailed, work.NodeNotRun, work.NodeNotRun}},
	} {
		t.Run(name, func(t *testing.T) {
			handlers := []runbook.Handler{{OnError: catalog.ErrorHandler{Command: "echo ${step.ref.exit_code} ${option.word}", Recover: c.recover}, Item: "ref", Scope: 0}}
			one, two, after := command("ref/one"), command("ref/two"), command("after")
			one.Handlers, two.Handlers, one.Scope, two.Scope = handlers, handlers, 1, 1
			handled := map[string]string{}
			m := newMemory(func(_ context.Context, _ string, c Command) (Result, error) {
				if c.Env["LEGWORK_STEP"] == "ref" {
					handled = c.Env
				}
				if c.Env["LEGWORK_STEP"] == "ref/one" {
					return Result{Began: true, ExitCode: 5}, nil
				}
				return Result{Began: true}, nil
			})
			f := file(t, 1, one, two, after)
			f.Run.Scopes = []runbook.Scope{{Values: map[string]any{"word": "outer"}}, {Values: map[string]any{"word": "inner"}}}
			d := perform(t, f, m)
			for i, want := range c.want {
				if got := d.status(0, i); got != want {
					t.Errorf("item %d: got %s, want %s", i, got, want)
				}
			}
			if got := handled["STEP_ref_exit_code"] + " " + handled["OPTION_word"]; got != "5 outer" {
				t.Errorf("the handler got %q, want %q", got, "5 outer")
			}
			if log := d.text(work.System); !strings.Contains(log, "on_error of ref runs") {
				t.Errorf("got log %q, want the handler in it", log)
			}
		})
	}
}
