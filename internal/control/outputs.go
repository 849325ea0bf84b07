package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/control/secrets"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// latestOutputs gives the newest Output set of a Module, open. ok is false when there is no such Module or no set, and when
// the Module was destroyed since, which left a set of no values at all behind.
func (c *Control) latestOutputs(tx *store.Tx, org, path string) (set catalog.OutputSet, ok bool, err error) {
	m, err := tx.Module(org, path)
	if err == nil {
		set, err = tx.LatestOutputs(org, m.ID)
	}
	if fault.Is(err, fault.NotFound) {
		return set, false, nil
	}
	if err != nil {
		return set, false, err
	}
	set, err = c.safe.OpenOutputs(set)
	return set, err == nil && set.Values != nil, err
}

// OutputsRevealedEvent is the data of the event "outputs.revealed": somebody got the sensitive outputs of a Module.
type OutputsRevealedEvent struct {
	Module string `json:"module"`
	By     string `json:"by"`
}

// Outputs gives the newest Output set of a Module, by path or id. Sensitive values are shown only when asked for, and only
// to who may see them. It is a fault.NotFound when the Module was never applied.
func (c *Control) Outputs(ctx context.Context, actor catalog.Actor, module string, showSensitive bool) (set catalog.OutputSet, err error) {
	if err := actor.Need(catalog.Read); err != nil {
		return set, err
	}
	if showSensitive {
		if err := actor.Need(catalog.ReadSensitive); err != nil {
			return set, err
		}
	}
	run := c.store.View
	if showSensitive { // which leaves a trace
		run = c.store.Update
	}
	err = run(ctx, func(tx *store.Tx) error {
		m, err := tx.Module(actor.OrganizationID, module)
		if err != nil {
			return err
		}
		if showSensitive {
			tx.Sign(actor, "outputs.reveal")
			if err := c.publish(tx, actor.OrganizationID, "outputs.revealed", m.ID, OutputsRevealedEvent{Module: m.Path(), By: actor.Name}); err != nil {
				return err
			}
		}
		set, err = tx.LatestOutputs(actor.OrganizationID, m.ID)
		if fault.Is(err, fault.NotFound) && m.Engine == catalog.Script {
			return fault.New(fault.NotFound, "no_outputs", "%s is a script module, and scripts have no outputs", m.Path()).
				WithHint("its output is in the log of its jobs: legwork job list --module %s", m.Path())
		}
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.NotFound, "no_outputs", "%s has no outputs: it was not applied yet", m.Path()).
				WithHint("run: legwork module apply %s", m.Path())
		}
		return err
	})
	if err != nil {
		return set, err
	}
	if set.Values == nil {
		set.Values = map[string]catalog.OutputValue{}
	}
	if !showSensitive {
		return secrets.HideOutputs(set), nil
	}
	return c.safe.OpenOutputs(set)
}

// prepared is what is made ready, outside of the transaction that takes a Step's result, because it is slow or large.
type prepared struct {
	outputs    *catalog.OutputSet // to be stored, sealed; nil when nothing changed
	downstream []submission       // Jobs to queue because of it
	skipped    []skippedTrigger   // Modules that should have got one
}

// prepare stores a plan's changes, and compares outputs with those there were. A message about a Job that the Instance
// does not hold makes nothing; the transaction will say what is wrong with it.
func (l *lane) prepare(ctx context.Context, m *wire.StepFinished) (p prepared, err error) {
	c, s, r := l.s.c, l.s, m.Result
	if len(r.Changes) == 0 && r.SavedPlan == nil && !r.HasOutputs && (r.Status != work.StepSucceeded || !l.mayDestroy()) {
		return p, nil
	}
	var j *work.Job
	err = c.store.View(ctx, func(tx *store.Tx) (err error) {
		if j, err = tx.Job(s.org, m.Job); err != nil || s.standing(j, m.Ref) != holder || m.Step >= len(j.Steps) {
			j = nil
			return err
		}
		switch kind := j.Steps[m.Step].Kind; {
		case r.HasOutputs && kind == work.StepOutput && r.Status == work.StepSucceeded:
			values := r.Outputs
			if values == nil {
				values = map[string]catalog.OutputValue{}
			}
			return c.prepareOutputs(tx, j, values, &p)
		case kind == work.StepDestroy && r.Status == work.StepSucceeded:
			return c.prepareOutputs(tx, j, nil, &p)
		}
		return nil
	})
	if fault.Is(err, fault.NotFound) {
		return p, nil
	}
	if err == nil && j != nil && len(r.Changes) > 0 {
		err = c.blobs.Put(ctx, planKey(j.ID, j.Attempt), bytes.NewReader(r.Changes))
	}
	if err == nil && j != nil {
		c.keepPlan(ctx, j, m.Step, r)
	}
	return p, err
}

