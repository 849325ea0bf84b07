package control

import (
	"context"
	"crypto/sha256"
	"strings"

	"github.com/google/uuid"

	"legwork/internal/catalog"
	"legwork/internal/control/hosting"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// NewRunner is a Runner with the credentials that its processes log in with. The secret is shown this once.
type NewRunner struct {
	Runner         catalog.Runner
	OrganizationID string
	ClientID       string
	ClientSecret   string
}

// newSecret makes a client secret and the hash under which it is stored.
func newSecret() (secret string, hash []byte) {
	secret = "lws_" + randomText(32)
	sum := sha256.Sum256([]byte(secret))
	return secret, sum[:]
}

// Runners lists the Runners by name.
func (c *Control) Runners(ctx context.Context, actor catalog.Actor) ([]catalog.Runner, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]catalog.Runner, error) { return tx.Runners(actor.OrganizationID) })
}

// Runner gives a Runner by id or name.
func (c *Control) Runner(ctx context.Context, actor catalog.Actor, idOrName string) (catalog.Runner, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (catalog.Runner, error) {
		r, err := tx.Runner(actor.OrganizationID, idOrName)
		if err != nil {
			err = unknownRunner(err, idOrName)
		}
		return r, err
	})
}

// CreateRunner makes a Runner record with a Service principal and a client secret of its own. One that names a Service
// principal logs in with that one's secrets and gets none.
func (c *Control) CreateRunner(ctx context.Context, actor catalog.Actor, spec catalog.RunnerSpec) (made NewRunner, err error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return made, err
	}
	if err := spec.Validate(); err != nil {
		return made, err
	}
	secret, hash := c.newSecret()
	err = c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "runner.create")
		made = NewRunner{OrganizationID: actor.OrganizationID, ClientSecret: secret}
		if err := tx.LockCatalog(actor.OrganizationID); err != nil {
			return err
		}
		_, err := tx.Runner(actor.OrganizationID, spec.Name)
		if err == nil {
			return fault.New(fault.Conflict, "runner_exists", "there is already a runner named %q", spec.Name).
				WithHint("choose another name, or see: legwork runner list")
		}
		if !fault.Is(err, fault.NotFound) {
			return err
		}
		if err := c.putRunner(tx, actor.OrganizationID, &made.Runner, spec); err != nil {
			return err
		}
		if err := c.firstSecret(tx, &made, hash); err != nil {
			return err
		}
		return c.noteDeclared(tx, actor, "create", catalog.KindRunner, spec.Name, made.Runner.ID)
	})
	if err != nil {
		return NewRunner{}, err
	}
	c.redeclared(actor.OrganizationID)
	return made, nil
}

// putRunner stores a Runner record. One that names no Service principal keeps the one it has; a new one gets one of its own,
// which nobody can log in as before it gets a secret.
func (c *Control) putRunner(tx *store.Tx, org string, r *catalog.Runner, spec catalog.RunnerSpec) error {
	if err := r.ReservedName(spec); err != nil {
		return err
	}
	if r.ID != "" && r.Hosting != nil && spec.Hosting == nil {
		if err := notLaunched(tx, *r); err != nil {
			return err
		}
	}
	if err := notMoved(tx, *r, spec); err != nil {
		return err
	}
	url := r.Webhook
	was, own := r.ServicePrincipalID, r.RunnerSpec.ServicePrincipalID == ""
	switch given := spec.ServicePrincipalID; {
	case given == "" && was == "":
		p := store.ServicePrincipal{OrganizationID: org, Name: "runner " + spec.Name, ClientID: uuid.NewString(), Role: string(catalog.RoleRunner)}
		if err := tx.PutPrincipal(&p); err != nil {
			return err
		}
		r.ServicePrincipalID = p.ID
	case given == "" || given == was && own:
		spec.ServicePrincipalID = r.RunnerSpec.ServicePrincipalID
	default:
		if err := ofRunners(tx, org, given); err != nil {
			return err
		}
		r.ServicePrincipalID = given
	}
	if err := stacksOfFilters(tx, org, spec); err != nil {
		return err
	}
	if err := identityKnown(tx, org, spec); err != nil {
		return err
	}
	if err := launchedThrough(tx, org, *r, spec); err != nil {
		return err
	}
	r.OrganizationID, r.RunnerSpec = org, spec.Settled()
	if err := tx.LockClaims(org); err != nil { // one that is disabled gets no Job any more, not even one whose claim is under way
		return err
	}
	if err := tx.PutRunner(r); err != nil {
		return err
	}
	if err := c.hooks.Set(tx, *r, url, false); err != nil {
		return err
	}
	if was != "" && was != r.ServicePrincipalID && own {
		return deleteUnused(tx, org, was)
	}
	return nil
}

