package catalog

import (
	"fmt"
	"slices"
	"strings"

	"legwork/internal/fault"
)

// Action is what applying a manifest does to one thing.
type Action string

// The actions. A manifest never deletes what it does not name.
const (
	Create    Action = "create"
	Update    Action = "update"
	Unchanged Action = "unchanged"
)

// Change is what applying a manifest does to one thing that it declares. Exactly one of the Specs is
// set: the whole one, as it is to be stored.
type Change struct {
	Action Action        `json:"action"`
	Kind   Kind          `json:"kind"`
	Path   string        `json:"path"`
	Fields []FieldChange `json:"fields,omitempty"` // of an update, by path

	Stack      *StackSpec      `json:"-"`
	Namespace  *NamespaceSpec  `json:"-"`
	Runner     *RunnerSpec     `json:"-"`
	Module     *ModuleSpec     `json:"-"`
	Assignment *AssignmentSpec `json:"-"`
	Node       *NodeSpec       `json:"-"`
	NodeSource *NodeSourceSpec `json:"-"`
	Runbook    *RunbookSpec    `json:"-"`
	Secret     *SecretDocument `json:"-"`

	CloudIdentity *CloudIdentitySpec `json:"-"`
}

// FieldChange is one field that differs, by a path such as "inputs[cidr].value". Old and New are the
// texts themselves, other values as compact JSON, "" where there is none and "***" for both when
// either is sensitive.
type FieldChange struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// Changes are in the order in which they can be written: Stacks, Namespaces, Cloud identities, Runners, Modules with
// those first whose outputs others take, Assignments, Nodes, Node sources, Runbooks, Secrets.
type Changes []Change

// Count gives how many changes have the action.
func (c Changes) Count(action Action) int {
	n := 0
	for _, change := range c {
		if change.Action == action {
			n++
		}
	}
	return n
}

// Plan says what applying the manifest to the current Snapshot does, one Change for each document.
// It checks each Spec, and what they say of one another with what is there already: every problem is
// named in one Fault of kind Invalid and code manifest_invalid, at its place in the manifest. Planning
// again after the Changes were written gives Unchanged throughout: a default that is spelled out,
// an empty list and the order of Inputs and Extra files make no difference.
//
// A sensitive Input without a value keeps the one that the Snapshot holds; the Changes carry it. Where
// there is none to keep, that is a problem. So it is with a Secret that is no reference.
func Plan(current Snapshot, m Manifest) (Changes, error) {
	m, lost := current.keep(m)
	problems := slices.Concat(lost, current.valuesMissing(m), m.ownProblems())
	after := current.with(m)
	t := newTree(after, m)
	if err := manifestFault(append(problems, t.check()...)); err != nil {
		return nil, err
	}
	modules, err := inOrder(t.effective, m.Modules)
	if err != nil {
		return nil, err
	}
	changes := slices.Concat(
		changesOf(KindStack, current.Stacks, m.Stacks, func(c *Change, s StackSpec) { c.Stack = &s }),
		changesOf(KindNamespace, current.Namespaces, m.Namespaces, func(c *Change, s NamespaceSpec) { c.Namespace = &s }),
		changesOf(KindCloudIdentity, current.CloudIdentities, m.CloudIdentities, func(c *Change, s CloudIdentitySpec) { c.CloudIdentity = &s }),
		changesOf(KindRunner, current.Runners, m.Runners, func(c *Change, s RunnerSpec) { c.Runner = &s }),
		changesOf(KindModule, current.Modules, modules, func(c *Change, s ModuleSpec) { c.Module = &s }),
		changesOf(KindAssignment, current.Assignments, m.Assignments, func(c *Change, s AssignmentSpec) { c.Assignment = &s }),
		changesOf(KindNode, current.Nodes, m.Nodes, func(c *Change, s NodeSpec) { c.Node = &s }),
		changesOf(KindNodeSource, current.NodeSources, m.NodeSources, func(c *Change, s NodeSourceSpec) { c.NodeSource = &s }),
		changesOf(KindRunbook, current.Runbooks, m.Runbooks, func(c *Change, s RunbookSpec) { c.Runbook = &s }),
		changesOf(KindSecret, current.Secrets, m.Secrets, func(c *Change, s SecretDocument) { c.Secret = &s }),
	)
	return changes, nil
}

// ownProblems are those of the documents by themselves: what was found while they were read, or what is found now.
func (m Manifest) ownProblems() []fault.Problem {
	if len(m.problems) > 0 {
		return slices.Clone(m.problems)
	}
	return slices.Concat(specProblems(m.Stacks), specProblems(m.Namespaces), specProblems(m.Runners),
		specProblems(m.Modules), specProblems(m.Assignments), specProblems(m.Nodes), specProblems(m.NodeSources),
		specProblems(m.Runbooks), specProblems(m.Secrets), specProblems(m.CloudIdentities), duplicates(m))
}

func specProblems[T specification](list []Declared[T]) []fault.Problem {
	var problems []fault.Problem
	for _, d := range list {
		for _, p := range d.Spec.problems() {
			problems = append(problems, located(d, p))
		}
	}
	return problems
}

// located gives a problem of a Spec with its place in the manifest, or with the Spec's path where it has none.
func located[T specification](d Declared[T], p fault.Problem) fault.Problem {
	at := d.At(p.Field)
	p.File, p.Line = at.File, at.Line
	if p.File == "" {
		p.Message = fmt.Sprintf("%s (%s)", p.Message, d.Spec.Path())
	}
	return p
}

// inOrder puts the declared Modules so that each comes after those whose outputs it takes.
func inOrder(effective []ModuleSpec, declared []Declared[ModuleSpec]) ([]Declared[ModuleSpec], error) {
	order, err := ModuleGraph(effective).Order()
	if err != nil {
		return nil, fmt.Errorf("ordering modules: %w", err)
	}
	place := make(map[string]int, len(order))
	for i, path := range order {
		place[path] = i
	}
	declared = slices.Clone(declared)
	slices.SortStableFunc(declared, func(a, b Declared[ModuleSpec]) int { return place[a.Spec.Path()] - place[b.Spec.Path()] })
	return declared, nil
}

func changesOf[T specification](kind Kind, current []T, declared []Declared[T], set func(*Change, T)) Changes {
	before := byPath(current)
	var changes Changes
	for _, d := range declared {
		c := Change{Action: Create, Kind: kind, Path: d.Spec.Path()}
		if old, ok := before[c.Path]; ok {
			c.Action, c.Fields = Unchanged, diff(old, d.Spec)
		}
		if len(c.Fields) > 0 {
			c.Action = Update
		}
		set(&c, d.Spec)
		changes = append(changes, c)
	}
	return changes
}

// scopeKind tells what an Assignment's scope names.
func scopeKind(scope string) Kind {
	switch strings.Count(scope, "/") {
	case 0:
		return KindStack
	case 1:
		return KindNamespace
	}
	return KindModule
}
