package web

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"legwork/internal/control"
	"legwork/internal/web/terminal"
)

// block is rendered lines. It is made once for all who look at it.
type block struct {
	rows  [][]byte // each as JSON: [milliseconds, what it is, HTML], of a Runbook Job with the Node or the Runner, the Part and the Item behind
	upTo  int64    // position up to which the log was known
	final bool     // nothing in it changes any more
}

// What a row is, beside its stream in the two lowest bits.
const (
	rowOpen = 4 // the line goes on
	rowCut  = 8 // it is longer than what is shown
)

// screens are for whoever renders: one takes some memory and is used for many lines.
var screens = sync.Pool{New: func() any { return terminal.NewScreen() }}

// block gives a rendered block. One that may still change is as new as the last tick of those who follow, or as the book.
func (b *logBook) block(ctx context.Context, n int64) (*block, error) {
	b.rendering.Lock()
	defer b.rendering.Unlock()
	if found := b.blocks[n]; found != nil && (found.final || found.upTo >= b.freshest()) {
		b.use(n)
		return found, nil
	}
	begin, ok := b.mark(n)
	if !ok {
		return &block{}, nil
	}
	final := b.closed(n) // before it is read
	lines, upTo, err := b.read(ctx, begin, n)
	if err != nil {
		return nil, err
	}
	made := &block{rows: render(ctx, lines, b.runs), upTo: upTo, final: final}
	size := 0
	for _, row := range made.rows {
		size += len(row)
	}
	if size <= blockMost {
		b.blocks[n] = made
		b.use(n)
	}
	return made, nil
}

// use notes that a block was used, and forgets the one that was not for longest. The caller holds rendering.
func (b *logBook) use(n int64) {
	b.recent = append(slices.DeleteFunc(b.recent, func(other int64) bool { return other == n }), n)
	if len(b.recent) > blocksKept {
		delete(b.blocks, b.recent[0])
		b.recent = b.recent[1:]
	}
}

// line is one that is to be rendered.
type line struct {
	begun            time.Time
	stream           uint8
	open             bool
	cut              bool
	state            terminal.State
	part, node, item int // of a Runbook Job
	attempt          int
	data             []byte
}

// read gives the lines of a block, and the position up to which it looked.
func (b *logBook) read(ctx context.Context, c cursor, n int64) (lines []line, upTo int64, err error) {
	first, last := n*blockLines+1, (n+1)*blockLines
	upTo = b.at().pos
	deadline := time.Now().Add(aheadTime)
	ahead := 0
	for c.pos < upTo {
		records, _, err := b.web.Control.ReadLog(ctx, b.actor, b.job, c.pos, 2*blockLines, b.only)
		if err != nil || len(records) == 0 {
			return lines, upTo, err
		}
		for i := range records {
			r := &records[i]
			if r.Pos > upTo {
				return lines, upTo, nil
			}
			if c.lines >= last && !c.open(first, last) {
				return lines, upTo, nil
			}
			if c.lines >= last {
				ahead++
			}
			lane := c.take(r)
			if lane.line < first || lane.line > last {
				continue
			}
			if at := int(lane.line - first); at == len(lines) {
				lines = append(lines, line{begun: r.Time, stream: uint8(r.Stream), open: r.Partial, state: lane.begin, data: r.Data, part: r.Part, node: r.Node, item: r.Item, attempt: r.Attempt})
			} else {
				lines[at].extend(r)
			}
		}
		if ahead > aheadRecords || time.Now().After(deadline) {
			return lines, upTo, nil
		}
	}
	return lines, upTo, nil
}

// extend puts the next part of a line behind it. Of a long one the end is kept where it overwrites what stood before.
func (l *line) extend(r *control.LogLine) {
	l.open = r.Partial
	switch {
	case len(l.data)+len(r.Data) <= 2*terminal.LineBytes:
		l.data = append(l.data[:len(l.data):len(l.data)], r.Data...)
	case bytes.IndexByte(r.Data, '\r') >= 0:
		l.data = append(slices.Clone(l.data[len(l.data)/2:]), r.Data...)
		if over := len(l.data) - 2*terminal.LineBytes; over > 0 {
			l.data = l.data[over:]
		}
	default:
		l.cut = true
	}
}

// render makes rows of lines.
func render(ctx context.Context, lines []line, names *runNames) [][]byte {
	s := screens.Get().(*terminal.Screen)
	defer screens.Put(s)
	rows := make([][]byte, len(lines))
	var html []byte
	for i := range lines {
		var whole bool
		html, whole = s.Line(html[:0], lines[i].state, lines[i].data)
		kind := int64(lines[i].stream)
		if lines[i].open {
			kind |= rowOpen
		}
		if lines[i].cut || !whole {
			kind |= rowCut
		}
		row := append(make([]byte, 0, len(html)+len(html)/8+32), '[')
		row = strconv.AppendInt(row, lines[i].begun.UnixMilli(), 10)
		row = append(strconv.AppendInt(append(row, ','), kind, 10), ',')
		row = appendQuoted(row, html)
		if names != nil {
			row = appendQuoted(append(row, ','), []byte(names.who(lines[i].part, lines[i].node)))
			row = strconv.AppendInt(append(row, ','), int64(lines[i].part), 10)
			row = strconv.AppendInt(append(row, ','), int64(lines[i].item), 10)
			row = appendQuoted(append(row, ','), []byte(names.instance(ctx, lines[i].part, lines[i].attempt)))
		}
		rows[i] = append(row, ']')
	}
	return rows
}

// appendQuoted writes valid UTF-8 as a JSON string.
func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
