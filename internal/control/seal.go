package control

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"legwork/internal/catalog"
)

// Sealer closes and opens what must not lie in the database as it is: sensitive Inputs and outputs. context is what a
// value belongs to: what was sealed with one does not open with another, so that whoever writes the database cannot put
// one secret in the place of another, where it would be shown.
type Sealer interface {
	Seal(plain, context []byte) ([]byte, error)
	Open(sealed, context []byte) ([]byte, error)
}

// hiddenValue stands for a sensitive output that the reader may not see.
var hiddenValue = json.RawMessage(`"(sensitive)"`)

// sealContext names what a sealed value belongs to. Only the last part may be chosen by users.
func sealContext(parts ...string) []byte { return []byte(strings.Join(parts, "\x00")) }

// seal closes a JSON value into a JSON text that can be stored.
func (c *Control) seal(value json.RawMessage, context []byte) (json.RawMessage, error) {
	sealed, err := c.sealer.Seal(value, context)
	if err != nil {
		return nil, fmt.Errorf("seal a value: %w", err)
	}
	return json.Marshal(base64.StdEncoding.EncodeToString(sealed))
}

// unseal opens what seal closed with the same context.
func (c *Control) unseal(value json.RawMessage, context []byte) (json.RawMessage, error) {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return nil, fmt.Errorf("open a sealed value: %w", err)
	}
	sealed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("open a sealed value: %w", err)
	}
	plain, err := c.sealer.Open(sealed, context)
	if err != nil {
		return nil, fmt.Errorf("open a sealed value: %w", err)
	}
	return plain, nil
}

// sealing is seal or unseal.
type sealing func(value json.RawMessage, context []byte) (json.RawMessage, error)

// sealInputs makes the Inputs of a record fit for the store. owner is the id of the Module or Namespace whose Inputs
// they are; the Inputs in the snapshot of a Job are its Module's, also those that came from the Namespace.
func (c *Control) sealInputs(owner string, inputs []catalog.Input) ([]catalog.Input, error) {
	return eachSecret(owner, inputs, c.seal)
}

// openInputs makes what sealInputs made fit for use.
func (c *Control) openInputs(owner string, inputs []catalog.Input) ([]catalog.Input, error) {
	return eachSecret(owner, inputs, c.unseal)
}

func eachSecret(owner string, inputs []catalog.Input, fn sealing) ([]catalog.Input, error) {
	out := slices.Clone(inputs)
	for i, in := range out {
		if !in.Sensitive || in.From != catalog.FromValue || len(in.Value) == 0 {
			continue
		}
		value, err := fn(in.Value, sealContext("input", owner, in.Key()))
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", in.Name, err)
		}
		out[i].Value = value
	}
	return out, nil
}

// sealOutputs makes an Output set fit for the store, openOutputs makes it fit for use, hideOutputs for being shown. A set
// is told from others by its Module and the Job that made it.
func (c *Control) sealOutputs(set catalog.OutputSet) (catalog.OutputSet, error) {
	return eachSecretOutput(set, c.seal)
}

func (c *Control) openOutputs(set catalog.OutputSet) (catalog.OutputSet, error) {
	return eachSecretOutput(set, c.unseal)
}

func hideOutputs(set catalog.OutputSet) catalog.OutputSet {
	hidden, _ := eachSecretOutput(set, func(json.RawMessage, []byte) (json.RawMessage, error) { return hiddenValue, nil })
	return hidden
}

func eachSecretOutput(set catalog.OutputSet, fn sealing) (catalog.OutputSet, error) {
	set.Values = maps.Clone(set.Values)
	for name, v := range set.Values {
		if !v.Sensitive {
			continue
		}
		value, err := fn(v.Value, sealContext("output", set.ModuleID, set.JobID, name))
		if err != nil {
			return set, fmt.Errorf("output %s: %w", name, err)
		}
		v.Value = value
		set.Values[name] = v
	}
	return set, nil
}
