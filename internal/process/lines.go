package process

import (
	"bytes"

	"legwork/internal/work"
)

// lines splits a stream of bytes into the data of log records: one line each, without its newline.
// A line longer than work.MaxRecordBytes becomes several, all but the last partial. It holds at
// most one record's data.
type lines struct {
	buf  []byte                          // of the line that is not finished
	open bool                            // a partial record of this line was already given away
	emit func(partial bool, data []byte) // data is valid during the call only
}

// write takes the next bytes of the stream.
func (l *lines) write(p []byte) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			l.hold(p)
			return
		}
		line := p[:end]
		p = p[end+1:]
		if len(l.buf) > 0 || len(line) > work.MaxRecordBytes {
			l.hold(line)
			line = l.buf
		}
		l.give(false, line)
	}
}

// hold keeps p until its line is finished, giving away what is more than one record's data.
func (l *lines) hold(p []byte) {
	for len(l.buf)+len(p) > work.MaxRecordBytes {
		room := work.MaxRecordBytes - len(l.buf)
		l.buf = append(l.buf, p[:room]...)
		p = p[room:]
		l.give(true, l.buf)
	}
	l.buf = append(l.buf, p...)
}

func (l *lines) give(partial bool, data []byte) {
	l.emit(partial, data)
	l.open = partial
	l.buf = l.buf[:0]
}

// pending tells whether a part of a line waits for its end.
func (l *lines) pending() bool { return len(l.buf) > 0 }

// flush gives away a part of a line, as partial: a prompt, a progress bar.
func (l *lines) flush() {
	if l.pending() {
		l.give(true, l.buf)
	}
}

// finish ends the stream. A line without a newline is a line; one of which only partial records
// were given away so far gets an empty last one, so that no reader waits for the rest.
func (l *lines) finish() {
	if l.pending() || l.open {
		l.give(false, l.buf)
	}
}
