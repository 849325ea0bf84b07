package terminal

import (
	"bytes"
	"strconv"
)

// style is how text looks: one of the sixteen colours of a terminal for itself and for its ground, and more. The colours of larger palettes
// become the nearest of the sixteen, for which the page has one of its own that can be read.
type style struct {
	fg, bg                                        uint8 // 0: that of the log; else 30 to 37, 90 to 97
	bold, faint, italic, underline, strike, swaps bool
}

// State is what one line leaves to the next of the same stream: its colours. The zero value is that of a stream that begins. States
// can be compared.
type State struct {
	style style
	rest  string // a sequence that the end of a part of a line cut
}

// After gives the state after some data. With more, data is a part of a line that goes on.
func (s State) After(data []byte, more bool) State {
	if s.rest != "" {
		data = append([]byte(s.rest), data...)
		s.rest = ""
	}
	for {
		i := bytes.IndexByte(data, escape)
		if i < 0 {
			return s
		}
		p, rest := cut(data[i:])
		switch p.kind {
		case colours:
			s.style = s.style.with(p.body)
		case incomplete:
			if more {
				s.rest = string(data[i:])
			}
			return s
		}
		data = rest
	}
}

// with applies the parameters of a change of colours, such as "1;31" or "38;5;208".
func (s style) with(parameters []byte) style {
	if len(parameters) > 0 && (parameters[0] < '0' || parameters[0] > ';') { // a private sequence that ends like one
		return s
	}
	var values [32]int
	n := 0
	for field := range bytes.FieldsFuncSeq(append([]byte{'0'}, parameters...), func(r rune) bool { return r == ';' || r == ':' }) {
		if n == len(values) {
			break
		}
		values[n] = small(field)
		n++
	}
	for i := 0; i < n; {
		i += s.apply(values[i:n])
	}
	return s
}

// small reads a number; what is none, or is too large to mean anything, is 256.
func small(digits []byte) int {
	n := 0
	for _, d := range digits {
		if d < '0' || d > '9' || n > 255 {
			return 256
		}
		n = n*10 + int(d-'0')
	}
	return min(n, 256)
}

// apply takes the first of some values, with those that belong to it, and tells how many these are.
func (s *style) apply(v []int) int {
	switch c := v[0]; {
	case c == 0:
		*s = style{}
	case c == 1:
		s.bold, s.faint = true, false
	case c == 2:
		s.faint, s.bold = true, false
	case c == 3:
		s.italic = true
	case c == 4:
		s.underline = true
	case c == 7:
		s.swaps = true
	case c == 9:
		s.strike = true
	case c == 21 || c == 22:
		s.bold, s.faint = false, false
	case c == 23:
		s.italic = false
	case c == 24:
		s.underline = false
	case c == 27:
		s.swaps = false
	case c == 29:
		s.strike = false
	case c >= 30 && c <= 37 || c >= 90 && c <= 97:
		s.fg = uint8(c)
	case c == 39:
		s.fg = 0
	case c >= 40 && c <= 47 || c >= 100 && c <= 107:
		s.bg = uint8(c - 10)
	case c == 49:
		s.bg = 0
	case c == 38 || c == 48:
		colour, taken := larger(v)
		if c == 38 {
			s.fg = colour
		} else {
			s.bg = colour
		}
		return taken
	}
	return 1
}

// larger reads 38;5;n and 38;2;r;g;b.
func larger(v []int) (colour uint8, taken int) {
	switch {
	case len(v) >= 3 && v[1] == 5:
		return ofPalette(v[2]), 3
	case len(v) >= 5 && v[1] == 2:
		return nearest(v[2], v[3], v[4]), 5
	}
	return 0, len(v)
}

// ofPalette gives the nearest of sixteen to one of 256.
func ofPalette(n int) uint8 {
	level := func(i int) int {
		if i == 0 {
			return 0
		}
		return 55 + 40*i
	}
	switch {
	case n < 8:
		return uint8(30 + n)
	case n < 16:
		return uint8(90 + n - 8)
	case n < 232:
		n -= 16
		return nearest(level(n/36), level(n/6%6), level(n%6))
	case n < 256:
		grey := 8 + 10*(n-232)
		return nearest(grey, grey, grey)
	}
	return 0
}

// nearest gives one of sixteen for a mix of red, green and blue: grey by how bright it is, else by which of the three it has much of.
func nearest(r, g, b int) uint8 {
	high, low := max(r, g, b), min(r, g, b)
	if high-low < 40 {
		switch {
		case high < 64:
			return 30
		case high < 150:
			return 90
		case high < 220:
			return 37
		}
		return 97
	}
	middle := (high + low) / 2
	colour := 30
	for i, part := range [...]int{r, g, b} {
		if part > middle {
			colour += 1 << i
		}
	}
	if high > 215 {
		colour += 60
	}
	return uint8(colour)
}

// sequence writes the style as one that sets all of it.
func (s style) sequence(dst []byte) []byte {
	dst = append(dst, escape, '[', '0')
	fg, bg := s.fg, s.bg
	if s.swaps {
		if fg, bg = bg, fg; bg == 0 {
			bg = 37
		}
	}
	for i, on := range [...]bool{1: s.bold, 2: s.faint, 3: s.italic, 4: s.underline, 9: s.strike} {
		if on {
			dst = append(dst, ';', byte('0'+i))
		}
	}
	if fg != 0 {
		dst = strconv.AppendInt(append(dst, ';'), int64(fg), 10)
	}
	if bg != 0 {
		dst = strconv.AppendInt(append(dst, ';'), int64(bg)+10, 10)
	}
	return append(dst, 'm')
}
