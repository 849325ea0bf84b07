package harness

import (
	"fmt"
	"strings"
	"testing"
)

// TestOneOffRunnersTakeOneJobEach gives a queue of Jobs to processes that take one each.
func TestOneOffRunnersTakeOneJobEach(t *testing.T) {
	const jobs, processes = 20, 4
	s := StartServer(t)
	first := s.NewRunner("edge", func(m map[string]any) { m["Runner"].(map[string]any)["one_off"] = true })
	var b strings.Builder
	b.WriteString("{kind: Runner, name: edge, is_assigned_to_all_modules: true, allow_multiple_instances: true, lifetime: ephemeral}\n---\n" +
		"{kind: Stack, name: prod}\n---\n{kind: Namespace, stack: prod, name: net, defaults: {engine: script, runner: edge}}\n")
	for n := range jobs {
		fmt.Fprintf(&b, "---\n{kind: Module, stack: prod, namespace: net, name: m%d, script: {run: 'echo done; sleep 0.2', repeatable: true}}\n", n)
	}
	s.Apply(b.String())
	for n := range jobs {
		s.Submit("run", fmt.Sprintf("prod/net/m%d", n))
	}
	all := []*Runner{first}
	for n := 1; n < processes; n++ {
		all = append(all, first.Twin(fmt.Sprintf("edge-%d", n), s.URL))
	}
	for _, r := range all {
		r.Start()
	}
	for _, r := range all {
		if status := r.Wait(); status != 0 {
			t.Errorf("%s ended with %d", r.Config, status)
		}
		if n := strings.Count(r.Output(), "Job taken"); n != 1 {
			t.Errorf("a process took %d Jobs", n)
		}
	}
	var done []struct{ Number int }
	s.JSON(&done, "job", "list", "--status", "succeeded")
	if len(done) != processes {
		t.Errorf("%d Jobs succeeded", len(done))
	}
}
