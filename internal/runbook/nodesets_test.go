package runbook_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/node"
	"legwork/internal/runbook"
)

// TestReferenceWithNodesOfItsOwn compiles a runbook on web nodes that refers to another one on a node of an option.
func TestReferenceWithNodesOfItsOwn(t *testing.T) {
	command := func(name string) catalog.RunbookStep { return catalog.RunbookStep{Name: name, Command: "true"} }
	spec := catalog.RunbookSpec{
		Stack: "s", Name: "outer", Nodes: "tags: web", Options: []catalog.Option{{Name: "db"}},
		Steps: []catalog.RunbookStep{
			command("stop"), {Name: "migrate", Runbook: &catalog.RunbookRef{Name: "inner", Nodes: "name: ${option.db}"}}, command("start"),
		},
	}
	all := []node.Node{{Name: "db-1"}, {Name: "web-1", Tags: []string{"web"}}, {Name: "web-2", Tags: []string{"web"}}}
	every, err := node.ParseFilter("*")
	if err != nil {
		t.Fatal(err)
	}
	input := func(db string, partial bool, nodes ...node.Node) runbook.Input {
		return runbook.Input{
			Spec: spec, Nodes: nodes, Partial: partial, Options: runbook.Values{Plain: map[string]any{"db": db}},
			Runners: []runbook.Candidate{{RunnerID: "r", Runner: "r", Filter: every}},
			Match: func(f node.Filter) (chosen []node.Node) {
				for _, n := range all {
					if f.Match(n) {
						chosen = append(chosen, n)
					}
				}
				return chosen
			},
			Lookup: func(string) (catalog.RunbookSpec, error) {
				return catalog.RunbookSpec{Stack: "s", Name: "inner", Steps: []catalog.RunbookStep{command("a"), command("b")}}, nil
			},
		}
	}
	describe := func(p *runbook.Plan) string {
		var text []string
		for i, r := range p.Rounds {
			var names []string
			nodes, _ := p.RoundNodes(i, 0)
			for _, n := range nodes {
				names = append(names, p.Nodes[n].Name)
			}
			text = append(text, fmt.Sprintf("%s-%s: %s", p.Items[r.First].Name, p.Items[r.End-1].Name, strings.Join(names, " ")))
		}
		return strings.Join(text, "; ")
	}

	p, err := runbook.Compile(input("db-1", false, all[1:]...))
	if err != nil {
		t.Fatal(err)
	}
	want := "stop-stop: web-1 web-2; migrate/a-migrate/b: db-1; start-start: web-1 web-2"
	if got := describe(p); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := p.NodesOf(p.Items[1]); got != 1 {
		t.Errorf("the reference is about %d nodes, want 1", got)
	}
	var outcomes []runbook.Outcome
	for item, nodes := range [][]int{{1, 2}, {0}, {0}, {1, 2}} {
		for _, n := range nodes {
			outcomes = append(outcomes, runbook.Outcome{Part: 1, Node: n, Item: item, Status: "succeeded"})
		}
	}
	if got := p.Failed(outcomes); len(got) != 0 {
		t.Errorf("a retry takes %v, want no node", got)
	}
	if got := p.Failed(outcomes[:3]); len(got) != 3 {
		t.Errorf("a retry takes %v, want all nodes", got)
	}

	if _, err := runbook.Compile(input("db-.*", false, all[1:]...)); fault.Code(err) != "no_nodes" {
		t.Errorf("a pattern as a value: got %v, want no_nodes", err)
	}
	p, err = runbook.Compile(input("db-1", true)) // a retry on the node of the reference alone
	if err != nil {
		t.Fatal(err)
	}
	if got, want := describe(p), "stop-stop: ; migrate/a-migrate/b: db-1; start-start: "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestHandlersOfReferences: items know the error handlers around them, innermost first, and the secrets that
// those name.
func TestHandlersOfReferences(t *testing.T) {
	ref := func(name, handler string) catalog.RunbookStep {
		return catalog.RunbookStep{Name: name, Runbook: &catalog.RunbookRef{Name: name},
			OnError: &catalog.ErrorHandler{Command: handler}}
	}
	books := map[string]catalog.RunbookSpec{
		"middle": {Stack: "s", Name: "middle", Steps: []catalog.RunbookStep{ref("inner",
			"echo ${step.inner.exit_code}")}},
		"inner": {Stack: "s", Name: "inner", Steps: []catalog.RunbookStep{{Name: "one", Command: "true"}}},
	}
	spec := catalog.RunbookSpec{Stack: "s", Name: "outer", Nodes: "*", AllowNoNodes: true,
		Steps: []catalog.RunbookStep{
			ref("middle", "echo ${secret.token}"), {Name: "after", Command: "true"},
		}}
	if problems := runbook.Problems(spec); len(problems) > 0 {
		t.Fatal(problems)
	}
	p, err := runbook.Compile(runbook.Input{Spec: spec, Options: runbook.Values{Plain: map[string]any{}},
		Lookup: func(name string) (catalog.RunbookSpec, error) { return books[name], nil }})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range p.Items[0].Handlers {
		got = append(got, h.Item)
	}
	if want := []string{"middle/inner", "middle"}; !slices.Equal(got, want) {
		t.Errorf("got handlers %q, want %q", got, want)
	}
	if len(p.Items[1].Handlers) != 0 {
		t.Errorf("got %+v, want no handlers behind the reference", p.Items[1].Handlers)
	}
	if want := []string{"token"}; !slices.Equal(p.Secrets, want) {
		t.Errorf("got secrets %q, want %q", p.Secrets, want)
	}
}
