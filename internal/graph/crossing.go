package graph

import (
	"cmp"
	"slices"
)

// reduceCrossings orders the rows of each layer by the mean row of their neighbours, once from the
// left and once from the right in turn, and keeps the best order seen.
func (d *drawing) reduceCrossings() {
	best, least := d.copyLayers(), d.crossings()
	for pass := 0; pass < sweeps && least > 0; pass++ {
		if pass%2 == 0 {
			for l := 1; l < len(d.layers); l++ {
				d.sortLayer(l, d.left)
			}
		} else {
			for l := len(d.layers) - 2; l >= 0; l-- {
				d.sortLayer(l, d.right)
			}
		}
		if c := d.crossings(); c < least {
			best, least = d.copyLayers(), c
		}
	}
	d.layers = best
	d.number()
}

func (d *drawing) copyLayers() [][]int {
	c := make([][]int, len(d.layers))
	for i, l := range d.layers {
		c[i] = slices.Clone(l)
	}
	return c
}

// sortLayer orders one layer by the mean row of its neighbours; a vertex without any stays level.
func (d *drawing) sortLayer(l int, neighbours [][]int) {
	mean := make(map[int]float64, len(d.layers[l]))
	for _, v := range d.layers[l] {
		mean[v] = meanOf(neighbours[v], float64(d.row[v]), func(n int) float64 { return float64(d.row[n]) })
	}
	slices.SortStableFunc(d.layers[l], func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
	for row, v := range d.layers[l] {
		d.row[v] = row
	}
}

func meanOf(vs []int, none float64, value func(int) float64) float64 {
	if len(vs) == 0 {
		return none
	}
	sum := 0.0
	for _, v := range vs {
		sum += value(v)
	}
	return sum / float64(len(vs))
}

// crossings counts pairs of edges between neighbouring layers that cross, as inversions: with the
// edges sorted by their left end, every right end that a later one undercuts is a crossing.
func (d *drawing) crossings() int {
	total := 0
	for l := 0; l+1 < len(d.layers); l++ {
		seen := make(fenwick, len(d.layers[l+1])+1)
		count := 0
		for _, v := range d.layers[l] {
			rows := make([]int, 0, len(d.right[v]))
			for _, w := range d.right[v] {
				rows = append(rows, d.row[w])
			}
			for _, r := range rows { // edges that leave the same vertex do not cross
				total += count - seen.upTo(r)
			}
			for _, r := range rows {
				seen.add(r)
			}
			count += len(rows)
		}
	}
	return total
}

// fenwick counts rows: how many up to and including a row were added.
type fenwick []int

func (f fenwick) add(row int) {
	for i := row + 1; i < len(f); i += i & -i {
		f[i]++
	}
}

func (f fenwick) upTo(row int) int {
	sum := 0
	for i := row + 1; i > 0; i -= i & -i {
		sum += f[i]
	}
	return sum
}

// settle gives each vertex a Y: pulled level with its neighbours, never nearer than one row to the
// next in its layer, order kept.
func (d *drawing) settle() []float64 {
	y := make([]float64, len(d.layer))
	for v, row := range d.row {
		y[v] = float64(row)
	}
	at := func(v int) float64 { return y[v] }
	for pass := range settlePasses {
		for l := range d.layers {
			if pass%2 == 1 {
				l = len(d.layers) - 1 - l
			}
			wish := make([]float64, len(d.layers[l]))
			for i, v := range d.layers[l] {
				both := append(slices.Clone(d.left[v]), d.right[v]...)
				wish[i] = meanOf(both, y[v], at)
			}
			for i, place := range spread(wish) {
				y[d.layers[l][i]] = place
			}
		}
	}
	lowest := 0.0
	if len(y) > 0 {
		lowest = slices.Min(y)
	}
	for v := range y {
		y[v] -= lowest
	}
	return y
}

// spread moves wished places as little as it must so that each is at least 1 after the one before:
// neighbours that would overlap form a block around the mean of their wishes (pool adjacent violators).
func spread(wish []float64) []float64 {
	type block struct {
		sum  float64 // of wish[i] - i
		size int
	}
	var blocks []block
	for i, w := range wish {
		b := block{w - float64(i), 1}
		for len(blocks) > 0 {
			last := blocks[len(blocks)-1]
			if last.sum/float64(last.size) <= b.sum/float64(b.size) {
				break
			}
			b = block{last.sum + b.sum, last.size + b.size}
			blocks = blocks[:len(blocks)-1]
		}
		blocks = append(blocks, b)
	}
	places := make([]float64, 0, len(wish))
	for _, b := range blocks {
		for range b.size {
			places = append(places, b.sum/float64(b.size)+float64(len(places)))
		}
	}
	return places
}