// stacksOfFilters refuses Node filters for Stacks that are not there.
func stacksOfFilters(tx *store.Tx, org string, spec catalog.RunnerSpec) error {
	for stack := range spec.NodeFilters {
		if _, err := tx.Stack(org, stack); err != nil {
			return err
		}
	}
	return nil
}

// ofRunners refuses what is no Service principal of role runner.
func ofRunners(tx *store.Tx, org, principalID string) error {
	p, err := tx.Principal(org, principalID)
	switch {
	case fault.Is(err, fault.NotFound):
		return fault.New(fault.Invalid, "principal_not_found", "there is no Service principal with the id %q", principalID).
			WithHint("legwork principal list shows their ids")
	case err == nil && p.Role != string(catalog.RoleRunner):
		return fault.New(fault.Invalid, "principal_not_of_runner", "the Service principal %s has the role %s, not runner", p.Name, p.Role).
			WithHint("make one for Runners: legwork principal create NAME --role runner")
	}
	return err
}

// deleteUnused deletes the Service principal that was a Runner's own, unless another Runner logs in as it.
func deleteUnused(tx *store.Tx, org, principalID string) error {
	users, err := tx.RunnersOf(org, principalID)
	if err != nil || len(users) > 0 {
		return err
	}
	return tx.DeletePrincipal(org, principalID)
}

// notShared refuses to end the secrets of a Runner that others log in with, too.
func notShared(tx *store.Tx, r catalog.Runner) error {
	users, err := tx.RunnersOf(r.OrganizationID, r.ServicePrincipalID)
	if err != nil || len(users) < 2 {
		return err
	}
	return fault.New(fault.Conflict, "principal_shared", "the runners %s log in as one Service principal", strings.Join(users, ", ")).
		WithHint("make a further credential for all, hand it out and delete the old one: legwork principal credential create %s", r.ServicePrincipalID)
}

// firstSecret gives a new Runner a secret, unless it logs in with those of a Service principal that an owner made.
func (c *Control) firstSecret(tx *store.Tx, made *NewRunner, hash []byte) (err error) {
	if made.Runner.RunnerSpec.ServicePrincipalID == "" {
		made.ClientID, err = addSecret(tx, made.Runner, hash)
		return err
	}
	p, err := tx.Principal(made.Runner.OrganizationID, made.Runner.ServicePrincipalID)
	made.ClientID, made.ClientSecret = p.ClientID, ""
	return err
}

// addSecret gives a Runner's principal a secret, and tells what it logs in as.
func addSecret(tx *store.Tx, r catalog.Runner, hash []byte) (clientID string, err error) {
	p, err := tx.Principal(r.OrganizationID, r.ServicePrincipalID)
	if err != nil {
		return "", err
	}
	return p.ClientID, tx.PutCredential(&store.Credential{PrincipalID: p.ID, Name: "secret", Kind: "secret", Hash: hash})
}

// RotateRunnerCredential gives a Runner a new client secret, also one that a manifest made without. Earlier ones end at
// once, and the short tokens that were had with them within seconds; Sessions that are open go on until DisconnectRunner.
func (c *Control) RotateRunnerCredential(ctx context.Context, actor catalog.Actor, idOrName string) (made NewRunner, err error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return made, err
	}
	secret, hash := c.newSecret()
	err = c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "runner.rotate_credential")
		r, err := tx.Runner(actor.OrganizationID, idOrName)
		if err != nil {
			return unknownRunner(err, idOrName)
		}
		if err := notShared(tx, r); err != nil {
			return err
		}
		old, err := tx.Credentials(r.OrganizationID, r.ServicePrincipalID)
		if err != nil {
			return err
		}
		for _, o := range old {
			if o.Kind != "secret" {
				continue
			}
			if err := tx.DeleteCredential(r.OrganizationID, r.ServicePrincipalID, o.ID); err != nil {
				return err
			}
		}
		made = NewRunner{Runner: r, OrganizationID: r.OrganizationID, ClientSecret: secret}
		if made.ClientID, err = addSecret(tx, r, hash); err != nil {
			return err
		}
		return c.noteDeclared(tx, actor, "update", catalog.KindRunner, r.Name, r.ID)
	})
	if err != nil {
		return NewRunner{}, err
	}
	return made, nil
}

