package terraform

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"slices"

	tfjson "github.com/hashicorp/terraform-json"

	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// readPlan fills in the summary and the changes of the plan file.
func (e *Engine) readPlan(ctx context.Context, w engine.Workspace, result *work.StepResult) error {
	sum, err := recordPlan(w)
	if err != nil {
		return err
	}
	p := planReader{redactor: newRedactor(w.Secrets), digest: sha256.New(), limit: maxChanges}
	err = e.capture(ctx, w, maxShow, p.read, "show", "-json", filepath.Join(w.JobDir, planFile))
	if errors.Is(err, engine.ErrTooMuch) {
		return fault.New(fault.TooLarge, "plan_too_large", "the plan is larger than %d MiB in JSON", maxShow>>20).
			WithHint("split the Module into smaller ones")
	}
	if err != nil {
		return err
	}
	result.Warnings = undeclaredInputs(w.Spec, p.variables)
	p.summary.Hash = sum
	p.summary.Digest = hex.EncodeToString(p.digest.Sum(nil))
	result.Plan = &p.summary
	result.Changes, err = p.encoded()
	return err
}

// planReader reads the JSON of a plan as a stream, so that memory is taken by one resource at a time.
type planReader struct {
	redactor redactor
	digest   hash.Hash
	summary  work.PlanSummary
	changes  []json.RawMessage // of work.ResourceChange
	size     int
	limit    int  // of size; over it values are dropped
	slim     bool // values were dropped

	variables map[string]bool // that the root module declares; nil where the plan does not say
}

// read takes the parts of a plan that matter and skips the rest.
func (p *planReader) read(r io.Reader) error {
	dec, err := jsonAfterWarnings(r)
	if err != nil {
		return err
	}
	return eachField(dec, func(name string) error {
		switch name {
		case "format_version":
			return checkFormat(dec)
		case "resource_changes":
			return eachItem(dec, func() error {
				var change tfjson.ResourceChange
				if err := dec.Decode(&change); err != nil {
					return err
				}
				return p.add(&change)
			})
		case "output_changes":
			var outputs map[string]*tfjson.Change
			if err := dec.Decode(&outputs); err != nil {
				return err
			}
			return p.addOutputs(outputs)
		case "configuration":
			return p.readConfiguration(dec)
		}
		return skip(dec)
	})
}

// checkFormat refuses a format that may mean something else by the same names.
func checkFormat(dec *json.Decoder) error {
	var version string
	if err := dec.Decode(&version); err != nil {
		return err
	}
	if !atLeast(version, 0, 1) || atLeast(version, 2, 0) {
		return fault.New(fault.Unsupported, "plan_format", "this version of the engine writes plans in format %q, which is not known", version).
			WithHint("use an older version of the engine on the Runner's host, or a newer Legwork")
	}
	return nil
}

// add counts a change as the engine's own summary does: a replacement is one to add and one to destroy.
// What changes the state alone (import, move, forget) counts as a change: such a plan is not empty.
func (p *planReader) add(rc *tfjson.ResourceChange) error {
	if rc.Change == nil {
		return nil
	}
	moved := rc.PreviousAddress != "" && rc.PreviousAddress != rc.Address
	stateOnly := rc.Change.Importing != nil || moved || slices.Contains(rc.Change.Actions, "forget")
	if rc.Change.Actions.NoOp() && !stateOnly {
		return nil
	}
	if rc.Mode == tfjson.ManagedResourceMode {
		p.count(rc.Change.Actions, stateOnly)
	}
	return p.keep(p.redactor.resource(rc))
}

func (p *planReader) count(actions tfjson.Actions, stateOnly bool) {
	creates, destroys := slices.Contains(actions, tfjson.ActionCreate), slices.Contains(actions, tfjson.ActionDelete)
	if creates {
		p.summary.Add++
	}
	if destroys {
		p.summary.Destroy++
	}
	if actions.Update() || stateOnly && !creates && !destroys {
		p.summary.Change++
	}
}

// addOutputs counts the outputs that would change. They belong to the digest, too.
func (p *planReader) addOutputs(outputs map[string]*tfjson.Change) error {
	names := make([]string, 0, len(outputs))
	for name, change := range outputs {
		if change != nil && !change.Actions.NoOp() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	p.summary.Outputs = len(names)
	for _, name := range names {
		change := p.redactor.change("output."+name, "output", outputs[name])
		if err := json.NewEncoder(p.digest).Encode(change); err != nil {
			return fmt.Errorf("digest the output %s: %w", name, err)
		}
	}
	return nil
}

// keep adds a redacted change to the list and to the digest. Once the list is over its limit, it keeps
// addresses and actions alone.
func (p *planReader) keep(change work.ResourceChange) error {
	full, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode the change of %s: %w", change.Address, err)
	}
	p.digest.Write(append(full, '\n'))
	if !p.slim && p.size+len(full) > p.limit {
		if err := p.dropValues(); err != nil {
			return err
		}
	}
	if p.slim {
		if full, err = slimmed(full); err != nil {
			return err
		}
	}
	if p.size+len(full) <= p.limit { // even bare addresses end somewhere; the summary counts them all
		p.changes = append(p.changes, full)
		p.size += len(full) + 1
	}
	return nil
}

func (p *planReader) dropValues() error {
	p.slim, p.size = true, 0
	for i, change := range p.changes {
		bare, err := slimmed(change)
		if err != nil {
			return err
		}
		p.changes[i] = bare
		p.size += len(bare) + 1
	}
	return nil
}

// slimmed takes before and after out of an encoded change.
func slimmed(change []byte) (json.RawMessage, error) {
	var c work.ResourceChange
	if err := json.Unmarshal(change, &c); err != nil {
		return nil, fmt.Errorf("shorten a change: %w", err)
	}
	c.Before, c.After = nil, nil
	return json.Marshal(c)
}

func (p *planReader) encoded() ([]byte, error) {
	if p.changes == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(p.changes)
}
