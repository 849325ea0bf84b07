package terraform

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"legwork/internal/fault"
)

// jsonAfterWarnings gives a decoder that stands at the object an engine prints. OpenTofu prints warnings
// about its settings file before it, on the same stream and in words: lines up to the first that
// begins with a brace are skipped.
func jsonAfterWarnings(r io.Reader) (*json.Decoder, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	for {
		next, err := b.Peek(1)
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the engine printed no JSON")
		}
		if err != nil {
			return nil, err
		}
		if next[0] == '{' {
			dec := json.NewDecoder(b)
			dec.UseNumber()
			return dec, nil
		}
		if err := skipLine(b); err != nil {
			return nil, err
		}
	}
}

func skipLine(b *bufio.Reader) error {
	for {
		_, err := b.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}

// eachField reads an object and calls field at the value of each of its names; field must consume it.
func eachField(dec *json.Decoder, field func(name string) error) error {
	if err := delimiter(dec, '{'); err != nil {
		return err
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name, ok := token.(string)
		if !ok {
			return fmt.Errorf("read JSON: a name was expected, not %v", token)
		}
		if err := field(name); err != nil {
			return err
		}
	}
	return delimiter(dec, '}')
}

// eachItem reads a list, or null, and calls item at each of its values; item must consume it.
func eachItem(dec *json.Decoder, item func() error) error {
	token, err := dec.Token()
	if err != nil || token == nil {
		return err
	}
	if token != json.Delim('[') {
		return fmt.Errorf("read JSON: a list was expected, not %v", token)
	}
	for dec.More() {
		if err := item(); err != nil {
			return err
		}
	}
	return delimiter(dec, ']')
}

func delimiter(dec *json.Decoder, want json.Delim) error {
	token, err := dec.Token()
	if err == nil && token != want {
		err = fmt.Errorf("read JSON: %q was expected, not %v", want.String(), token)
	}
	return err
}

// maxDepth is how deep a value may be nested. A decoder that hands out tokens has no limit of its own.
const maxDepth = 10_000

// newBoundedDecoder returns a decoder that fails when a single token or value has more than about limit bytes.
func newBoundedDecoder(r io.Reader, limit int64) *json.Decoder {
	b := &tokenReader{from: r, limit: limit}
	b.decoder = json.NewDecoder(b)
	return b.decoder
}

// tokenReader limits how much its decoder holds in memory.
type tokenReader struct {
	from    io.Reader
	decoder *json.Decoder
	limit   int64
	read    int64
}

// Read reads the next bytes, unless the decoder already holds too many that it has not handed out.
func (r *tokenReader) Read(p []byte) (int, error) {
	if r.read-r.decoder.InputOffset() > r.limit {
		return 0, fault.New(fault.TooLarge, "json_value_too_large", "a JSON value has more than %d bytes", r.limit)
	}
	n, err := r.from.Read(p)
	r.read += int64(n)
	return n, err
}

// skip passes over one value token by token, without keeping it.
func skip(dec *json.Decoder) error {
	depth := 0
	for {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
		if depth > maxDepth {
			return errors.New("read JSON: the value is nested too deep")
		}
	}
}
