package control

import (
	"context"
	"fmt"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/control/nodes"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// ApplyManifest creates or changes what a manifest declares, all of it or nothing, in one transaction. It returns what
// changed; with dryRun, what would. Doing it twice changes nothing the second time.
func (c *Control) ApplyManifest(ctx context.Context, actor catalog.Actor, m catalog.Manifest, dryRun bool) (changes catalog.Changes, err error) {
	if err := mayDeclare(actor, m, dryRun); err != nil {
		return nil, err
	}
	run := c.store.Update
	if dryRun {
		run = c.store.View
	}
	err = run(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "manifest.apply")
		if err := tx.LockCatalog(actor.OrganizationID); err != nil {
			return err
		}
		current, err := snapshot(tx, actor.OrganizationID, c.safe.OpenInputs)
		if err != nil {
			return err
		}
		if changes, err = catalog.Plan(current, m); err != nil {
			return err
		}
		if err := deepCheck(m); err != nil || dryRun {
			return err
		}
		return c.write(tx, actor, changes)
	})
	if err != nil {
		return nil, err
	}
	if !dryRun {
		c.redeclared(actor.OrganizationID)
	}
	return changes, nil
}

func mayDeclare(actor catalog.Actor, m catalog.Manifest, dryRun bool) error {
	// A dry run needs the same: it tells whether a sensitive value equals one that is guessed.
	if err := actor.Need(catalog.Declare); err != nil {
		return err
	}
	if !dryRun && len(m.Runners)+len(m.Assignments)+len(m.CloudIdentities) > 0 {
		return actor.Need(catalog.Administer)
	}
	return nil
}

// redeclared has every Server look at an Organization's records anew.
func (c *Control) redeclared(org string) {
	c.queue.Stale(org)
	c.tellRunners(org)
	c.hosting.Redeclared()
	c.hint(subjectCatalog, eventHint{c.from(), org})
	c.signal(org)
}

// withoutSecrets reads the Inputs of a record, owner or not, for whoever does not ask for the sensitive ones.
func withoutSecrets(_ string, inputs []catalog.Input) ([]catalog.Input, error) {
	return catalog.WithoutSecrets(inputs), nil
}

// snapshot gives what an Organization declares. read makes Inputs as they are stored fit for what they are wanted for.
func snapshot(tx *store.Tx, org string, read func(owner string, stored []catalog.Input) ([]catalog.Input, error)) (s catalog.Snapshot, err error) {
	stacks, err := tx.Stacks(org)
	if err != nil {
		return s, err
	}
	for _, v := range stacks {
		s.Stacks = append(s.Stacks, v.StackSpec)
	}
	namespaces, err := tx.Namespaces(org, "")
	if err != nil {
		return s, err
	}
	for _, v := range namespaces {
		if v.Defaults.Inputs, err = read(v.ID, v.Defaults.Inputs); err != nil {
			return s, fmt.Errorf("namespace %s: %w", v.Path(), err)
		}
		s.Namespaces = append(s.Namespaces, v.NamespaceSpec)
	}
	modules, err := tx.Modules(org, store.ModuleFilter{})
	if err != nil {
		return s, err
	}
	for _, v := range modules {
		if v.Inputs, err = read(v.ID, v.Inputs); err != nil {
			return s, fmt.Errorf("module %s: %w", v.Path(), err)
		}
		s.Modules = append(s.Modules, v.ModuleSpec)
	}
	if err := addRunbooks(tx, org, &s); err != nil {
		return s, err
	}
	return s, addRunners(tx, org, &s)
}

func addRunbooks(tx *store.Tx, org string, s *catalog.Snapshot) error {
	nodes, err := tx.Nodes(org, "")
	for _, v := range nodes {
		s.Nodes = append(s.Nodes, v.NodeSpec)
	}
	if err != nil {
		return err
	}
	sources, err := tx.NodeSources(org, "")
	for _, v := range sources {
		s.NodeSources = append(s.NodeSources, v.NodeSourceSpec)
	}
	if err != nil {
		return err
	}
	runbooks, err := tx.Runbooks(org, "")
	for _, v := range runbooks {
		s.Runbooks = append(s.Runbooks, v.RunbookSpec)
	}
	if err != nil {
		return err
	}
	secrets, err := tx.Secrets(org, "")
	for _, v := range secrets {
		s.Secrets = append(s.Secrets, v.Document())
	}
	return err
}

