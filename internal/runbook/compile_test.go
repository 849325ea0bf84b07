package runbook_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/node"
	"legwork/internal/runbook"
)

func filter(t interface{ Fatal(...any) }, text string) node.Filter {
	f, err := node.ParseFilter(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func nodes(n int) []node.Node {
	list := make([]node.Node, n)
	for i := range list {
		list[i] = node.Node{Name: fmt.Sprintf("n-%d", i), Tags: []string{[]string{"a", "b", "c"}[i%3]}}
	}
	return list
}

// over makes a Runbook of commands over Nodes.
func over(steps ...catalog.RunbookStep) catalog.RunbookSpec {
	return catalog.RunbookSpec{Stack: "prod", Name: "deploy", Nodes: "name: .*", Steps: steps}
}

func cmd(name string) catalog.RunbookStep { return catalog.RunbookStep{Name: name, Command: "true"} }

func runners(t interface{ Fatal(...any) }) []runbook.Candidate {
	return []runbook.Candidate{
		{RunnerID: "3", Runner: "late", Priority: 5, Filter: filter(t, "name: .*")},
		{RunnerID: "2", Runner: "west", Filter: filter(t, "tags: b,c")},
		{RunnerID: "1", Runner: "east", Filter: filter(t, "tags: a,b")},
	}
}

func compile(t *testing.T, in runbook.Input) *runbook.Plan {
	t.Helper()
	p, err := runbook.Compile(in)
	if err != nil {
		t.Fatal(err, fault.Of(err).Details)
	}
	return p
}

func refused(t *testing.T, in runbook.Input, code string) *fault.Fault {
	t.Helper()
	_, err := runbook.Compile(in)
	if fault.Code(err) != code {
		t.Fatalf("%v (%s), want %s", err, fault.Code(err), code)
	}
	return fault.Of(err)
}

func TestNodesChooseRunners(t *testing.T) {
	p := compile(t, runbook.Input{Spec: over(cmd("a")), Nodes: nodes(6), Runners: runners(t)})
	if want := []runbook.Part{{RunnerID: "1", Runner: "east", Nodes: []int{0, 1, 3, 4}}, {RunnerID: "2", Runner: "west", Nodes: []int{2, 5}}}; !reflect.DeepEqual(p.Parts, want) {
		t.Fatalf("%+v", p.Parts)
	}
	if p.Concurrency != 10 || p.Strategy != catalog.NodeFirst || p.OnFailure != catalog.StopOnFailure || len(p.Rounds) != 1 || len(p.Batches) != 1 {
		t.Fatalf("%+v", p)
	}
	in := runbook.Input{Spec: over(cmd("a")), Nodes: nodes(30), Runners: runners(t)[2:]}
	if f := refused(t, in, "nodes_uncovered"); !strings.Contains(f.Message, "10 Nodes") || !strings.Contains(f.Message, "n-2, n-5") {
		t.Fatal(f)
	}
	in.Local, in.UncoveredLocal = &runbook.Candidate{RunnerID: "L", Runner: "local"}, true
	if p := compile(t, in); len(p.Parts) != 2 || p.Parts[1].RunnerID != "L" || len(p.Parts[1].Nodes) != 10 {
		t.Fatalf("%+v", p.Parts)
	}
}

func TestOwnHostsArePinned(t *testing.T) {
	list := append(nodes(3), node.Node{Name: "h1", Connection: node.Local}, node.Node{Name: "h2", Connection: node.Local})
	east := runbook.Candidate{RunnerID: "1", Runner: "east", Filter: filter(t, "name: n-.*"), Hosts: map[string]string{"h1": "i2", "h2": "i1"}}
	in := runbook.Input{Spec: over(cmd("a")), Nodes: list, Runners: []runbook.Candidate{east}}
	p := compile(t, in)
	// h1, h2, n-0, n-1, n-2
	if want := []runbook.Part{{RunnerID: "1", Runner: "east", Instance: "i1", Nodes: []int{1, 2, 3, 4}}, {RunnerID: "1", Runner: "east", Instance: "i2", Nodes: []int{0}}}; !reflect.DeepEqual(p.Parts, want) {
		t.Fatalf("%+v", p.Parts)
	}
	in.Runners = append(in.Runners, runbook.Candidate{RunnerID: "2", Runner: "west"})
	in.Spec.Dispatch = catalog.Dispatch{Mode: catalog.ManualDispatch, Runner: "west"}
	if f := refused(t, in, "nodes_uncovered"); !strings.Contains(f.Message, "h1 (runner east)") {
		t.Errorf("got %q, want the runner of h1", f.Message)
	}
	in.Runners[0].Hosts = nil
	in.Spec.Dispatch = catalog.Dispatch{}
	if f := refused(t, in, "nodes_uncovered"); !strings.Contains(f.Hint, "legwork runner update RUNNER --node-filter") {
		t.Errorf("got hint %q, want the command that sets a node filter", f.Hint)
	}
}

func TestLocalNodeThatIsNoInstanceRunsWhereItIsCovered(t *testing.T) {
	local := []node.Node{{Name: "localhost", Connection: node.Local}}
	west := runbook.Candidate{RunnerID: "2", Runner: "west", Filter: filter(t, "*"), Priority: 2, Hosts: map[string]string{"w1": "w1"}}
	east := runbook.Candidate{RunnerID: "1", Runner: "east", Filter: filter(t, "*"), Priority: 1}
	on := func(runner runbook.Candidate) []runbook.Part {
		return []runbook.Part{{RunnerID: runner.RunnerID, Runner: runner.Runner, Nodes: []int{0}}}
	}
	manual := func(d catalog.Dispatch) catalog.Dispatch { d.Mode = catalog.ManualDispatch; return d }
	here := runbook.Candidate{RunnerID: "L", Runner: "local"}
	for name, c := range map[string]struct {
		runners  []runbook.Candidate
		local    *runbook.Candidate
		dispatch catalog.Dispatch
		want     []runbook.Part
	}{
		"by filter":     {runners: []runbook.Candidate{west, east}, want: on(east)},
		"to a runner":   {runners: []runbook.Candidate{west, east}, dispatch: manual(catalog.Dispatch{Runner: "west"}), want: on(west)},
		"uncovered":     {local: &here, want: on(here)},
		"to the server": {local: &here, dispatch: catalog.Dispatch{Mode: catalog.LocalDispatch}, want: on(here)},
		"to any of labels": {dispatch: manual(catalog.Dispatch{Labels: map[string]string{"a": "b"}}),
			want: []runbook.Part{{Labels: map[string]string{"a": "b"}, Nodes: []int{0}}}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := over(cmd("a"))
			spec.Dispatch = c.dispatch
			p := compile(t, runbook.Input{Spec: spec, Nodes: local, Runners: c.runners, Local: c.local, UncoveredLocal: c.local != nil})
			if !reflect.DeepEqual(p.Parts, c.want) {
				t.Errorf("got %+v, want %+v", p.Parts, c.want)
			}
		})
	}
}

func TestManualAndLocalDispatch(t *testing.T) {
	spec := over(cmd("a"))
	spec.Dispatch = catalog.Dispatch{Mode: catalog.ManualDispatch, Labels: map[string]string{"region": "eu-${option.r}"}}
	in := runbook.Input{Spec: spec, Nodes: nodes(3), Options: runbook.Values{Plain: map[string]any{"r": 1.0}}}
	if p := compile(t, in); len(p.Parts) != 1 || p.Parts[0].Labels["region"] != "eu-1" || len(p.Parts[0].Nodes) != 3 {
		t.Fatalf("%+v", p.Parts)
	}
	in.Spec.Dispatch.Labels = map[string]string{"region": "${option.none}"}
	refused(t, in, "dispatch_labels")
	in.Spec.Dispatch.Labels = map[string]string{"region": "${node.name}"}
	refused(t, in, "template")
	in.Spec.Dispatch = catalog.Dispatch{Mode: catalog.ManualDispatch, Runner: "east"}
	refused(t, in, "runner_missing")
	in.Runners = runners(t)
	if p := compile(t, in); len(p.Parts) != 1 || p.Parts[0].RunnerID != "1" || len(p.Parts[0].Nodes) != 3 {
		t.Fatalf("%+v", p.Parts)
	}
	in.Spec.Dispatch = catalog.Dispatch{Mode: catalog.LocalDispatch}
	refused(t, in, "runner_missing")
	in.LocalUnassigned = true
	if _, err := runbook.Compile(in); fault.Code(err) != "runner_missing" || !strings.Contains(err.Error(), "is not assigned to the whole of the Stack") ||
		!strings.Contains(fault.Of(err).Hint, "legwork assignment create local prod") {
		t.Fatalf("%v", err)
	}
	in.Local = &runbook.Candidate{RunnerID: "L"}
	if p := compile(t, in); p.Parts[0].RunnerID != "L" {
		t.Fatalf("%+v", p.Parts)
	}
}

func TestWithoutNodes(t *testing.T) {
	perRunner := catalog.RunbookStep{Command: "true", Each: catalog.EachRunner}
	none := catalog.RunbookSpec{Stack: "prod", Name: "r", Steps: []catalog.RunbookStep{perRunner}}
	refused(t, runbook.Input{Spec: none, Runners: runners(t)}, "runner_missing")
	none.Dispatch = catalog.Dispatch{Mode: catalog.ManualDispatch, Runner: "east"}
	if p := compile(t, runbook.Input{Spec: none, Runners: runners(t)}); len(p.Parts) != 1 || len(p.Rounds) != 1 || p.Rounds[0].Batch != -1 || *p.Items[0].Step.Sudo {
		t.Fatalf("%+v", p)
	}
	module := catalog.RunbookSpec{Stack: "prod", Name: "r", Steps: []catalog.RunbookStep{{Module: &catalog.ModuleStep{Module: "a/b", Action: "apply"}}}}
	if p := compile(t, runbook.Input{Spec: module}); len(p.Parts) != 0 || len(p.Rounds) != 1 || !p.Global(0) {
		t.Fatalf("%+v", p)
	}
	spec := over(cmd("a"), perRunner, module.Steps[0])
	if f := refused(t, runbook.Input{Spec: spec}, "no_nodes"); !strings.Contains(f.Message, "name: .*") {
		t.Fatal(f)
	}
	spec.AllowNoNodes = true
	if p := compile(t, runbook.Input{Spec: spec, Runners: runners(t)}); len(p.Rounds) != 1 || p.Items[p.Rounds[0].First].Kind != runbook.ModuleItem {
		t.Fatalf("%+v", p.Rounds)
	}
	spec.Nodes, spec.AllowNoNodes = "", false
	refused(t, runbook.Input{Spec: spec}, "no_nodes")
}

func TestRoundsOfStrategiesAndBatches(t *testing.T) {
	spec := over(cmd("a"), cmd("b"), catalog.RunbookStep{Name: "ok", Approval: &catalog.ApprovalStep{}}, cmd("c"))
	spec.Batches, spec.MaxFailures, spec.OrderBy = "1, 3", "50%", "-name"
	in := runbook.Input{Spec: spec, Nodes: nodes(6), Runners: runners(t)}
	p := compile(t, in)
	if got := fmt.Sprint(p.Batches, p.MaxFailures, p.Rounds); p.Nodes[0].Name != "n-5" || got != "[[0] [1 2 3] [4 5]] [0 1 1] [{0 2 0} {0 2 1} {0 2 2} {2 3 -1} {3 4 0} {3 4 1} {3 4 2}]" {
		t.Fatal(got)
	}
	in.Spec.Strategy = catalog.StepFirst
	if got := fmt.Sprint(compile(t, in).Rounds); got != "[{0 1 0} {1 2 0} {0 1 1} {1 2 1} {0 1 2} {1 2 2} {2 3 -1} {3 4 0} {3 4 1} {3 4 2}]" {
		t.Fatal(got)
	}
	in.Spec.Batches = "1"
	in.Nodes, in.Runners = nodes(10_000), runners(t)[:1]
	refused(t, in, "too_many_rounds")
	in.Nodes = nodes(10_001)
	refused(t, in, "too_many_nodes")

	in = runbook.Input{Spec: over(cmd("a"), cmd("b")), Nodes: nodes(500), Runners: runners(t)[:1]}
	in.Spec.Batches = "1"
	if p := compile(t, in); len(p.Rounds) != runbook.MaxPartRounds {
		t.Fatal(len(p.Rounds))
	}
	in.Nodes = nodes(501)
	if f := refused(t, in, "too_many_rounds"); f.Hint == "" || !strings.HasPrefix(f.Message, "late would take part in 501 rounds") {
		t.Fatal(f)
	}
	in.Runners = runners(t)
	if p := compile(t, in); len(p.Rounds) != 501 { // each Runner takes part in some of them
		t.Fatal(len(p.Rounds))
	}
	in.Spec.Batches, in.Spec.Strategy, in.Nodes = "50%", catalog.StepFirst, nodes(20)
	in.Spec.Steps = append(slices.Repeat([]catalog.RunbookStep{{Command: "true"}}, 250), catalog.RunbookStep{Command: "true", Each: catalog.EachRunner})
	refused(t, in, "too_many_rounds")
	in.Spec.Steps = in.Spec.Steps[:250]
	compile(t, in)
}

func lookup(specs ...catalog.RunbookSpec) func(string) (catalog.RunbookSpec, error) {
	return func(name string) (catalog.RunbookSpec, error) {
		for _, s := range specs {
			if s.Name == name {
				return s, nil
			}
		}
		return catalog.RunbookSpec{}, fault.New(fault.NotFound, "runbook_not_found", "no %s", name)
	}
}

func ref(name string, options map[string]any) catalog.RunbookStep {
	return catalog.RunbookStep{Name: name, Runbook: &catalog.RunbookRef{Name: name, Options: options}}
}

func TestReferencesAreInlined(t *testing.T) {
	restart := catalog.RunbookSpec{Stack: "prod", Name: "restart", Env: map[string]string{"T": "${option.pw}"}, Options: []catalog.Option{
		{Name: "service", Required: true}, {Name: "n", Type: catalog.NumberOption}, {Name: "l", Type: catalog.ListOption}, {Name: "pw", Type: catalog.SecretOption}, {Name: "pw2", Type: catalog.SecretOption},
	}, Steps: []catalog.RunbookStep{cmd(""), {Name: "own", Command: "true", Timeout: catalog.Duration(time.Second)}}}
	step := ref("restart", map[string]any{"service": "app-${option.env}", "n": "${option.n}", "l": []any{"${option.env}", "x"}, "pw": "${option.pw}", "pw2": "${secret.other}"})
	step.When, step.Timeout = "option.env == 'prod'", catalog.Duration(time.Minute)
	spec := over(cmd("stop"), step)
	spec.Connection = catalog.ConnectionSpec{KeySecret: "key", Sudo: true}
	in := runbook.Input{Spec: spec, Nodes: nodes(2), Runners: runners(t), Lookup: lookup(restart), Options: runbook.Values{
		Plain: map[string]any{"env": "prod", "n": 3.0}, Given: map[string]string{"pw": "s3cret"}, Named: map[string]string{"unused": "vault"},
	}}
	p := compile(t, in)
	var names []string
	for _, i := range p.Items {
		names = append(names, i.Name)
	}
	if got := fmt.Sprint(names, p.Secrets); got != "[stop restart/step1 restart/own] [key other vault]" {
		t.Fatal(got)
	}
	inner := p.Scopes[p.Items[1].Scope]
	if !reflect.DeepEqual(inner.Values, map[string]any{"service": "app-prod", "n": 3.0, "l": []string{"prod", "x"}}) ||
		!reflect.DeepEqual(inner.Secrets, map[string]string{"pw": "option:pw", "pw2": "other"}) {
		t.Fatalf("%+v", inner)
	}
	if p.Items[1].Step.Timeout != catalog.Duration(time.Minute) || p.Items[2].Step.Timeout != catalog.Duration(time.Second) || !*p.Items[1].Step.Sudo || len(p.Items[1].Guards) != 1 {
		t.Fatalf("%+v", p.Items[1])
	}
	if text, _ := json.Marshal(p); strings.Contains(string(text), "s3cret") {
		t.Fatal("the secret is in the Plan")
	}
	if len(p.Rounds) != 1 {
		t.Fatal("the reference does not stand in the section around it", p.Rounds)
	}
}

func TestReferencesThatCannotBe(t *testing.T) {
	a, b := over(ref("b", nil)), over(cmd("x"), ref("c", nil))
	b.Name = "b"
	c := over(ref("b", nil))
	c.Name = "c"
	in := runbook.Input{Spec: a, Nodes: nodes(1), Runners: runners(t), Lookup: lookup(b, c)}
	if f := refused(t, in, "runbook_cycle"); !strings.Contains(f.Message, "b -> c -> b") {
		t.Fatal(f)
	}
	in.Lookup = lookup()
	refused(t, in, "runbook_not_found")
	in.Lookup = func(name string) (catalog.RunbookSpec, error) {
		s := over(ref("x"+name, nil))
		s.Name = name
		return s, nil
	}
	refused(t, in, "runbook_deep")
	in.Lookup = func(name string) (catalog.RunbookSpec, error) { // 10 to the power of 10
		s := over()
		s.Name = name
		for i := range 10 {
			if len(name) < 8 {
				s.Steps = append(s.Steps, ref(fmt.Sprint(name, i), nil))
			}
		}
		return s, nil
	}
	refused(t, in, "runbook_deep")
	many := over(make([]catalog.RunbookStep, 501)...)
	refused(t, runbook.Input{Spec: many, Nodes: nodes(1), Runners: runners(t)}, "too_many_items")

	inner := over(cmd("x"))
	inner.Name, inner.Options = "b", []catalog.Option{{Name: "pw", Type: catalog.SecretOption}, {Name: "s", Required: true}}
	in.Lookup = lookup(inner)
	for _, wrong := range []struct {
		options map[string]any
		code    string
	}{
		{map[string]any{"s": "x", "pw": "in clear"}, "runbook_reference"}, {map[string]any{"s": "${secret.x}"}, "template"}, {map[string]any{"s": "${option.pw}"}, "template"},
		{nil, "options_invalid"}, {map[string]any{"s": "${node.name}"}, "template"}, {map[string]any{"s": "${"}, "template"},
	} {
		in.Spec = over(ref("b", wrong.options))
		in.Options = runbook.Values{Given: map[string]string{"pw": "x"}}
		refused(t, in, wrong.code)
	}
	inner.Options, inner.Source = nil, catalog.Source{URL: "https://h/b"}
	inner.Steps = []catalog.RunbookStep{{Ansible: &catalog.AnsibleStep{Playbook: "p.yaml", VaultPassword: "vault"}}}
	in.Spec, in.Lookup = over(ref("b", nil)), lookup(inner)
	if p := compile(t, in); p.Source.URL != "https://h/b" || p.Secrets[0] != "vault" {
		t.Fatalf("%+v", p)
	}
	in.Spec.Source = catalog.Source{URL: "https://h/a"}
	refused(t, in, "runbook_reference")
}

func TestRetryTakesWhatWasNotDone(t *testing.T) {
	spec := over(cmd("a"), cmd("b"), catalog.RunbookStep{Name: "r", Command: "true", Each: catalog.EachRunner})
	p := compile(t, runbook.Input{Spec: spec, Nodes: nodes(6), Runners: runners(t)})
	var outcomes []runbook.Outcome
	for n, status := range []string{"succeeded", "failed", "recovered", "unknown", "skipped"} {
		outcomes = append(outcomes, runbook.Outcome{Part: 1, Node: n, Item: 0, Status: "succeeded"}, runbook.Outcome{Part: 1, Node: n, Item: 1, Status: status})
	}
	outcomes = append(outcomes, runbook.Outcome{Part: 1, Node: 5, Item: 0, Status: "succeeded"})
	if got := fmt.Sprint(p.Failed(outcomes)); got != "[1 3 5]" {
		t.Fatal(got)
	}
	outcomes = append(outcomes, runbook.Outcome{Part: 2, Node: -1, Item: 2, Status: "failed"}, runbook.Outcome{Part: 9, Node: 99, Item: 99})
	if got := fmt.Sprint(p.Failed(outcomes)); got != "[1 2 3 5]" { // Part 2 has 2 and 5
		t.Fatal(got)
	}
}

// TestEveryPairIsInOneRoundOfOnePart makes random Plans.
func TestEveryPairIsInOneRoundOfOnePart(t *testing.T) {
	candidates := runners(t)
	rapid.Check(t, func(r *rapid.T) {
		spec := over()
		for i := range rapid.IntRange(1, 12).Draw(r, "steps") {
			step := cmd(fmt.Sprint("s", i))
			switch rapid.IntRange(0, 6).Draw(r, "kind") {
			case 0:
				step.Each = catalog.EachRunner
			case 1:
				step = catalog.RunbookStep{Name: step.Name, Approval: &catalog.ApprovalStep{}}
			}
			spec.Steps = append(spec.Steps, step)
		}
		spec.Strategy = rapid.SampledFrom([]catalog.Strategy{"", catalog.NodeFirst, catalog.StepFirst, catalog.Parallel}).Draw(r, "strategy")
		spec.Batches = rapid.SampledFrom([]string{"", "1", "25%", "1, 5, 25%", "3"}).Draw(r, "batches")
		spec.OrderBy = rapid.SampledFrom([]string{"", "-name"}).Draw(r, "order")
		list := nodes(rapid.IntRange(1, 40).Draw(r, "nodes"))
		hosts := map[string]string{}
		for i := range list {
			if rapid.IntRange(0, 5).Draw(r, "local") == 0 {
				list[i].Connection = node.Local
				hosts[list[i].Name] = fmt.Sprint("i", i%2)
			}
		}
		own := slices.Clone(candidates)
		own[rapid.IntRange(0, 2).Draw(r, "owner")].Hosts = hosts
		p, err := runbook.Compile(runbook.Input{Spec: spec, Nodes: list, Runners: own})
		if err != nil {
			r.Fatal(err)
		}
		checkPlan(r, p)
	})
}

func checkPlan(t interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}, p *runbook.Plan) {
	type pair struct{ node, item int }
	seen, last := map[pair]bool{}, map[int]int{}
	for round, r := range p.Rounds {
		inBatch := 0
		for part := range p.Parts {
			list, ok := p.RoundNodes(round, part)
			if r.Batch < 0 || !ok {
				if r.Batch >= 0 && len(list) > 0 {
					t.Fatal("a Part has Nodes in a Round that it has no part in")
				}
				continue
			}
			inBatch += len(list)
			for _, n := range list {
				if !slices.Contains(p.Parts[part].Nodes, n) || !slices.Contains(p.Batches[r.Batch], n) {
					t.Fatalf("Node %d is in a Round of a Part or batch that is not its own", n)
				}
				for item := r.First; item < r.End; item++ {
					if seen[pair{n, item}] || !p.Items[item].OnNodes() {
						t.Fatalf("Node %d does Item %d twice, or it is none for Nodes", n, item)
					}
					if before, ok := last[n]; ok && before >= item {
						t.Fatalf("Node %d does Item %d after %d", n, item, before)
					}
					seen[pair{n, item}], last[n] = true, item
				}
			}
		}
		if r.Batch >= 0 && inBatch != len(p.Batches[r.Batch]) {
			t.Fatalf("%d of the %d Nodes of the batch take part", inBatch, len(p.Batches[r.Batch]))
		}
	}
	onNodes, batched := 0, 0
	for _, i := range p.Items {
		if i.OnNodes() {
			onNodes++
		}
	}
	for _, b := range p.Batches {
		batched += len(b)
	}
	if len(seen) != onNodes*len(p.Nodes) || batched != len(p.Nodes) {
		t.Fatalf("%d pairs are done, of %d Nodes and %d Items; %d are in batches", len(seen), len(p.Nodes), onNodes, batched)
	}
}

func BenchmarkCompile(b *testing.B) {
	spec := over()
	for i := range 20 {
		spec.Steps = append(spec.Steps, catalog.RunbookStep{Name: fmt.Sprint("s", i), Command: "systemctl restart ${option.service} --host ${node.name}", When: "option.service != ''"})
	}
	spec.Batches, spec.Strategy = "1, 5, 10%", catalog.StepFirst
	in := runbook.Input{Spec: spec, Nodes: nodes(1000), Runners: runners(b), Options: runbook.Values{Plain: map[string]any{"service": "app"}}}
	b.ReportAllocs()
	for b.Loop() {
		p, err := runbook.Compile(in)
		if err != nil {
			b.Fatal(err)
		}
		for round := range p.Rounds {
			for part := range p.Parts {
				p.RoundNodes(round, part)
			}
		}
	}
}
