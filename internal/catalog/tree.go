package catalog

import (
	"fmt"
	"slices"
	"strings"

	"legwork/internal/fault"
	"legwork/internal/graph"
)

// tree checks what the parts of a Snapshot say of one another, after a manifest has been laid over it.
// Only what the manifest touches is checked: what was wrong before is not this manifest's problem.
type tree struct {
	manifest   Manifest
	stacks     map[string]StackSpec
	namespaces map[string]NamespaceSpec
	runners    map[string]RunnerSpec
	modules    map[string]ModuleSpec // as declared
	effective  []ModuleSpec
	runbooks   map[string]RunbookSpec

	cloudIdentities map[string]CloudIdentitySpec
	after           Snapshot
	problems        []fault.Problem
}

// maxSuggestions bounds the search for what was meant, which looks at everything there is.
const maxSuggestions = 20

func newTree(after Snapshot, m Manifest) *tree {
	return &tree{
		manifest: m, stacks: byPath(after.Stacks), namespaces: byPath(after.Namespaces), runners: byPath(after.Runners),
		modules: byPath(after.Modules), effective: after.Effective(), runbooks: byPath(after.Runbooks), after: after,
		cloudIdentities: byPath(after.CloudIdentities),
	}
}

func (t *tree) check() []fault.Problem {
	for _, d := range t.manifest.Namespaces {
		t.namespace(d)
	}
	for _, d := range t.manifest.Runners {
		t.hosting(d)
	}
	for _, d := range t.manifest.Modules {
		t.module(d)
	}
	for _, d := range t.manifest.Assignments {
		t.assignment(d)
	}
	t.nodes()
	t.allRunbooks()
	t.secrets()
	t.identities()
	t.engines()
	t.cycles()
	return t.problems
}

func (t *tree) add(at Position, field, format string, args ...any) {
	t.problems = append(t.problems, fault.Problem{File: at.File, Line: at.Line, Field: field, Message: fmt.Sprintf(format, args...)})
}

func (t *tree) namespace(d Declared[NamespaceSpec]) {
	n := d.Spec
	exists(t, d.At("stack"), "stack", KindStack, n.Stack, t.stacks)
	if n.Defaults.Runner != "" {
		exists(t, d.At("defaults.runner"), "defaults.runner", KindRunner, n.Defaults.Runner, t.runners)
	}
	references(t, d, "defaults.inputs", n.Stack, n.Name, n.Defaults.Inputs)
}

func (t *tree) module(d Declared[ModuleSpec]) {
	m := d.Spec
	if exists(t, d.At("stack"), "stack", KindStack, m.Stack, t.stacks) {
		exists(t, d.At("namespace"), "namespace", KindNamespace, NamespacePath(m.Stack, m.Namespace), t.namespaces)
	}
	if m.Runner != "" {
		exists(t, d.At("runner"), "runner", KindRunner, m.Runner, t.runners)
	}
	references(t, d, "inputs", m.Stack, m.Namespace, m.Inputs)
}

func (t *tree) assignment(d Declared[AssignmentSpec]) {
	a := d.Spec
	exists(t, d.At("runner"), "runner", KindRunner, a.Runner, t.runners)
	switch scopeKind(a.Scope) {
	case KindModule:
		exists(t, d.At("scope"), "scope", KindModule, a.Scope, t.modules)
	case KindNamespace:
		exists(t, d.At("scope"), "scope", KindNamespace, a.Scope, t.namespaces)
	default:
		exists(t, d.At("scope"), "scope", KindStack, a.Scope, t.stacks)
	}
}

// references checks that the Modules whose outputs the Inputs take exist.
func references[T any](t *tree, d Declared[T], field, stack, namespace string, inputs []Input) {
	for i, in := range inputs {
		at := fmt.Sprintf("%s[%d].module", field, i)
		if in.From != FromOutput {
			continue
		}
		if path, err := UpstreamPath(stack, namespace, in.Module); err == nil {
			exists(t, d.At(at), at, KindModule, path, t.modules)
		}
	}
}

