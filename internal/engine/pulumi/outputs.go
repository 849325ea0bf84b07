package pulumi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/process"
	"legwork/internal/work"
)

// readOutputs fills in the outputs. They are asked for with their secrets shown and hidden: where the two
// differ, the output is sensitive. One that carries a sensitive Input is, too.
func (e *Engine) readOutputs(ctx context.Context, w engine.Workspace, result *work.StepResult) error {
	shown, err := e.outputs(ctx, w, "--show-secrets")
	if err != nil {
		return err
	}
	hidden, err := e.outputs(ctx, w)
	if err != nil {
		return err
	}
	result.Outputs, result.HasOutputs = map[string]catalog.OutputValue{}, true
	masker := process.NewMasker(w.Secrets)
	for name, value := range shown {
		sensitive := !bytes.Equal(value, hidden[name]) || holds(masker, w.Secrets, value)
		result.Outputs[name] = catalog.OutputValue{Value: value, Sensitive: sensitive}
	}
	return nil
}

// holds reports whether a secret stands in a JSON value: as one of its texts or numbers, or in any form that is masked inside one.
func holds(masker *process.Masker, secrets []string, value json.RawMessage) bool {
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return masker.Holds(string(value))
		}
		text := fmt.Sprint(token)
		if text != "" && slices.Contains(secrets, text) || masker.Holds(text) {
			return true
		}
	}
}

func (e *Engine) outputs(ctx context.Context, w engine.Workspace, more ...string) (map[string]json.RawMessage, error) {
	outputs := map[string]json.RawMessage{}
	err := e.capture(ctx, w, maxOutputs, func(r io.Reader) error { return json.NewDecoder(r).Decode(&outputs) },
		append([]string{"stack", "output", "--json"}, more...)...)
	if errors.Is(err, engine.ErrTooMuch) {
		return nil, fault.New(fault.TooLarge, "outputs_too_large", "the outputs of the Module are larger than %d MiB", maxOutputs>>20).
			WithHint("give out names and addresses of large data, not the data itself")
	}
	for name, value := range outputs {
		var b bytes.Buffer
		if err := json.Compact(&b, value); err != nil {
			return nil, err
		}
		outputs[name] = b.Bytes()
	}
	return outputs, err
}
