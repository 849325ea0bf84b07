package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/work"
)

// SecretChange sets a Secret. Nobody reads a Value back.
type SecretChange struct {
	catalog.SecretSpec
	Value *string // of kind value; nil keeps the one that is stored
}

// SecretUsedEvent is the data of the event "secret.used", as JSON: an Attempt of a Job was given Secrets.
type SecretUsedEvent struct {
	JobID    string       `json:"job_id"`
	Number   int64        `json:"number"`
	Attempt  int          `json:"attempt"`
	Runner   string       `json:"runner"`
	Instance string       `json:"instance"`
	Secrets  []UsedSecret `json:"secrets"`
	By       string       `json:"by"` // who asked for the Job
}

// UsedSecret names a Secret.
type UsedSecret struct {
	Name  string             `json:"name"`
	Scope string             `json:"scope"`
	Kind  catalog.SecretKind `json:"kind"`
}

// secretContext is what the value of a Secret is sealed for.
func secretContext(id string) []byte { return sealContext("secret", id) }

// Secrets lists the Secrets, without their values, by scope and name: of one Stack, by id or name, or of all when stack is empty.
func (c *Control) Secrets(ctx context.Context, actor catalog.Actor, stack string) ([]catalog.Secret, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]catalog.Secret, error) {
		if stack == "" {
			return tx.Secrets(actor.OrganizationID, "")
		}
		s, err := tx.Stack(actor.OrganizationID, stack)
		if err != nil {
			return nil, err
		}
		return tx.Secrets(actor.OrganizationID, s.ID)
	})
}

// secretAt finds a Secret by its id or its path "name@scope".
func secretAt(tx *store.Tx, org, idOrPath string) (catalog.Secret, error) {
	missing := fault.New(fault.NotFound, "secret_not_found", "there is no Secret %q", idOrPath).WithHint("see: legwork secret list")
	if !strings.Contains(idOrPath, "@") {
		s, err := tx.Secret(org, idOrPath)
		if fault.Is(err, fault.NotFound) {
			err = missing
		}
		return s, err
	}
	name, scope, err := catalog.ParseSecretPath(idOrPath)
	if err != nil {
		return catalog.Secret{}, err
	}
	place, err := scopePlace(tx, org, scope)
	if err != nil {
		return catalog.Secret{}, err
	}
	s, ok, err := secretIn(tx, org, place, name)
	if err == nil && !ok {
		err = missing
	}
	return s, err
}

// secretPlace is where something stands that takes Secrets: it sees those of all that it stands in.
type secretPlace struct{ StackID, NamespaceID, ModuleID, RunbookID string }

func placeOfModule(m catalog.Module) secretPlace {
	return secretPlace{StackID: m.StackID, NamespaceID: m.NamespaceID, ModuleID: m.ID}
}

// sees tells whether a Secret of the same Stack is one of the place.
func (p secretPlace) sees(s catalog.Secret) bool {
	return s.StackID == p.StackID && (s.NamespaceID == "" || s.NamespaceID == p.NamespaceID) &&
		(s.ModuleID == "" || s.ModuleID == p.ModuleID) && (s.RunbookID == "" || s.RunbookID == p.RunbookID)
}

// narrowest is the id that a Secret of exactly this place belongs to.
func (p secretPlace) narrowest() string {
	return cmp.Or(p.RunbookID, p.ModuleID, p.NamespaceID, p.StackID)
}