func addRunners(tx *store.Tx, org string, s *catalog.Snapshot) error {
	if err := addCloudIdentities(tx, org, s); err != nil {
		return err
	}
	runners, err := tx.Runners(org)
	if err != nil {
		return err
	}
	for _, v := range runners {
		s.Runners = append(s.Runners, v.RunnerSpec)
	}
	assignments, err := tx.Assignments(org, "")
	for _, v := range assignments {
		s.Assignments = append(s.Assignments, v.AssignmentSpec)
	}
	return err
}

// write stores changes in their order, which is one in which they can be.
func (c *Control) write(tx *store.Tx, actor catalog.Actor, changes catalog.Changes) error {
	for _, change := range changes {
		if change.Action == catalog.Unchanged {
			continue
		}
		if change.Secret != nil {
			if err := c.writeSecret(tx, actor, change); err != nil {
				return err
			}
			continue
		}
		id, err := c.writeOne(tx, actor.OrganizationID, change)
		if err != nil {
			return fmt.Errorf("%s %s: %w", change.Kind, change.Path, err)
		}
		if err := c.noteDeclared(tx, actor, string(change.Action), change.Kind, change.Path, id); err != nil {
			return err
		}
	}
	return nil
}

// DeclaredEvent is the data of the events "stack.changed", "namespace.changed", "module.changed", "runner.changed",
// "assignment.changed", "node.changed", "node_source.changed", "runbook.changed", "secret.changed" and "cloud_identity.changed", as JSON.
type DeclaredEvent struct {
	Action string `json:"action"` // create, update or delete
	Path   string `json:"path"`
	By     string `json:"by"`
}

var declaredKinds = map[catalog.Kind]string{
	catalog.KindStack: "stack.changed", catalog.KindNamespace: "namespace.changed", catalog.KindModule: "module.changed",
	catalog.KindCloudIdentity: "cloud_identity.changed", catalog.KindRunner: "runner.changed", catalog.KindAssignment: "assignment.changed",
	catalog.KindNode: "node.changed", catalog.KindNodeSource: "node_source.changed", catalog.KindRunbook: "runbook.changed",
	catalog.KindSecret: "secret.changed",
}

func (c *Control) noteDeclared(tx *store.Tx, actor catalog.Actor, action string, kind catalog.Kind, path, id string) error {
	return c.publish(tx, actor.OrganizationID, declaredKinds[kind], id, DeclaredEvent{Action: action, Path: path, By: actor.Name})
}

func (c *Control) writeOne(tx *store.Tx, org string, change catalog.Change) (id string, err error) {
	switch {
	case change.Stack != nil:
		v, err := existing(tx.Stack(org, change.Path))
		if err != nil {
			return "", err
		}
		v.OrganizationID, v.StackSpec = org, *change.Stack
		err = tx.PutStack(&v)
		return v.ID, err
	case change.Namespace != nil:
		return c.writeNamespace(tx, org, change)
	case change.Module != nil:
		return c.writeModule(tx, org, change)
	case change.CloudIdentity != nil:
		v, err := existing(tx.CloudIdentity(org, change.Path))
		if err != nil {
			return "", err
		}
		err = c.writeCloudIdentity(tx, org, &v, *change.CloudIdentity)
		return v.ID, err
	case change.Runner != nil:
		v, err := existing(tx.Runner(org, change.Path))
		if err != nil {
			return "", err
		}
		err = c.putRunner(tx, org, &v, *change.Runner)
		return v.ID, err
	case change.Assignment != nil:
		a, err := assign(tx, org, *change.Assignment)
		return a.ID, err
	}
	return writeRunbooks(tx, org, change)
}

