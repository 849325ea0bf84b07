package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// diamondText declares a module d that takes outputs of a, directly and through b and c, and a module e that takes
// one of z as well.
const diamondText = `
{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: net, defaults: {engine: opentofu, runner: edge}}
---
{kind: Module, stack: prod, namespace: net, name: a, source: {type: inline, files: {main.tf: "#"}}}
---
{kind: Module, stack: prod, namespace: net, name: b, source: {type: inline, files: {main.tf: "#"}}, inputs: [{name: a, from: output, module: a, output: x}]}
---
{kind: Module, stack: prod, namespace: net, name: c, source: {type: inline, files: {main.tf: "#"}}, inputs: [{name: b, from: output, module: b, output: x}]}
---
{kind: Module, stack: prod, namespace: net, name: d, source: {type: inline, files: {main.tf: "#"}}, inputs: [{name: a, from: output, module: a, output: x}, {name: c, from: output, module: c, output: x}]}
---
{kind: Module, stack: prod, namespace: net, name: e, source: {type: inline, files: {main.tf: "#"}}, inputs: [{name: a, from: output, module: a, output: x}, {name: z, from: output, module: z, output: x}]}
---
{kind: Module, stack: prod, namespace: net, name: z, source: {type: inline, files: {main.tf: "#"}}}
`

// diamond is a server with the modules of diamondText, and an instance that runs them.
type diamond struct {
	*server
	version atomic.Int64 // the outputs of all modules depend on it
	mu      sync.Mutex
	seen    map[string][]string // the inputs that the jobs of a module ran with, in their order
}

func newDiamond(t *testing.T) *diamond {
	t.Helper()
	d := &diamond{seen: map[string][]string{}}
	d.server = newWorld(t).serve(Limits{})
	r := d.runner(d.owner(), catalog.RunnerSpec{})
	d.declare(d.owner(), diamondText)
	go d.fake(r, "a").online(d.server).work(3, tofu(d.outputs, d.note))
	return d
}

func (d *diamond) outputs(module string) map[string]catalog.OutputValue {
	return map[string]catalog.OutputValue{"x": value(fmt.Sprintf(`"%s%d"`, module, d.version.Load()), false)}
}

func (d *diamond) note(spec *work.Spec) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var inputs []string
	for _, in := range spec.Inputs {
		inputs = append(inputs, string(in.Value))
	}
	slices.Sort(inputs)
	d.seen[spec.Name] = append(d.seen[spec.Name], string(spec.Action)+" "+strings.Join(inputs, " "))
}

// ran returns the inputs that the jobs of a module ran with.
func (d *diamond) ran(module string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.seen[module])
}

// settles waits until a job of a module has succeeded with some inputs, and nothing of it waits or runs.
func (d *diamond) settles(module, inputs string) {
	d.t.Helper()
	eventually(d.t, module+" has run with "+inputs, func() bool {
		open := slices.ContainsFunc(d.jobsOf(module), func(j *work.Job) bool { return !j.Status.Terminal() })
		return !open && slices.Contains(d.ran(module), inputs)
	})
}

// TestCascadeRunsEachModuleOnce applies the first module of a diamond, twice: no job fails, and each module runs
// once, with final values.
func TestCascadeRunsEachModuleOnce(t *testing.T) {
	d := newDiamond(t)
	d.until(d.submit("prod/net/a", work.Apply).ID, work.Succeeded)
	d.settles("d", `apply "a0" "c0"`)
	eventually(t, "job of e has a wait reason", func() bool {
		jobs := d.jobsOf("e")
		wait := jobs[len(jobs)-1].Wait
		return wait.Code == work.WaitForModule && strings.Contains(wait.Text, "prod/net/z")
	})
	d.version.Add(1)
	d.until(d.submit("prod/net/a", work.Apply).ID, work.Succeeded)
	d.settles("d", `apply "a1" "c1"`)
	if got, want := d.ran("d"), []string{`apply "a0" "c0"`, `apply "a1" "c1"`}; !slices.Equal(got, want) {
		t.Errorf("d ran with %q, want %q", got, want)
	}
	d.until(d.submit("prod/net/z", work.Apply).ID, work.Succeeded)
	d.settles("e", `apply "a1" "z1"`)

	superseded := 0
	for _, module := range []string{"a", "b", "c", "d", "e", "z"} {
		for _, j := range d.jobsOf(module) {
			switch j.Status {
			case work.Succeeded:
			case work.Superseded:
				superseded++
			default:
				t.Errorf("job #%d of %s: got %s, want succeeded or superseded: %+v", j.Number, module, j.Status, j.Failure)
			}
		}
	}
	if superseded == 0 {
		t.Error("no job was superseded: want those of d and e that waited")
	}
}

