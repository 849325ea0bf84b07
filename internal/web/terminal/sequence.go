package terminal

import "bytes"

// kind tells what a piece of a line is.
type kind uint8

const (
	plain      kind = iota // bytes without control characters
	control                // one control character
	colours                // CSI ... m: a change of colours
	move                   // CSI with another final byte
	command                // OSC: an operating system command, such as a link
	ignored                // any other sequence
	incomplete             // a sequence that the end of the data cuts
)

const (
	longestCSI     = 128  // bytes; one that is longer is not one
	longestCommand = 4096 // bytes; of one that does not end within, the beginning alone is left out and the rest is text
	escape         = 0x1b
	bell           = 0x07
)

// piece is a part of a line. For colours and move, body is what stands between "[" and the final byte; for a command what stands
// between "]" and its end.
type piece struct {
	kind  kind
	body  []byte
	final byte
}

// cut gives the first piece of data, which is not empty, and what follows it. It takes one byte at least.
func cut(data []byte) (piece, []byte) {
	if data[0] == escape {
		return cutEscape(data)
	}
	if isControl(data[0]) {
		return piece{kind: control, final: data[0]}, data[1:]
	}
	n := 1
	for n < len(data) && !isControl(data[n]) {
		n++
	}
	return piece{kind: plain, body: data[:n]}, data[n:]
}

func isControl(b byte) bool { return b < 0x20 || b == 0x7f }

func cutEscape(data []byte) (piece, []byte) {
	if len(data) == 1 {
		return piece{kind: incomplete}, nil
	}
	switch b := data[1]; {
	case b == '[':
		return cutCSI(data)
	case b == ']':
		return cutString(data, command)
	case b == 'P' || b == 'X' || b == '^' || b == '_':
		return cutString(data, ignored)
	case b >= 0x20 && b < 0x30: // a character set and the like: ESC ( B
		if len(data) == 2 {
			return piece{kind: incomplete}, nil
		}
		return piece{kind: ignored}, data[min(3, len(data)):]
	case b >= 0x30 && b < 0x7f:
		return piece{kind: ignored}, data[2:]
	}
	return piece{kind: ignored}, data[1:]
}

// cutCSI takes ESC [ parameters final.
func cutCSI(data []byte) (piece, []byte) {
	for i := 2; i < len(data) && i < longestCSI; i++ {
		switch b := data[i]; {
		case b >= 0x40 && b < 0x7f:
			p := piece{kind: move, body: data[2:i], final: b}
			if b == 'm' {
				p.kind = colours
			}
			return p, data[i+1:]
		case b < 0x20 || b >= 0x7f:
			return piece{kind: ignored}, data[i:] // broken off
		}
	}
	if len(data) < longestCSI {
		return piece{kind: incomplete}, nil
	}
	return piece{kind: ignored}, data[2:]
}

// cutString takes what ends with BEL or ESC \.
func cutString(data []byte, k kind) (piece, []byte) {
	within := data[2:min(len(data), longestCommand)]
	for i, b := range within {
		if b == bell {
			return piece{kind: k, body: within[:i]}, data[2+i+1:]
		}
		if b == escape && i+1 < len(within) && within[i+1] == '\\' {
			return piece{kind: k, body: within[:i]}, data[2+i+2:]
		}
	}
	if len(data) < longestCommand {
		return piece{kind: incomplete}, nil
	}
	return piece{kind: ignored}, data[2:]
}

// Plain puts the text of a line behind dst, without colours and other sequences. A carriage return stays as a space, so
// that what was overwritten is found, too.
func Plain(dst, data []byte) []byte {
	if bytes.IndexByte(data, escape) < 0 && bytes.IndexFunc(data, isControlRune) < 0 {
		return append(dst, data...)
	}
	for len(data) > 0 {
		var p piece
		p, data = cut(data)
		switch {
		case p.kind == plain:
			dst = append(dst, p.body...)
		case p.kind == control && (p.final == '\t' || p.final == '\r'):
			dst = append(dst, ' ')
		}
	}
	return dst
}

func isControlRune(r rune) bool { return r < 0x20 || r == 0x7f }