// DisconnectRunner ends the Sessions of a Runner at all Servers; its processes have to log in again. What they work on goes
// on, and what they have to say of it is taken in once they are back.
func (c *Control) DisconnectRunner(ctx context.Context, actor catalog.Actor, idOrName string) error {
	if err := actor.Need(catalog.Administer); err != nil {
		return err
	}
	r, err := c.Runner(ctx, actor, idOrName)
	if err != nil {
		return err
	}
	c.disconnect(r.ID)
	c.hint(subjectRunner, runnerHint{c.from(), r.ID})
	return nil
}

// disconnect ends the Sessions of a Runner here.
func (c *Control) disconnect(runnerID string) {
	for _, s := range c.sessions.all() {
		if s.runnerID == runnerID {
			s.fail(wire.CloseUnauthorized, "the Runner has to log in again")
		}
	}
}

// UpdateRunner changes a Runner record. A Runner that Modules name keeps its name.
func (c *Control) UpdateRunner(ctx context.Context, actor catalog.Actor, idOrName string, spec catalog.RunnerSpec) (r catalog.Runner, err error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return r, err
	}
	if err := spec.Validate(); err != nil {
		return r, err
	}
	err = c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "runner.update")
		if err := tx.LockCatalog(actor.OrganizationID); err != nil {
			return err
		}
		if r, err = tx.Runner(actor.OrganizationID, idOrName); err != nil {
			return unknownRunner(err, idOrName)
		}
		if spec.Name != r.Name {
			if err := notNamed(tx, r); err != nil {
				return err
			}
		}
		if err := c.putRunner(tx, actor.OrganizationID, &r, spec); err != nil {
			return err
		}
		return c.noteDeclared(tx, actor, "update", catalog.KindRunner, r.Name, r.ID)
	})
	if err != nil {
		return catalog.Runner{}, err
	}
	c.redeclared(actor.OrganizationID)
	return r, nil
}

// notNamed refuses when a Module, a Namespace, a Node source or a Runbook names the Runner.
func notNamed(tx *store.Tx, r catalog.Runner) error {
	named := func(who, field string) error {
		return fault.New(fault.Conflict, "runner_named", "runner %s is in use by %s", r.Name, who).
			WithHint("change or remove `%s` there first", field)
	}
	modules, err := tx.Modules(r.OrganizationID, store.ModuleFilter{})
	if err != nil {
		return err
	}
	for _, m := range modules {
		if m.Runner == r.Name {
			return named("module "+m.Path(), "runner")
		}
	}
	namespaces, err := tx.Namespaces(r.OrganizationID, "")
	for _, n := range namespaces {
		if n.Defaults.Runner == r.Name {
			return named("namespace "+n.Path(), "defaults.runner")
		}
	}
	if err != nil {
		return err
	}
	runners, err := tx.Runners(r.OrganizationID)
	for _, other := range runners {
		if other.Hosting != nil && other.Hosting.Through == r.Name {
			return named("the hosting of runner "+other.Name, "hosting.through")
		}
	}
	if err != nil {
		return err
	}
	sources, err := tx.NodeSources(r.OrganizationID, "")
	for _, s := range sources {
		if s.Runner == r.Name {
			return named("node source "+s.Path(), "runner")
		}
	}
	if err != nil {
		return err
	}
	runbooks, err := tx.Runbooks(r.OrganizationID, "")
	for _, b := range runbooks {
		if b.Dispatch.Runner == r.Name {
			return named("runbook "+b.Path(), "dispatch.runner")
		}
	}
	return err
}

// DeleteRunner deletes a Runner, by id or name, with its credentials, Assignments and Instances, and ends its Sessions.
// While a Module names it or one of its Jobs is under way it is refused.
func (c *Control) DeleteRunner(ctx context.Context, actor catalog.Actor, idOrName string) error {
	var moves []moved
	err := c.remove(ctx, actor, catalog.Administer, catalog.KindRunner, func(tx *store.Tx) (_, _ string, err error) {
		r, err := tx.Runner(actor.OrganizationID, idOrName)
		if err != nil {
			return "", "", unknownRunner(err, idOrName)
		}
		if moves, err = c.cancelTasks(tx, actor, r); err != nil {
			return "", "", err
		}
		return r.ID, r.Name, deleteRunner(tx, r)
	})
	if err == nil {
		c.carryOut(moves...)
	}
	return err
}

