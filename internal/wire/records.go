package wire

import (
	"fmt"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// packFrom is the size from which on compression is tried: below it the frame of zstd eats the gain.
const packFrom = 512

// record is a work.Record as it travels: an array of four. The sequence number is not in it,
// it follows from the batch's First.
type record struct {
	_       struct{} `cbor:",toarray"`
	Time    int64    // Unix nanoseconds
	Stream  work.Stream
	Partial bool
	Data    []byte
}

// nodeRecord is a record as it travels in a batch with LogBatch.Nodes: an array of six.
type nodeRecord struct {
	_       struct{} `cbor:",toarray"`
	Time    int64    // Unix nanoseconds
	Stream  work.Stream
	Partial bool
	Data    []byte
	Node    int
	Item    int
}

// Coders keep tables of some hundred KiB: one of each serves the whole process, and both are safe
// for concurrent use.
var (
	packer = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2),
			zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(128<<10), zstd.WithEncoderCRC(false))
	})
	unpacker = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(MaxBatchBytes),
			zstd.WithDecoderMaxWindow(MaxBatchBytes), zstd.WithDecoderLowmem(true))
	})
)

// PackRecords makes the LogBatch of records, which must not be empty and whose sequence numbers rise
// by one. It is compressed when that pays.
func PackRecords(ref Ref, step int, records []work.Record) (*LogBatch, error) {
	nodes := false
	for i := range records {
		r := &records[i]
		if r.Seq != records[0].Seq+uint64(i) {
			return nil, fault.New(fault.Internal, "log_gap", "record %d does not follow record %d", r.Seq, records[0].Seq+uint64(i)-1)
		}
		nodes = nodes || r.Node|r.Item != 0
	}
	data, err := marshalRecords(records, nodes)
	if err != nil {
		return nil, fmt.Errorf("encoding records: %w", err)
	}
	batch := &LogBatch{Ref: ref, Step: step, First: records[0].Seq, Count: len(records), Records: data, Nodes: nodes}
	if len(data) < packFrom {
		return batch, nil
	}
	coder, err := packer()
	if err != nil {
		return nil, fmt.Errorf("starting compression: %w", err)
	}
	if packed := coder.EncodeAll(data, make([]byte, 0, len(data)/4)); len(packed) < len(data)-len(data)/16 {
		batch.Records, batch.Packed = packed, true
	}
	return batch, nil
}

func marshalRecords(records []work.Record, nodes bool) ([]byte, error) {
	if nodes {
		rows := make([]nodeRecord, len(records))
		for i := range records {
			r := &records[i]
			rows[i] = nodeRecord{Time: r.Time.UnixNano(), Stream: r.Stream, Partial: r.Partial, Data: r.Data, Node: r.Node, Item: r.Item}
		}
		return encoding.Marshal(rows)
	}
	rows := make([]record, len(records))
	for i := range records {
		r := &records[i]
		rows[i] = record{Time: r.Time.UnixNano(), Stream: r.Stream, Partial: r.Partial, Data: r.Data}
	}
	return encoding.Marshal(rows)
}

// unmarshalRecords is the reverse of marshalRecords, without the sequence numbers.
func unmarshalRecords(data []byte, nodes bool) ([]work.Record, error) {
	if nodes {
		var rows []nodeRecord
		if err := decoding.Unmarshal(data, &rows); err != nil {
			return nil, err
		}
		records := make([]work.Record, len(rows))
		for i := range rows {
			r := &rows[i]
			records[i] = work.Record{Time: time.Unix(0, r.Time).UTC(), Stream: r.Stream, Partial: r.Partial, Data: r.Data, Node: r.Node, Item: r.Item}
		}
		return records, nil
	}
	var rows []record
	if err := decoding.Unmarshal(data, &rows); err != nil {
		return nil, err
	}
	records := make([]work.Record, len(rows))
	for i := range rows {
		r := &rows[i]
		records[i] = work.Record{Time: time.Unix(0, r.Time).UTC(), Stream: r.Stream, Partial: r.Partial, Data: r.Data}
	}
	return records, nil
}

// UnpackRecords gives the records of a batch with their sequence numbers. What comes out is bounded
// whatever the peer packed: MaxBatchBytes in all, work.MaxRecordBytes each. Errors are a
// CloseError of CloseProtocol.
func UnpackRecords(b *LogBatch) ([]work.Record, error) {
	data := b.Records
	if b.Packed {
		coder, err := unpacker()
		if err != nil {
			return nil, fmt.Errorf("starting decompression: %w", err)
		}
		if data, err = coder.DecodeAll(data, nil); err != nil {
			return nil, malformed(kindLogBatch, err)
		}
	}
	records, err := unmarshalRecords(data, b.Nodes)
	if err != nil {
		return nil, malformed(kindLogBatch, err)
	}
	if len(records) != b.Count {
		return nil, malformed(kindLogBatch, fmt.Errorf("it says %d records and holds %d", b.Count, len(records)))
	}
	for i := range records {
		r := &records[i]
		r.Seq = b.First + uint64(i)
		if len(r.Data) > work.MaxRecordBytes || r.Stream < work.Stdout || r.Stream > work.Progress ||
			r.Node < 0 || r.Node > work.MaxLogIndex || r.Item < 0 || r.Item > work.MaxLogIndex {
			return nil, malformed(kindLogBatch, fmt.Errorf("record %d is out of bounds", r.Seq))
		}
	}
	return records, nil
}
