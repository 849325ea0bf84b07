// Package terminal makes HTML of the lines of a log, with the colours and the overwriting that a terminal would show. Its input is
// hostile: whatever the bytes are, what comes out is text, spans with a class out of a fixed list, and links to http and https.
//
// One line is one row. What moves the cursor up or down, and what a terminal would answer to, is left out; what moves it within the line, such as
// a carriage return or a backspace, overwrites as it does on a terminal.
package terminal

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	library "github.com/buildkite/terminal-to-html/v3"
)

const (
	// Columns is how wide a line may be: what is further right is cut off. The widest line makes all of a log as wide.
	Columns = 2000
	// LineBytes is how much of a line is looked at: its end where that overwrites what stood before, else its beginning.
	LineBytes = 64 << 10

	longestLink = 2000
	screenLines = 8 // one is used; the library wants room
)

// Screen renders lines. It is not safe for concurrent use, and costs too much to make one for each line.
type Screen struct {
	screen *library.Screen
	in     []byte // what the screen is given
	column int    // of its cursor
	linked bool
	html   []byte // of the line, before its URLs are links
}

// NewScreen makes a screen.
func NewScreen() *Screen {
	s := &Screen{}
	s.renew()
	return s
}

func (s *Screen) renew() {
	screen, err := library.NewScreen(library.WithSize(Columns, screenLines))
	if err != nil {
		panic(err) // the size is constant
	}
	s.screen = screen
}

// Line puts the HTML of a line, which a stream in a state prints, behind dst. whole is false when some of it was cut off.
func (s *Screen) Line(dst []byte, begin State, data []byte) (html []byte, whole bool) {
	data, whole = bounded(data)
	if begin.style == (style{}) && len(data) <= Columns && isSimple(data) {
		return s.withLinks(dst, appendText(s.html[:0], data)), whole
	}
	s.in, s.column, s.linked = s.in[:0], 0, false
	if begin.style != (style{}) {
		s.in = begin.style.sequence(s.in)
	}
	now := begin.style
	for len(data) > 0 {
		var p piece
		p, data = cut(data)
		switch p.kind {
		case plain:
			whole = s.text(p.body) && whole
		case control:
			s.control(p.final)
		case colours:
			if next := now.with(p.body); next != now {
				now = next
				s.in = now.sequence(s.in)
			}
		case move:
			s.move(p)
		case command:
			s.command(p.body)
		}
	}
	_, _ = s.screen.Write(s.in) // never fails
	out := s.screen.AsHTML()
	s.clear()
	return s.withLinks(dst, appendSafe(s.html[:0], out)), whole
}

// withLinks appends a line of HTML to dst, with links. It keeps the buffer of the line for the next one.
func (s *Screen) withLinks(dst, html []byte) []byte {
	s.html = html
	return appendLinks(dst, html)
}

// bounded gives the part of a line that is looked at.
func bounded(data []byte) (part []byte, whole bool) {
	if len(data) <= LineBytes {
		return data, true
	}
	end := data[len(data)-LineBytes:]
	if i := bytes.IndexByte(end, '\r'); i >= 0 && i < len(end)-1 {
		return end[i:], true
	}
	return data[:LineBytes], false
}

// clear empties the screen for the next line.
func (s *Screen) clear() {
	_, _ = s.screen.Write([]byte("\r\x1b[0m\x1b]8;;\x07\x1b[2K"))
	if s.screen.LinesScrolledOut > 0 || s.screen.AsHTML() != "&nbsp;" {
		s.renew() // should not be: what is written never leaves the first line
	}
}

// isSimple tells whether text is shown as it is.
func isSimple(data []byte) bool {
	for i := 0; i < len(data); {
		b := data[i]
		if b >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(data[i:])
			if n == 1 || shown(r) != r {
				return false
			}
			i += n
			continue
		}
		if isControl(b) && b != '\t' {
			return false
		}
		i++
	}
	return true
}

// shown gives what is shown for a rune: one that would turn the order of what is around it is replaced, as what is not valid is.
func shown(r rune) rune {
	switch {
	case r >= 0x80 && r < 0xa0, unicode.Is(unicode.Bidi_Control, r), r == 0x2028, r == 0x2029, r == 0xfeff:
		return utf8.RuneError
	}
	return r
}

// text writes characters as far as the line is wide.
func (s *Screen) text(data []byte) (whole bool) {
	for len(data) > 0 {
		if s.column >= Columns {
			return false
		}
		r, n := utf8.DecodeRune(data)
		s.in = utf8.AppendRune(s.in, shown(r))
		s.column++
		data = data[n:]
	}
	return true
}

func (s *Screen) control(b byte) {
	switch b {
	case '\r':
		s.column = 0
	case '\b':
		s.column = max(s.column-1, 0)
	case '\t':
		if s.column >= Columns {
			return
		}
		s.column++
	default:
		return
	}
	s.in = append(s.in, b)
}

// move does what stays in the line.
func (s *Screen) move(p piece) {
	n := 1
	if len(p.body) > 0 {
		n = small(p.body)
	}
	if n > 255 && len(p.body) > 0 {
		n = Columns
		if len(p.body) <= 4 {
			n = 0
			for _, d := range p.body {
				if d < '0' || d > '9' {
					return
				}
				n = n*10 + int(d-'0')
			}
		}
	}
	switch p.final {
	case 'C':
		s.goTo(s.column + max(n, 1))
	case 'D':
		s.goTo(s.column - max(n, 1))
	case 'G':
		s.goTo(n - 1)
	case 'K', 'J':
		if len(p.body) == 0 || len(p.body) == 1 && (p.body[0] == '0' || p.final == 'K' && (p.body[0] == '1' || p.body[0] == '2')) {
			s.in = append(append(append(s.in, escape, '['), p.body...), 'K')
		}
	}
}

// goTo moves the cursor to a column.
func (s *Screen) goTo(column int) {
	s.column = min(max(column, 0), Columns-1)
	s.in = append(s.in, escape, '[')
	s.in = appendNumber(s.in, s.column+1)
	s.in = append(s.in, 'G')
}

// command begins and ends links: OSC 8 ; parameters ; address.
func (s *Screen) command(body []byte) {
	rest, ok := bytes.CutPrefix(body, []byte("8;"))
	if !ok {
		return
	}
	_, address, ok := bytes.Cut(rest, []byte{';'})
	if !ok {
		return
	}
	s.in = append(s.in, "\x1b]8;;"...)
	if isLink(address) {
		for _, b := range address {
			if b == ';' { // which the library takes for the end
				s.in = append(s.in, "%3B"...)
				continue
			}
			s.in = append(s.in, b)
		}
	}
	s.in = append(s.in, bell)
}

// isLink tells whether a page may link to an address.
func isLink(address []byte) bool {
	lower := bytes.ToLower(address[:min(len(address), 8)])
	if len(address) > longestLink || !bytes.HasPrefix(lower, []byte("http://")) && !bytes.HasPrefix(lower, []byte("https://")) {
		return false
	}
	return bytes.IndexFunc(address, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"'<>`\\", r) }) < 0
}
