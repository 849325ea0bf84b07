package web

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// The picture of a series: its measures in units of its view box.
const (
	chartWidth, chartHeight = 480, 128
	chartLeft, chartRight   = 34, 4
	chartTop, chartBottom   = 8, 18
	hourWidth               = 36 // of a label of the hours, which must not meet the labels of values
)

// chart is a series laid out as a picture.
type chart struct {
	line, area string // paths; a gap where nothing is known
	bound      string // path of a second series that bounds the first, "" for none
	ticks      []tick // of values, at the left
	hours      []tick // of time, at the bottom
	say        string // for who hears the page
}

type tick struct {
	at    float64
	text  string
	clock string // the time that text is of, for the script that shows it in another zone
}

// chartOf lays a series out; text says a value.
func chartOf(s series, name string, text func(float64) string) chart {
	c := layOut(s, niceTop(s.most()), text)
	c.say = fmt.Sprintf("%s over %s: now %s, at most %s", name, span(historySpan), text(s.last()), text(s.most()))
	return c
}

// boundedChart lays a series out below another one of the same time.
func boundedChart(s, bound series, name string, text func(float64) string) chart {
	top := niceTop(max(s.most(), bound.most()))
	c := layOut(s, top, text)
	c.bound = layOut(bound, top, text).line
	c.say = fmt.Sprintf("%s over %s: now %s of %s, at most %s", name, span(historySpan), text(s.last()), text(bound.last()), text(s.most()))
	return c
}

func layOut(s series, top float64, text func(float64) string) chart {
	x := func(i int) float64 {
		return chartLeft + float64(i)*(chartWidth-chartLeft-chartRight)/float64(len(s.values)-1)
	}
	y := func(v float64) float64 {
		return chartHeight - chartBottom - v/top*(chartHeight-chartTop-chartBottom)
	}
	var line, area strings.Builder
	for _, run := range runsOf(s.values) {
		var points []string
		for i := run[0]; i < run[1]; i++ {
			points = append(points, fmt.Sprintf("%.1f %.1f", x(i), y(s.values[i])))
		}
		if len(points) == 1 {
			at, height := x(run[0]), y(s.values[run[0]]) // a dash, which is seen
			points = []string{fmt.Sprintf("%.1f %.1f", at-4, height), fmt.Sprintf("%.1f %.1f", at+4, height)}
		}
		path := "M" + strings.Join(points, "L")
		line.WriteString(path)
		fmt.Fprintf(&area, "%sL%.1f %.1fL%.1f %.1fZ", path, x(run[1]-1), y(0), x(run[0]), y(0))
	}
	c := chart{line: line.String(), area: area.String(), hours: hoursOf(s, x)}
	for _, v := range []float64{0, top / 2, top} {
		c.ticks = append(c.ticks, tick{at: y(v), text: text(v)})
	}
	return c
}

// runsOf gives where values are known without a gap: from, and up to.
func runsOf(values []float64) (runs [][2]int) {
	for i, v := range values {
		switch {
		case math.IsNaN(v):
		case i > 0 && !math.IsNaN(values[i-1]):
			runs[len(runs)-1][1] = i + 1
		default:
			runs = append(runs, [2]int{i, i + 1})
		}
	}
	return runs
}

// hoursOf marks every other full hour.
func hoursOf(s series, x func(int) float64) []tick {
	var marks []tick
	for i := range s.values {
		at := s.end.Add(-time.Duration(len(s.values)-i) * historyBucket)
		if at.Minute() == 0 && at.Hour()%2 == 0 && x(i) > chartLeft+hourWidth/2 {
			marks = append(marks, tick{at: x(i), text: at.Format("15:04"), clock: stamp(at)})
		}
	}
	return marks
}

// niceTop gives a round number at or above the greatest value, even, so that its half is one, too.
func niceTop(most float64) float64 {
	if most <= 2 {
		return 2
	}
	unit := math.Pow(10, math.Floor(math.Log10(most)))
	for _, f := range []float64{1, 2, 4, 6, 8, 10} {
		if f*unit >= most {
			return f * unit
		}
	}
	return most
}

func sayCount(v float64) string {
	if math.IsNaN(v) {
		return "not known"
	}
	return fmt.Sprintf("%g", math.Round(v*10)/10)
}

func saySeconds(v float64) string {
	if math.IsNaN(v) {
		return "not known"
	}
	return span(time.Duration(v * float64(time.Second)))
}

func coordinate(v float64) string { return fmt.Sprintf("%.1f", v) }