// writeRunbooks stores a change of what belongs to Runbooks.
func writeRunbooks(tx *store.Tx, org string, change catalog.Change) (string, error) {
	switch {
	case change.Node != nil:
		v, err := existing(tx.Node(org, change.Path))
		if err != nil {
			return "", err
		}
		v.OrganizationID, v.NodeSpec = org, *change.Node
		err = tx.PutNode(&v)
		return v.ID, err
	case change.NodeSource != nil:
		v, err := existing(tx.NodeSource(org, change.Path))
		if err != nil {
			return "", err
		}
		err = nodes.PutSource(tx, org, &v, *change.NodeSource)
		return v.ID, err
	case change.Runbook != nil:
		v, err := existing(tx.Runbook(org, change.Path))
		if err != nil {
			return "", err
		}
		err = putRunbook(tx, org, &v, *change.Runbook)
		return v.ID, err
	}
	return "", fmt.Errorf("a change of kind %q without what it changes", change.Kind)
}

// existing turns "not there" into a new, empty record.
func existing[T any](v T, err error) (T, error) {
	if fault.Is(err, fault.NotFound) {
		var none T
		return none, nil
	}
	return v, err
}

func (c *Control) writeNamespace(tx *store.Tx, org string, change catalog.Change) (string, error) {
	v, err := existing(tx.Namespace(org, change.Path))
	if err != nil {
		return "", err
	}
	v.OrganizationID, v.NamespaceSpec = org, *change.Namespace
	if v.StackID == "" {
		stack, err := tx.Stack(org, v.Stack)
		if err != nil {
			return "", err
		}
		v.StackID = stack.ID
	}
	if v.ID == "" { // its id is part of what its secrets are sealed with
		v.Defaults.Inputs = catalog.WithoutSecrets(change.Namespace.Defaults.Inputs)
		if err := tx.PutNamespace(&v); err != nil {
			return "", err
		}
	}
	if v.Defaults.Inputs, err = c.safe.SealInputs(v.ID, change.Namespace.Defaults.Inputs); err != nil {
		return "", err
	}
	err = tx.PutNamespace(&v)
	return v.ID, err
}

func (c *Control) writeModule(tx *store.Tx, org string, change catalog.Change) (string, error) {
	v, err := existing(tx.Module(org, change.Path))
	if err != nil {
		return "", err
	}
	v.OrganizationID, v.ModuleSpec = org, *change.Module
	if v.ID == "" { // as with Namespaces
		v.Inputs = catalog.WithoutSecrets(change.Module.Inputs)
		if err := tx.PutModule(&v); err != nil {
			return "", err
		}
	}
	if v.Inputs, err = c.safe.SealInputs(v.ID, change.Module.Inputs); err != nil {
		return "", err
	}
	err = tx.PutModule(&v)
	return v.ID, err
}

// ExportManifest writes what the Organization declares as a manifest. Applying that again changes nothing. Sensitive Inputs
// are without their values, which apply then keeps; with showSensitive they have them, which needs the rights to declare
// and to read sensitive values, and leaves the event "manifest.revealed".
func (c *Control) ExportManifest(ctx context.Context, actor catalog.Actor, showSensitive bool) ([]byte, error) {
	var s catalog.Snapshot
	var err error
	if showSensitive {
		s, err = c.revealedSnapshot(ctx, actor)
	} else {
		s, err = read(ctx, c, actor, func(tx *store.Tx) (catalog.Snapshot, error) {
			return snapshot(tx, actor.OrganizationID, withoutSecrets)
		})
	}
	if err != nil {
		return nil, err
	}
	return catalog.Export(s)
}

// RevealedEvent is the data of the event "manifest.revealed": somebody got the values of all sensitive Inputs.
type RevealedEvent struct {
	By string `json:"by"`
}

