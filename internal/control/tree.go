package control

import (
	"context"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// ModuleState is how a Module is: what its Jobs do now, else what the last one did that meant to change it.
type ModuleState string

// The states of Modules.
const (
	ModuleNever       ModuleState = "never_applied"
	ModuleUpToDate    ModuleState = "applied"       // its last apply or run succeeded
	ModuleChanged     ModuleState = "changed_since" // declared anew after its last apply or run, which succeeded, was queued
	ModuleDestroyed   ModuleState = "destroyed"
	ModuleWaiting     ModuleState = "waiting" // a Job of it is queued
	ModuleRunning     ModuleState = "running"
	ModuleApproval    ModuleState = "awaiting_approval"
	ModuleInterrupted ModuleState = "interrupted"
	ModuleFailed      ModuleState = "failed"
)

// ModuleStates lists them, what needs a person first.
var ModuleStates = []ModuleState{ModuleApproval, ModuleInterrupted, ModuleFailed, ModuleRunning, ModuleWaiting, ModuleChanged, ModuleUpToDate, ModuleNever, ModuleDestroyed}

// JobHead is a Job in brief.
type JobHead = store.JobHead

// ModuleNode is a Module with how it is.
type ModuleNode struct {
	store.ModuleHead
	State ModuleState
}

func nodeOf(h store.ModuleHead) ModuleNode { return ModuleNode{h, stateOf(h)} }

// stateOf tells how a Module is. A Job that holds it counts before those that wait. A plan counts while it runs or waits alone:
// what it found says nothing of what was built.
func stateOf(h store.ModuleHead) ModuleState {
	waiting := false
	for _, j := range h.Open {
		switch j.Status {
		case work.Queued:
			waiting = true
		case work.AwaitingApproval:
			return ModuleApproval
		case work.Interrupted:
			return ModuleInterrupted
		default:
			return ModuleRunning
		}
	}
	switch {
	case waiting:
		return ModuleWaiting
	case h.Settled.Number == 0:
		return ModuleNever
	case h.Settled.Status == work.Failed:
		return ModuleFailed
	case h.Settled.Action == work.Destroy:
		return ModuleDestroyed
	case h.Changed:
		return ModuleChanged
	}
	return ModuleUpToDate
}

// ModuleTree gives the Modules by path, each with how it is, however many there are in two queries.
func (c *Control) ModuleTree(ctx context.Context, actor catalog.Actor, f ModuleFilter,
	pages ...store.Page) ([]ModuleNode, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]ModuleNode, error) {
		return moduleNodes(tx, actor.OrganizationID, f, pages...)
	})
}

func moduleNodes(tx *store.Tx, org string, f ModuleFilter, pages ...store.Page) ([]ModuleNode, error) {
	heads, err := tx.ModuleHeads(org, f, pages...)
	all := make([]ModuleNode, len(heads))
	for i, h := range heads {
		all[i] = nodeOf(h)
	}
	return all, err
}

// JobsNumbered gives Jobs by their numbers, at most 1000; those that are not there are missing.
func (c *Control) JobsNumbered(ctx context.Context, actor catalog.Actor, numbers []int64) (map[int64]*work.Job, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (map[int64]*work.Job, error) {
		jobs, err := tx.JobsNumbered(actor.OrganizationID, numbers)
		found := make(map[int64]*work.Job, len(jobs))
		for _, j := range jobs {
			found[j.Number] = j
		}
		return found, err
	})
}

// StackView is a Stack with its Modules and what they take of one another.
type StackView struct {
	catalog.Stack
	Namespaces []catalog.Namespace // by name, without sensitive values
	Modules    []ModuleNode        // by path

	// Takes gives the paths of the Modules whose outputs a Module takes, sorted, by its own path. Those that are not there are in
	// it, too.
	Takes map[string][]string
}

// StackView gives a Stack by id or name.
func (c *Control) StackView(ctx context.Context, actor catalog.Actor, idOrName string) (StackView, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (v StackView, err error) {
		if v.Stack, err = tx.Stack(actor.OrganizationID, idOrName); err != nil {
			return v, err
		}
		if v.Modules, err = moduleNodes(tx, actor.OrganizationID, ModuleFilter{StackID: v.ID}); err != nil {
			return v, err
		}
		if v.Namespaces, err = tx.Namespaces(actor.OrganizationID, v.ID); err != nil {
			return v, err
		}
		v.Takes = map[string][]string{}
		err = eachEffective(tx, actor.OrganizationID, v.ID, v.Namespaces, func(m catalog.ModuleSpec) {
			if up := catalog.Upstreams(m); len(up) > 0 {
				v.Takes[m.Path()] = up
			}
		})
		for i := range v.Namespaces {
			v.Namespaces[i].Defaults.Inputs = catalog.WithoutSecrets(v.Namespaces[i].Defaults.Inputs)
		}
		return v, err
	})
}

// eachEffective hands on the Modules of a Stack as they run, with Inputs as they are stored.
func eachEffective(tx *store.Tx, org, stackID string, namespaces []catalog.Namespace, fn func(catalog.ModuleSpec)) error {
	defaults := map[string]catalog.Defaults{}
	for _, n := range namespaces {
		defaults[n.ID] = n.Defaults
	}
	modules, err := tx.Modules(org, ModuleFilter{StackID: stackID})
	for _, m := range modules {
		fn(catalog.Effective(m.ModuleSpec, defaults[m.NamespaceID]))
	}
	return err
}
