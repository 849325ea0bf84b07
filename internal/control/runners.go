package control

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"

	"github.com/google/uuid"

	"legwork/internal/catalog"
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

// CreateRunner makes a Runner record with a Service principal and a client secret of its own.
func (c *Control) CreateRunner(ctx context.Context, actor catalog.Actor, spec catalog.RunnerSpec) (made NewRunner, err error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return made, err
	}
	if err := spec.Validate(); err != nil {
		return made, err
	}
	secret, hash := c.newSecret()
	err = c.store.Update(ctx, func(tx *store.Tx) error {
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
		if made.ClientID, err = addSecret(tx, made.Runner, hash); err != nil {
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

// putRunner stores a Runner record; a new one gets a Service principal, which nobody can log in as before it gets a
// secret.
func (c *Control) putRunner(tx *store.Tx, org string, r *catalog.Runner, spec catalog.RunnerSpec) error {
	r.OrganizationID, r.RunnerSpec = org, spec
	if r.ServicePrincipalID == "" {
		p := store.ServicePrincipal{OrganizationID: org, Name: "runner " + spec.Name, ClientID: uuid.NewString(), Role: string(catalog.RoleRunner)}
		if err := tx.PutPrincipal(&p); err != nil {
			return err
		}
		r.ServicePrincipalID = p.ID
	}
	return tx.PutRunner(r)
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
		r, err := tx.Runner(actor.OrganizationID, idOrName)
		if err != nil {
			return unknownRunner(err, idOrName)
		}
		old, err := tx.Credentials(r.ServicePrincipalID)
		if err != nil {
			return err
		}
		for _, o := range old {
			if o.Kind != "secret" {
				continue
			}
			if err := tx.DeleteCredential(r.ServicePrincipalID, o.ID); err != nil {
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
		r.RunnerSpec = spec
		if err := tx.PutRunner(&r); err != nil {
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

// notNamed refuses when a Module or a Namespace names the Runner.
func notNamed(tx *store.Tx, r catalog.Runner) error {
	named := func(who string) error {
		return fault.New(fault.Conflict, "runner_named", "%s names the runner %s", who, r.Name).WithHint("change that first")
	}
	modules, err := tx.Modules(r.OrganizationID, store.ModuleFilter{})
	if err != nil {
		return err
	}
	for _, m := range modules {
		if m.Runner == r.Name {
			return named("module " + m.Path())
		}
	}
	namespaces, err := tx.Namespaces(r.OrganizationID, "")
	for _, n := range namespaces {
		if n.Defaults.Runner == r.Name {
			return named("namespace " + n.Path())
		}
	}
	return err
}

// DeleteRunner deletes a Runner, by id or name, with its credentials, Assignments and Instances, and ends its Sessions.
// While a Module names it or one of its Jobs is under way it is refused.
func (c *Control) DeleteRunner(ctx context.Context, actor catalog.Actor, idOrName string) error {
	err := c.remove(ctx, actor, catalog.Administer, catalog.KindRunner, func(tx *store.Tx) (string, string, error) {
		r, err := tx.Runner(actor.OrganizationID, idOrName)
		if err != nil {
			return "", "", unknownRunner(err, idOrName)
		}
		if err := notNamed(tx, r); err != nil {
			return "", "", err
		}
		if err := idle(tx, r); err != nil {
			return "", "", err
		}
		if err := tx.DeleteRunner(r.OrganizationID, r.ID); err != nil {
			return "", "", err
		}
		return r.ID, r.Name, tx.DeletePrincipal(r.OrganizationID, r.ServicePrincipalID)
	})
	return err
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
			return fault.New(fault.Conflict, "runner_busy", "job #%d is under way at runner %s", jobs[0].Number, r.Name).
				WithHint("wait for it, or run: legwork job cancel %d", jobs[0].Number)
		}
	}
	return nil
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
		for _, s := range c.sessions.all() {
			if s.org != org {
				continue
			}
			if r, ok := known[s.runnerID]; ok {
				s.tellDisabled(r.IsDisabled)
			} else {
				s.fail(wire.CloseUnknown, "the Runner record was deleted")
			}
		}
	})
}

// Assignments lists the Assignments of a Runner, by id or name, or of all when it is empty.
func (c *Control) Assignments(ctx context.Context, actor catalog.Actor, runner string) ([]catalog.Assignment, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]catalog.Assignment, error) {
		if runner == "" {
			return tx.Assignments(actor.OrganizationID, "")
		}
		r, err := tx.Runner(actor.OrganizationID, runner)
		if err != nil {
			return nil, unknownRunner(err, runner)
		}
		return tx.Assignments(actor.OrganizationID, r.ID)
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
	return a, tx.PutAssignment(&a)
}

// DeleteAssignment takes the right back. Jobs under way go on.
func (c *Control) DeleteAssignment(ctx context.Context, actor catalog.Actor, id string) error {
	return c.remove(ctx, actor, catalog.Administer, catalog.KindAssignment, func(tx *store.Tx) (string, string, error) {
		return id, id, tx.DeleteAssignment(actor.OrganizationID, id)
	})
}

// InstanceState tells whether an Instance takes Jobs.
type InstanceState string

// The states of an Instance.
const (
	InstanceNew      InstanceState = "new"      // known, never connected
	InstanceOnline   InstanceState = "online"   // takes Jobs
	InstanceDraining InstanceState = "draining" // connected, takes no further Job
	InstanceOffline  InstanceState = "offline"
)

// InstanceView is an Instance with how it is now.
type InstanceView struct {
	store.Instance
	State  InstanceState
	Active int // Jobs that take a place there
}

// Instances lists the Instances of a Runner, by id or name, or of all when it is empty.
func (c *Control) Instances(ctx context.Context, actor catalog.Actor, runner string) ([]InstanceView, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]InstanceView, error) {
		if runner != "" {
			r, err := tx.Runner(actor.OrganizationID, runner)
			if err != nil {
				return nil, unknownRunner(err, runner)
			}
			runner = r.ID
		}
		all, err := tx.Instances(actor.OrganizationID, runner)
		if err != nil {
			return nil, err
		}
		active, err := activeJobs(tx, actor.OrganizationID)
		views := make([]InstanceView, len(all))
		for i, instance := range all {
			instance.KeyHash = nil
			state := c.stateOf(&instance, tx.Now())
			views[i] = InstanceView{Instance: instance, State: state, Active: active[instance.ID]}
		}
		return views, err
	})
}

