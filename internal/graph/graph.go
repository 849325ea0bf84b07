// Package graph holds small dependency graphs over string ids: what waits for what, in which order
// work can be done, what can be done now, and where to draw each node.
//
// Everything is deterministic: the same calls in the same order give the same answers, and ties are
// broken by the order in which nodes were added. The package is pure.
package graph

import (
	"slices"
	"strings"

	"legwork/internal/fault"
)

// Graph is a directed graph of dependencies. The zero Graph is empty and ready to use.
// It is not safe for concurrent writes.
type Graph struct {
	ids        []string
	index      map[string]int
	needs      [][]int // by node: what it depends on, in the order added
	needed     [][]int // by node: what depends on it, in the order added
	duplicates []string
	unknown    [][2]string
}

// New returns an empty Graph.
func New() *Graph { return &Graph{} }

// Add adds a node. Adding an id twice is remembered and reported by Validate.
func (g *Graph) Add(id string) {
	if _, ok := g.index[id]; ok {
		g.duplicates = append(g.duplicates, id)
		return
	}
	if g.index == nil {
		g.index = map[string]int{}
	}
	g.index[id] = len(g.ids)
	g.ids = append(g.ids, id)
	g.needs = append(g.needs, nil)
	g.needed = append(g.needed, nil)
}

// Depend says that id depends on each of others. Both ends must have been added before: an end that
// was not is remembered and reported by Validate, and the edge is left out. Saying the same twice is
// the same as saying it once.
func (g *Graph) Depend(id string, others ...string) {
	from, ok := g.index[id]
	for _, other := range others {
		to, known := g.index[other]
		if !ok || !known {
			g.unknown = append(g.unknown, [2]string{id, other})
			continue
		}
		if !slices.Contains(g.needs[from], to) {
			g.needs[from] = append(g.needs[from], to)
			g.needed[to] = append(g.needed[to], from)
		}
	}
}

// Len gives the number of nodes.
func (g *Graph) Len() int { return len(g.ids) }

// Has tells whether a node was added.
func (g *Graph) Has(id string) bool {
	_, ok := g.index[id]
	return ok
}

// IDs lists the nodes in the order they were added.
func (g *Graph) IDs() []string { return slices.Clone(g.ids) }

// Dependencies lists what id depends on directly, in the order added. Nil for an unknown id.
func (g *Graph) Dependencies(id string) []string { return g.names(g.neighbours(id, g.needs)) }

// Dependents lists what depends on id directly, in the order added. Nil for an unknown id.
func (g *Graph) Dependents(id string) []string { return g.names(g.neighbours(id, g.needed)) }

// Ancestors lists everything that id depends on, directly or not, without id itself unless it
// depends on itself, in the order the nodes were added.
func (g *Graph) Ancestors(id string) []string { return g.reach(id, g.needs) }

// Descendants lists everything that depends on id, directly or not, without id itself unless it
// depends on itself, in the order the nodes were added.
func (g *Graph) Descendants(id string) []string { return g.reach(id, g.needed) }

// Ready lists the nodes that are not done and whose dependencies all are, in the order added.
func (g *Graph) Ready(done func(id string) bool) []string {
	var ready []string
	for i, id := range g.ids {
		waits := slices.ContainsFunc(g.needs[i], func(n int) bool { return !done(g.ids[n]) })
		if !waits && !done(id) {
			ready = append(ready, id)
		}
	}
	return ready
}

// Order lists all nodes so that each comes after what it depends on. Of the nodes that could come
// next, the one added first does. On a cycle it gives the Fault of Validate.
func (g *Graph) Order() ([]string, error) {
	order := g.order()
	if len(order) < len(g.ids) {
		return nil, g.fault(g.cycleProblems(), "graph_cycle")
	}
	return g.names(order), nil
}

// Validate reports ids that were added twice, edges to ids that were never added, and cycles, all of
// them at once, as one Invalid Fault. Its code is graph_duplicate, graph_unknown or graph_cycle after
// the first problem; a cycle is named by its whole path: "a -> b -> a".
func (g *Graph) Validate() error {
	var problems []fault.Problem
	code := ""
	note := func(c, id, message string) {
		if code == "" {
			code = c
		}
		problems = append(problems, fault.Problem{Field: id, Message: message})
	}
	for _, id := range g.duplicates {
		note("graph_duplicate", id, "is there twice")
	}
	for _, e := range g.unknown {
		missing := e[1]
		if !g.Has(e[0]) {
			missing = e[0]
		}
		note("graph_unknown", e[0], "depends on "+e[1]+", but there is no "+missing)
	}
	for _, p := range g.cycleProblems() {
		note("graph_cycle", p.Field, p.Message)
	}
	return g.fault(problems, code)
}

// Path writes a cycle (or any path) as "a -> b -> a".
func Path(ids []string) string { return strings.Join(ids, " -> ") }

// order is Order by index; it stops early at a cycle.
func (g *Graph) order() []int {
	waits := make([]int, len(g.ids))
	var next heap
	for i := range g.ids {
		if waits[i] = len(g.needs[i]); waits[i] == 0 {
			next.push(i)
		}
	}
	order := make([]int, 0, len(g.ids))
	for len(next) > 0 {
		i := next.pop()
		order = append(order, i)
		for _, d := range g.needed[i] {
			if waits[d]--; waits[d] == 0 {
				next.push(d)
			}
		}
	}
	return order
}

func (g *Graph) cycleProblems() []fault.Problem {
	var problems []fault.Problem
	for _, c := range g.Cycles() {
		problems = append(problems, fault.Problem{Field: c[0], Message: "is part of a cycle: " + Path(c)})
	}
	return problems
}

func (g *Graph) fault(problems []fault.Problem, code string) error {
	if len(problems) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, code, "%s %s", problems[0].Field, problems[0].Message).WithDetails(problems...)
}

func (g *Graph) neighbours(id string, edges [][]int) []int {
	i, ok := g.index[id]
	if !ok {
		return nil
	}
	return edges[i]
}

func (g *Graph) names(indexes []int) []string {
	if len(indexes) == 0 {
		return nil
	}
	names := make([]string, len(indexes))
	for i, n := range indexes {
		names[i] = g.ids[n]
	}
	return names
}

func (g *Graph) reach(id string, edges [][]int) []string {
	seen := make([]bool, len(g.ids))
	stack := slices.Clone(g.neighbours(id, edges))
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !seen[n] {
			seen[n] = true
			stack = append(stack, edges[n]...)
		}
	}
	var found []int
	for i, s := range seen {
		if s {
			found = append(found, i)
		}
	}
	return g.names(found)
}
