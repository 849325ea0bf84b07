package graph

import "slices"

// Layout is where to draw a graph: layers from left (what depends on nothing) to right. The unit is
// one layer in X and one row in Y; the caller scales. Every coordinate is at least 0.
type Layout struct {
	Nodes     []Placed // in the order the nodes were added
	Edges     []Route  // by dependent, in the order added
	Layers    int      // number of layers
	Height    float64  // the largest Y plus one; 0 for an empty graph
	Crossings int      // how many pairs of edge pieces cross between neighbouring layers
}

// Placed is a node with its place.
type Placed struct {
	ID    string
	Layer int     // 0 = depends on nothing
	Row   int     // place within the layer, from the top, counting the bends of edges that pass by
	X, Y  float64 // the middle of the node
}

// Route is an edge with the points it goes through, from the dependency to its dependent.
type Route struct {
	From, To string  // To depends on From
	Points   []Point // at least two: the middle of From, a bend for each layer passed, the middle of To
	Back     bool    // part of a cycle: runs against the direction of the layers, or is a loop
}

// Point is a place in a Layout.
type Point struct{ X, Y float64 }

const (
	maxBends     = 20_000 // beyond this many, long edges are drawn straight
	sweeps       = 12     // passes over all layers that look for fewer crossings
	settlePasses = 8      // passes that pull nodes level with their neighbours
)

// Layout places the nodes: a node stands one layer after the last of its dependencies, long edges
// bend around the nodes they pass, and few edges cross (barycentre sweeps, best one kept). It takes
// any graph; edges that close a cycle are left out of the layering and marked Back.
func (g *Graph) Layout() Layout {
	d := newDrawing(g)
	d.reduceCrossings()
	y := d.settle()
	return d.layout(y)
}

// drawing is the layered graph with bends: vertices below len(g.ids) are nodes, the others bends.
type drawing struct {
	g      *Graph
	layer  []int   // by vertex
	row    []int   // by vertex
	left   [][]int // by vertex: its neighbours one layer before
	right  [][]int // by vertex: its neighbours one layer after
	layers [][]int // by layer: its vertices from the top
	routes []route
}

type route struct {
	from, to int
	back     bool
	bends    []int
}

func newDrawing(g *Graph) *drawing {
	d := &drawing{g: g}
	back := g.backEdges()
	d.assignLayers(back)
	for to := range g.ids {
		for _, from := range g.needs[to] {
			d.routes = append(d.routes, route{from: from, to: to, back: back[[2]int{to, from}]})
		}
	}
	d.left, d.right = make([][]int, len(g.ids)), make([][]int, len(g.ids))
	d.placeBends()
	d.layers = make([][]int, slices.Max(append(d.layer, -1))+1)
	for v, l := range d.layer {
		d.layers[l] = append(d.layers[l], v)
	}
	d.number()
	return d
}

// backEdges finds the edges whose removal leaves no cycle: those that lead to a node still open in a
// depth-first search along dependencies. Edges are keyed {dependent, dependency}.
func (g *Graph) backEdges() map[[2]int]bool {
	back := map[[2]int]bool{}
	state := make([]uint8, len(g.ids)) // 0 new, 1 open, 2 done
	for root := range g.ids {
		if state[root] != 0 {
			continue
		}
		state[root] = 1
		frames := []frame{{root, 0}}
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			if f.edge == len(g.needs[f.node]) {
				state[f.node] = 2
				frames = frames[:len(frames)-1]
				continue
			}
			to := g.needs[f.node][f.edge]
			f.edge++
			switch state[to] {
			case 0:
				state[to] = 1
				frames = append(frames, frame{to, 0})
			case 1:
				back[[2]int{f.node, to}] = true
			}
		}
	}
	return back
}

// assignLayers puts each node one layer after the last of its dependencies (longest path).
func (d *drawing) assignLayers(back map[[2]int]bool) {
	d.layer = make([]int, len(d.g.ids))
	acyclic := New()
	for _, id := range d.g.ids {
		acyclic.Add(id)
	}
	for n, needs := range d.g.needs {
		for _, need := range needs {
			if !back[[2]int{n, need}] {
				acyclic.needs[n] = append(acyclic.needs[n], need)
				acyclic.needed[need] = append(acyclic.needed[need], n)
			}
		}
	}
	for _, n := range acyclic.order() {
		for _, need := range acyclic.needs[n] {
			d.layer[n] = max(d.layer[n], d.layer[need]+1)
		}
	}
}

// placeBends adds a vertex for every layer that an edge passes, and links neighbours.
func (d *drawing) placeBends() {
	total := 0
	for _, r := range d.routes {
		if !r.back {
			total += d.layer[r.to] - d.layer[r.from] - 1
		}
	}
	for i := range d.routes {
		r := &d.routes[i]
		if r.back {
			continue
		}
		last := r.from
		for l := d.layer[r.from] + 1; l < d.layer[r.to] && total <= maxBends; l++ {
			v := len(d.layer)
			d.layer = append(d.layer, l)
			d.left, d.right = append(d.left, nil), append(d.right, nil)
			r.bends = append(r.bends, v)
			d.link(last, v)
			last = v
		}
		d.link(last, r.to)
	}
}

// link joins two vertices if their layers are neighbours; an edge drawn straight over several
// layers has no say in the order of rows.
func (d *drawing) link(from, to int) {
	if d.layer[to] == d.layer[from]+1 {
		d.right[from] = append(d.right[from], to)
		d.left[to] = append(d.left[to], from)
	}
}

func (d *drawing) number() {
	d.row = make([]int, len(d.layer))
	for _, vs := range d.layers {
		for row, v := range vs {
			d.row[v] = row
		}
	}
}

func (d *drawing) layout(y []float64) Layout {
	out := Layout{Layers: len(d.layers), Crossings: d.crossings()}
	at := func(v int) Point { return Point{float64(d.layer[v]), y[v]} }
	for v := range d.layer {
		out.Height = max(out.Height, y[v]+1)
	}
	for i, id := range d.g.ids {
		p := at(i)
		out.Nodes = append(out.Nodes, Placed{ID: id, Layer: d.layer[i], Row: d.row[i], X: p.X, Y: p.Y})
	}
	for _, r := range d.routes {
		points := []Point{at(r.from)}
		for _, b := range r.bends {
			points = append(points, at(b))
		}
		out.Edges = append(out.Edges, Route{From: d.g.ids[r.from], To: d.g.ids[r.to], Points: append(points, at(r.to)), Back: r.back})
	}
	return out
}
