package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sort"
)

// An archive of a log is its frames one behind the other, then an index, then a footer of fixed size:
//
//	index  = first position, then for each frame: count of records, bytes   (uvarints)
//	footer = length of the index, its CRC-32 (both 4 bytes, little endian), "LGWKLOG1"
//
// So the records from any position on are found with one read of the end and one of the frames.

const (
	archiveMagic  = "LGWKLOG1"
	archiveFooter = 8 + len(archiveMagic)
	indexMost     = 64 << 20
	// archiveRead is how many bytes of frames are read at once, and how many of the end at first.
	archiveRead = 128 << 10
)

var errBadArchive = errors.New("damaged archive of a log")

// ArchiveWriter writes an archive as a stream.
type ArchiveWriter struct {
	w     io.Writer
	index []byte
	next  int64 // position that the next chunk has to begin with; 0 before the first
	first int64
	bytes int64
}

// NewArchiveWriter begins an archive.
func NewArchiveWriter(w io.Writer) *ArchiveWriter { return &ArchiveWriter{w: w} }

// Add writes a chunk; chunks come in order, without gaps between them.
func (a *ArchiveWriter) Add(c LogChunk) error {
	if a.next == 0 {
		a.first, a.next = c.First, c.First
		a.index = binary.AppendUvarint(a.index, uint64(c.First))
	}
	if c.First != a.next || c.Count <= 0 {
		return fmt.Errorf("archive a log: the chunk at %d does not follow %d", c.First, a.next)
	}
	if _, err := a.w.Write(c.Data); err != nil {
		return fmt.Errorf("archive a log: %w", err)
	}
	a.index = binary.AppendUvarint(a.index, uint64(c.Count))
	a.index = binary.AppendUvarint(a.index, uint64(len(c.Data)))
	a.next += c.Count
	a.bytes += int64(len(c.Data))
	return nil
}

// Close writes the end of the archive and gives the number of its records and its last position. It does not
// close the writer.
func (a *ArchiveWriter) Close() (lines, last int64, err error) {
	end := binary.LittleEndian.AppendUint32(a.index, uint32(len(a.index)))
	end = binary.LittleEndian.AppendUint32(end, crc32.ChecksumIEEE(a.index))
	end = append(end, archiveMagic...)
	if _, err := a.w.Write(end); err != nil {
		return 0, 0, fmt.Errorf("archive a log: %w", err)
	}
	return a.next - a.first, max(a.next-1, 0), nil
}

// Archive reads an archive. It is safe for concurrent use when its reader is.
type Archive struct {
	r      io.ReaderAt
	frames []archived
}

// archived is one frame of an archive.
type archived struct {
	first, count  int64 // positions
	offset, bytes int64
}

// OpenArchive reads the index of an archive of that size.
func OpenArchive(r io.ReaderAt, size int64) (*Archive, error) {
	if size < int64(archiveFooter) {
		return nil, errBadArchive
	}
	end := make([]byte, min(size, archiveRead))
	if err := readAt(r, end, size-int64(len(end))); err != nil {
		return nil, err
	}
	footer := end[len(end)-archiveFooter:]
	length := int64(binary.LittleEndian.Uint32(footer))
	if string(footer[8:]) != archiveMagic || length > indexMost || length > size-int64(archiveFooter) {
		return nil, errBadArchive
	}
	index := end[:len(end)-archiveFooter]
	if length <= int64(len(index)) {
		index = index[int64(len(index))-length:]
	} else {
		index = make([]byte, length)
		if err := readAt(r, index, size-int64(archiveFooter)-length); err != nil {
			return nil, err
		}
	}
	if crc32.ChecksumIEEE(index) != binary.LittleEndian.Uint32(footer[4:]) {
		return nil, errBadArchive
	}
	frames, err := parseIndex(index, size-int64(archiveFooter)-length)
	return &Archive{r: r, frames: frames}, err
}

// parseIndex reads an index of frames that take that many bytes together.
func parseIndex(index []byte, size int64) ([]archived, error) {
	in := &reader{rest: index}
	var frames []archived
	var at archived
	if len(index) > 0 {
		at.first = int64(in.uvarint())
	}
	for len(in.rest) > 0 {
		count, bytes := in.uvarint(), in.uvarint()
		if in.bad || at.first < 1 || at.first > 1<<62 || count == 0 || count > unpackedMost || bytes > 2*unpackedMost || at.offset+int64(bytes) > size {
			return nil, errBadArchive
		}
		at.count, at.bytes = int64(count), int64(bytes)
		frames = append(frames, at)
		at.first += at.count
		at.offset += at.bytes
	}
	if in.bad || at.offset != size {
		return nil, errBadArchive
	}
	return frames, nil
}

// readAt fills b from an offset.
func readAt(r io.ReaderAt, b []byte, offset int64) error {
	n, err := r.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read the archive of a log: %w", err)
}

// Last gives the last position in the archive, 0 when it is empty.
func (a *Archive) Last() int64 {
	if len(a.frames) == 0 {
		return 0
	}
	f := a.frames[len(a.frames)-1]
	return f.first + f.count - 1
}

// Read gives records after a position, in order, at most limit records (0 = as many as fit) and about 1 MiB.
func (a *Archive) Read(after int64, limit int) ([]LogLine, error) {
	var lines []LogLine
	room := readMost
	err := a.Chunks(after, func(c LogChunk) (bool, error) {
		some, err := linesAfter(c, after)
		for _, l := range some {
			if room <= 0 || (limit > 0 && len(lines) >= limit) {
				return false, err
			}
			lines = append(lines, l)
			room -= recordSize(&l.Record)
		}
		return room > 0 && (limit <= 0 || len(lines) < limit), err
	})
	return lines, err
}

// Chunks calls visit with the chunks that hold positions after one, in order, until it returns false.
func (a *Archive) Chunks(after int64, visit func(LogChunk) (bool, error)) error {
	i := sort.Search(len(a.frames), func(i int) bool { return a.frames[i].first+a.frames[i].count-1 > after })
	for i < len(a.frames) {
		n, bytes := a.span(i)
		block := make([]byte, bytes)
		if err := readAt(a.r, block, a.frames[i].offset); err != nil {
			return err
		}
		for _, f := range a.frames[i : i+n] {
			c := LogChunk{First: f.first, Count: f.count, Data: block[:f.bytes:f.bytes]}
			block = block[f.bytes:]
			if more, err := visit(c); err != nil || !more {
				return err
			}
		}
		i += n
	}
	return nil
}

// span tells how many frames from i on are read at once, and their bytes.
func (a *Archive) span(i int) (n int, bytes int64) {
	for ; i+n < len(a.frames) && (n == 0 || bytes+a.frames[i+n].bytes <= archiveRead); n++ {
		bytes += a.frames[i+n].bytes
	}
	return n, bytes
}
