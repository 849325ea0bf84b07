package control

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// skippedTrigger is the data of the event "module.trigger_skipped": why a Module was not applied although an output that it
// takes has changed.
type skippedTrigger struct {
	moduleID string
	Module   string `json:"module"`
	Cause    string `json:"cause"`
	Reason   string `json:"reason"`
}

// prepareTriggers finds the Modules that take an output which changed, and drafts an apply of each. A Module that was
// destroyed stays so: nobody asked for it to be made anew.
func (c *Control) prepareTriggers(tx *store.Tx, j *work.Job, changed []string, p *prepared) error {
	modules, err := tx.Modules(j.OrganizationID, store.ModuleFilter{StackID: j.StackID})
	if err != nil {
		return err
	}
	namespaces, err := tx.Namespaces(j.OrganizationID, j.StackID)
	if err != nil {
		return err
	}
	defaults := map[string]catalog.Defaults{}
	for _, n := range namespaces {
		defaults[n.ID] = n.Defaults
	}
	for _, m := range modules {
		effective := catalog.Effective(m.ModuleSpec, defaults[m.NamespaceID])
		used := usedOf(effective, j.Module, changed)
		if m.ID == j.ModuleID || len(used) == 0 || !m.TriggeredByUpstream() {
			continue
		}
		if err := c.prepareTrigger(tx, m, triggered(effective.Engine), triggerCause(used, j), j.Priority, p); err != nil {
			return err
		}
	}
	return nil
}

// triggered is the action that brings a Module up to date with its Inputs.
func triggered(engine catalog.Engine) work.Action {
	if engine == catalog.Script {
		return work.Run
	}
	return work.Apply
}

// usedOf gives the changed outputs of a Module that another one takes.
func usedOf(m catalog.ModuleSpec, upstream string, changed []string) []string {
	return slices.DeleteFunc(catalog.Uses(m, upstream), func(name string) bool { return !slices.Contains(changed, name) })
}

func triggerCause(used []string, j *work.Job) string {
	if len(used) == 1 {
		return fmt.Sprintf("output %s of %s changed in job #%d", used[0], j.Module, j.Number)
	}
	return fmt.Sprintf("outputs %s of %s changed in job #%d", strings.Join(used, ", "), j.Module, j.Number)
}

// prepareTrigger drafts a Job of a Module, with the priority of the one that causes it.
func (c *Control) prepareTrigger(tx *store.Tx, m catalog.Module, action work.Action, cause string, priority work.Priority, p *prepared) error {
	skip := func(reason string) {
		p.skipped = append(p.skipped, skippedTrigger{moduleID: m.ID, Module: m.Path(), Cause: cause, Reason: reason})
	}
	destroyed, err := isDestroyed(tx, m)
	if err != nil {
		return err
	}
	if destroyed {
		skip("it was destroyed")
		return nil
	}
	sub, err := c.draftLater(tx, m, action, cause)
	if f := fault.Of(err); f != nil {
		if f.Kind == fault.Internal || f.Kind == fault.Unavailable {
			return err
		}
		skip(f.Message)
		return nil
	}
	sub.job.Priority = cmp.Or(priority, work.PriorityNormal)
	p.downstream = append(p.downstream, sub)
	return nil
}

// draftLater drafts a Job without looking whether its Inputs are there: the outputs that trigger it are stored together
// with it. If another one is missing, the job waits for it.
func (c *Control) draftLater(tx *store.Tx, m catalog.Module, action work.Action, cause string) (submission, error) {
	sub, err := c.makeDraft(tx, m, action, "legwork", cause, func(catalog.Module) (string, error) { return "", nil })
	sub.job.Triggered = true
	return sub, err
}

// isDestroyed tells whether the last Job that changed the Module was a destroy.
func isDestroyed(tx *store.Tx, m catalog.Module) (bool, error) {
	jobs, err := tx.Jobs(m.OrganizationID, store.JobFilter{ModuleID: m.ID, Limit: 50,
		Statuses: []work.Status{work.Succeeded, work.Failed, work.Running, work.AwaitingApproval, work.Canceling, work.Interrupted}})
	for _, j := range jobs {
		switch j.Action {
		case work.Apply:
			return false, err
		case work.Destroy:
			return j.Status != work.Failed, err
		}
	}
	return false, err
}