func exists[T any](t *tree, at Position, field string, kind Kind, path string, all map[string]T) bool {
	if _, ok := all[path]; ok || path == "" || t.manifest.lost[kind] || t.manifest.names(at, field) {
		return ok
	}
	suggestion := ""
	if len(t.problems) < maxSuggestions {
		suggestion = didYouMean(path, sortedKeys(all))
	}
	t.add(at, field, "there is no %s %s%s", kind, brief(path), suggestion)
	return false
}

// names tells whether a problem of the field at this place was found while the manifest was read.
func (m Manifest) names(at Position, field string) bool {
	return slices.ContainsFunc(m.problems, func(p fault.Problem) bool {
		return p.File == at.File && p.Line == at.Line && (p.Field == field || strings.HasPrefix(field, p.Field+"."))
	})
}

// engines checks the Modules that the manifest declares or gives new Defaults: with those, each has an
// engine and what this engine needs.
func (t *tree) engines() {
	declared, defaults := byDeclared(t.manifest.Modules), byDeclared(t.manifest.Namespaces)
	for _, e := range t.effective {
		d, own := declared[e.Path()]
		n, inherits := defaults[NamespacePath(e.Stack, e.Namespace)]
		at := func(field string) (Position, string) {
			if own {
				return d.At(field), field
			}
			return n.At("defaults.engine"), "defaults.engine"
		}
		if _, ok := t.namespaces[NamespacePath(e.Stack, e.Namespace)]; !ok || (!own && !inherits) || d.broken || n.broken {
			continue // without its Namespace, which is said already, nothing is known of its engine
		}
		if e.Engine == "" {
			where, field := at("engine")
			t.add(where, field, "Module %s has no engine: say %s there or in the defaults of its Namespace", e.Path(), oneOf(Engines))
			continue
		}
		if t.modules[e.Path()].Engine != "" {
			continue // checked as a Spec
		}
		for _, p := range e.engineProblems() {
			where, field := at(p.Field)
			t.add(where, field, "Module %s: %s", e.Path(), p.Message)
		}
	}
}

// cycles names each circle of Modules that take outputs of one another by its path, at the Input
// where it can be cut.
func (t *tree) cycles() {
	for _, cycle := range ModuleGraph(t.effective).Cycles() {
		at, field := t.cut(cycle)
		t.add(at, field, "the Modules take outputs of one another in a circle: %s", graph.Path(cycle))
	}
}

// cut finds the first Input along the cycle that the manifest declares.
func (t *tree) cut(cycle []string) (Position, string) {
	modules, namespaces := byDeclared(t.manifest.Modules), byDeclared(t.manifest.Namespaces)
	for i := range len(cycle) - 1 {
		m, ok := t.modules[cycle[i]]
		if !ok {
			continue
		}
		if d, ok := modules[cycle[i]]; ok {
			if field, ok := inputFrom(m, "inputs", d.Spec.Inputs, cycle[i+1]); ok {
				return d.At(field), field
			}
		}
		if d, ok := namespaces[NamespacePath(m.Stack, m.Namespace)]; ok {
			if field, ok := inputFrom(m, "defaults.inputs", d.Spec.Defaults.Inputs, cycle[i+1]); ok {
				return d.At(field), field
			}
		}
	}
	return Position{}, ""
}

func inputFrom(m ModuleSpec, field string, inputs []Input, upstream string) (string, bool) {
	for i, in := range inputs {
		if path, ok := in.upstream(m); ok && path == upstream {
			return fmt.Sprintf("%s[%d].module", field, i), true
		}
	}
	return "", false
}

func byDeclared[T specification](list []Declared[T]) map[string]Declared[T] {
	m := make(map[string]Declared[T], len(list))
	for _, d := range list {
		m[d.Spec.Path()] = d
	}
	return m
}
