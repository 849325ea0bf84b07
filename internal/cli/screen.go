package cli

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// logCleaner makes the log of a Job safe for a terminal. A log is hostile: an escape sequence can retitle the
// window, write over what stands above, or answer for the user. Colours pass, everything else is dropped;
// a carriage return within a line begins a new one, so that nothing is hidden by what follows it.
// It works record by record and keeps its state between the parts of a split line, and colours between lines.
type logCleaner struct {
	colours bool

	state   cleanerState
	params  []byte // of the control sequence being read
	odd     bool   // that sequence is no plain one
	active  []byte // the colours in force, as sequences
	pending []byte // the beginning of a character that goes on in the next record
	back    bool   // a carriage return was seen
	fresh   bool   // something of the line was written
}

type cleanerState uint8

const (
	ground cleanerState = iota
	escape
	sequence // after ESC [
	text     // of a command that ends with ESC \ or BEL
	textOver // ESC within it
)

const maxActive = 128 // bytes of colours carried over to the next line

// clean appends a record to dst. The end of the line is appended unless the record is partial.
func (c *logCleaner) clean(dst, record []byte, partial bool) []byte {
	data := record
	if len(c.pending) > 0 {
		data = append(bytes.Clone(c.pending), record...)
		c.pending = c.pending[:0]
	}
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 && partial && !utf8.FullRune(data) {
			c.pending = append(c.pending, data...)
			break
		}
		dst = c.step(dst, r)
		data = data[size:]
	}
	if partial {
		return dst
	}
	return c.endLine(dst)
}

// endLine ends the line: a sequence that is still open ends, too.
func (c *logCleaner) endLine(dst []byte) []byte {
	if len(c.active) > 0 && c.fresh {
		dst = append(dst, reset...)
	}
	c.state, c.back, c.fresh, c.pending = ground, false, false, c.pending[:0]
	return append(dst, '\n')
}

func (c *logCleaner) step(dst []byte, r rune) []byte {
	switch c.state {
	case escape:
		c.afterEscape(r)
		return dst
	case sequence:
		return c.inControl(dst, r)
	case text, textOver:
		c.inText(r)
		return dst
	}
	switch {
	case r == 0x1b:
		c.state = escape
	case r == 0x9b:
		c.beginControl()
	case r == 0x90 || r == 0x98 || r >= 0x9d && r <= 0x9f:
		c.state = text
	case r == '\r':
		c.back = true
	case r == '\n':
		dst = c.write(dst, 0)
		c.back = true
	case r == '\t' || r >= 0x20 && r != 0x7f && !(r >= 0x80 && r < 0xa0) && !isBidiControl(r):
		dst = c.write(dst, r)
	}
	return dst
}

// write appends a character (0 for none), on a line of its own after a carriage return.
func (c *logCleaner) write(dst []byte, r rune) []byte {
	if c.back && c.fresh {
		if len(c.active) > 0 {
			dst = append(dst, reset...)
		}
		dst = append(dst, '\n')
		c.fresh = false
	}
	c.back = false
	if r == 0 {
		return dst
	}
	if !c.fresh {
		dst = append(dst, c.active...)
		c.fresh = true
	}
	return utf8.AppendRune(dst, r)
}

func (c *logCleaner) afterEscape(r rune) {
	switch {
	case r == '[':
		c.beginControl()
	case r == ']' || r == 'P' || r == 'X' || r == '^' || r == '_':
		c.state = text
	case r == 0x1b || r >= 0x20 && r <= 0x2f: // another one, or an intermediate
	default:
		c.state = ground
	}
}

func (c *logCleaner) beginControl() {
	c.state, c.params, c.odd = sequence, c.params[:0], false
}

func (c *logCleaner) inControl(dst []byte, r rune) []byte {
	switch {
	case r == 0x1b:
		c.state = escape
	case r >= 0x30 && r <= 0x3b && len(c.params) < 64:
		c.params = append(c.params, byte(r))
	case r >= 0x20 && r <= 0x3f:
		c.odd = true
	case r >= 0x40 && r <= 0x7e:
		c.state = ground
		if r == 'm' && !c.odd && c.colours {
			dst = c.colour(dst)
		}
	case r > 0x7e:
		c.state = ground
	}
	return dst
}

func (c *logCleaner) inText(r rune) {
	switch {
	case r == 0x07 || r == 0x9c:
		c.state = ground
	case c.state == textOver && r == '\\':
		c.state = ground
	case r == 0x1b:
		c.state = textOver
	default:
		c.state = text
	}
}

// colour takes a sequence of colours over, as far as it only colours.
func (c *logCleaner) colour(dst []byte) []byte {
	params, resets := colourParams(string(c.params))
	if resets {
		c.active = c.active[:0]
	}
	var sequence []byte
	if resets || params != "" {
		sequence = append(append([]byte("\x1b["), params...), 'm')
	}
	if params != "" {
		if len(c.active)+len(sequence) > maxActive {
			c.active = c.active[:0]
		}
		c.active = append(c.active, sequence...)
	}
	if c.fresh {
		dst = append(dst, sequence...)
	}
	return dst
}

// colourParams keeps the parameters of a colour sequence that are safe. Blinking and hiding are not.
// resets tells that all that was in force before is over.
func colourParams(text string) (kept string, resets bool) {
	tokens := strings.Split(text, ";")
	var out []string
	for i := 0; i < len(tokens); i++ {
		if tokens[i] == "" || tokens[i] == "0" {
			out, resets = nil, true
			continue
		}
		n, err := strconv.Atoi(tokens[i])
		switch {
		case err != nil || n == 5 || n == 6 || n == 8 || n < 0 || n > 107:
		case n == 38 || n == 48 || n == 58:
			if extra := extended(tokens[i:]); extra > 0 {
				out = append(out, tokens[i:i+extra]...)
				i += extra - 1
			} else {
				return strings.Join(out, ";"), resets
			}
		default:
			out = append(out, tokens[i])
		}
	}
	return strings.Join(out, ";"), resets
}

// extended gives how many tokens an extended colour has, 0 when it is malformed.
func extended(tokens []string) int {
	if len(tokens) < 2 {
		return 0
	}
	count := map[string]int{"5": 3, "2": 5}[tokens[1]]
	if count == 0 || len(tokens) < count {
		return 0
	}
	for _, token := range tokens[2:count] {
		if n, err := strconv.Atoi(token); err != nil || n < 0 || n > 255 {
			return 0
		}
	}
	return count
}