// activeJobs counts the Jobs that take a place, by Instance.
func activeJobs(tx *store.Tx, org string) (map[string]int, error) {
	active := map[string]int{}
	f := store.JobFilter{Statuses: []work.Status{work.Claimed, work.Running, work.Canceling}, Limit: 1000}
	for {
		jobs, err := tx.Jobs(org, f)
		for _, j := range jobs {
			active[instanceOf(j)]++
			f.BeforeNumber = j.Number
		}
		if err != nil || len(jobs) < f.Limit {
			return active, err
		}
	}
}

// stateOf tells how an Instance is, and brings what this Server knows better up to date.
func (c *Control) stateOf(i *store.Instance, now time.Time) InstanceState {
	if s := c.sessions.get(i.SessionID); s != nil && i.SessionID != "" {
		c.queue.mu.Lock()
		i.Draining = i.Draining || s.draining
		c.queue.mu.Unlock()
		i.LastSeen = s.lastHeard().UTC()
	}
	switch {
	case i.SessionID == "":
		return InstanceNew
	case !c.living(*i, now):
		return InstanceOffline
	case i.Draining:
		return InstanceDraining
	}
	return InstanceOnline
}

// SetDraining has an Instance, by id, take no further Job, or take Jobs again. It holds over restarts of its process.
func (c *Control) SetDraining(ctx context.Context, actor catalog.Actor, instanceID string, drain bool) error {
	if err := actor.Need(catalog.Administer); err != nil {
		return err
	}
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		i, err := tx.Instance(actor.OrganizationID, instanceID)
		if err != nil {
			return err
		}
		i.Draining = drain
		if err := tx.PutInstance(&i); err != nil {
			return err
		}
		kind := "runner.resumed"
		if drain {
			kind = "runner.draining"
		}
		return c.publish(tx, actor.OrganizationID, kind, i.RunnerID, InstanceEvent{InstanceID: i.ID, Instance: i.Name, Version: i.Version})
	})
	if err != nil {
		return err
	}
	c.queue.tell(c.sessions.ofInstance(instanceID), drain)
	c.hint(subjectInstance, drainHint{c.from(), instanceID, drain})
	c.signal(actor.OrganizationID)
	return nil
}
