// Package graph holds small dependency graphs over string ids: what waits for what, in which order
// work can be done, and where to draw each node.
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
	ids    []string
	index  map[string]int
	needs  [][]int // by node: what it depends on, in the order added
	needed [][]int // by node: what depends on it, in the order added
}

// New returns an empty Graph.
func New() *Graph { return &Graph{} }

// Add adds a node. Adding an id twice is the same as adding it once.
func (g *Graph) Add(id string) {
	if _, ok := g.index[id]; ok {
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

// Depend says that id depends on each of others. Both ends must have been added before: an edge of which
// one was not is left out. Saying the same twice is the same as saying it once.
func (g *Graph) Depend(id string, others ...string) {
	from, ok := g.index[id]
	for _, other := range others {
		to, known := g.index[other]
		if ok && known && !slices.Contains(g.needs[from], to) {
			g.needs[from] = append(g.needs[from], to)
			g.needed[to] = append(g.needed[to], from)
		}
	}
}

// Has tells whether a node was added.
func (g *Graph) Has(id string) bool {
	_, ok := g.index[id]
	return ok
}

// Order lists all nodes so that each comes after what it depends on. Of the nodes that could come
// next, the one added first does. On cycles it gives one Invalid Fault of code graph_cycle that names each
// by its whole path: "a -> b -> a".
func (g *Graph) Order() ([]string, error) {
	order := g.order()
	if len(order) == len(g.ids) {
		return g.names(order), nil
	}
	var problems []fault.Problem
	for _, c := range g.Cycles() {
		problems = append(problems, fault.Problem{Field: c[0], Message: "is part of a cycle: " + Path(c)})
	}
	return nil, fault.New(fault.Invalid, "graph_cycle", "%s %s", problems[0].Field, problems[0].Message).WithDetails(problems...)
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