// scopePlace finds what a scope names.
func scopePlace(tx *store.Tx, org string, scope catalog.Scope) (p secretPlace, err error) {
	switch {
	case scope.Runbook != "":
		var b catalog.Runbook
		b, err = tx.Runbook(org, scope.Stack+"/"+scope.Runbook)
		p = secretPlace{StackID: b.StackID, RunbookID: b.ID}
	case scope.Module != "":
		var m catalog.Module
		m, err = tx.Module(org, scope.String())
		p = placeOfModule(m)
	case scope.Namespace != "":
		var n catalog.Namespace
		n, err = tx.Namespace(org, scope.String())
		p = secretPlace{StackID: n.StackID, NamespaceID: n.ID}
	default:
		var s catalog.Stack
		s, err = tx.Stack(org, scope.Stack)
		p = secretPlace{StackID: s.ID}
	}
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.NotFound, "scope_not_found", "there is nothing at the scope %s", scope).
			WithHint("a scope is STACK, STACK/NAMESPACE, STACK/NAMESPACE/MODULE or runbook:STACK/NAME").WithCause(err)
	}
	return p, err
}

// secretIn finds the Secret of a name that belongs to exactly a place.
func secretIn(tx *store.Tx, org string, p secretPlace, name string) (catalog.Secret, bool, error) {
	found, err := tx.SecretsNamed(org, p.StackID, []string{name})
	i := slices.IndexFunc(found, func(s catalog.Secret) bool { return s.ScopeID() == p.narrowest() })
	if err != nil || i < 0 {
		return catalog.Secret{}, false, err
	}
	return found[i], true, nil
}

// SetSecret makes or changes a Secret, by name and scope.
func (c *Control) SetSecret(ctx context.Context, actor catalog.Actor, change SecretChange) (s catalog.Secret, err error) {
	if err := actor.Need(catalog.Declare); err != nil {
		return s, err
	}
	if err := change.check(); err != nil {
		return s, err
	}
	scope, err := catalog.ParseScope(change.Scope)
	if err != nil {
		return s, err
	}
	err = c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "secret.set")
		if err := tx.LockCatalog(actor.OrganizationID); err != nil {
			return err
		}
		place, err := scopePlace(tx, actor.OrganizationID, scope)
		if err != nil {
			return err
		}
		s, err = c.putSecret(tx, actor, place, change)
		return err
	})
	if err == nil {
		c.redeclared(actor.OrganizationID)
	}
	return s, err
}

func (change SecretChange) check() error {
	if err := change.SecretSpec.Check(); err != nil {
		return err
	}
	switch {
	case change.Value == nil:
		return nil
	case change.Kind != catalog.SecretValue:
		return fault.New(fault.Invalid, "secret_invalid", "a Secret is a value or a reference, not both").WithHint("leave one of them out")
	}
	return catalog.CheckSecretValue(*change.Value)
}

func (c *Control) putSecret(tx *store.Tx, actor catalog.Actor, place secretPlace, change SecretChange) (s catalog.Secret, err error) {
	s, there, err := secretIn(tx, actor.OrganizationID, place, change.Name)
	if err != nil {
		return s, err
	}
	keeps := there && s.Kind == catalog.SecretValue
	if change.Kind == catalog.SecretValue && change.Value == nil && !keeps {
		return s, fault.New(fault.Invalid, "secret_value", "the value of the Secret %s is missing", change.Path()).
			WithHint("legwork secret set %s --scope %s < file", change.Name, change.Scope).
			WithDetails(fault.Problem{Field: "value", Message: "is missing"})
	}
	action := "update"
	if !there {
		action = "create"
		if n, err := tx.CountSecrets(actor.OrganizationID, place.StackID); err != nil || n >= catalog.MaxSecrets {
			if err == nil {
				err = fault.New(fault.Conflict, "too_many_secrets", "the Stack has %d Secrets, and more than that are not kept", n).WithHint("delete some: legwork secret list")
			}
			return s, err
		}
		s = catalog.Secret{Identity: catalog.Identity{OrganizationID: actor.OrganizationID},
			StackID: place.StackID, NamespaceID: place.NamespaceID, ModuleID: place.ModuleID, RunbookID: place.RunbookID}
	}
	s.SecretSpec, s.ChangedBy = change.SecretSpec, actor.Name
	if err := tx.PutSecret(&s); err != nil {
		return s, err
	}
	switch {
	case change.Kind == catalog.SecretReference:
		err = tx.SealSecret(s.OrganizationID, s.ID, nil)
	case change.Value != nil:
		var sealed []byte
		if sealed, err = c.sealer.Seal([]byte(*change.Value), secretContext(s.ID)); err == nil {
			err = tx.SealSecret(s.OrganizationID, s.ID, sealed)
		}
	}
	if err != nil {
		return s, fmt.Errorf("keep the value of a Secret: %w", err)
	}
	return s, c.publish(tx, actor.OrganizationID, "secret.changed", s.ID, DeclaredEvent{Action: action, Path: s.Path(), By: actor.Name})
}

