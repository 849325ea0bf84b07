package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"legwork/internal/work"
)

// A chunk is a sequence of runs. A run is records of one Attempt and Step that follow one another:
//
//	run    = key step first-seq count time record...              (uvarints; time a varint of microseconds since 1970)
//	record = length<<3|partial<<2|stream  [more]  time  bytes      (uvarint; varint of microseconds since the one before)
//	key    = part*1000 + attempt                                   (a Part is from 1 on, 0 when the Job has none)
//	more   = stream node item                                      (uvarints)
//
// The stream in the head of a record is 1, 2 or 3, which is the whole of it. It is 0, a mark, when more follows: of a record that is about a
// Node or an Item, or of the stream Progress. Logs from before there were Nodes have no such mark and no Part, and read as they are.
//
// Runs can simply be put behind one another, so that an open chunk grows without being read. A chunk is stored as a
// frame: zstd, or for small ones a zero byte and the chunk as it is.

const (
	// chunkMost is about how many bytes a chunk holds: what has to be unpacked to read one record.
	chunkMost = 256 << 10
	// tailMost is up to how many bytes the records of small batches are gathered before they become a chunk. The
	// tail is written anew with every batch.
	tailMost = 16 << 10
	// packedLeast is the size below which compression is not worth it.
	packedLeast = 256
	// unpackedMost bounds what a frame may unpack to.
	unpackedMost = 1 << 20
	recordHead   = 16 // bytes of a record beside its data, at most
	recordMore   = 8  // of one that bears a Node, beside these
	keyFactor    = 1000
	rawFrame     = 0 // first byte of a frame that is not compressed; zstd's is 0x28
)

// LogLine is one stored record. Pos is its place in the Job's log, rising by one from 1 in the order of storing.
type LogLine struct {
	Pos     int64
	Part    int // of a Runbook Job, from 1; 0 where the Job has none
	Attempt int // of the Part, or of the Job
	Step    int
	work.Record
}

// LogKey names one sequence of records in a Job's log.
type LogKey struct {
	Part    int // of a Runbook Job, below 1,000; 0 where the Job has none
	Attempt int // below 1,000
	Step    int
}

// run is Part and Attempt as one number.
func (k LogKey) run() int { return k.Part*keyFactor + k.Attempt }

func (l *LogLine) key() LogKey { return LogKey{l.Part, l.Attempt, l.Step} }

// LogChunk is a run of records stored together.
type LogChunk struct {
	First, Count int64  // positions
	Data         []byte // a frame: zstd, or a zero byte and the plain chunk
}

var errBadChunk = errors.New("damaged chunk of a log")

// zstdWriter and zstdReader hold no state between calls and are safe for concurrent use.
var (
	zstdWriter = sync.OnceValue(func() *zstd.Encoder {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(chunkMost),
			zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(true))
		if err != nil {
			panic(err) // the options above are constant
		}
		return w
	})
	zstdReader = sync.OnceValue(func() *zstd.Decoder {
		r, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(unpackedMost), zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)),
			zstd.WithDecoderLowmem(true))
		if err != nil {
			panic(err)
		}
		return r
	})
)

// frame packs a chunk for storing.
func frame(chunk []byte) []byte {
	if len(chunk) >= packedLeast {
		return zstdWriter().EncodeAll(chunk, make([]byte, 0, len(chunk)/4))
	}
	return append([]byte{rawFrame}, chunk...)
}

// unframe gives the chunk of a frame.
func unframe(data []byte) ([]byte, error) {
	if len(data) > 0 && data[0] == rawFrame {
		return data[1:], nil
	}
	chunk, err := zstdReader().DecodeAll(data, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBadChunk, err)
	}
	return chunk, nil
}

