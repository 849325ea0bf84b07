package process

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// The file of a spool: spoolMagic, then frames. All numbers are little-endian.
//
//	frame:   length of payload (4 bytes), CRC32C of payload (4), payload
//	payload: Seq (8), time in Unix nanoseconds (8), stream (1), flags (1), data
//	         with the flag 2 there are Node (4) and Item (4) before the data: keepers before 2026-12 never set it
const (
	spoolMagic   = "LWSPOOL1"
	frameHead    = 8
	payloadHead  = 18
	nodeHead     = 8
	flagPartial  = 1
	flagNode     = 2
	maxPayload   = payloadHead + nodeHead + work.MaxRecordBytes
	maxFrame     = frameHead + maxPayload
	spoolBufKeep = 1 << 20 // a larger write buffer is given back after it was written
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Spool writes the log of one Step of one Attempt. One writer at a time, held by a lock on the
// file: the keeper while a command runs, the Runner between commands. Safe for concurrent use
// within one process.
type Spool struct {
	mu      sync.Mutex
	path    string
	file    *os.File
	buf     []byte // encoded but not yet in the file
	next    uint64 // Seq of the next record
	size    int64  // bytes that are in the file
	dropped int64
}

// OpenSpool opens the spool at path for writing and creates it (mode 0600) when it is missing.
// What a crash of the host left torn at its end is cut off; Dropped tells how much that was.
// A spool that somebody else writes is a fault.Conflict, a file that is no spool a fault.Invalid.
func OpenSpool(path string) (*Spool, error) {
	return openSpoolWith(path, func() (*os.File, error) { return OpenPlain(path, os.O_RDWR|os.O_CREATE, 0o600) })
}

// openSpoolWith is OpenSpool with a way to make the file that is missing.
func openSpoolWith(path string, create func() (*os.File, error)) (*Spool, error) {
	file, err := OpenPlain(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = create()
	}
	if err != nil {
		return nil, fmt.Errorf("opening spool: %w", err)
	}
	s := &Spool{path: path, file: file, next: 1}
	if err := s.recover(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return s, nil
}

// recover takes the lock, finds the last whole record and cuts off what follows it.
func (s *Spool) recover() error {
	if err := Lock(s.file); err != nil {
		return fault.New(fault.Conflict, "spool_in_use", "the spool is being written by another process").
			WithHint("wait until the command that writes it has ended").WithCause(err)
	}
	info, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("looking at spool: %w", err)
	}
	if info.Size() == 0 {
		s.buf = append(s.buf, spoolMagic...)
		return nil
	}
	end, last, err := scanSpool(s.file)
	if err != nil {
		return fmt.Errorf("reading spool: %w", err)
	}
	s.size, s.next, s.dropped = end, last+1, info.Size()-end
	if end == 0 {
		s.buf = append(s.buf, spoolMagic...)
	}
	if s.dropped > 0 {
		if err := s.file.Truncate(end); err != nil {
			return fmt.Errorf("cutting off the torn end of spool: %w", err)
		}
	}
	return nil
}

// scanSpool reads a spool from its start. It returns the offset behind the last whole record and
// that record's Seq. end is 0 when not even the magic is whole.
func scanSpool(file io.Reader) (end int64, last uint64, err error) {
	in := bufio.NewReaderSize(file, 256<<10)
	magic := make([]byte, len(spoolMagic))
	if n, err := io.ReadFull(in, magic); err != nil {
		if string(magic[:n]) == spoolMagic[:n] && isShort(err) {
			return 0, 0, nil
		}
		if !isShort(err) {
			return 0, 0, err
		}
	}
	if string(magic) != spoolMagic {
		return 0, 0, fault.New(fault.Invalid, "not_a_spool", "the file is not a spool")
	}
	end = int64(len(spoolMagic))
	for {
		head, err := in.Peek(frameHead)
		if err != nil {
			return end, last, ignoreShort(err)
		}
		length := int(binary.LittleEndian.Uint32(head))
		if length < payloadHead || length > maxPayload {
			return end, last, nil
		}
		frame, err := in.Peek(frameHead + length)
		if err != nil {
			return end, last, ignoreShort(err)
		}
		seq, ok := frameSeq(frame)
		if !ok || seq <= last {
			return end, last, nil
		}
		last, end = seq, end+int64(len(frame))
		_, _ = in.Discard(len(frame)) // cannot fail: the bytes were just peeked
	}
}

func isShort(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

func ignoreShort(err error) error {
	if isShort(err) {
		return nil
	}
	return err
}

// frameSeq checks a whole frame and returns its Seq.
func frameSeq(frame []byte) (uint64, bool) {
	payload := frame[frameHead:]
	if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(frame[4:]) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(payload), true
}

// appendFrame encodes one record behind buf.
func appendFrame(buf []byte, r *work.Record) []byte {
	start := len(buf)
	buf = append(buf, 0, 0, 0, 0, 0, 0, 0, 0)
	buf = binary.LittleEndian.AppendUint64(buf, r.Seq)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(r.Time.UnixNano()))
	var flags byte
	if r.Partial {
		flags = flagPartial
	}
	if r.Node|r.Item != 0 {
		buf = append(buf, byte(r.Stream), flags|flagNode)
		buf = binary.LittleEndian.AppendUint32(buf, uint32(r.Node))
		buf = binary.LittleEndian.AppendUint32(buf, uint32(r.Item))
	} else {
		buf = append(buf, byte(r.Stream), flags)
	}
	buf = append(buf, r.Data...)
	binary.LittleEndian.PutUint32(buf[start:], uint32(len(buf)-start-frameHead))
	binary.LittleEndian.PutUint32(buf[start+4:], crc32.Checksum(buf[start+frameHead:], castagnoli))
	return buf
}

// decodePayload is the reverse of appendFrame for a payload whose checksum is right. Data is not copied.
func decodePayload(p []byte) work.Record {
	r := work.Record{
		Seq:     binary.LittleEndian.Uint64(p),
		Time:    time.Unix(0, int64(binary.LittleEndian.Uint64(p[8:]))).UTC(),
		Stream:  work.Stream(p[16]),
		Partial: p[17]&flagPartial != 0,
		Data:    p[payloadHead:],
	}
	if p[17]&flagNode != 0 && len(r.Data) >= nodeHead {
		r.Node, r.Item = int(binary.LittleEndian.Uint32(r.Data)), int(binary.LittleEndian.Uint32(r.Data[4:]))
		r.Data = r.Data[nodeHead:]
	}
	return r
}

// Append gives the record its Seq and writes it to the file at once. Data longer than
// work.MaxRecordBytes becomes several records. When writing fails the record is not lost: it
// stays in memory and goes out with the next Append, Flush or Close.
func (s *Spool) Append(stream work.Stream, partial bool, data []byte, at time.Time) error {
	for len(data) > work.MaxRecordBytes {
		s.add(&work.Record{Stream: stream, Partial: true, Data: data[:work.MaxRecordBytes], Time: at})
		data = data[work.MaxRecordBytes:]
	}
	s.add(&work.Record{Stream: stream, Partial: partial, Data: data, Time: at})
	return s.Flush()
}

// add gives the record its Seq and keeps it in memory until the next Flush.
func (s *Spool) add(r *work.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Seq = s.next
	s.buf = appendFrame(s.buf, r)
	s.next++
}

// Flush writes what is still in memory to the file. After an error it can be called again and goes
// on exactly where the file ends.
func (s *Spool) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flush()
}