// writeSecret stores a Secret of a manifest, and leaves a value as it is.
func (c *Control) writeSecret(tx *store.Tx, actor catalog.Actor, change catalog.Change) error {
	scope, err := catalog.ParseScope(change.Secret.Scope)
	if err != nil {
		return err
	}
	place, err := scopePlace(tx, actor.OrganizationID, scope)
	if err != nil {
		return err
	}
	_, err = c.putSecret(tx, actor, place, SecretChange{SecretSpec: change.Secret.Spec()})
	return err
}

// DeleteSecret deletes a Secret, by id or path, whoever uses it.
func (c *Control) DeleteSecret(ctx context.Context, actor catalog.Actor, idOrPath string) error {
	return c.deleteSecret(ctx, actor, idOrPath, func(*store.Tx, catalog.Secret) error { return nil })
}

// DeleteUnusedSecret is DeleteSecret of one that nothing takes: of another it is a Conflict that names who uses it.
func (c *Control) DeleteUnusedSecret(ctx context.Context, actor catalog.Actor, idOrPath string) error {
	return c.deleteSecret(ctx, actor, idOrPath, c.unused)
}

func (c *Control) deleteSecret(ctx context.Context, actor catalog.Actor, idOrPath string, may func(*store.Tx, catalog.Secret) error) error {
	if err := actor.Need(catalog.Declare); err != nil {
		return err
	}
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "secret.delete")
		if err := tx.LockCatalog(actor.OrganizationID); err != nil {
			return err
		}
		s, err := secretAt(tx, actor.OrganizationID, idOrPath)
		if err != nil {
			return err
		}
		if err := may(tx, s); err != nil {
			return err
		}
		if err := tx.DeleteSecret(s.OrganizationID, s.ID); err != nil {
			return err
		}
		return c.publish(tx, actor.OrganizationID, "secret.changed", s.ID, DeclaredEvent{Action: "delete", Path: s.Path(), By: actor.Name})
	})
	if err == nil {
		c.redeclared(actor.OrganizationID)
	}
	return err
}

// seenSecrets gives, of each name, the narrowest Secret that a place sees. Those that are missing are one fault that names them all.
func seenSecrets(tx *store.Tx, org string, place secretPlace, names []string) (map[string]catalog.Secret, error) {
	all, err := tx.SecretsNamed(org, place.StackID, names)
	if err != nil {
		return nil, err
	}
	seen := map[string]catalog.Secret{}
	for _, s := range all {
		if before, ok := seen[s.Name]; place.sees(s) && (!ok || s.Rank() > before.Rank()) {
			seen[s.Name] = s
		}
	}
	var missing []string
	for _, name := range names {
		if _, ok := seen[name]; !ok && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return seen, nil
	}
	stack, err := tx.Stack(org, place.StackID)
	if err != nil {
		return nil, err
	}
	slices.Sort(missing)
	hint := make([]string, len(missing))
	for i, name := range missing {
		hint[i] = fmt.Sprintf("legwork secret set %s --scope %s < FILE", name, stack.Name)
	}
	return nil, fault.New(fault.Conflict, "secret_missing", "what shall run takes Secrets that are not there: %s", strings.Join(missing, ", ")).
		WithHint("set them, in its scope or in one around it: %s", strings.Join(hint, "; "))
}

