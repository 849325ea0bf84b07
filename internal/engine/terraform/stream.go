package terraform

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	}
}
