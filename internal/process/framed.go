package process

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"legwork/internal/work"
)

// mostOpenLines bounds of how many streams, Nodes and Items a line may be in parts at once.
const mostOpenLines = 1 << 15

// framed reads the frames that a command prints, and makes each a record. The data is masked once more: of a line that comes in parts,
// across them. A damaged frame ends the framing: what follows is taken as plain lines, and a record of the stream System says so.
type framed struct {
	spool  *Spool
	masker *Masker
	buf    []byte // of a frame that is not whole
	open   map[lineKey]*MaskStream
	clear  []byte     // scratch: data after masking
	joined []byte     // scratch of whichever MaskStream works
	single MaskStream // of a line that is one frame
	plain  *Output    // once a frame was damaged
	now    time.Time
}

// lineKey is of whose line a record is.
type lineKey struct {
	stream     work.Stream
	node, item int
}

func newFramed(spool *Spool, masker *Masker) *framed {
	return &framed{spool: spool, masker: masker, single: MaskStream{masker: masker}, open: map[lineKey]*MaskStream{}}
}

func (f *framed) pending() bool { return f.plain != nil && f.plain.pending() }

func (f *framed) idle(now time.Time) {
	if f.plain != nil {
		f.plain.idle(now)
	}
}

func (f *framed) feed(p []byte, now time.Time) {
	f.now = now
	if f.plain != nil {
		f.plain.feed(p, now)
		return
	}
	if len(f.buf) > 0 {
		p = append(f.buf, p...)
	}
	for len(p) >= framedHead {
		head, err := parseFrame(p)
		if err == nil && len(p) < framedHead+head.length {
			break
		}
		if err == nil {
			err = f.take(head, p[framedHead:framedHead+head.length])
		}
		if err != nil {
			f.buf = nil
			f.damaged(p, err)
			return
		}
		p = p[framedHead+head.length:]
	}
	f.buf = append(f.buf[:0], p...)
}

// damaged goes on with plain lines.
func (f *framed) damaged(rest []byte, why error) {
	f.closeLines()
	f.say(fmt.Sprintf("the output of the step cannot be told apart by Nodes from here on (%v): it follows as it came", why))
	f.plain = NewOutput(f.spool, work.Stdout, f.masker)
	f.plain.feed(rest, f.now)
}

func (f *framed) say(text string) {
	f.spool.add(&work.Record{Stream: work.System, Data: []byte(text), Time: f.now})
}

func (f *framed) finish(now time.Time) {
	f.now = now
	if f.plain != nil {
		f.plain.finish(now)
		return
	}
	if len(f.buf) > 0 {
		f.cutOff()
	}
	f.closeLines()
}

// cutOff takes what there is of a frame in the middle of which the output ended.
func (f *framed) cutOff() {
	if len(f.buf) > framedHead {
		if head, err := parseFrame(f.buf); err == nil && head.stream != work.Progress {
			head.partial = false
			_ = f.take(head, f.buf[framedHead:]) // which fails for Progress alone
		}
	}
	f.buf = nil
	f.say("the output of the step ended in the middle of a line")
}

// take makes records of a whole frame.
func (f *framed) take(head outFrame, data []byte) error {
	key := lineKey{head.stream, head.node, head.item}
	if head.stream == work.Progress {
		masked, err := maskEvent(f.masker, data)
		if err == nil {
			f.add(key, false, masked)
		}
		return err
	}
	mask := f.open[key]
	switch {
	case mask == nil && head.partial:
		mask = f.masker.Stream()
		f.keep(key, mask)
	case mask == nil:
		mask = &f.single
	}
	mask.joined = f.joined
	f.clear = mask.Write(f.clear[:0], data)
	if !head.partial {
		f.clear = mask.Finish(f.clear)
		delete(f.open, key)
	}
	f.joined, mask.joined = mask.joined, nil
	f.line(key, head.partial, f.clear)
	return nil
}

// keep notes that a line goes on. Where too many do, all of them end here.
func (f *framed) keep(key lineKey, mask *MaskStream) {
	if len(f.open) >= mostOpenLines {
		f.closeLines()
	}
	f.open[key] = mask
}

// line adds the records of a line or a part of one. Data that is not one line, against the rules, becomes several.
func (f *framed) line(key lineKey, partial bool, data []byte) {
	for {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			break
		}
		f.add(key, false, data[:end])
		data = data[end+1:]
	}
	if !partial || len(data) > 0 {
		f.add(key, partial, data)
	}
}

// add adds a record; data that is longer than one may be, several.
func (f *framed) add(key lineKey, partial bool, data []byte) {
	for len(data) > work.MaxRecordBytes {
		f.spool.add(&work.Record{Stream: key.stream, Node: key.node, Item: key.item, Partial: true, Data: data[:work.MaxRecordBytes], Time: f.now})
		data = data[work.MaxRecordBytes:]
	}
	f.spool.add(&work.Record{Stream: key.stream, Node: key.node, Item: key.item, Partial: partial, Data: data, Time: f.now})
}

// closeLines ends the lines that go on, so that nobody waits for the rest.
func (f *framed) closeLines() {
	keys := make([]lineKey, 0, len(f.open))
	for key := range f.open {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b lineKey) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.item, b.item), cmp.Compare(a.stream, b.stream))
	})
	for _, key := range keys {
		f.clear = f.open[key].Finish(f.clear[:0])
		f.line(key, false, f.clear)
	}
	clear(f.open)
}

// maskEvent masks the texts of a NodeEvent, and nothing of what makes it one: a secret may well be "status". What is no NodeEvent is
// an error: the Server would end the Session for it.
func maskEvent(masker *Masker, data []byte) ([]byte, error) {
	if _, err := work.ParseNodeEvent(data); err != nil {
		return nil, err
	}
	if masker == nil || len(masker.byHead) == 0 {
		return data, nil
	}
	var event map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&event); err != nil {
		return nil, err
	}
	for name, value := range event {
		switch name {
		case "status", "started", "finished":
		default:
			event[name] = maskTexts(masker, value)
		}
	}
	masked, err := encodeJSON(event)
	if err != nil {
		return nil, err
	}
	_, err = work.ParseNodeEvent(masked)
	return masked, err
}

// maskTexts masks all texts of a JSON value but the names of fields and what stands in a field "code".
func maskTexts(masker *Masker, value any) any {
	switch v := value.(type) {
	case string:
		return masker.Mask(v)
	case []any:
		for i := range v {
			v[i] = maskTexts(masker, v[i])
		}
	case map[string]any:
		for name := range v {
			if name != "code" {
				v[name] = maskTexts(masker, v[name])
			}
		}
	}
	return value
}
