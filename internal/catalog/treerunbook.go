package catalog

import (
	"fmt"

	"legwork/internal/fault"
	"legwork/internal/graph"
)

// What Nodes, Node sources and Runbooks say of other things; see tree.

func (t *tree) nodes() {
	for _, d := range t.manifest.Runners {
		for _, stack := range sortedKeys(d.Spec.NodeFilters) {
			field := "node_filters[" + stack + "]"
			exists(t, d.At(field), field, KindStack, stack, t.stacks)
		}
	}
	for _, d := range t.manifest.Nodes {
		exists(t, d.At("stack"), "stack", KindStack, d.Spec.Stack, t.stacks)
	}
	for _, d := range t.manifest.NodeSources {
		exists(t, d.At("stack"), "stack", KindStack, d.Spec.Stack, t.stacks)
		exists(t, d.At("runner"), "runner", KindRunner, d.Spec.Runner, t.runners)
		exists(t, d.At("module"), "module", KindModule, d.Spec.ModulePath(), t.modules)
	}
}

func (t *tree) allRunbooks() {
	for _, d := range t.manifest.Runbooks {
		r := d.Spec
		exists(t, d.At("stack"), "stack", KindStack, r.Stack, t.stacks)
		exists(t, d.At("dispatch.runner"), "dispatch.runner", KindRunner, r.Dispatch.Runner, t.runners)
		for i, s := range r.Steps {
			switch {
			case s.Module != nil:
				field := fmt.Sprintf("steps[%d].module.module", i)
				exists(t, d.At(field), field, KindModule, moduleOfStack(r.Stack, s.Module.Module), t.modules)
			case s.Runbook != nil:
				t.runbookRef(d, i, *s.Runbook)
			}
		}
	}
	for _, cycle := range RunbookGraph(t.after.Runbooks).Cycles() {
		at, field := t.cutRunbooks(cycle)
		t.add(at, field, "the Runbooks refer to one another in a circle: %s", graph.Path(cycle))
	}
}

// runbookRef checks a reference, and what it gives to the Options of the Runbook that it names.
func (t *tree) runbookRef(d Declared[RunbookSpec], step int, ref RunbookRef) {
	field := fmt.Sprintf("steps[%d].runbook.name", step)
	path := NodePath(d.Spec.Stack, ref.Name)
	if ref.Name == "" || !exists(t, d.At(field), field, KindRunbook, path, t.runbooks) {
		return
	}
	var c checker
	c.fixedOptions(fmt.Sprintf("steps[%d].runbook.options", step), t.runbooks[path].Options, ref.Options, true)
	for _, p := range c.problems {
		t.add(d.At(p.Field), p.Field, "%s", p.Message)
	}
}

// RunbookGraph is the graph of which Runbook refers to which, by path, in their order. Runbooks that are not among them are left
// out.
func RunbookGraph(runbooks []RunbookSpec) *graph.Graph {
	g := graph.New()
	for _, r := range runbooks {
		g.Add(r.Path())
	}
	for _, r := range runbooks {
		for _, s := range r.Steps {
			if s.Runbook == nil {
				continue
			}
			if to := NodePath(r.Stack, s.Runbook.Name); g.Has(to) {
				g.Depend(r.Path(), to)
			}
		}
	}
	return g
}

// cutRunbooks finds the first reference along the cycle that the manifest declares.
func (t *tree) cutRunbooks(cycle []string) (Position, string) {
	declared := byDeclared(t.manifest.Runbooks)
	for i := range len(cycle) - 1 {
		d, ok := declared[cycle[i]]
		if !ok {
			continue
		}
		for step, s := range d.Spec.Steps {
			if s.Runbook != nil && NodePath(d.Spec.Stack, s.Runbook.Name) == cycle[i+1] {
				field := fmt.Sprintf("steps[%d].runbook.name", step)
				return d.At(field), field
			}
		}
	}
	return Position{}, ""
}

// CheckRunbooks has every Runbook of the Manifest checked by whoever knows more of it than this package. The problems
// are named as those of Plan are: at their places, in one Fault of code manifest_invalid.
func (m Manifest) CheckRunbooks(check func(RunbookSpec) []fault.Problem) error {
	var problems []fault.Problem
	for _, d := range m.Runbooks {
		for _, p := range check(d.Spec) {
			problems = append(problems, located(d, p))
		}
	}
	return manifestFault(problems)
}