// appendRun puts records of one Step, with sequence numbers from seq on, behind a chunk.
func appendRun(chunk []byte, key LogKey, seq uint64, records []work.Record) []byte {
	last := recordTime(&records[0])
	chunk = binary.AppendUvarint(chunk, uint64(key.run()))
	chunk = binary.AppendUvarint(chunk, uint64(key.Step))
	chunk = binary.AppendUvarint(chunk, seq)
	chunk = binary.AppendUvarint(chunk, uint64(len(records)))
	chunk = binary.AppendVarint(chunk, last)
	for i := range records {
		r := &records[i]
		head := uint64(len(r.Data)) << 3
		if r.Partial {
			head |= 4
		}
		now := recordTime(r)
		if marked(r) {
			chunk = appendMore(binary.AppendUvarint(chunk, head), r)
		} else {
			chunk = binary.AppendUvarint(chunk, head|uint64(r.Stream))
		}
		chunk = binary.AppendVarint(chunk, now-last)
		chunk = append(chunk, r.Data...)
		last = now
	}
	return chunk
}

// appendMore puts what follows the mark of a record behind it.
func appendMore(chunk []byte, r *work.Record) []byte {
	chunk = binary.AppendUvarint(chunk, uint64(r.Stream))
	chunk = binary.AppendUvarint(chunk, uint64(r.Node))
	return binary.AppendUvarint(chunk, uint64(r.Item))
}

// marked tells whether a record needs more than its head has room for.
func marked(r *work.Record) bool {
	return r.Node|r.Item != 0 || r.Stream == 0 || r.Stream > 3
}

// recordSize is how many bytes a record takes in a chunk, at most.
func recordSize(r *work.Record) int {
	if marked(r) {
		return len(r.Data) + recordHead + recordMore
	}
	return len(r.Data) + recordHead
}

// recordTime gives the time of a record, moved into the years 1 to 9999: a host's clock may say anything, but what is
// stored must be fit for JSON.
func recordTime(r *work.Record) int64 {
	const first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
	return min(max(r.Time.UnixMicro(), first), last)
}

// appendLines puts lines of any Steps behind a chunk.
func appendLines(chunk []byte, lines []LogLine) []byte {
	for len(lines) > 0 {
		first := lines[0]
		n := 1
		for n < len(lines) && lines[n].key() == first.key() && lines[n].Seq == first.Seq+uint64(n) {
			n++
		}
		run := make([]work.Record, n)
		for i := range run {
			run[i] = lines[i].Record
		}
		chunk = appendRun(chunk, first.key(), first.Seq, run)
		lines = lines[n:]
	}
	return chunk
}

// reader takes numbers and bytes from a chunk; what is not there makes it bad.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.skip(n)
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	r.skip(n)
	return v
}