// secretsFor gives the values of the Secrets that something at a place takes: of each name the narrowest that it sees. What is a reference
// stays one. Values are JSON texts of kind env, named as the Secrets are, in the order of names.
func (c *Control) secretsFor(tx *store.Tx, org string, place secretPlace, names []string) (values []work.InputValue, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	seen, err := seenSecrets(tx, org, place, names)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		s := seen[name]
		v := work.InputValue{Name: name, Kind: catalog.Env, Sensitive: true, Reference: s.Kind == catalog.SecretReference}
		text := s.Reference
		if !v.Reference {
			if text, err = c.openSecret(tx, s); err != nil {
				return nil, err
			}
		}
		if v.Value, err = json.Marshal(text); err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

func (c *Control) openSecret(tx *store.Tx, s catalog.Secret) (string, error) {
	sealed, err := tx.SealedSecret(s.OrganizationID, s.ID)
	if err != nil {
		return "", err
	}
	plain, err := c.sealer.Open(sealed, secretContext(s.ID))
	if err != nil {
		return "", fault.New(fault.Failed, "secret_broken", "the Secret %s cannot be opened: it was sealed with another master key, or is damaged", s.Path()).
			WithHint("give the Server its master key back, or set the Secret anew").WithCause(err)
	}
	return string(plain), nil
}

// fillSecrets puts the values of Secrets into the resolved Inputs of a Module that take one.
func (c *Control) fillSecrets(tx *store.Tx, m catalog.Module, resolved []catalog.ResolvedInput, values []work.InputValue) error {
	var names []string
	for _, r := range resolved {
		if r.Secret != "" && !slices.Contains(names, r.Secret) {
			names = append(names, r.Secret)
		}
	}
	got, err := c.secretsFor(tx, m.OrganizationID, placeOfModule(m), names)
	if err != nil {
		return err
	}
	for i, r := range resolved {
		if r.Secret != "" {
			v := got[slices.Index(names, r.Secret)]
			values[i].Value, values[i].Sensitive, values[i].Reference = v.Value, true, v.Reference
		}
	}
	return nil
}

// noteSecretsUsed writes into the audit which Secrets an Attempt is given.
func (c *Control) noteSecretsUsed(tx *store.Tx, j *work.Job, m catalog.Module, spec *work.Spec) error {
	names, place := catalog.SecretNames(m.Inputs), placeOfModule(m)
	if spec.Run != nil {
		run, err := tx.Job(j.OrganizationID, j.ParentID)
		if err != nil {
			return err
		}
		place = secretPlace{StackID: run.StackID, RunbookID: run.RunbookID}
		for _, in := range spec.Inputs {
			if !strings.HasPrefix(in.Name, runbook.GivenSecret("")) {
				names = append(names, in.Name)
			}
		}
	}
	if len(names) == 0 || j.Binding == nil {
		return nil
	}
	seen, err := seenSecrets(tx, j.OrganizationID, place, names)
	if err != nil {
		return err
	}
	e := SecretUsedEvent{JobID: j.ID, Number: j.Number, Attempt: j.Attempt, Runner: j.Binding.Runner, Instance: j.Binding.Instance, By: j.CreatedBy}
	for _, name := range names {
		e.Secrets = append(e.Secrets, UsedSecret{name, seen[name].Scope, seen[name].Kind})
	}
	tx.Sign(catalog.Actor{OrganizationID: j.OrganizationID, Name: j.CreatedBy}, "secret.use")
	return c.publish(tx, j.OrganizationID, "secret.used", j.ID, e)
}

// haveSecrets tells which Secrets are missing that a Runbook Job is about to take.
func (c *Control) haveSecrets(tx *store.Tx, of subject, plan *runbook.Plan) error {
	var names []string
	for _, name := range plan.Secrets {
		if !strings.HasPrefix(name, runbook.GivenSecret("")) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	_, err := seenSecrets(tx, of.stack.OrganizationID, secretPlace{StackID: of.stack.ID, RunbookID: of.id}, names)
	return err
}
