package graph_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"legwork/internal/fault"
	"legwork/internal/graph"
)

// build makes a graph out of "b: a c" lines; every name on the left becomes a node.
func build(lines ...string) *graph.Graph {
	g := graph.New()
	for _, l := range lines {
		id, _, _ := strings.Cut(l, ":")
		g.Add(id)
	}
	for _, l := range lines {
		id, needs, _ := strings.Cut(l, ":")
		g.Depend(id, strings.Fields(needs)...)
	}
	return g
}

func TestOrderIsStable(t *testing.T) {
	g := build("app: net", "zoo:", "net: base", "base:")
	got, err := g.Order()
	if want := []string{"zoo", "base", "net", "app"}; err != nil || !slices.Equal(got, want) {
		t.Fatalf("Order = %v, %v, want %v", got, err, want)
	}
}

func TestOrderNamesEveryCycle(t *testing.T) {
	g := build("a: b", "b: c nowhere", "c: a", "self: self", "a:")
	_, err := g.Order()
	f := fault.Of(err)
	var got []string
	for _, p := range f.Details {
		got = append(got, p.String())
	}
	want := []string{"a: is part of a cycle: a -> b -> c -> a", "self: is part of a cycle: self -> self"}
	if f.Kind != fault.Invalid || f.Code != "graph_cycle" || !slices.Equal(got, want) {
		t.Fatalf("%v %s: %q", f.Kind, f.Code, got)
	}
}

func TestCycleIsAShortestOneOfEveryKnot(t *testing.T) {
	g := build("a: b", "b: c", "c: d a", "d: a", "x: y", "y: x", "free: a")
	want := [][]string{{"a", "b", "c", "a"}, {"x", "y", "x"}}
	if got := g.Cycles(); !reflect.DeepEqual(got, want) {
		t.Fatalf("Cycles = %v, want %v", got, want)
	}
}

func TestLongChainNeedsNoDeepStack(t *testing.T) {
	g := graph.New()
	const n = 50_000
	for i := range n {
		g.Add(fmt.Sprint(i))
		if i > 0 {
			g.Depend(fmt.Sprint(i), fmt.Sprint(i-1))
		}
	}
	g.Depend("0", fmt.Sprint(n-1))
	if c := g.Cycles(); len(c) != 1 || len(c[0]) != n+1 {
		t.Fatalf("%d cycles", len(c))
	}
}

// edges is a random graph, with what each of its nodes needs.
func edges(t *rapid.T, acyclic bool) (*graph.Graph, map[string][]string) {
	n := rapid.IntRange(0, 14).Draw(t, "nodes")
	names := rapid.Permutation([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"}).Draw(t, "names")
	g, needs := graph.New(), map[string][]string{}
	for _, at := range rapid.Permutation(numbers(n)).Draw(t, "added") {
		g.Add(names[at])
		needs[names[at]] = nil
	}
	for i := range n {
		top := n - 1
		if acyclic {
			top = i - 1
		}
		if top < 0 {
			continue
		}
		for _, to := range rapid.SliceOfN(rapid.IntRange(0, top), 0, 4).Draw(t, "needs") {
			g.Depend(names[i], names[to])
			needs[names[i]] = append(needs[names[i]], names[to])
		}
	}
	return g, needs
}

// reaches tells whether a node needs another, directly or not.
func reaches(needs map[string][]string, from, to string) bool {
	seen := map[string]bool{}
	var visit func(id string) bool
	visit = func(id string) bool {
		return slices.ContainsFunc(needs[id], func(next string) bool {
			if next == to {
				return true
			}
			if seen[next] {
				return false
			}
			seen[next] = true
			return visit(next)
		})
	}
	return visit(from)
}

func numbers(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func TestOrderKeepsEveryEdge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, needs := edges(t, true)
		order, err := g.Order()
		if err != nil || len(order) != len(needs) {
			t.Fatalf("Order = %v, %v", order, err)
		}
		for _, id := range order {
			for _, need := range needs[id] {
				if slices.Index(order, need) >= slices.Index(order, id) {
					t.Fatalf("%s comes before %s", id, need)
				}
			}
		}
	})
}

func TestCyclesAgreeWithReach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, needs := edges(t, false)
		cyclic := false
		for id := range needs {
			cyclic = cyclic || reaches(needs, id, id)
		}
		cycles := g.Cycles()
		if _, err := g.Order(); cyclic != (len(cycles) > 0) || cyclic != (err != nil) {
			t.Fatalf("cyclic %v, cycles %v, order %v", cyclic, cycles, err)
		}
		for _, c := range cycles {
			if c[0] != c[len(c)-1] {
				t.Fatalf("not closed: %v", c)
			}
			for i := range c[:len(c)-1] {
				if !slices.Contains(needs[c[i]], c[i+1]) {
					t.Fatalf("no edge %s -> %s in %v", c[i], c[i+1], c)
				}
			}
		}
	})
}
