package engine

import (
	"bytes"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/lazyregexp"
	"legwork/internal/work"
)

// The bounds of an excerpt.
const (
	maxExcerptLines = 12
	maxExcerptLine  = 400 // bytes of one line
	lastLines       = 8   // quoted when the log has no line that is known to be an error
)

// errorStyle describes how a family of programs prints an error.
type errorStyle struct {
	begin    *lazyregexp.Regexp // the first line of an error; its first group is the summary
	end      *lazyregexp.Regexp // the first line that no longer belongs to it
	frame    string             // decorates the lines of an error
	location *lazyregexp.Regexp // its first group is a file, its second a line number
}

var (
	terraformStyle = errorStyle{
		begin:    lazyregexp.New(`^(?:│ )?Error: (.+)$`),
		end:      lazyregexp.New(`^(?:╵|╷|(?:│ )?(?:Error|Warning): )`),
		frame:    "│",
		location: lazyregexp.New(`^\s*on (\S+) line (\d+)`),
	}
	pulumiStyle = errorStyle{
		begin: lazyregexp.New(`^\s*error: (.+)$`),
		end:   lazyregexp.New(`^(?:\S|\s*(?:error|warning): )`),
	}
	ansibleStyle = errorStyle{
		begin: lazyregexp.New(`^(?:fatal|failed|unreachable): (.+)$`),
		end:   lazyregexp.New(`^\S`),
	}
	errorStyles = map[string]errorStyle{
		string(catalog.Terraform): terraformStyle,
		string(catalog.OpenTofu):  terraformStyle,
		string(catalog.Pulumi):    pulumiStyle,
		AnsibleTool:               ansibleStyle,
	}
)

// AnsibleTool names the style of playbooks in NewExcerpter.
const AnsibleTool = "ansible"

// Excerpter finds the lines of a log that explain a failure: the first error of a program whose style is known, and
// otherwise the last lines that were printed. It holds a bounded number of them, however long the log is.
type Excerpter struct {
	style errorStyle
	known bool
	open  map[work.Stream]*excerptLine // lines that go on in a later record
	last  []excerptLine
	found []excerptLine
	over  bool // the end of the error was seen
}

type excerptLine struct {
	seq  uint64
	text string
}

// NewExcerpter returns an Excerpter for the log of a program, for example "opentofu". An unknown name is valid.
func NewExcerpter(program string) *Excerpter {
	style, known := errorStyles[program]
	return &Excerpter{style: style, known: known, open: map[work.Stream]*excerptLine{}}
}

// Add takes in the next record of the log. Only what programs printed counts.
func (e *Excerpter) Add(r *work.Record) {
	if r.Stream != work.Stdout && r.Stream != work.Stderr {
		return
	}
	line := e.open[r.Stream]
	if line == nil {
		line = &excerptLine{seq: r.Seq}
		e.open[r.Stream] = line
	}
	if room := 4*maxExcerptLine - len(line.text); room > 0 { // escape sequences take part of it
		line.text += string(r.Data[:min(len(r.Data), room)])
	}
	if r.Partial {
		return
	}
	delete(e.open, r.Stream)
	line.text = plainLine(line.text)
	e.addLine(*line)
}

func (e *Excerpter) addLine(line excerptLine) {
	switch {
	case e.over:
		return
	case len(e.found) > 0:
		if e.style.end.MatchString(line.text) || len(e.found) == maxExcerptLines {
			e.over = true
			return
		}
		e.found = append(e.found, line)
		return
	case e.known && e.style.begin.MatchString(line.text) && !strings.HasSuffix(line.text, "(ignored)"):
		e.found = append(e.found, line)
		return
	}
	if strings.TrimSpace(line.text) == "" {
		return
	}
	if len(e.last) == lastLines {
		e.last = slices.Delete(e.last, 0, 1)
	}
	e.last = append(e.last, line)
}

// Excerpt returns what was found, and nil when nothing was printed. Attempt and step are for the caller to add.
func (e *Excerpter) Excerpt() *work.Excerpt {
	lines := e.found
	if len(lines) == 0 {
		lines = e.last
	}
	if len(lines) == 0 {
		return nil
	}
	x := &work.Excerpt{Seq: lines[0].seq}
	if len(e.found) > 0 {
		x.Summary = strings.TrimSpace(e.style.begin.FindStringSubmatch(lines[0].text)[1])
		x.Location = e.location()
	}
	for _, line := range lines {
		text := strings.TrimPrefix(line.text, e.style.frame)
		x.Lines = append(x.Lines, strings.TrimRight(strings.TrimPrefix(text, " "), " "))
	}
	for len(x.Lines) > 1 && x.Lines[len(x.Lines)-1] == "" {
		x.Lines = x.Lines[:len(x.Lines)-1]
	}
	return x
}

// location returns the file and line that the error names, for example "main.tf line 10".
func (e *Excerpter) location() string {
	if e.style.location == nil {
		return ""
	}
	for _, line := range e.found {
		text := strings.TrimPrefix(line.text, e.style.frame)
		if at := e.style.location.FindStringSubmatch(text); at != nil {
			return at[1] + " line " + at[2]
		}
	}
	return ""
}

var (
	controlSequence = lazyregexp.New(`\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])`)
	controlRune     = func(r rune) bool { return (r < ' ' && r != '\t') || (r >= 0x7f && r < 0xa0) }
)

// plainLine returns a line as a terminal shows it in the end, without colors and bounded.
func plainLine(text string) string {
	text = strings.ToValidUTF8(controlSequence.ReplaceAllString(text, ""), "?")
	text = strings.TrimRight(text, "\r")
	text = text[strings.LastIndexByte(text, '\r')+1:]
	text = strings.Map(func(r rune) rune {
		if controlRune(r) {
			return -1
		}
		return r
	}, text)
	if len(text) > maxExcerptLine {
		text = string(bytes.ToValidUTF8([]byte(text[:maxExcerptLine]), nil)) + "…"
	}
	return text
}
