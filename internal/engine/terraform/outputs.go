package terraform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// readOutputs fills in the outputs with their types.
func (e *Engine) readOutputs(ctx context.Context, w engine.Workspace, result *work.StepResult) error {
	var outputs map[string]catalog.OutputValue
	err := e.capture(ctx, w, maxOutputs, func(r io.Reader) error {
		dec, err := jsonAfterWarnings(r)
		if err != nil {
			return err
		}
		return dec.Decode(&outputs)
	}, "output", "-json")
	if errors.Is(err, engine.ErrTooMuch) {
		return fault.New(fault.TooLarge, "outputs_too_large", "the outputs of the Module are larger than %d MiB", maxOutputs>>20).
			WithHint("give out names and addresses of large data, not the data itself")
	}
	if err != nil {
		return err
	}
	if result.Outputs, err = tidy(outputs, newRedactor(w.Secrets)); err != nil {
		return err
	}
	result.HasOutputs = true
	return nil
}

// tidy takes the white space out. An output that carries a sensitive Input is sensitive, even where
// the code forgot to say so.
func tidy(outputs map[string]catalog.OutputValue, r redactor) (map[string]catalog.OutputValue, error) {
	for name, out := range outputs {
		value, err := compact(out.Value)
		if err != nil {
			return nil, fmt.Errorf("read the output %s: %w", name, err)
		}
		kind, err := compact(out.Type)
		if err != nil {
			return nil, fmt.Errorf("read the type of the output %s: %w", name, err)
		}
		sensitive := out.Sensitive || r.holdsValue(value)
		outputs[name] = catalog.OutputValue{Value: value, Type: kind, Sensitive: sensitive}
	}
	return outputs, nil
}

func compact(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// holdsValue tells whether a secret stands in a JSON value.
func (r redactor) holdsValue(raw json.RawMessage) bool {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		switch t := token.(type) {
		case string:
			if r.holds(t) {
				return true
			}
		case json.Number:
			if r.exact[t.String()] {
				return true
			}
		}
	}
}
