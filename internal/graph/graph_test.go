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

func TestNeighbours(t *testing.T) {
	g := build("base:", "net: base", "app: net base", "lone:")
	for name, c := range map[string]struct{ got, want []string }{
		"dependencies":     {g.Dependencies("app"), []string{"net", "base"}},
		"dependents":       {g.Dependents("base"), []string{"net", "app"}},
		"ancestors":        {g.Ancestors("app"), []string{"base", "net"}},
		"descendants":      {g.Descendants("base"), []string{"net", "app"}},
		"none":             {g.Dependents("lone"), nil},
		"unknown":          {g.Ancestors("nowhere"), nil},
		"ready at first":   {g.Ready(func(string) bool { return false }), []string{"base", "lone"}},
		"ready after base": {g.Ready(func(id string) bool { return id == "base" }), []string{"net", "lone"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s = %v, want %v", name, c.got, c.want)
		}
	}
}

func TestValidateNamesEveryProblem(t *testing.T) {
	g := build("a: b", "b: c nowhere", "c: a", "self: self", "a:")
	f := fault.Of(g.Validate())
	var got []string
	for _, p := range f.Details {
		got = append(got, p.String())
	}
	want := []string{
		"a: is there twice",
		"b: depends on nowhere, but there is no nowhere",
		"a: is part of a cycle: a -> b -> c -> a",
		"self: is part of a cycle: self -> self",
	}
	if f.Kind != fault.Invalid || f.Code != "graph_duplicate" || !slices.Equal(got, want) {
		t.Fatalf("%v %s:\n%s\nwant:\n%s", f.Kind, f.Code, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := g.Order(); fault.Code(err) != "graph_cycle" {
		t.Errorf("Order on a cycle = %v", err)
	}
	if err := build("a:", "b: a").Validate(); err != nil {
		t.Errorf("a sound graph: %v", err)
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

// edges is a random graph: needs[i] lists nodes by number.
func edges(t *rapid.T, acyclic bool) *graph.Graph {
	n := rapid.IntRange(0, 14).Draw(t, "nodes")
	names := rapid.Permutation([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"}).Draw(t, "names")
	g := graph.New()
	for _, at := range rapid.Permutation(numbers(n)).Draw(t, "added") {
		g.Add(names[at])
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
		}
	}
	return g
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
		g := edges(t, true)
		order, err := g.Order()
		if err != nil || len(order) != g.Len() {
			t.Fatalf("Order = %v, %v", order, err)
		}
		for _, id := range order {
			for _, need := range g.Dependencies(id) {
				if slices.Index(order, need) >= slices.Index(order, id) {
					t.Fatalf("%s comes before %s", id, need)
				}
			}
		}
	})
}

func TestCyclesAgreeWithReach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := edges(t, false)
		cyclic := slices.ContainsFunc(g.IDs(), func(id string) bool { return slices.Contains(g.Ancestors(id), id) })
		cycles := g.Cycles()
		if cyclic != (len(cycles) > 0) || cyclic != (g.Validate() != nil) {
			t.Fatalf("cyclic %v, cycles %v", cyclic, cycles)
		}
		for _, c := range cycles {
			if c[0] != c[len(c)-1] {
				t.Fatalf("not closed: %v", c)
			}
			for i := range c[:len(c)-1] {
				if !slices.Contains(g.Dependencies(c[i]), c[i+1]) {
					t.Fatalf("no edge %s -> %s in %v", c[i], c[i+1], c)
				}
			}
		}
	})
}

func TestReadyFinishesEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := edges(t, true)
		done := map[string]bool{}
		for range g.Len() {
			ready := g.Ready(func(id string) bool { return done[id] })
			if len(ready) == 0 {
				t.Fatalf("stuck with %d of %d done", len(done), g.Len())
			}
			pick := rapid.SampledFrom(ready).Draw(t, "pick")
			for _, need := range g.Dependencies(pick) {
				if !done[need] {
					t.Fatalf("%s was ready before %s", pick, need)
				}
			}
			done[pick] = true
		}
	})
}

func TestAncestorsMirrorDescendants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := edges(t, false)
		for _, a := range g.IDs() {
			for _, b := range g.Ancestors(a) {
				if !slices.Contains(g.Descendants(b), a) {
					t.Fatalf("%s is an ancestor of %s, not the other way round", b, a)
				}
			}
		}
	})
}