// cancelTasks cancels the Jobs about a Runner that wait: nothing is left that they could be about.
func (c *Control) cancelTasks(tx *store.Tx, actor catalog.Actor, r catalog.Runner) (moves []moved, err error) {
	tasks, err := hosting.Tasks(tx, r)
	for _, j := range tasks {
		if err == nil {
			j, err = tx.JobForUpdate(j.OrganizationID, j.ID)
		}
		if err != nil || j.Status != work.Queued {
			continue
		}
		var m moved
		if m, _, err = c.move(tx, j, work.CancelRequested{Mode: work.Graceful, By: actor.Name, Reason: "the runner was deleted"}); err == nil {
			moves = append(moves, m)
		}
	}
	return moves, err
}

// deleteRunner deletes a Runner with the Service principal that is its own, unless it is named or at work.
func deleteRunner(tx *store.Tx, r catalog.Runner) error {
	if err := notNamed(tx, r); err != nil {
		return err
	}
	if err := idle(tx, r); err != nil {
		return err
	}
	if err := notLaunched(tx, r); err != nil {
		return err
	}
	if err := tx.DeleteRunner(r.OrganizationID, r.ID); err != nil {
		return err
	}
	if r.RunnerSpec.ServicePrincipalID != "" {
		return nil
	}
	return deleteUnused(tx, r.OrganizationID, r.ServicePrincipalID)
}

func idle(tx *store.Tx, r catalog.Runner) error {
	instances, err := tx.Instances(r.OrganizationID, r.ID)
	if err != nil {
		return err
	}
	for _, i := range instances {
		jobs, err := tx.BoundJobs(r.OrganizationID, i.ID)
		if err != nil {
			return err
		}
		if len(jobs) > 0 {
			return busy(jobs[0].Number, r.Name)
		}
	}
	return nil
}

func busy(job int64, runner string) error {
	return fault.New(fault.Conflict, "runner_busy", "job #%d is under way at runner %s", job, runner).
		WithHint("wait for it, or run: legwork job cancel %d", job)
}

// tellRunners ends the Sessions here of Runners that are not there any more, and tells the others whether they are disabled.
func (c *Control) tellRunners(org string) {
	c.background(func(ctx context.Context) {
		known := map[string]catalog.Runner{}
		err := c.store.View(ctx, func(tx *store.Tx) error {
			runners, err := tx.Runners(org)
			for _, r := range runners {
				known[r.ID] = r
			}
			return err
		})
		if err != nil {
			c.log.Warn("could not look for sessions of deleted and disabled runners", "error", err)
			return
		}
		c.tellKnown(ctx, org, known)
	})
}

// tellKnown is tellRunners with the Runners that were there a moment ago. A Session may be of a younger one: it is looked for again, because
// a Runner that is told that its record is gone does not come back.
func (c *Control) tellKnown(ctx context.Context, org string, known map[string]catalog.Runner) {
	for _, s := range c.sessions.all() {
		if s.org != org {
			continue
		}
		if r, ok := known[s.runnerID]; ok {
			if r.IsDisabled {
				s.known.Recall()
			}
			s.tellDisabled(r.IsDisabled)
			continue
		}
		err := c.store.View(ctx, func(tx *store.Tx) error {
			_, err := tx.Runner(org, s.runnerID)
			return err
		})
		if fault.Is(err, fault.NotFound) {
			s.fail(wire.CloseUnknown, "the Runner record was deleted")
		} else if err != nil {
			s.log.Warn("could not look for the runner of a session", "error", err)
		}
	}
}

// Assignments lists the Assignments of a Runner, by id or name, or of all when it is empty.
func (c *Control) Assignments(ctx context.Context, actor catalog.Actor, runner string,
	pages ...store.Page) ([]catalog.Assignment, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]catalog.Assignment, error) {
		if runner == "" {
			return tx.Assignments(actor.OrganizationID, "", pages...)
		}
		r, err := tx.Runner(actor.OrganizationID, runner)
		if err != nil {
			return nil, unknownRunner(err, runner)
		}
		return tx.Assignments(actor.OrganizationID, r.ID, pages...)
	})
}