// revealedSnapshot is the snapshot with its secrets, which is given to nobody without a trace.
func (c *Control) revealedSnapshot(ctx context.Context, actor catalog.Actor) (s catalog.Snapshot, err error) {
	for _, p := range []catalog.Permission{catalog.Read, catalog.ReadSensitive, catalog.Declare} {
		if err := actor.Need(p); err != nil {
			return s, err
		}
	}
	err = c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "manifest.reveal")
		if s, err = snapshot(tx, actor.OrganizationID, c.safe.OpenInputs); err != nil {
			return err
		}
		return c.publish(tx, actor.OrganizationID, "manifest.revealed", actor.ID, RevealedEvent{By: actor.Name})
	})
	if err == nil {
		c.signal(actor.OrganizationID)
	}
	return s, err
}

// read runs fn for an Actor that may read.
func read[T any](ctx context.Context, c *Control, actor catalog.Actor, fn func(tx *store.Tx) (T, error)) (v T, err error) {
	if err := actor.Need(catalog.Read); err != nil {
		return v, err
	}
	err = c.store.View(ctx, func(tx *store.Tx) error {
		v, err = fn(tx)
		return err
	})
	return v, err
}

// Page bounds a listing.
type Page = store.Page

// Stacks lists the Stacks by name: all of them, or those of one Page. The other listings take a Page likewise.
func (c *Control) Stacks(ctx context.Context, actor catalog.Actor, pages ...store.Page) ([]catalog.Stack, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]catalog.Stack, error) { return tx.Stacks(actor.OrganizationID, pages...) })
}

// Stack gives a Stack by id or name.
func (c *Control) Stack(ctx context.Context, actor catalog.Actor, idOrName string) (catalog.Stack, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (catalog.Stack, error) { return tx.Stack(actor.OrganizationID, idOrName) })
}

// Namespaces lists the Namespaces by path: of one Stack, by id or name, or of all when stack is empty. Sensitive Inputs
// are without their values.
func (c *Control) Namespaces(ctx context.Context, actor catalog.Actor, stack string,
	pages ...store.Page) ([]catalog.Namespace, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]catalog.Namespace, error) {
		if stack != "" {
			s, err := tx.Stack(actor.OrganizationID, stack)
			if err != nil {
				return nil, err
			}
			stack = s.ID
		}
		all, err := tx.Namespaces(actor.OrganizationID, stack, pages...)
		for i := range all {
			all[i].Defaults.Inputs = catalog.WithoutSecrets(all[i].Defaults.Inputs)
		}
		return all, err
	})
}

// Namespace gives a Namespace by id or path. Sensitive Inputs are without their values.
func (c *Control) Namespace(ctx context.Context, actor catalog.Actor, idOrPath string) (catalog.Namespace, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (catalog.Namespace, error) {
		n, err := tx.Namespace(actor.OrganizationID, idOrPath)
		n.Defaults.Inputs = catalog.WithoutSecrets(n.Defaults.Inputs)
		return n, err
	})
}

// Modules lists Modules by path, as they were declared. Sensitive Inputs are without their values.
func (c *Control) Modules(ctx context.Context, actor catalog.Actor, f store.ModuleFilter,
	pages ...store.Page) ([]catalog.Module, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]catalog.Module, error) {
		all, err := tx.Modules(actor.OrganizationID, f, pages...)
		for i := range all {
			all[i].Inputs = catalog.WithoutSecrets(all[i].Inputs)
		}
		return all, err
	})
}

// Module gives a Module by id or path, as it was declared. Sensitive Inputs are without their values.
func (c *Control) Module(ctx context.Context, actor catalog.Actor, idOrPath string) (catalog.Module, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (catalog.Module, error) {
		m, err := tx.Module(actor.OrganizationID, idOrPath)
		if err != nil {
			return m, unknownModule(err, idOrPath)
		}
		m.Inputs = catalog.WithoutSecrets(m.Inputs)
		return m, nil
	})
}

