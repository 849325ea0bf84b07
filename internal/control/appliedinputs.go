package control

import (
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// A destroy takes the outputs of other modules as they were at the last apply of its module, because these modules
// may be destroyed by then. Every other input has the value that it has now: a rotated credential is not taken
// from the past.

// keepAppliedInputs stores the outputs of other modules that an apply is about to use.
func (c *Control) keepAppliedInputs(tx *store.Tx, before, after *work.Job) error {
	if after.Kind != work.ModuleJob || after.Action != work.Apply || !startsChange(before, after) {
		return nil
	}
	_, module, err := c.declared(tx, after)
	if err != nil || len(module.Inputs) == 0 {
		return err
	}
	sealed, err := tx.JobInputs(after.ID, after.Attempt)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	values, err := c.safe.OpenResolved(after.ID, after.Attempt, sealed)
	if err != nil {
		return err
	}
	values = slices.DeleteFunc(values, func(v work.InputValue) bool { return !takesOutput(module.Inputs, v) })
	if len(values) == 0 {
		return tx.DeleteAppliedInputs(after.OrganizationID, after.ModuleID)
	}
	if sealed, err = c.safe.SealResolved(after.ID, after.Attempt, values); err != nil {
		return err
	}
	return tx.PutAppliedInputs(after.OrganizationID, after.ModuleID,
		store.AppliedInputs{JobID: after.ID, Attempt: after.Attempt, Sealed: sealed})
}

// takesOutput reports whether a resolved input has its value from an output.
func takesOutput(inputs []catalog.Input, v work.InputValue) bool {
	return slices.ContainsFunc(inputs, func(in catalog.Input) bool { return in.From == catalog.FromOutput && isValueOf(v, in) })
}

func isValueOf(v work.InputValue, in catalog.Input) bool {
	return v.Name == in.Name && (v.Kind == catalog.Env) == (in.Kind == catalog.Env)
}

// resolveFor returns the values of a module's inputs for a job with an action.
func (c *Control) resolveFor(tx *store.Tx, m catalog.Module, action work.Action) ([]work.InputValue, error) {
	if action != work.Destroy {
		return c.resolve(tx, m)
	}
	applied, ok, err := tx.AppliedInputs(m.OrganizationID, m.ID)
	if err != nil || !ok {
		return c.resolve(tx, m)
	}
	values, err := c.safe.OpenResolved(applied.JobID, applied.Attempt, applied.Sealed)
	if err != nil {
		return nil, err
	}
	var kept []work.InputValue
	current := m
	current.Inputs = slices.DeleteFunc(slices.Clone(m.Inputs), func(in catalog.Input) bool {
		at := slices.IndexFunc(values, func(v work.InputValue) bool { return isValueOf(v, in) })
		if in.From != catalog.FromOutput || at < 0 {
			return false
		}
		kept = append(kept, values[at])
		return true
	})
	resolved, err := c.resolve(tx, current)
	return append(resolved, kept...), err
}