// TestDestroyKnowsWhoUsesTheOutputs destroys an upstream before its downstream, which is refused unless forced,
// and is no dead end.
func TestDestroyKnowsWhoUsesTheOutputs(t *testing.T) {
	d := newDiamond(t)
	d.until(d.submit("prod/net/a", work.Apply).ID, work.Succeeded)
	d.settles("d", `apply "a0" "c0"`)
	ctx := context.Background()
	destroy := func(module string, force bool) (*work.Job, error) {
		return d.c.Submit(ctx, d.owner(), SubmitRequest{Module: "prod/net/" + module, Action: work.Destroy, Force: force})
	}
	_, err := destroy("a", false)
	if fault.Code(err) != "module_in_use" || !strings.Contains(err.Error(), "prod/net/b, prod/net/d") || strings.Contains(err.Error(), "net/e") {
		t.Errorf("destroy of a: got %v, want module_in_use that names b and d", err)
	}
	for module, code := range map[string]string{"a": "module_in_use", "z": "module_in_use", "d": "module_not_destroyed"} {
		if err := d.c.DeleteModule(ctx, d.owner(), "prod/net/"+module, false); fault.Code(err) != code {
			t.Errorf("delete of %s: got %v, want %s", module, err, code)
		}
	}
	forced, err := destroy("a", true)
	d.must(err)
	d.until(forced.ID, work.Succeeded)

	last, err := destroy("d", false)
	d.must(err)
	d.until(last.ID, work.Succeeded)
	if got := d.ran("d"); got[len(got)-1] != `destroy "a0" "c0"` {
		t.Errorf("d was destroyed with %q, want the inputs of its last apply", got[len(got)-1])
	}
	d.must(d.c.DeleteModule(ctx, d.owner(), "prod/net/d", false))
}

// TestStateLocationFollowsReports reports a local state, and looks where the next jobs of its module may start.
func TestStateLocationFollowsReports(t *testing.T) {
	module := &work.Job{Kind: work.ModuleJob, Number: 7, Attempt: 1, Status: work.Running,
		Binding: &work.Binding{RunnerID: "r", Runner: "edge", Instance: "one"}, Steps: work.StepsOf(catalog.OpenTofu, work.Apply, false, false)}
	report := work.StateReport{Backend: "local", Local: true, Exists: true, Lineage: "l", Serial: 3, Resources: 2}
	finished := func(step int, s work.StateReport) work.StepFinished {
		return work.StepFinished{Step: step, Result: work.StepResult{Status: work.StepSucceeded, State: &s}}
	}
	if _, keep := locate(store.StateLocation{}, false, module, finished(1, work.StateReport{Backend: "local", Local: true})); keep {
		t.Error("an init that found no state: got a location, want none")
	}
	location, keep := locate(store.StateLocation{}, false, module, finished(4, report))
	if !keep || location.Holder() != (work.StateHolder{RunnerID: "r", Runner: "edge", Instance: "one"}) {
		t.Errorf("after an apply: got %+v, want it on instance one", location)
	}
	if location.Holder().Allows("r", "two") || !location.Holder().Allows("r", "one") {
		t.Errorf("%+v: want it to allow instance one only", location.Holder())
	}
	remote := work.StateReport{Backend: "s3"}
	if location, _ = locate(location, true, module, finished(1, remote)); location.Holder().Instance != "" {
		t.Errorf("with a backend: got %+v, want no holder", location)
	}
	location.Released = true
	if location.Holder().Instance != "" {
		t.Error("released: got a holder, want none")
	}
}
