package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/fxamacker/cbor/v2"

	"legwork/internal/fault"
)

// The protocol between a Runner and its keeper. A message is its length (4 bytes, big-endian) and a
// frame in CBOR. The Runner begins with "hello"; both then speak the highest number that both know.
// Fields that are not known are passed over, and an operation that is not known is answered by a
// fault.Unsupported with code "unknown_operation".
//
//	1  hello, start, stop, list, wait, retire; event "spools"
//	2  start: Spec.Framed
//	3  start: Spec.HandOver; hello: the key is required
//	4  slow_down
//
// A runner still understands keepers of all numbers, which keep the commands that an earlier release started. A keeper
// refuses runners that speak less than 3, since those send no key: a runner that is rolled back gets the fault
// keeper_protocol.
const (
	protocolMin = 1 // that a runner speaks
	protocolMax = 4

	protocolFramed   = 2 // since which a keeper knows Spec.Framed
	protocolHandOver = 3 // since which a keeper knows Spec.HandOver
	protocolKeyed    = 3 // since which a keeper requires the key, and the least that a keeper speaks
	protocolSlowDown = 4 // since which a keeper knows slow_down
)

// The operations and the one event.
const (
	opHello  = "hello"
	opStart  = "start"
	opStop   = "stop"
	opList   = "list"
	opWait   = "wait"
	opRetire = "retire"
	opSlow   = "slow_down" // read the output of a command more slowly for a moment
	opSpools = "spools"    // event: spools that grew, or whose command is blocked or no longer blocked
)

// frame is one message. A request bears a Call that its answer repeats; an event bears none.
type frame struct {
	Call  uint64          `cbor:"1,keyasint,omitempty"`
	Op    string          `cbor:"2,keyasint,omitempty"`
	Body  cbor.RawMessage `cbor:"3,keyasint,omitempty"`
	Fault *faultBody      `cbor:"4,keyasint,omitempty"`
}

type faultBody struct {
	Kind    string          `cbor:"kind"`
	Code    string          `cbor:"code"`
	Message string          `cbor:"message"`
	Hint    string          `cbor:"hint,omitempty"`
	Details []fault.Problem `cbor:"details,omitempty"`
}

type helloBody struct {
	Min     int    `cbor:"min"`
	Max     int    `cbor:"max"`
	Version string `cbor:"version"`
	Pid     int    `cbor:"pid"`
	Speak   int    `cbor:"speak,omitempty"` // answer: the number both will speak
	Key     string `cbor:"key,omitempty"`   // request: what the keeper wrote into its folder
}

type stopBody struct {
	ID   string   `cbor:"id"`
	Mode StopMode `cbor:"mode"`
}

type waitBody struct {
	ID string `cbor:"id"`
}

type slowBody struct {
	ID string `cbor:"id"`
}

type listBody struct {
	Commands []Kept `cbor:"commands"`
}

type spoolsBody struct {
	Spools []SpoolState `cbor:"spools"`
}

// commonProtocol returns the number to speak between this side, which speaks least and more, and a peer that speaks
// peerMin to peerMax.
func commonProtocol(least, peerMin, peerMax int) (int, error) {
	speak := min(peerMax, protocolMax)
	if speak < max(peerMin, least) {
		return 0, fault.New(fault.Unsupported, "keeper_protocol",
			"the Runner and its keeper share no protocol: this side speaks %d to %d, the other %d to %d",
			least, protocolMax, peerMin, peerMax).
			WithHint("start the release that started the commands again until they have ended; then change the release")
	}
	return speak, nil
}

var (
	encoding = must(cbor.EncOptions{Time: cbor.TimeRFC3339Nano}.EncMode())
	decoding = must(cbor.DecOptions{MaxNestedLevels: 16, MaxArrayElements: 1 << 17, MaxMapPairs: 1 << 10}.DecMode())
)

// must is for the two modes above, whose options are constants.
func must[T any](mode T, err error) T {
	if err != nil {
		panic(err)
	}
	return mode
}

// encodeFrame gives a whole message: length and frame.
func encodeFrame(call uint64, op string, body any, failure error) ([]byte, error) {
	f := frame{Call: call, Op: op, Fault: toFaultBody(failure)}
	if body != nil {
		raw, err := encoding.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", op, err)
		}
		f.Body = raw
	}
	text, err := encoding.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", op, err)
	}
	if len(text) > maxFrameIn {
		return nil, fault.New(fault.TooLarge, "command_too_large", "the command's arguments and environment are larger than %d MiB", maxFrameIn>>20)
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(text)), uint32(len(text))), text...), nil
}

// readFrame reads one message.
func readFrame(in io.Reader) (frame, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return frame{}, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length > maxFrameIn {
		return frame{}, fmt.Errorf("message of %d bytes is over the limit", length)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(in, text); err != nil {
		return frame{}, fmt.Errorf("reading message: %w", err)
	}
	var f frame
	if err := decoding.Unmarshal(text, &f); err != nil {
		return frame{}, fmt.Errorf("reading message: %w", err)
	}
	return f, nil
}

// decodeBody reads the body of a message; one without a body leaves into as it is.
func decodeBody(f frame, into any) error {
	if len(f.Body) == 0 {
		return nil
	}
	if err := decoding.Unmarshal(f.Body, into); err != nil {
		return fault.New(fault.Invalid, "bad_message", "a message between Runner and keeper cannot be read").WithCause(err)
	}
	return nil
}

// toFaultBody makes an error ready to travel. The cause of a fault stays here, except that of an
// internal one, which would leave the Runner's log without any hint of what went wrong: the
// socket joins two programs of one user.
func toFaultBody(err error) *faultBody {
	if err == nil {
		return nil
	}
	f := fault.Of(err)
	body := &faultBody{Kind: f.Kind.String(), Code: f.Code, Message: f.Message, Hint: f.Hint, Details: f.Details}
	if cause := errors.Unwrap(f); cause != nil && f.Kind == fault.Internal {
		body.Hint = cause.Error()
	}
	return body
}

// asError is the reverse of toFaultBody.
func (b *faultBody) asError() error {
	if b == nil {
		return nil
	}
	if b.Kind == fault.Internal.String() {
		return fmt.Errorf("keeper: %s", b.Hint)
	}
	for kind := fault.Internal; kind <= fault.Unsupported; kind++ {
		if kind.String() == b.Kind {
			f := fault.New(kind, b.Code, "%s", b.Message).WithDetails(b.Details...)
			f.Hint = b.Hint
			return f
		}
	}
	return fmt.Errorf("keeper: %s", b.Message)
}
