package graph_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"legwork/internal/graph"
)

func TestLayoutLayersAndBends(t *testing.T) {
	l := build("base:", "net: base", "app: net base").Layout()
	if l.Layers != 3 || l.Crossings != 0 || len(l.Edges) != 3 {
		t.Fatalf("layout %+v", l)
	}
	for i, want := range []int{0, 1, 2} {
		if l.Nodes[i].Layer != want || l.Nodes[i].X != float64(want) {
			t.Errorf("%s in layer %d, want %d", l.Nodes[i].ID, l.Nodes[i].Layer, want)
		}
	}
	long := l.Edges[2]
	if long.From != "base" || len(long.Points) != 3 || long.Points[1].Y == l.Nodes[1].Y {
		t.Errorf("the long edge does not bend around net: %+v", long)
	}
}

func TestLayoutUncrosses(t *testing.T) {
	l := build("a:", "b:", "c:", "x: c", "y: b", "z: a").Layout()
	if l.Crossings != 0 {
		t.Fatalf("%d crossings left", l.Crossings)
	}
	cross := build("a:", "b:", "x: a b", "y: a b").Layout() // cannot be drawn without one
	if cross.Crossings != 1 {
		t.Fatalf("%d crossings counted, want 1", cross.Crossings)
	}
}

func TestLayoutTakesCycles(t *testing.T) {
	l := build("a: b", "b: a", "s: s").Layout()
	back := 0
	for _, e := range l.Edges {
		if e.Back {
			back++
		}
	}
	if back != 2 {
		t.Fatalf("%d back edges, want 2: %+v", back, l.Edges)
	}
}

func TestLayoutOfNothing(t *testing.T) {
	if l := graph.New().Layout(); !reflect.DeepEqual(l, graph.Layout{}) {
		t.Fatalf("%+v", l)
	}
}

func TestLayoutIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, needs := edges(t, rapid.Bool().Draw(t, "acyclic"))
		l := g.Layout()
		if !reflect.DeepEqual(l, g.Layout()) {
			t.Fatal("two layouts of one graph differ")
		}
		if len(l.Nodes) != len(needs) {
			t.Fatalf("%d nodes placed of %d", len(l.Nodes), len(needs))
		}
		layer := map[string]int{}
		column := map[float64][]float64{}
		for _, n := range l.Nodes {
			layer[n.ID] = n.Layer
			column[n.X] = append(column[n.X], n.Y)
			if n.Y < 0 || n.Y+1 > l.Height+1e-9 || n.Layer >= l.Layers {
				t.Fatalf("%+v outside of %d layers, height %v", n, l.Layers, l.Height)
			}
		}
		for x, ys := range column {
			for i := range ys {
				for j := range i {
					if d := ys[i] - ys[j]; d < 1-1e-9 && d > -1+1e-9 {
						t.Fatalf("nodes overlap in layer %v: %v", x, ys)
					}
				}
			}
		}
		for _, e := range l.Edges {
			if !e.Back && layer[e.To] <= layer[e.From] {
				t.Fatalf("%s -> %s goes backwards", e.From, e.To)
			}
			if !e.Back && len(e.Points) != layer[e.To]-layer[e.From]+1 {
				t.Fatalf("%+v lacks bends", e)
			}
		}
	})
}
