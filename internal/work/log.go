package work

import "time"

// Stream tells where a log record came from.
type Stream uint8

// The streams of a Step's log.
const (
	Stdout   Stream = 1 // the engine's standard output
	Stderr   Stream = 2 // the engine's standard error
	System   Stream = 3 // what Legwork itself says: "fetched commit ...", "hook refused"
	Progress Stream = 4 // a NodeEvent as JSON, which is no line of the log
)

// String gives the stream's name as it stands in the API: "stdout", "stderr", "system".
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	case System:
		return "system"
	case Progress:
		return "progress"
	}
	return "unknown"
}

// Record is one line of a Step's log. Its identity is (Job, attempt, Step, Seq).
// Data holds the line's raw bytes without the final newline: any bytes, colours and carriage
// returns included, at most MaxRecordBytes. A longer line is split over several records, of
// which all but the last are Partial.
type Record struct {
	Seq     uint64    `cbor:"1,keyasint"`           // rising by one from 1 within (Job, attempt, Step)
	Time    time.Time `cbor:"2,keyasint"`           // when the host saw it
	Stream  Stream    `cbor:"3,keyasint"`           //
	Partial bool      `cbor:"4,keyasint,omitempty"` // the line goes on in the next record of this stream
	Data    []byte    `cbor:"5,keyasint"`
	Node    int       `cbor:"6,keyasint,omitempty"` // in a Part: index of the Node in the Job, from 1; 0 when it is about none
	Item    int       `cbor:"7,keyasint,omitempty"` // likewise of the Item
}

// MaxRecordBytes bounds the data of one record.
const MaxRecordBytes = 64 << 10
