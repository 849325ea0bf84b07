package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// Position is a place in a spool to go on reading from.
type Position struct {
	Seq    uint64 // the next record wanted; 0 is taken as 1
	Offset int64  // where that record stands in the file; 0 when not known, which costs a scan
}

// Reader reads a spool, also while it grows. It never returns a torn record. Not safe for
// concurrent use.
type Reader struct {
	path    string
	file    *os.File
	pos     Position
	checked bool // pos.Offset is known to be the border of a frame
	damaged bool
	torn    bool
}

// ReadSpool makes a Reader that returns records from the given position on. The file is opened by
// the first Next, and it need not be there yet.
func ReadSpool(path string, from Position) *Reader {
	from.Seq = max(from.Seq, 1)
	return &Reader{path: path, pos: from}
}

// Position returns where to go on after the records returned so far.
func (r *Reader) Position() Position { return r.pos }

// Torn tells whether the last Next stopped at something that is no record, or not a whole one. When nobody
// writes the spool any more, a crash of the host has left it so; the next OpenSpool cuts it off.
func (r *Reader) Torn() bool { return r.torn }

// Next returns the records that follow: at most limit of them, and no more than fit into maxBytes,
// but always one when one is there. No records and no error means that there are no more yet. The
// records are the caller's to keep.
func (r *Reader) Next(limit, maxBytes int) ([]work.Record, error) {
	if err := r.open(); err != nil || r.file == nil {
		return nil, err
	}
	r.torn = false
	want := max(maxBytes, 4<<10)
	for {
		chunk, err := r.chunk(want)
		if err != nil || len(chunk) == 0 {
			return nil, err
		}
		records, used := r.decode(chunk, limit)
		if used == 0 && len(chunk) == want && want < maxFrame && !r.damaged {
			want = maxFrame // the next record is larger than what was read
			continue
		}
		if !r.checked && used == 0 {
			r.restart() // the remembered offset may not fit this file
			continue
		}
		r.checked = r.checked || used > 0
		r.pos.Offset += int64(used)
		if len(records) > 0 {
			r.pos.Seq = records[len(records)-1].Seq + 1
			return records, nil
		}
		if used == 0 {
			r.torn = true
			return nil, nil
		}
	}
}

// open opens the file unless it is open, and checks its magic. No file and no error: not there yet.
func (r *Reader) open() error {
	if r.file != nil {
		return nil
	}
	file, err := OpenPlain(r.path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening spool: %w", err)
	}
	magic := make([]byte, len(spoolMagic))
	n, err := file.ReadAt(magic, 0)
	if n < len(magic) || string(magic) != spoolMagic {
		_ = file.Close()
		if n < len(magic) && string(magic[:n]) == spoolMagic[:n] {
			return ignoreShort(err)
		}
		return fault.New(fault.Invalid, "not_a_spool", "the file is not a spool")
	}
	r.file = file
	if r.pos.Offset < int64(len(spoolMagic)) {
		r.restart()
	}
	return nil
}

// restart goes to the first record of the file; records before pos.Seq will be passed over.
func (r *Reader) restart() {
	r.pos.Offset, r.checked = int64(len(spoolMagic)), true
}

// chunk reads up to want bytes at the position. Its last frame may be cut.
func (r *Reader) chunk(want int) ([]byte, error) {
	info, err := r.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("looking at spool: %w", err)
	}
	if info.Size() < r.pos.Offset && !r.checked {
		r.restart()
	}
	there := info.Size() - r.pos.Offset
	if there <= 0 {
		return nil, nil
	}
	chunk := make([]byte, min(int64(want), there))
	n, err := r.file.ReadAt(chunk, r.pos.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading spool: %w", err)
	}
	return chunk[:n], nil
}

// decode takes whole frames off the front of chunk: at most limit records that are wanted. used is
// the length of the frames taken.
func (r *Reader) decode(chunk []byte, limit int) (records []work.Record, used int) {
	r.damaged = false
	for len(records) < max(limit, 1) {
		rest := chunk[used:]
		if len(rest) < frameHead {
			break
		}
		length := int(binary.LittleEndian.Uint32(rest))
		if length < payloadHead || length > maxPayload {
			r.damaged = true
			break
		}
		if len(rest) < frameHead+length {
			break
		}
		frame := rest[:frameHead+length]
		seq, ok := frameSeq(frame)
		if !ok || (!r.checked && used == 0 && seq != r.pos.Seq) {
			r.damaged = true
			break
		}
		used += len(frame)
		if seq >= r.pos.Seq {
			records = append(records, decodePayload(frame[frameHead:len(frame):len(frame)]))
		}
	}
	return records, used
}

// Close closes the file. The Position stays valid.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	if err != nil {
		return fmt.Errorf("closing spool: %w", err)
	}
	return nil
}
