package cli

import (
	"fmt"
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
	open          string // the stream whose line is not ended yet; "" when none
	system        string // the last line of the Runner itself that was printed
}

func (a *app) newLogPrinter(steps []work.Step, raw bool) *logPrinter {
	return &logPrinter{w: a.Out, style: a.out, steps: steps, raw: raw, streams: map[string]*logCleaner{}}
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

func (p *logPrinter) cleaner(stream string) *logCleaner {
	c := p.streams[stream]
	if c == nil {
		c = &logCleaner{colours: p.style.colours}
		p.streams[stream] = c
	}
	return c
}

// heading begins a Step: with its name, and the Attempt when it is not the first.
func (p *logPrinter) heading(l *api.LogLine) {
	if p.open != "" {
		p.buffer = p.cleaner(p.open).endLine(p.buffer)
		p.open = ""
	}
	name := fmt.Sprintf("step %d", l.Step+1)
	if l.Step >= 0 && l.Step < len(p.steps) {
		name = string(p.steps[l.Step].Kind)
	}
	if l.Attempt > 1 {
		name += fmt.Sprintf(" (attempt %d)", l.Attempt)
	}
	p.buffer = append(p.buffer, p.style.paint(bold, "==> "+name)...)
	p.buffer = append(p.buffer, '\n')
	p.begun, p.attempt, p.step = true, l.Attempt, l.Step
	clear(p.streams)
}
