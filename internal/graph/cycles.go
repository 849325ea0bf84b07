package graph

import "slices"

// Cycles gives one cycle out of every knot of nodes that depend on one another: a shortest one
// through the knot's first node, beginning and ending with that node ("a", "b", "a"). Empty when
// everything can be ordered.
func (g *Graph) Cycles() [][]string {
	knots := g.knots()
	seen := map[int]bool{}
	var cycles [][]string
	for i := range g.ids {
		if knots[i] >= 0 && !seen[knots[i]] {
			seen[knots[i]] = true
			cycles = append(cycles, g.names(g.shortestCycle(i, knots)))
		}
	}
	return cycles
}

// knots numbers the strongly connected components that hold a cycle; other nodes get -1. Iterative
// (Tarjan), since a chain may be longer than a stack should be.
func (g *Graph) knots() []int {
	t := tarjan{g: g, order: make([]int, len(g.ids)), low: make([]int, len(g.ids)), knot: make([]int, len(g.ids))}
	for i := range t.knot {
		t.knot[i] = unassigned
	}
	for i := range g.ids {
		if t.order[i] == 0 {
			t.visit(i)
		}
	}
	return t.knot
}

const unassigned = -2

type tarjan struct {
	g          *Graph
	count      int
	knots      int
	order, low []int
	knot       []int
	open       []int
}

type frame struct{ node, edge int }

func (t *tarjan) visit(root int) {
	frames := []frame{{root, 0}}
	t.enter(root)
	for len(frames) > 0 {
		f := &frames[len(frames)-1]
		if f.edge < len(t.g.needs[f.node]) {
			to := t.g.needs[f.node][f.edge]
			f.edge++
			switch {
			case t.order[to] == 0:
				t.enter(to)
				frames = append(frames, frame{to, 0})
			case t.knot[to] == unassigned:
				t.low[f.node] = min(t.low[f.node], t.order[to])
			}
			continue
		}
		done := f.node
		frames = frames[:len(frames)-1]
		if len(frames) > 0 {
			parent := frames[len(frames)-1].node
			t.low[parent] = min(t.low[parent], t.low[done])
		}
		if t.low[done] == t.order[done] {
			t.close(done)
		}
	}
}

func (t *tarjan) enter(n int) {
	t.count++
	t.order[n], t.low[n] = t.count, t.count
	t.open = append(t.open, n)
}

// close gives the nodes down to root their knot, or none when root stands alone.
func (t *tarjan) close(root int) {
	from := len(t.open) - 1
	for t.open[from] != root {
		from--
	}
	members := t.open[from:]
	number := -1
	if len(members) > 1 || slices.Contains(t.g.needs[root], root) {
		number = t.knots
		t.knots++
	}
	for _, n := range members {
		t.knot[n] = number
	}
	t.open = t.open[:from]
}

// shortestCycle searches breadth first from start through its knot until an edge leads back.
func (g *Graph) shortestCycle(start int, knots []int) []int {
	parent := map[int]int{start: start}
	queue := []int{start}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, to := range g.needs[n] {
			if to == start {
				return backtrack(parent, n, start)
			}
			if _, seen := parent[to]; !seen && knots[to] == knots[start] {
				parent[to] = n
				queue = append(queue, to)
			}
		}
	}
	return nil
}

func backtrack(parent map[int]int, last, start int) []int {
	path := []int{start}
	for n := last; n != start; n = parent[n] {
		path = append(path, n)
	}
	path = append(path, start)
	slices.Reverse(path)
	return path
}
