package store

import "legwork/internal/work"

// LogFilter narrows what is read of a log to the lines of a Part, of a Node and of an Item, each counted from 1; 0 is any. The zero
// LogFilter is all lines. What is no line, the stream Progress, never matches.
type LogFilter struct {
	Part, Node, Item int
}

// Matches tells whether a record is a line that the filter lets through.
func (f LogFilter) Matches(l *LogLine) bool {
	return l.Stream != work.Progress && (f.Node == 0 || l.Node == f.Node) && (f.Item == 0 || l.Item == f.Item) && (f.Part == 0 || l.Part == f.Part)
}

// Each calls visit with the lines of a chunk that follow a position, in order, until it returns false. The bytes of a line are those of
// the unpacked chunk, which nobody else has.
func (c LogChunk) Each(after int64, visit func(LogLine) bool) error {
	chunk, err := unframe(c.Data)
	if err != nil {
		return err
	}
	return eachLine(chunk, c.First, func(l LogLine) bool { return l.Pos <= after || visit(l) })
}

// LogChunksOver gives the chunks that hold positions after one as they are stored, the first of them perhaps with earlier positions, too,
// at most limit (0 = 32). It knows nothing of archives: see LogState.
func (tx *Tx) LogChunksOver(job string, after int64, limit int) ([]LogChunk, error) {
	return tx.chunksAfter(job, after, bounded(limit, 32, 256))
}