// prepareOutputs makes a new Output set when some value changed, with the Jobs that it triggers.
func (c *Control) prepareOutputs(tx *store.Tx, j *work.Job, values map[string]catalog.OutputValue, p *prepared) error {
	if err := checkOutputs(values); err != nil {
		return err
	}
	before, err := tx.LatestOutputs(j.OrganizationID, j.ModuleID)
	none := fault.Is(err, fault.NotFound)
	if err != nil && !none {
		return err
	}
	if before, err = c.safe.OpenOutputs(before); err != nil {
		return err
	}
	changed := changedOutputs(before.Values, values)
	if len(changed) == 0 && (!none || values == nil) {
		return nil
	}
	set := catalog.OutputSet{ModuleID: j.ModuleID, JobID: j.ID, Values: values}
	if set, err = c.safe.SealOutputs(set); err != nil {
		return err
	}
	p.outputs = &set
	if values == nil { // destroyed: what took its outputs cannot be applied without them
		return nil
	}
	return c.prepareTriggers(tx, j, changed, p)
}

// checkOutputs refuses what no engine gives and the store cannot keep.
func checkOutputs(values map[string]catalog.OutputValue) error {
	for name, v := range values {
		if !json.Valid(v.Value) || (len(v.Type) > 0 && !json.Valid(v.Type)) {
			return &wire.CloseError{Code: wire.CloseProtocol, Reason: fmt.Sprintf("the output %.100q is not JSON", name)}
		}
	}
	return nil
}

// changedOutputs names the outputs whose value, type or sensitivity is another one, sorted.
func changedOutputs(before, after map[string]catalog.OutputValue) []string {
	var names []string
	for name, v := range after {
		if old, ok := before[name]; !ok || !sameOutput(old, v) {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func sameOutput(a, b catalog.OutputValue) bool {
	return a.Sensitive == b.Sensitive && sameJSON(a.Value, b.Value) && sameJSON(a.Type, b.Type)
}

func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y bytes.Buffer
	return len(a) > 0 && len(b) > 0 && json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// keepResult stores what a Step made beyond its result, in the transaction that takes the result: a new Output set, and
// the Jobs that it triggers, so that neither can be lost.
func (c *Control) keepResult(tx *store.Tx, j *work.Job, p prepared) ([]moved, error) {
	if p.outputs == nil {
		return nil, nil
	}
	set := *p.outputs
	if err := tx.PutOutputSet(j.OrganizationID, &set); err != nil {
		return nil, err
	}
	if err := c.publish(tx, j.OrganizationID, "module.outputs", j.ModuleID, map[string]any{"module": j.Module, "serial": set.Serial, "job_number": j.Number}); err != nil {
		return nil, err
	}
	for _, s := range p.skipped {
		if err := c.publish(tx, j.OrganizationID, "module.trigger_skipped", s.moduleID, s); err != nil {
			return nil, err
		}
	}
	var all []moved
	for _, sub := range p.downstream {
		moves, err := c.enqueue(tx, sub)
		if err != nil {
			return nil, err
		}
		all = append(all, moves...)
	}
	return all, nil
}

func planKey(job string, attempt int) string { return fmt.Sprintf("plans/%s/%d.json", job, attempt) }
