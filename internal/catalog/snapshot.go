package catalog

import (
	"slices"
	"strings"
)

// Snapshot is everything that is declared in an Organization at one moment, as Specs.
type Snapshot struct {
	Stacks      []StackSpec      `json:"stacks"`
	Namespaces  []NamespaceSpec  `json:"namespaces"`
	Runners     []RunnerSpec     `json:"runners"`
	Modules     []ModuleSpec     `json:"modules"`
	Assignments []AssignmentSpec `json:"assignments"`
	Nodes       []NodeSpec       `json:"nodes"`
	NodeSources []NodeSourceSpec `json:"node_sources"`
	Runbooks    []RunbookSpec    `json:"runbooks"`
	Secrets     []SecretDocument `json:"secrets"` // without their values

	CloudIdentities []CloudIdentitySpec `json:"cloud_identities"` // with a secret where it is a reference
}

// Manifest declares what the Snapshot holds, without positions. Plan takes it where a Spec came by
// another way than a file.
func (s Snapshot) Manifest() Manifest {
	return Manifest{
		Stacks: declareAll(s.Stacks), Namespaces: declareAll(s.Namespaces), Runners: declareAll(s.Runners),
		Modules: declareAll(s.Modules), Assignments: declareAll(s.Assignments),
		Nodes: declareAll(s.Nodes), NodeSources: declareAll(s.NodeSources), Runbooks: declareAll(s.Runbooks),
		Secrets: declareAll(s.Secrets), CloudIdentities: declareAll(s.CloudIdentities),
	}
}

// Snapshot gives the Specs that the Manifest declares, without positions.
func (m Manifest) Snapshot() Snapshot {
	return Snapshot{
		Stacks: specs(m.Stacks), Namespaces: specs(m.Namespaces), Runners: specs(m.Runners),
		Modules: specs(m.Modules), Assignments: specs(m.Assignments),
		Nodes: specs(m.Nodes), NodeSources: specs(m.NodeSources), Runbooks: specs(m.Runbooks),
		Secrets: specs(m.Secrets), CloudIdentities: specs(m.CloudIdentities),
	}
}

// Sorted gives the Snapshot with each list in the order of paths.
func (s Snapshot) Sorted() Snapshot {
	return Snapshot{
		Stacks: sortedByPath(s.Stacks), Namespaces: sortedByPath(s.Namespaces), Runners: sortedByPath(s.Runners),
		Modules: sortedByPath(s.Modules), Assignments: sortedByPath(s.Assignments),
		Nodes: sortedByPath(s.Nodes), NodeSources: sortedByPath(s.NodeSources), Runbooks: sortedByPath(s.Runbooks),
		Secrets: sortedByPath(s.Secrets), CloudIdentities: sortedByPath(s.CloudIdentities),
	}
}

// Effective lists the Modules with the Defaults of their Namespaces filled in, in their order.
func (s Snapshot) Effective() []ModuleSpec {
	defaults := make(map[string]Defaults, len(s.Namespaces))
	for _, n := range s.Namespaces {
		defaults[n.Path()] = n.Defaults
	}
	modules := make([]ModuleSpec, len(s.Modules))
	for i, m := range s.Modules {
		modules[i] = Effective(m, defaults[NamespacePath(m.Stack, m.Namespace)])
	}
	return modules
}

// with gives the Snapshot after the manifest: what it declares replaces what has the same path, and
// nothing is taken away.
func (s Snapshot) with(m Manifest) Snapshot {
	return Snapshot{
		Stacks: replace(s.Stacks, m.Stacks), Namespaces: replace(s.Namespaces, m.Namespaces), Runners: replace(s.Runners, m.Runners),
		Modules: replace(s.Modules, m.Modules), Assignments: replace(s.Assignments, m.Assignments),
		Nodes: replace(s.Nodes, m.Nodes), NodeSources: replace(s.NodeSources, m.NodeSources), Runbooks: replace(s.Runbooks, m.Runbooks),
		Secrets: replace(s.Secrets, m.Secrets), CloudIdentities: replace(s.CloudIdentities, m.CloudIdentities),
	}
}

func replace[T specification](current []T, declared []Declared[T]) []T {
	return mergeBy(T.Path, current, specs(declared))
}

func declareAll[T any](list []T) []Declared[T] {
	var declared []Declared[T]
	for _, spec := range list {
		declared = append(declared, Declared[T]{Spec: spec})
	}
	return declared
}

func specs[T any](list []Declared[T]) []T {
	var out []T
	for _, d := range list {
		out = append(out, d.Spec)
	}
	return out
}

func sortedByPath[T specification](list []T) []T {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int { return strings.Compare(a.Path(), b.Path()) })
	return list
}

func byPath[T specification](list []T) map[string]T {
	m := make(map[string]T, len(list))
	for _, spec := range list {
		m[spec.Path()] = spec
	}
	return m
}
