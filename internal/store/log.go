package store

import (
	"errors"
	"fmt"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// readMost bounds the bytes that ReadLog gives at once.
const readMost = 1 << 20

// LogState tells where a Job's log lies.
type LogState struct {
	Last     int64  // position of the last record, 0 when there is none
	Archive  string // key in the blob store; empty while it is in the database
	Archived int64  // positions up to this one are in the archive
}

// logRow is the row of a Job's log: its state, and its newest records.
type logRow struct {
	LogState
	heads     heads
	sizes     sizes
	tailFirst int64
	tail      []byte // a chunk that is still open
}

func scanLogRow(r row) (l logRow, err error) {
	var h, s []byte
	if err = r.Scan(&l.Last, &h, &l.tailFirst, &l.tail, &l.Archive, &l.Archived, &s); err != nil {
		return l, err
	}
	if l.heads, err = decodeHeads(h); err != nil {
		return l, err
	}
	l.sizes.heads, err = decodeHeads(s)
	return l, err
}

const selectLog = "SELECT last_pos, heads, tail_first, tail, archive, archived, sizes FROM log_jobs WHERE job_id = $1"

// lockedLog reads the row of a Job's log and locks it, making it when the Job has none yet.
func (tx *Tx) lockedLog(job string) (logRow, error) {
	l, ok, err := find(tx, scanLogRow, selectLog+tx.forUpdate(), job)
	if ok || err != nil {
		return l, err
	}
	trouble, err := tx.guarded(func() error {
		_, err := tx.exec(`INSERT INTO log_jobs (job_id, last_pos, heads, tail_first, tail, archive, archived, archive_lines)
			VALUES ($1, 0, $2, 1, $2, '', 0, 0) ON CONFLICT DO NOTHING`, job, []byte{})
		return err
	})
	if trouble == brokenReference {
		return l, absent("Job", "job", job).WithCause(err)
	}
	if err != nil {
		return l, err
	}
	return need(tx, absent("Job", "job", job), scanLogRow, selectLog+tx.forUpdate(), job)
}

// Appended tells what AppendLog did.
type Appended struct {
	Next   uint64 // the next sequence number expected of that Step
	Last   int64  // position of the last record of the log
	Stored int    // records that were not stored before: those before Next
	// Kept are those of them that are in the log now, whose positions end with Last: beyond the limits a log is cut.
	Kept []work.Record
}

// AppendLog stores those records that are not stored yet in the log of a Job (work.Job.LogID). A gap (first > Next) stores
// nothing. Sequence numbers follow from first; a record whose Seq is set must agree.
func (tx *Tx) AppendLog(job string, key LogKey, first uint64, records []work.Record) (Appended, error) {
	return tx.AppendLogWithin(LogLimits{}, job, key, first, records)
}

// AppendLogWithin is AppendLog with limits. What is beyond them counts as stored, so that its sender goes on.
func (tx *Tx) AppendLogWithin(limits LogLimits, job string, key LogKey, first uint64, records []work.Record) (a Appended, err error) {
	if err := checkRecords(key, first, records); err != nil {
		return a, err
	}
	l, err := tx.lockedLog(job)
	if err != nil {
		return a, err
	}
	_, next := l.heads.of(key)
	if first > next || next-first >= uint64(len(records)) {
		return Appended{Next: next, Last: l.Last}, nil
	}
	records = records[next-first:]
	p := packer{open: l.tail, first: l.tailFirst, next: l.Last + 1}
	kept, size := limits.within(records, l.sizes.of(key), l.sizes.job())
	if len(kept) > 0 {
		p.add(key, next, kept)
	}
	for _, c := range p.chunks {
		if _, err := tx.exec("INSERT INTO log_chunks (job_id, first_pos, count, data) VALUES ($1, $2, $3, $4)", job, c.First, c.Count, c.Data); err != nil {
			return a, err
		}
	}
	a = Appended{Next: next + uint64(len(records)), Last: p.next - 1, Stored: len(records), Kept: kept}
	_, err = tx.exec("UPDATE log_jobs SET last_pos = $2, heads = $3, tail_first = $4, tail = $5, sizes = $6, late = (archive <> '') WHERE job_id = $1",
		job, a.Last, l.heads.set(key, a.Next).encode(), p.first, blob(p.open), l.sizes.set(key, uint64(size)).encode())
	return a, err
}

// checkRecords refuses what could not be read back as it was.
func checkRecords(key LogKey, first uint64, records []work.Record) error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "bad_log_batch", "a batch of log records is not valid: %s", fmt.Sprintf(format, args...))
	}
	if key.Part < 0 || key.Part >= keyFactor || key.Attempt < 0 || key.Attempt >= keyFactor || key.Step < 0 || key.Step > 1e6 || first == 0 || first > 1<<62 {
		return bad("part %d, attempt %d, step %d, first %d", key.Part, key.Attempt, key.Step, first)
	}
	for i := range records {
		r := &records[i]
		switch {
		case r.Seq != 0 && r.Seq != first+uint64(i):
			return bad("record %d has the sequence number %d", i, r.Seq)
		case len(r.Data) > work.MaxRecordBytes:
			return bad("record %d has %d bytes", i, len(r.Data))
		case r.Stream > work.Progress:
			return bad("record %d is of stream %d", i, r.Stream)
		case r.Node < 0 || r.Node > work.MaxLogIndex || r.Item < 0 || r.Item > work.MaxLogIndex:
			return bad("record %d is about the Node %d and the Item %d", i, r.Node, r.Item)
		}
	}
	return nil
}

