package process

import (
	"time"

	"legwork/internal/work"
)

// Output turns what a command prints on one stream into records of a spool: secrets masked, split
// into lines. Not safe for concurrent use, but several Outputs may share a Spool and a Masker.
type Output struct {
	spool  *Spool
	stream work.Stream
	mask   MaskStream
	lines  lines
	clear  []byte    // scratch: bytes after masking
	now    time.Time // of the bytes at hand
}

// NewOutput makes an Output. A nil Masker masks nothing.
func NewOutput(spool *Spool, stream work.Stream, masker *Masker) *Output {
	o := &Output{spool: spool, stream: stream, mask: MaskStream{masker: masker}}
	o.lines.emit = func(partial bool, data []byte) {
		spool.add(&work.Record{Stream: o.stream, Partial: partial, Data: data, Time: o.now})
	}
	return o
}

// Write takes the next bytes of the stream. Finished lines are in the file when it returns; the
// rest of a line waits for its end. It takes all of p even when it returns an error, which is then
// the one of Spool.Flush.
func (o *Output) Write(p []byte) (int, error) {
	o.feed(p, time.Now())
	return len(p), o.spool.Flush()
}

// Close ends the stream and writes what waited.
func (o *Output) Close() error {
	o.finish(time.Now())
	return o.spool.Flush()
}

// feed is Write without the Flush.
func (o *Output) feed(p []byte, now time.Time) {
	o.now = now
	o.clear = o.mask.Write(o.clear[:0], p)
	o.lines.write(o.clear)
}

// pending tells whether a part of a line waits that idle would give away.
func (o *Output) pending() bool { return o.lines.pending() }

// idle gives away a part of a line as partial, but nothing that may be a secret's beginning.
func (o *Output) idle(now time.Time) {
	o.now = now
	o.lines.flush()
}

func (o *Output) finish(now time.Time) {
	o.now = now
	o.clear = o.mask.Finish(o.clear[:0])
	o.lines.write(o.clear)
	o.lines.finish()
}
