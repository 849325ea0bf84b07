package cli

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	"legwork/internal/api"
	"legwork/internal/work"
)

// logPrinter writes the log of a Job for a person: a heading for each Step, and the lines made safe.
// Raw, it writes the bytes as they were printed and nothing else.
type logPrinter struct {
	w     io.Writer
	style *terminal
	steps []work.Step
	raw   bool

	buffer        []byte
	begun         bool
	attempt, step int
	streams       map[string]*logCleaner
	parts         map[string][]byte // of lines about Nodes that are not over
	open          string            // the stream whose line is not ended yet; "" when none
	system        string            // the last line of the Runner itself that was printed
	item          string            // the step of a runbook that the last heading names
}

// placeWidth is up to how many characters the places of lines, a node and an instance, are aligned.
const placeWidth = 28

// nodeColours are those of the names of Nodes, one after the other.
var nodeColours = []string{cyan, green, yellow, "\x1b[35m", "\x1b[34m"}

// nodeColour gives a Node the same colour wherever it is printed.
func nodeColour(node string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(node)) // which never fails
	return nodeColours[h.Sum32()%uint32(len(nodeColours))]
}

// lane names the stream that a record belongs to: each node has its own, and so has each runner.
func lane(l *api.LogLine) string {
	return fmt.Sprintf("%s %d %s %s", l.Stream, l.Part, l.Node, l.Item)
}

// place returns the node and the instance that a line of a runbook job comes from, such as "web-1 @edge-1".
func place(l *api.LogLine) string {
	name := clean(l.Node)
	if l.Instance == "" {
		return cmp.Or(name, clean(l.Runner))
	}
	return strings.TrimSpace(name + " @" + clean(l.Instance))
}

// addPlaced adds a line after its place. It buffers partial lines until they are complete, because other nodes print meanwhile.
func (p *logPrinter) addPlaced(l *api.LogLine) {
	name := lane(l)
	c := p.cleaner(name)
	at := len(p.buffer)
	p.buffer = c.clean(p.buffer, l.Data(), l.Partial)
	text := append(p.parts[name], p.buffer[at:]...)
	p.buffer = p.buffer[:at]
	if l.Partial && len(text) < maxGathered {
		p.parts[name] = text
		return
	}
	delete(p.parts, name)
	from := place(l)
	prefix := p.style.paint(nodeColour(l.Node), from) + strings.Repeat(" ", max(placeWidth-len(from), 0)) + " | "
	for line := range strings.Lines(string(text)) {
		p.buffer = append(append(p.buffer, prefix...), strings.TrimSuffix(line, "\n")...)
		p.buffer = append(p.buffer, '\n')
	}
}

// maxGathered bounds the parts of one line that are gathered.
const maxGathered = 128 << 10

func (a *app) newLogPrinter(steps []work.Step, raw bool) *logPrinter {
	return &logPrinter{w: a.Out, style: a.out, steps: steps, raw: raw, streams: map[string]*logCleaner{}, parts: map[string][]byte{}}
}

// told tells whether the last line of the Runner said what failed.
func (p *logPrinter) told(failure *work.Failure) bool {
	return failure != nil && failure.Message != "" && strings.Contains(p.system, failure.Message) && strings.Contains(p.system, failure.Hint)
}

// midLine tells whether the last line goes on.
func (p *logPrinter) midLine() bool { return p.open != "" }

func (p *logPrinter) print(lines []api.LogLine) error {
	p.buffer = p.buffer[:0]
	for i := range lines {
		if p.raw {
			p.addRaw(&lines[i])
		} else {
			p.add(&lines[i])
		}
	}
	_, err := p.w.Write(p.buffer)
	return err
}

func (p *logPrinter) addRaw(l *api.LogLine) {
	if l.Stream == work.System.String() {
		return
	}
	p.buffer = append(p.buffer, l.Data()...)
	if !l.Partial {
		p.buffer = append(p.buffer, '\n')
	}
}

func (p *logPrinter) add(l *api.LogLine) {
	if l.Part > 0 {
		p.addOfPart(l)
		return
	}
	if !p.begun || l.Attempt != p.attempt || l.Step != p.step {
		p.heading(l)
	}
	if p.open != "" && p.open != l.Stream {
		p.buffer = p.cleaner(p.open).endLine(p.buffer)
	}
	p.open = ""
	if l.Partial {
		p.open = l.Stream
	}
	if l.Stream == work.System.String() {
		p.system = string(l.Data())
		p.buffer = append(p.buffer, p.style.paint(cyan, clean(string(l.Data())))...)
		p.buffer = append(p.buffer, '\n')
		p.open = ""
		return
	}
	p.buffer = p.cleaner(l.Stream).clean(p.buffer, l.Data(), l.Partial)
}

// addOfPart adds a line of a runbook job. Steps run at the same time: the heading is repeated whenever the step changes.
func (p *logPrinter) addOfPart(l *api.LogLine) {
	if l.Item != "" && l.Item != p.item {
		p.item = l.Item
		p.title(l.Item)
	}
	if l.Node == "" && l.Stream == work.System.String() {
		p.system = string(l.Data())
	}
	p.endOpen()
	p.addPlaced(l)
}

func (p *logPrinter) cleaner(stream string) *logCleaner {
	c := p.streams[stream]
	if c == nil {
		c = &logCleaner{colours: p.style.colours}
		p.streams[stream] = c
	}
	return c
}

// endOpen ends the line that goes on, if one does.
func (p *logPrinter) endOpen() {
	if p.open != "" {
		p.buffer = p.cleaner(p.open).endLine(p.buffer)
		p.open = ""
	}
}

func (p *logPrinter) title(name string) {
	p.endOpen()
	p.buffer = append(p.buffer, p.style.paint(bold, "==> "+clean(name))...)
	p.buffer = append(p.buffer, '\n')
}

// heading begins a Step: with its name, and the Attempt when it is not the first.
func (p *logPrinter) heading(l *api.LogLine) {
	name := fmt.Sprintf("step %d", l.Step+1)
	if l.Step >= 0 && l.Step < len(p.steps) {
		name = string(p.steps[l.Step].Kind)
	}
	if l.Attempt > 1 {
		name += fmt.Sprintf(" (attempt %d)", l.Attempt)
	}
	p.title(name)
	p.begun, p.attempt, p.step = true, l.Attempt, l.Step
	clear(p.streams)
}