// CreateAssignment gives a Stack, a Namespace or a Module the right to use a Runner.
func (c *Control) CreateAssignment(ctx context.Context, actor catalog.Actor, spec catalog.AssignmentSpec) (a catalog.Assignment, err error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return a, err
	}
	if err := spec.Validate(); err != nil {
		return a, err
	}
	err = c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "assignment.create")
		if err := tx.LockCatalog(actor.OrganizationID); err != nil {
			return err
		}
		if a, err = assign(tx, actor.OrganizationID, spec); err != nil {
			return err
		}
		return c.noteDeclared(tx, actor, "create", catalog.KindAssignment, spec.Path(), a.ID)
	})
	if err != nil {
		return catalog.Assignment{}, err
	}
	c.redeclared(actor.OrganizationID)
	return a, nil
}

// assign stores an Assignment, looking up what it names.
func assign(tx *store.Tx, org string, spec catalog.AssignmentSpec) (a catalog.Assignment, err error) {
	a = catalog.Assignment{Identity: catalog.Identity{OrganizationID: org}, AssignmentSpec: spec}
	r, err := tx.Runner(org, spec.Runner)
	if err != nil {
		return a, unknownRunner(err, spec.Runner)
	}
	a.RunnerID = r.ID
	switch strings.Count(spec.Scope, "/") {
	case 0:
		s, err := tx.Stack(org, spec.Scope)
		if err != nil {
			return a, err
		}
		a.StackID = s.ID
	case 1:
		n, err := tx.Namespace(org, spec.Scope)
		if err != nil {
			return a, err
		}
		a.StackID, a.NamespaceID = n.StackID, n.ID
	default:
		m, err := tx.Module(org, spec.Scope)
		if err != nil {
			return a, unknownModule(err, spec.Scope)
		}
		a.StackID, a.NamespaceID, a.ModuleID = m.StackID, m.NamespaceID, m.ID
	}
	if err := tx.LockClaims(org); err != nil {
		return a, err
	}
	return a, tx.PutAssignment(&a)
}

// DeleteAssignment takes the right back. Jobs under way go on; from the return on none is bound because of it.
func (c *Control) DeleteAssignment(ctx context.Context, actor catalog.Actor, id string) error {
	return c.remove(ctx, actor, catalog.Administer, catalog.KindAssignment, func(tx *store.Tx) (string, string, error) {
		return id, id, tx.DeleteAssignment(actor.OrganizationID, id)
	})
}

// RemoveInstance forgets an Instance, by id, that will not come back. While it is connected, and while a Job is bound to it, it
// is refused.
func (c *Control) RemoveInstance(ctx context.Context, actor catalog.Actor, instanceID string) error {
	if err := actor.Need(catalog.Administer); err != nil {
		return err
	}
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "instance.remove")
		i, err := tx.InstanceForUpdate(actor.OrganizationID, instanceID)
		if err != nil {
			return err
		}
		if c.living(i, tx.Now()) {
			return fault.New(fault.Conflict, "instance_connected", "Instance %s is connected", i.Name).
				WithHint("stop its process first")
		}
		jobs, err := tx.BoundJobs(actor.OrganizationID, i.ID)
		if err != nil {
			return err
		}
		if len(jobs) > 0 {
			return fault.New(fault.Conflict, "instance_busy", "job #%d is bound to Instance %s", jobs[0].Number, i.Name).
				WithHint("wait until its lease or its recovery window is over, or run: legwork job cancel %d", jobs[0].Number)
		}
		return c.forgetInstance(tx, i)
	})
	if err == nil {
		c.signal(actor.OrganizationID)
	}
	return err
}

func (c *Control) forgetInstance(tx *store.Tx, i store.Instance) error {
	r, err := tx.Runner(i.OrganizationID, i.RunnerID)
	if err != nil {
		return err
	}
	if err := tx.DeleteInstance(i.OrganizationID, i.ID); err != nil {
		return err
	}
	return c.publish(tx, i.OrganizationID, "runner.instance_removed", i.RunnerID,
		InstanceEvent{Runner: r.Name, InstanceID: i.ID, Instance: i.Name, Version: i.Version})
}
