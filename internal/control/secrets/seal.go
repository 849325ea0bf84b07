package secrets

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

// Sealer closes and opens what must not lie in the database as it is: sensitive Inputs and outputs. context is what a
// value belongs to: what was sealed with one does not open with another, so that whoever writes the database cannot put
// one secret in the place of another, where it would be shown.
type Sealer interface {
	Seal(plain, context []byte) ([]byte, error)
	Open(sealed, context []byte) ([]byte, error)
}

// Safe closes what must not lie in the database as it is, and opens it again. It is safe for concurrent use.
type Safe struct{ sealer Sealer }

// NewSafe makes a Safe.
func NewSafe(s Sealer) *Safe { return &Safe{s} }

// hiddenValue stands for a sensitive output that the reader may not see.
var hiddenValue = json.RawMessage(`"(sensitive)"`)

// belongsTo names what a sealed value belongs to. Only the last part may be chosen by users.
func belongsTo(parts ...string) []byte { return []byte(strings.Join(parts, "\x00")) }

// Seal closes a JSON value into a JSON text that can be stored.
func (s *Safe) Seal(value json.RawMessage, context []byte) (json.RawMessage, error) {
	sealed, err := s.sealer.Seal(value, context)
	if err != nil {
		return nil, fmt.Errorf("seal a value: %w", err)
	}
	return json.Marshal(base64.StdEncoding.EncodeToString(sealed))
}

// Open opens what Seal closed with the same context.
func (s *Safe) Open(value json.RawMessage, context []byte) (json.RawMessage, error) {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return nil, fmt.Errorf("open a sealed value: %w", err)
	}
	sealed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("open a sealed value: %w", err)
	}
	plain, err := s.sealer.Open(sealed, context)
	if err != nil {
		return nil, fmt.Errorf("open a sealed value: %w", err)
	}
	return plain, nil
}

// OfKeyedAnswer returns the context of the stored answer to a request with an idempotency key.
func OfKeyedAnswer(id string) []byte { return belongsTo("keyed answer", id) }

// sealing is Seal or Open.
type sealing func(value json.RawMessage, context []byte) (json.RawMessage, error)

// OfPlan is what the plan of a Job belongs to that waits for approval.
func OfPlan(jobID string) []byte { return belongsTo("plan", jobID) }

// SealInputs makes the Inputs of a record fit for the store. owner is the id of the Module or Namespace whose Inputs
// they are; the Inputs in the snapshot of a Job are its Module's, also those that came from the Namespace.
func (s *Safe) SealInputs(owner string, inputs []catalog.Input) ([]catalog.Input, error) {
	return eachSecret(owner, inputs, s.Seal)
}

// OpenInputs makes what SealInputs made fit for use.
func (s *Safe) OpenInputs(owner string, inputs []catalog.Input) ([]catalog.Input, error) {
	return eachSecret(owner, inputs, s.Open)
}

func eachSecret(owner string, inputs []catalog.Input, fn sealing) ([]catalog.Input, error) {
	out := slices.Clone(inputs)
	for i, in := range out {
		if !in.Sensitive || in.From != catalog.FromValue || len(in.Value) == 0 {
			continue
		}
		value, err := fn(in.Value, belongsTo("input", owner, in.Key()))
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", in.Name, err)
		}
		out[i].Value = value
	}
	return out, nil
}

// SealOutputs makes an Output set fit for the store. A set is told from others by its Module and the Job that made it.
func (s *Safe) SealOutputs(set catalog.OutputSet) (catalog.OutputSet, error) {
	return eachSecretOutput(set, s.Seal)
}

// OpenOutputs makes what SealOutputs made fit for use.
func (s *Safe) OpenOutputs(set catalog.OutputSet) (catalog.OutputSet, error) {
	return eachSecretOutput(set, s.Open)
}

// HideOutputs makes an Output set, sealed or not, fit for being shown.
func HideOutputs(set catalog.OutputSet) catalog.OutputSet {
	hidden, _ := eachSecretOutput(set, func(json.RawMessage, []byte) (json.RawMessage, error) { return hiddenValue, nil })
	return hidden
}

func eachSecretOutput(set catalog.OutputSet, fn sealing) (catalog.OutputSet, error) {
	set.Values = maps.Clone(set.Values)
	for name, v := range set.Values {
		if !v.Sensitive {
			continue
		}
		value, err := fn(v.Value, belongsTo("output", set.ModuleID, set.JobID, name))
		if err != nil {
			return set, fmt.Errorf("output %s: %w", name, err)
		}
		v.Value = value
		set.Values[name] = v
	}
	return set, nil
}

// resolvedFor is what the resolved Inputs of an Attempt are sealed for.
func resolvedFor(job, attempt string) []byte { return belongsTo("resolved", job, attempt) }

// SealResolved closes the resolved Inputs of an Attempt of a Job for the store; no Inputs are no bytes.
func (s *Safe) SealResolved(job string, attempt int, inputs []work.InputValue) ([]byte, error) {
	if len(inputs) == 0 {
		return nil, nil
	}
	plain, err := json.Marshal(inputs)
	if err != nil {
		return nil, fmt.Errorf("write down the inputs of a job: %w", err)
	}
	sealed, err := s.sealer.Seal(plain, resolvedFor(job, strconv.Itoa(attempt)))
	if err != nil {
		return nil, fmt.Errorf("seal the inputs of a job: %w", err)
	}
	return sealed, nil
}

// OpenResolved opens what SealResolved closed for the same Attempt.
func (s *Safe) OpenResolved(job string, attempt int, sealed []byte) (inputs []work.InputValue, err error) {
	plain, err := s.sealer.Open(sealed, resolvedFor(job, strconv.Itoa(attempt)))
	if err != nil {
		return nil, fmt.Errorf("open the inputs of a job: %w", err)
	}
	if err := json.Unmarshal(plain, &inputs); err != nil {
		return nil, fmt.Errorf("read the inputs of a job: %w", err)
	}
	return inputs, nil
}

// valueFor is what the value of a Secret is sealed for.
func valueFor(id string) []byte { return belongsTo("secret", id) }

// identityFor is what the secret of a cloud identity is sealed for.
func identityFor(id string) []byte { return belongsTo("cloud_identity", id, "secret_access_key") }

// SealIdentity closes the secret of a cloud identity, by its id.
func (s *Safe) SealIdentity(id, secret string) ([]byte, error) {
	return s.sealer.Seal([]byte(secret), identityFor(id))
}

// OpenIdentity opens what SealIdentity closed for the same cloud identity.
func (s *Safe) OpenIdentity(id string, sealed []byte) (string, error) {
	plain, err := s.sealer.Open(sealed, identityFor(id))
	return string(plain), err
}