func (s *Spool) flush() error {
	if len(s.buf) == 0 {
		return nil
	}
	n, err := s.file.WriteAt(s.buf, s.size)
	s.size += int64(n)
	if err != nil {
		s.buf = s.buf[:copy(s.buf, s.buf[n:])]
		return fmt.Errorf("writing spool: %w", err)
	}
	if cap(s.buf) > spoolBufKeep {
		s.buf = nil
	}
	s.buf = s.buf[:0]
	return nil
}

// NextSeq returns the Seq that the next record will get; the first record of a spool has Seq 1.
func (s *Spool) NextSeq() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// SkipTo makes the next record's Seq at least next. It is for the one case in which records were
// cut off that the Server has already acked: their numbers must not be given away again.
func (s *Spool) SkipTo(next uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = max(s.next, next)
}

// Size returns the bytes that are in the file.
func (s *Spool) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// Dropped returns how many bytes of torn or damaged records were cut off when the spool was opened.
func (s *Spool) Dropped() int64 { return s.dropped }

// Close writes what is still in memory, closes the file and gives up the lock. When writing fails
// the spool stays open, so that Close can be tried again. Closing twice is harmless.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	if err := s.flush(); err != nil {
		return err
	}
	return s.abandon()
}

// abandon closes the file without writing what is still in memory.
func (s *Spool) abandon() error {
	file := s.file
	s.file = nil
	if err := file.Close(); err != nil {
		return fmt.Errorf("closing spool: %w", err)
	}
	return nil
}
