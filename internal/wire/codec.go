package wire

import (
	"fmt"
	"reflect"

	"github.com/fxamacker/cbor/v2"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// MaxFrame bounds one frame on the wire in bytes, and so every message.
const MaxFrame = 8 << 20

// maxNestedMessage bounds how deep the structs of a message are nested around a value that was declared.
const maxNestedMessage = 32

// The two ways of CBOR. Both are immutable and safe for concurrent use.
var (
	encoding = mustMode(cbor.EncOptions{
		Time:          cbor.TimeRFC3339NanoUTC,
		IndefLength:   cbor.IndefLengthForbidden,
		ShortestFloat: cbor.ShortestFloat16,
	}.EncMode())
	decoding = mustMode(cbor.DecOptions{
		DefaultMapType:   reflect.TypeFor[map[string]any](), // as encoding/json has it: such a value may become JSON again
		MaxNestedLevels:  catalog.MaxDepth + maxNestedMessage,
		MaxArrayElements: maxRecords,
		MaxMapPairs:      maxOutputs,
		IndefLength:      cbor.IndefLengthForbidden,
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
	}.DecMode())
)

func mustMode[M any](mode M, err error) M {
	if err != nil {
		panic(err) // the options above are wrong
	}
	return mode
}

// appendMessage encodes a message behind buf: its type byte and the CBOR of the struct. CBOR tells
// its own length, so that several messages can stand in one frame.
func appendMessage(buf []byte, m Message) ([]byte, error) {
	body, err := encoding.Marshal(m)
	if err != nil {
		return buf, fmt.Errorf("encoding message %d: %w", m.kind(), err)
	}
	if len(body)+1 > MaxFrame {
		return buf, fault.New(fault.TooLarge, "message_too_large",
			"a message of %d bytes does not fit in a frame of %d", len(body), MaxFrame)
	}
	return append(append(buf, m.kind()), body...), nil
}

// nextMessage decodes the first message of a frame and returns what follows it. A message of an
// unknown type is nil without an error: a newer peer sent it.
func nextMessage(frame []byte) (m Message, rest []byte, err error) {
	if len(frame) == 0 {
		return nil, nil, nil
	}
	kind := frame[0]
	m = blank(kind)
	if m == nil {
		var skipped cbor.RawMessage
		rest, err = decoding.UnmarshalFirst(frame[1:], &skipped)
		return nil, rest, malformed(kind, err)
	}
	if rest, err = decoding.UnmarshalFirst(frame[1:], m); err != nil {
		return nil, nil, malformed(kind, err)
	}
	if err := checkMessage(m); err != nil {
		return nil, nil, malformed(kind, err)
	}
	return m, rest, nil
}

func malformed(kind byte, err error) error {
	if err == nil {
		return nil
	}
	return &CloseError{Code: CloseProtocol, Reason: fmt.Sprintf("message of type %d is malformed: %v", kind, err)}
}