func (r *reader) skip(n int) {
	if n <= 0 || n > len(r.rest) {
		r.bad, r.rest = true, nil
		return
	}
	r.rest = r.rest[n:]
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// small reads a number that must be below a million, such as an Attempt.
func (r *reader) small() int {
	v := r.uvarint()
	if v > 1e6 {
		r.bad, r.rest = true, nil
		return 0
	}
	return int(v)
}

// more reads what follows the mark of a record, if it has one.
func (r *reader) more(of *work.Record) bool {
	of.Node, of.Item = 0, 0
	if of.Stream != 0 {
		return false
	}
	stream := r.uvarint()
	of.Stream, of.Node, of.Item = work.Stream(stream), r.small(), r.small()
	if stream > uint64(work.Progress) {
		r.bad, r.rest = true, nil
	}
	return true
}

// eachLine calls visit with the lines of a chunk whose first has the position pos, until visit returns false. The bytes of
// the lines are those of the chunk.
func eachLine(chunk []byte, pos int64, visit func(LogLine) bool) error {
	r := &reader{rest: chunk}
	for len(r.rest) > 0 {
		line := LogLine{Pos: pos}
		run := r.small()
		line.Part, line.Attempt, line.Step = run/keyFactor, run%keyFactor, r.small()
		line.Seq = r.uvarint()
		count, at, more := r.uvarint(), r.varint(), false
		for range count {
			head := r.uvarint()
			line.Stream = work.Stream(head & 3)
			if line.Stream == 0 || more {
				more = r.more(&line.Record)
			}
			at += r.varint()
			line.Data = r.bytes(head >> 3)
			if r.bad {
				return errBadChunk
			}
			line.Partial, line.Time = head&4 != 0, time.UnixMicro(at).UTC()
			if !visit(line) {
				return nil
			}
			line.Pos++
			line.Seq++
		}
		pos = line.Pos
	}
	if r.bad {
		return errBadChunk
	}
	return nil
}

// linesAfter unpacks the lines of a frame that follow a position.
func linesAfter(c LogChunk, after int64) ([]LogLine, error) {
	chunk, err := unframe(c.Data)
	if err != nil {
		return nil, err
	}
	var lines []LogLine
	err = eachLine(chunk, c.First, func(l LogLine) bool {
		if l.Pos > after {
			lines = append(lines, l)
		}
		return true
	})
	return lines, err
}

// trimmed gives the part of a chunk that follows a position.
func trimmed(c LogChunk, after int64) (LogChunk, error) {
	if c.First > after {
		return c, nil
	}
	lines, err := linesAfter(c, after)
	return LogChunk{First: after + 1, Count: int64(len(lines)), Data: frame(appendLines(nil, lines))}, err
}

// packer makes chunks out of batches.
type packer struct {
	open   []byte // the chunk that is being filled
	first  int64  // position of its first record
	next   int64  // position of the next record
	chunks []LogChunk
}

// add puts records of one Step behind what is there.
func (p *packer) add(key LogKey, seq uint64, records []work.Record) {
	for len(records) > 0 {
		n := fitting(records, chunkMost-len(p.open))
		if n == 0 {
			if len(p.open) > 0 {
				p.cut()
				continue
			}
			n = 1
		}
		p.open = appendRun(p.open, key, seq, records[:n])
		p.next += int64(n)
		seq += uint64(n)
		records = records[n:]
	}
	if len(p.open) >= tailMost {
		p.cut()
	}
}

// fitting counts the records that go into that many bytes.
func fitting(records []work.Record, room int) int {
	for i := range records {
		if room -= recordSize(&records[i]); room < 0 {
			return i
		}
	}
	return len(records)
}

// cut closes the open chunk.
func (p *packer) cut() {
	p.chunks = append(p.chunks, LogChunk{First: p.first, Count: p.next - p.first, Data: frame(p.open)})
	p.open, p.first = p.open[:0], p.next
}

// LogHead is how much of one Step's log is stored: every record before Next.
type LogHead struct {
	Step int
	Next uint64
}

// heads tells how much of the log of each Step of each Attempt is stored.
type heads []headOf

type headOf struct {
	run, step int // LogKey.run
	next      uint64
}

// of finds a Step; next is 1 when nothing of it is stored.
func (h heads) of(key LogKey) (i int, next uint64) {
	run := key.run()
	i = slices.IndexFunc(h, func(e headOf) bool { return e.run == run && e.step == key.Step })
	if i < 0 {
		return i, 1
	}
	return i, h[i].next
}

// set notes how much of a Step is stored.
func (h heads) set(key LogKey, next uint64) heads {
	i, _ := h.of(key)
	if i < 0 {
		return append(h, headOf{key.run(), key.Step, next})
	}
	h[i].next = next
	return h
}

func (h heads) encode() []byte {
	b := make([]byte, 0, 8*len(h))
	for _, e := range h {
		b = binary.AppendUvarint(b, uint64(e.run))
		b = binary.AppendUvarint(b, uint64(e.step))
		b = binary.AppendUvarint(b, e.next)
	}
	return b
}

func decodeHeads(b []byte) (h heads, err error) {
	r := &reader{rest: b}
	for len(r.rest) > 0 {
		h = append(h, headOf{r.small(), r.small(), r.uvarint()})
	}
	if r.bad {
		return nil, errBadChunk
	}
	return h, nil
}
