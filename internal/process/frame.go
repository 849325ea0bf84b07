package process

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// A frame of the standard output of a command whose Spec is Framed: a head, and the data of one record. Numbers are little-endian.
//
//	frameMagic (2 bytes), stream (1), flags (1: partial), length of data (4), Node (4), Item (4), data
//
// The data is one line without its end, or a part of one; or the JSON of a work.NodeEvent.
const (
	frameMagic = "\xf7L"
	framedHead = 16
)

// outFrame is a frame that was read, or is to be written.
type outFrame struct {
	stream     work.Stream
	partial    bool
	node, item int
	length     int // of data
}

func (f outFrame) append(b []byte) []byte {
	var flags byte
	if f.partial {
		flags = flagPartial
	}
	b = append(b, frameMagic...)
	b = append(b, byte(f.stream), flags)
	b = binary.LittleEndian.AppendUint32(b, uint32(f.length))
	b = binary.LittleEndian.AppendUint32(b, uint32(f.node))
	return binary.LittleEndian.AppendUint32(b, uint32(f.item))
}

// parseFrame reads a head, which is whole.
func parseFrame(head []byte) (f outFrame, err error) {
	length, node, item := binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint32(head[8:]), binary.LittleEndian.Uint32(head[12:])
	f = outFrame{stream: work.Stream(head[2]), partial: head[3] == flagPartial}
	switch {
	case string(head[:2]) != frameMagic:
		return f, errors.New("something else was printed among the frames")
	case f.stream < work.Stdout || f.stream > work.Progress:
		return f, fmt.Errorf("a frame is of the stream %d", head[2])
	case head[3] > flagPartial || f.partial && f.stream == work.Progress:
		return f, fmt.Errorf("a frame has the flags %d", head[3])
	case length > work.MaxRecordBytes:
		return f, fmt.Errorf("a frame has %d bytes", length)
	case node > work.MaxLogIndex || item > work.MaxLogIndex:
		return f, fmt.Errorf("a frame is about the Node %d and the Item %d", node, item)
	}
	f.length, f.node, f.item = int(length), int(node), int(item)
	return f, nil
}

// FrameWriter writes the frames of a command whose Spec is Framed to its standard output. Each frame is one Write of at most 64 KiB and a
// head of 16 bytes. After a Write that failed nothing is written any more, and every call returns its error. Safe for concurrent use.
type FrameWriter struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
	err error
}

// NewFrameWriter makes a FrameWriter.
func NewFrameWriter(w io.Writer) *FrameWriter { return &FrameWriter{w: w} }

// Line writes a line, which has no newline, or with partial a part of one that goes on in the next frame of this stream, Node and Item.
// These two are counted from 1, as in work.Record; 0 is none. What is longer than work.MaxRecordBytes becomes several frames.
// Without masking: see Output.
func (f *FrameWriter) Line(stream work.Stream, node, item int, partial bool, data []byte) error {
	if stream < work.Stdout || stream > work.System || node < 0 || item < 0 || node > work.MaxLogIndex || item > work.MaxLogIndex {
		return fault.New(fault.Internal, "bad_frame", "a frame cannot be of stream %d, Node %d and Item %d", stream, node, item)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(data) > work.MaxRecordBytes {
		f.write(outFrame{stream: stream, partial: true, node: node, item: item}, data[:work.MaxRecordBytes])
		data = data[work.MaxRecordBytes:]
	}
	f.write(outFrame{stream: stream, partial: partial, node: node, item: item}, data)
	return f.err
}

// Event writes a NodeEvent. One that the Server would refuse is a fault: TooLarge when its JSON is larger than work.MaxRecordBytes, which
// Values and Detail may be to blame for, else Internal. Nothing is written then.
func (f *FrameWriter) Event(e work.NodeEvent) error {
	data, err := encodeJSON(e)
	if err == nil && len(data) > work.MaxRecordBytes {
		return fault.New(fault.TooLarge, "event_too_large", "what a step passes on has %d bytes, %d are the most", len(data), work.MaxRecordBytes).
			WithHint("write less to $LEGWORK_OUTPUT")
	}
	if err == nil {
		_, err = work.ParseNodeEvent(data)
	}
	if err != nil {
		return fault.New(fault.Internal, "bad_event", "the progress of a step cannot be told").WithCause(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.write(outFrame{stream: work.Progress, node: e.Node + 1, item: e.Item + 1}, data)
	return f.err
}

// write writes one frame at once. The caller holds mu.
func (f *FrameWriter) write(of outFrame, data []byte) {
	if f.err != nil {
		return
	}
	of.length = len(data)
	f.buf = append(of.append(f.buf[:0]), data...)
	if _, err := f.w.Write(f.buf); err != nil {
		f.err = fmt.Errorf("writing a frame: %w", err)
	}
}

// encodeJSON gives the JSON of a value without a newline, and without the escapes that make it fit for HTML.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// FrameOutput turns what is printed on one stream about one Node and Item into frames: secrets masked, also those that are split
// over two writes, and split into lines. Safe for concurrent use.
type FrameOutput struct {
	mu    sync.Mutex
	mask  *MaskStream
	lines lines
	clear []byte // scratch: bytes after masking
	err   error
}

// Output makes a FrameOutput. A nil Masker masks nothing.
func (f *FrameWriter) Output(stream work.Stream, node, item int, masker *Masker) *FrameOutput {
	o := &FrameOutput{mask: masker.Stream()}
	o.lines.emit = func(partial bool, data []byte) {
		if err := f.Line(stream, node, item, partial, data); o.err == nil {
			o.err = err
		}
	}
	return o
}

// Write takes the next bytes of the stream. Finished lines are written when it returns; the rest of a line waits for its end, or for
// Flush.
func (o *FrameOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear = o.mask.Write(o.clear[:0], p)
	o.lines.write(o.clear)
	return len(p), o.err
}

// Pending tells whether a part of a line waits that Flush would write.
func (o *FrameOutput) Pending() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines.pending()
}

// Flush writes a part of a line, as partial: for a prompt, or progress. What may be a secret's beginning stays.
func (o *FrameOutput) Flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines.flush()
	return o.err
}

// Close ends the stream and writes what waited. It does not close the FrameWriter.
func (o *FrameOutput) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear = o.mask.Finish(o.clear[:0])
	o.lines.write(o.clear)
	o.lines.finish()
	return o.err
}