// remove runs a deletion, which tells the id and path of what it deleted. From its return on no Job is bound that needs what is gone: a claim
// that is under way is over by then, or sees it.
func (c *Control) remove(ctx context.Context, actor catalog.Actor, p catalog.Permission, kind catalog.Kind, fn func(tx *store.Tx) (id, path string, err error)) error {
	if err := actor.Need(p); err != nil {
		return err
	}
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, strings.TrimSuffix(declaredKinds[kind], "changed")+"delete")
		if err := tx.LockCatalog(actor.OrganizationID); err != nil {
			return err
		}
		if err := tx.LockClaims(actor.OrganizationID); err != nil {
			return err
		}
		id, path, err := fn(tx)
		if err != nil {
			return err
		}
		return c.noteDeclared(tx, actor, "delete", kind, path, id)
	})
	if err == nil {
		c.redeclared(actor.OrganizationID)
	}
	return err
}

// DeleteStack deletes a Stack, by id or name, that holds nothing.
func (c *Control) DeleteStack(ctx context.Context, actor catalog.Actor, idOrName string) error {
	return c.remove(ctx, actor, catalog.Declare, catalog.KindStack, func(tx *store.Tx) (string, string, error) {
		v, err := tx.Stack(actor.OrganizationID, idOrName)
		if err == nil {
			err = tx.DeleteStack(actor.OrganizationID, v.ID)
		}
		if err == nil {
			err = dropNodeFilters(tx, v)
		}
		return v.ID, v.Path(), err
	})
}

// dropNodeFilters takes a Stack that is gone out of what Runners cover.
func dropNodeFilters(tx *store.Tx, stack catalog.Stack) error {
	runners, err := tx.Runners(stack.OrganizationID)
	if err != nil {
		return err
	}
	for _, r := range runners {
		if _, ok := r.NodeFilters[stack.Name]; !ok {
			continue
		}
		delete(r.NodeFilters, stack.Name)
		if err := tx.PutRunner(&r); err != nil {
			return err
		}
	}
	return nil
}

// DeleteNamespace deletes a Namespace, by id or path, that holds nothing.
func (c *Control) DeleteNamespace(ctx context.Context, actor catalog.Actor, idOrPath string) error {
	return c.remove(ctx, actor, catalog.Declare, catalog.KindNamespace, func(tx *store.Tx) (string, string, error) {
		v, err := tx.Namespace(actor.OrganizationID, idOrPath)
		if err == nil {
			err = tx.DeleteNamespace(actor.OrganizationID, v.ID)
		}
		return v.ID, v.Path(), err
	})
}

// DeleteModule deletes a Module, by id or path, with its Output sets. Its Jobs that wait are canceled; while one is under
// way it is refused. A module that manages resources, or whose outputs others use, is refused as well unless force
// is set: what it has built stays.
func (c *Control) DeleteModule(ctx context.Context, actor catalog.Actor, idOrPath string, force bool) error {
	var moves []moved
	err := c.remove(ctx, actor, catalog.Declare, catalog.KindModule, func(tx *store.Tx) (string, string, error) {
		moves = nil
		v, err := tx.Module(actor.OrganizationID, idOrPath)
		if err != nil {
			return "", "", unknownModule(err, idOrPath)
		}
		if !force {
			if err := refuseDelete(tx, v); err != nil {
				return "", "", err
			}
		}
		if moves, err = c.cancelWaiting(tx, actor, v); err != nil {
			return "", "", err
		}
		return v.ID, v.Path(), tx.DeleteModule(actor.OrganizationID, v.ID)
	})
	if err == nil {
		c.carryOut(moves...)
	}
	return err
}

func (c *Control) cancelWaiting(tx *store.Tx, actor catalog.Actor, m catalog.Module) (moves []moved, err error) {
	if err := refuseWhileBusy(tx, m); err != nil {
		return nil, err
	}
	for {
		waiting, err := tx.Jobs(actor.OrganizationID, store.JobFilter{ModuleID: m.ID, Statuses: []work.Status{work.Queued}, Limit: 100})
		if err != nil || len(waiting) == 0 {
			return moves, err
		}
		for _, j := range waiting {
			moved, _, err := c.move(tx, j, work.CancelRequested{Mode: work.Graceful, By: actor.Name, Reason: "the module was deleted"})
			if err != nil {
				return nil, err
			}
			moves = append(moves, moved)
		}
	}
}
