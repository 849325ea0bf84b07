package cli

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// terminal says what a stream can show.
type terminal struct {
	is      bool // it is a terminal, where a line can be written over
	colours bool
}

func terminalOf(w io.Writer, env func(string) string) *terminal {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return &terminal{}
	}
	dumb := env("TERM") == "dumb"
	return &terminal{is: !dumb, colours: !dumb && env("NO_COLOR") == ""}
}

// isTerminal tells whether somebody can be asked through r.
func isTerminal(r io.Reader) bool {
	file, ok := r.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

const (
	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
	reset  = "\x1b[0m"
)

// paint colours text where there are colours.
func (t *terminal) paint(style, text string) string {
	if !t.colours || style == "" {
		return text
	}
	return style + text + reset
}

// clean makes text of unknown origin safe for one line of a terminal.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case unicode.IsControl(r) || isBidiControl(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// isBidiControl tells of characters that let text look other than it is.
func isBidiControl(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// width gives how many columns the terminal behind w has.
func (t *terminal) width(w io.Writer) int {
	if file, ok := w.(*os.File); ok && t.is {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil {
			return columns
		}
	}
	return 80
}