// LogHeads gives how much is stored of each Step of an Attempt, in the log of a Job; of a Part of it unless part is 0.
func (tx *Tx) LogHeads(job string, part, attempt int) ([]LogHead, error) {
	l, _, err := find(tx, scanLogRow, selectLog, job)
	var all []LogHead
	run := LogKey{Part: part, Attempt: attempt}.run()
	for _, h := range l.heads {
		if h.run == run {
			all = append(all, LogHead{Step: h.step, Next: h.next})
		}
	}
	return all, err
}

// LogState tells where a Job's log lies, of a Job that was found in its Organization, as for all that is about logs; for a Job without a log it is zero.
func (tx *Tx) LogState(job string) (LogState, error) {
	l, _, err := find(tx, scanLogRow, selectLog, job)
	return l.LogState, err
}

// ReadLog gives records after a position, in order, at most limit records (0 = as many as fit) and about 1 MiB. None
// means that nothing follows yet. It knows nothing of archives: see LogState.
func (tx *Tx) ReadLog(job string, after int64, limit int) ([]LogLine, error) {
	var lines []LogLine
	room := readMost
	take := func(l LogLine) bool {
		if l.Pos > after {
			lines = append(lines, l)
			after = l.Pos
			room -= recordSize(&l.Record)
		}
		return room > 0 && (limit <= 0 || len(lines) < limit)
	}
	for {
		chunks, err := tx.chunksAfter(job, after, 8)
		if err != nil || len(chunks) == 0 {
			return lines, err
		}
		for _, c := range chunks {
			chunk, err := unframe(c.Data)
			if err != nil {
				return nil, fmt.Errorf("read the log of the Job %s at %d: %w", job, c.First, err)
			}
			full := false
			if err := eachLine(chunk, c.First, func(l LogLine) bool { full = !take(l); return !full }); err != nil {
				return nil, fmt.Errorf("read the log of the Job %s at %d: %w", job, c.First, err)
			}
			if full {
				return lines, nil
			}
		}
	}
}

// chunksAfter gives the chunks that hold positions after one, the first of them perhaps with earlier ones too. The
// last may be the open one.
func (tx *Tx) chunksAfter(job string, after int64, limit int) ([]LogChunk, error) {
	l, _, err := find(tx, scanLogRow, selectLog, job)
	if err != nil || l.Last <= after {
		return nil, err
	}
	var chunks []LogChunk
	if after+1 < l.tailFirst {
		scan := func(r row) (c LogChunk, err error) {
			err = r.Scan(&c.First, &c.Count, &c.Data)
			return c, err
		}
		chunks, err = list(tx, scan, `SELECT first_pos, count, data FROM log_chunks WHERE job_id = $1 AND first_pos + count > $2
			AND first_pos >= coalesce((SELECT max(first_pos) FROM log_chunks WHERE job_id = $1 AND first_pos <= $2), 0)
			ORDER BY first_pos LIMIT $3`, job, after+1, limit)
		if err != nil {
			return nil, err
		}
	}
	if len(l.tail) > 0 && len(chunks) < limit {
		chunks = append(chunks, LogChunk{First: l.tailFirst, Count: l.Last - l.tailFirst + 1, Data: append([]byte{rawFrame}, l.tail...)})
	}
	return chunks, nil
}

// LogChunks gives the chunks of a Job after a position in order, for the archive, at most limit (0 = 32).
func (tx *Tx) LogChunks(job string, after int64, limit int) ([]LogChunk, error) {
	chunks, err := tx.chunksAfter(job, after, bounded(limit, 32, 256))
	for i, c := range chunks {
		c, trimErr := trimmed(c, after)
		err = errors.Join(err, trimErr)
		if len(c.Data) > 0 && c.Data[0] == rawFrame {
			c.Data = frame(c.Data[1:])
		}
		chunks[i] = c
	}
	return chunks, err
}

// ArchiveLog notes that the positions up to one are in the archive under a key, with the number of lines in it, and
// removes them here. What comes later is stored here again.
func (tx *Tx) ArchiveLog(job, key string, lines int64, upTo int64) error {
	l, err := tx.lockedLog(job)
	if err != nil {
		return err
	}
	if upTo > l.Last || upTo < l.Archived {
		return fault.New(fault.Conflict, "archive_out_of_range", "the log of the Job %s ends at %d and is archived up to %d, not %d", job, l.Last, l.Archived, upTo)
	}
	if _, err := tx.exec("DELETE FROM log_chunks WHERE job_id = $1 AND first_pos <= $2 AND first_pos + count - 1 <= $2", job, upTo); err != nil {
		return err
	}
	if l.tailFirst <= upTo {
		lines, err := linesAfter(LogChunk{First: l.tailFirst, Data: append([]byte{rawFrame}, l.tail...)}, upTo)
		if err != nil {
			return err
		}
		l.tail, l.tailFirst = appendLines(nil, lines), upTo+1
	}
	_, err = tx.exec(`UPDATE log_jobs SET archive = $2, archived = $3, archive_lines = $4, tail_first = $5, tail = $6,
		late = (last_pos > $3) WHERE job_id = $1`,
		job, key, upTo, lines, l.tailFirst, blob(l.tail))
	return err
}
