package catalog

import (
	"fmt"
	"slices"
	"strings"

	"legwork/internal/graph"
)

// Kind names what a document of a manifest declares.
type Kind string

// The kinds of documents.
const (
	KindStack         Kind = "Stack"
	KindNamespace     Kind = "Namespace"
	KindCloudIdentity Kind = "CloudIdentity"
	KindRunner        Kind = "Runner"
	KindModule        Kind = "Module"
	KindAssignment    Kind = "Assignment"
	KindNode          Kind = "Node"
	KindNodeSource    Kind = "NodeSource"
	KindRunbook       Kind = "Runbook"
	KindSecret        Kind = "Secret"
)

// Kinds lists every kind in the order of dependency: each refers only to those before it, or to others of its own.
var Kinds = []Kind{KindStack, KindNamespace, KindCloudIdentity, KindRunner, KindModule, KindAssignment, KindNode, KindNodeSource, KindRunbook, KindSecret}

// NamespacePath gives "stack/namespace".
func NamespacePath(stack, namespace string) string { return stack + "/" + namespace }

// Path gives the Stack's name.
func (s StackSpec) Path() string { return s.Name }

// Path gives the Namespace's "stack/namespace".
func (n NamespaceSpec) Path() string { return NamespacePath(n.Stack, n.Name) }

// Path gives the Runner's name.
func (r RunnerSpec) Path() string { return r.Name }

// Path gives "runner:scope", for example "edge-1:prod/network".
func (a AssignmentSpec) Path() string { return a.Runner + ":" + a.Scope }

// UpstreamPath gives the "stack/namespace/module" that an Input means by ref: "module" in the
// Namespace of the Module that has the Input, "namespace/module" in its Stack, or the whole path.
// A path into another Stack is refused: outputs never leave their Stack.
func UpstreamPath(stack, namespace, ref string) (string, error) {
	parts := strings.Split(ref, "/")
	for _, part := range parts {
		if problem := NameProblem(part); problem != "" {
			return "", fmt.Errorf(`wants "module", "namespace/module" or "stack/namespace/module": %s`, problem)
		}
	}
	switch len(parts) {
	case 1:
		return ModulePath(stack, namespace, ref), nil
	case 2:
		return ModulePath(stack, parts[0], parts[1]), nil
	case 3:
		if parts[0] != stack {
			return "", fmt.Errorf("is a Module of Stack %s: outputs never leave their Stack, which is %s here", parts[0], stack)
		}
		return ref, nil
	}
	return "", fmt.Errorf(`wants "module", "namespace/module" or "stack/namespace/module", found %d parts`, len(parts))
}

// Upstreams lists the paths of the Modules whose outputs m takes, sorted, each once. m should be
// effective, so that the Inputs of its Namespace count.
func Upstreams(m ModuleSpec) []string {
	var paths []string
	for _, in := range m.Inputs {
		if path, ok := in.upstream(m); ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Uses lists the names of the outputs that m takes from the Module at upstreamPath, sorted, each
// once. m should be effective.
func Uses(m ModuleSpec, upstreamPath string) []string {
	var names []string
	for _, in := range m.Inputs {
		if path, ok := in.upstream(m); ok && path == upstreamPath {
			names = append(names, in.Output)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ModuleGraph is the graph of which Module takes outputs of which, by path, in the order of modules,
// which should be effective. Upstreams that are not among modules are left out.
func ModuleGraph(modules []ModuleSpec) *graph.Graph {
	g := graph.New()
	for _, m := range modules {
		g.Add(m.Path())
	}
	for _, m := range modules {
		for _, up := range Upstreams(m) {
			if g.Has(up) {
				g.Depend(m.Path(), up)
			}
		}
	}
	return g
}

// upstream gives the path of the Module that the Input takes an output of.
func (in Input) upstream(m ModuleSpec) (string, bool) {
	if in.From != FromOutput {
		return "", false
	}
	path, err := UpstreamPath(m.Stack, m.Namespace, in.Module)
	return path, err == nil
}
