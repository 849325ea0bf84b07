package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"legwork/internal/control"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"legwork/internal/work"
)

// LogLine is one record of a Job's log. Its bytes stand in text when they are UTF-8, else in data_base64.
type LogLine struct {
	Pos        int64     `json:"pos" doc:"Place in the log of the Job, rising from 1. Numbers may be missing: not every record of a log is a line."`
	Part       int       `json:"part,omitempty" doc:"Of a Runbook Job: what one Runner does of it, from 1. Attempt and step are those of the Part."`
	Runner     string    `json:"runner,omitempty" doc:"Of the part."`
	Instance   string    `json:"instance,omitempty" doc:"That the attempt of the part is or was bound to."`
	Node       string    `json:"node,omitempty" doc:"That the line is about."`
	Item       string    `json:"item,omitempty" doc:"Name of the step of the Runbook that the line is about."`
	Attempt    int       `json:"attempt"`
	Step       int       `json:"step" doc:"Index into the steps of the Job."`
	Seq        uint64    `json:"seq" doc:"Rising by one from 1 within attempt and step."`
	Time       time.Time `json:"time" doc:"When the Runner's host saw it."`
	Stream     string    `json:"stream" enum:"stdout,stderr,system"`
	Partial    bool      `json:"partial,omitempty" doc:"The line goes on in the next record of this stream."`
	Text       string    `json:"text,omitempty"`
	DataBase64 []byte    `json:"data_base64,omitempty"`
}

// LogPage is some lines of a log.
type LogPage struct {
	Lines    []LogLine `json:"lines" nullable:"false" doc:"Lines in the order of their positions."`
	Last     int64     `json:"last" doc:"Position of the last line that is stored."`
	Complete bool      `json:"complete" doc:"The Job is over. Nothing follows last, unless an Instance that was lost comes back with what it still has of the log."`
}

// Data gives the bytes of the line, without its end.
func (l *LogLine) Data() []byte {
	if l.DataBase64 != nil {
		return l.DataBase64
	}
	return []byte(l.Text)
}

// appendLines writes a list of lines as JSON. It is written by hand since a log has many lines: the general
// encoder takes several times as long.
// who says what the numbers in them stand for; nil for a Job without Nodes.
func appendLines(b []byte, lines []control.LogLine, who *naming) []byte {
	size := 0
	for i := range lines {
		size += len(lines[i].Data) + lineHead
	}
	b = append(slices.Grow(b, size), '[')
	var c clock
	for i := range lines {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLine(b, &lines[i], &c, who)
	}
	return append(b, ']')
}

// lineHead is about how many bytes a line has in JSON beside its text.
const lineHead = 144

// clock writes times, and remembers the last second it wrote: the lines of a log come many to the second.
type clock struct {
	second int64
	text   []byte // up to the fraction; nil when nothing was written yet
}

func (c *clock) append(b []byte, t time.Time) []byte {
	if s := t.Unix(); c.text == nil || s != c.second {
		c.second, c.text = s, t.UTC().AppendFormat(c.text[:0], "2006-01-02T15:04:05")
	}
	b = append(b, c.text...)
	if n := t.Nanosecond(); n != 0 {
		var digits [10]byte
		d := strconv.AppendInt(digits[:0], int64(1_000_000_000+n), 10)
		d[0] = '.'
		b = append(b, bytes.TrimRight(d, "0")...)
	}
	return append(b, 'Z')
}

// naming gives the names of what lines are about.
type naming struct {
	ctx   context.Context // of the request
	names *control.LogNames
}

// append writes the fields of a line of a Part.
func (n *naming) append(b []byte, l *control.LogLine) []byte {
	b = append(b, `,"part":`...)
	b = strconv.AppendInt(b, int64(l.Part), 10)
	runner, instance := n.names.Runner(n.ctx, l.Part, l.Attempt)
	for _, f := range [...]struct{ key, value string }{
		{`,"runner":`, runner}, {`,"instance":`, instance}, {`,"node":`, n.names.Node(l.Node)}, {`,"item":`, n.names.Item(l.Item)},
	} {
		if f.value != "" {
			b = appendText(append(b, f.key...), bytes.ToValidUTF8([]byte(f.value), nil))
		}
	}
	return b
}

func appendLine(b []byte, l *control.LogLine, c *clock, who *naming) []byte {
	b = append(b, `{"pos":`...)
	b = strconv.AppendInt(b, l.Pos, 10)
	if l.Part > 0 && who != nil {
		b = who.append(b, l)
	}
	b = append(b, `,"attempt":`...)
	b = strconv.AppendInt(b, int64(l.Attempt), 10)
	b = append(b, `,"step":`...)
	b = strconv.AppendInt(b, int64(l.Step), 10)
	b = append(b, `,"seq":`...)
	b = strconv.AppendUint(b, l.Seq, 10)
	b = append(b, `,"time":"`...)
	b = c.append(b, l.Time)
	b = append(b, `","stream":"`...)
	b = append(b, l.Stream.String()...)
	b = append(b, '"')
	if l.Partial {
		b = append(b, `,"partial":true`...)
	}
	switch {
	case len(l.Data) == 0:
	case utf8.Valid(l.Data):
		b = append(b, `,"text":`...)
		b = appendText(b, l.Data)
	default:
		b = append(b, `,"data_base64":"`...)
		b = base64.StdEncoding.AppendEncode(b, l.Data)
		b = append(b, '"')
	}
	return append(b, '}')
}

const hexDigits = "0123456789abcdef"

// appendText writes valid UTF-8 as a JSON string. Besides what JSON asks for it escapes DEL and the C1 controls, so
// that nobody who prints the JSON sends commands to a terminal.
func appendText(b, text []byte) []byte {
	b = append(b, '"')
	begin := 0
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c >= 0x20 && c != '"' && c != '\\' && c < 0x7f:
			i++
			continue
		case c == 0xc2 && text[i+1] < 0xa0: // U+0080 to U+009F
			b = append(b, text[begin:i]...)
			b = appendEscape(b, text[i+1])
			i += 2
		case c > 0x7f:
			i++
			continue
		default:
			b = append(b, text[begin:i]...)
			b = appendEscape(b, c)
			i++
		}
		begin = i
	}
	b = append(b, text[begin:]...)
	return append(b, '"')
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\t':
		return append(b, '\\', 't')
	case '\r':
		return append(b, '\\', 'r')
	case '\n':
		return append(b, '\\', 'n')
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// appendRaw writes lines as they were printed: the download of a log as text.
func appendRaw(b []byte, lines []control.LogLine) []byte {
	for i := range lines {
		if lines[i].Stream == work.System {
			continue
		}
		b = append(b, lines[i].Data...)
		if !lines[i].Partial {
			b = append(b, '\n')
		}
	}
	return b
}
