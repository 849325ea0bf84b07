package web

import (
	"slices"

	"legwork/internal/control"
	"legwork/internal/web/terminal"
	"legwork/internal/work"
)

// A log is stored as records, and shown as lines. A line that a program prints in parts, such as a bar of progress, is several records,
// between which those of other streams may lie: it is one line, at the place where it began, and its number stays what it is.

// lane is a stream of a Step, of one Node and Item where there are some, of which the colours go on or a line is not over.
type lane struct {
	attempt, step int
	part          int
	node, item    int
	stream        work.Stream
	line          int64          // that goes on, 0 when none does
	state         terminal.State // what the next record begins with
	begin         terminal.State // what the line that goes on began with
}

// cursor goes over the records of a log and tells of which line each is.
type cursor struct {
	pos   int64  // of the record before
	lines int64  // that have begun
	lanes []lane // of which there is something to know
}

func (c *cursor) clone() cursor { return cursor{c.pos, c.lines, slices.Clone(c.lanes)} }

func (c *cursor) find(l *control.LogLine) int {
	return slices.IndexFunc(c.lanes, func(n lane) bool {
		return n.stream == l.Stream && n.node == l.Node && n.item == l.Item && n.step == l.Step && n.attempt == l.Attempt && n.part == l.Part
	})
}

// begins tells whether a record, the next one, is the first of a line.
func (c *cursor) begins(l *control.LogLine) bool {
	i := c.find(l)
	return i < 0 || c.lanes[i].line == 0
}

// take goes over the next record, and gives its lane as it is after it, with the line that it is of.
func (c *cursor) take(l *control.LogLine) lane {
	i := c.find(l)
	n := lane{attempt: l.Attempt, step: l.Step, part: l.Part, node: l.Node, item: l.Item, stream: l.Stream}
	if i >= 0 {
		n = c.lanes[i]
	}
	if n.line == 0 {
		c.lines++
		n.line, n.begin = c.lines, n.state
	}
	n.state = n.state.After(l.Data, l.Partial)
	c.pos = l.Pos
	kept := n
	if !l.Partial {
		kept.line, kept.begin = 0, terminal.State{}
	}
	idle := kept.line == 0 && kept.state == terminal.State{}
	switch {
	case i < 0 && !idle:
		c.lanes = append(c.lanes, kept)
	case i >= 0 && idle:
		c.lanes = slices.Delete(c.lanes, i, i+1)
	case i >= 0:
		c.lanes[i] = kept
	}
	return n
}

// open tells whether one of the lines from one to another goes on.
func (c *cursor) open(from, to int64) bool {
	return slices.ContainsFunc(c.lanes, func(n lane) bool { return n.line >= from && n.line <= to && n.line > 0 })
}
