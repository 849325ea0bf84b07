package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"legwork/internal/control"
	"legwork/internal/graph"
)

// The picture of what takes outputs of what: Modules as boxes in layers from left to right, an edge from each to those that take
// its outputs. Sizes are in pixels at their natural size.
const (
	boxWidth   = 200.0
	boxHeight  = 44.0
	boxGapX    = 56.0
	boxGapY    = 16.0
	edgeOfPic  = 16.0
	mostDrawn  = 300 // Modules in one picture
	loneAcross = 4   // Modules that nothing ties to others stand in so many columns at least
	letters    = 21  // of a name that fit a box
)

// graphView is the picture of some Modules.
type graphView struct {
	boxes         []graphBox
	edges         []graphEdge
	width, height float64
}

type graphBox struct {
	control.ModuleNode
	x, y float64 // of its upper left corner
	near bool    // it is here for its neighbour only
}

type graphEdge struct {
	from, to string // ids of the Modules
	d        string // of the path
}

// drawGraph lays out Modules by what they take of one another. Those that have no part in that stand below.
func drawGraph(modules []control.ModuleNode, takes map[string][]string, near map[string]bool) graphView {
	byPath := map[string]control.ModuleNode{}
	for _, m := range modules {
		byPath[m.Path()] = m
	}
	tied := map[string]bool{}
	for path := range byPath {
		for _, up := range takes[path] {
			if _, ok := byPath[up]; ok {
				tied[path], tied[up] = true, true
			}
		}
	}
	g := graph.New()
	for _, m := range modules {
		if tied[m.Path()] {
			g.Add(m.Path())
		}
	}
	for _, m := range modules {
		g.Depend(m.Path(), takes[m.Path()]...)
	}
	at := g.Layout()
	var v graphView
	for _, p := range at.Nodes {
		v.place(byPath[p.ID], p.X, p.Y, near[p.ID])
	}
	for _, r := range at.Edges {
		v.edges = append(v.edges, graphEdge{from: byPath[r.From].ID, to: byPath[r.To].ID, d: edgePath(r.Points)})
	}
	columns, n := max(loneAcross, at.Layers), 0
	for _, m := range modules {
		if !tied[m.Path()] {
			v.place(m, float64(n%columns), math.Ceil(at.Height)+float64(n/columns), near[m.Path()])
			n++
		}
	}
	return v
}

// place puts a box at a column and a row.
func (v *graphView) place(m control.ModuleNode, column, row float64, near bool) {
	b := graphBox{m, column2x(column), row2y(row), near}
	v.boxes = append(v.boxes, b)
	v.width = max(v.width, b.x+boxWidth+edgeOfPic)
	v.height = max(v.height, b.y+boxHeight+edgeOfPic)
}

func column2x(c float64) float64 { return edgeOfPic + c*(boxWidth+boxGapX) }
func row2y(r float64) float64    { return edgeOfPic + r*(boxHeight+boxGapY) }

// edgePath draws an edge from the right side of its first box to the left side of its last, level through every layer that it passes.
func edgePath(points []graph.Point) string {
	var b strings.Builder
	middle := func(p graph.Point) float64 { return row2y(p.Y) + boxHeight/2 }
	x, y := column2x(points[0].X)+boxWidth, middle(points[0])
	fmt.Fprintf(&b, "M%s %s", coordinate(x), coordinate(y))
	for i, p := range points[1:] {
		toX, toY := column2x(p.X), middle(p)
		last := i == len(points)-2
		if last {
			toX -= 5 // the head of the arrow
		}
		bend := max(boxGapX/2, math.Abs(toX-x)/2)
		fmt.Fprintf(&b, "C%s %s %s %s %s %s", coordinate(x+bend), coordinate(y), coordinate(toX-bend), coordinate(toY), coordinate(toX), coordinate(toY))
		x, y = toX, toY
		if !last {
			x += boxWidth
			fmt.Fprintf(&b, "H%s", coordinate(x))
		}
	}
	return b.String()
}

func (v graphView) box() string {
	return "0 0 " + coordinate(v.width) + " " + coordinate(v.height)
}

// say describes the picture for who hears the page.
func (v graphView) say(stack string) string {
	return fmt.Sprintf("Dependency graph of %s: %s, %s. The list below says the same.", stack, counted(len(v.boxes), "Module"), counted(len(v.edges), "edge"))
}

// shortened cuts a text that is longer than n letters.
func shortened(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	return string(r[:n-1]) + "…"
}

func pixels(n float64) string { return strconv.Itoa(int(math.Ceil(n))) }
