package secrets

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
	"legwork/internal/store"
)

// SecretView is a Secret with where it is used.
type SecretView struct {
	catalog.Secret
	Uses []SecretUse `json:"uses,omitempty"` // by kind and path
}

// SecretUse is something that takes the Secret: its name, where no narrower one of that name is seen.
type SecretUse struct {
	Kind  catalog.Kind `json:"kind"` // Module or Runbook
	Path  string       `json:"path"`
	Where string       `json:"where"` // "input password", "option token", "connection", "a step"
}

// Secret gives a Secret, by id or path "name@scope", with where it is used.
func (s *Secrets) Secret(ctx context.Context, actor catalog.Actor, idOrPath string) (v SecretView, err error) {
	err = s.read(ctx, actor, func(tx *store.Tx) error {
		found, err := find(tx, actor.OrganizationID, idOrPath)
		if err != nil {
			return err
		}
		v, err = viewOf(tx, found)
		return err
	})
	return v, err
}

func viewOf(tx *store.Tx, secret catalog.Secret) (SecretView, error) {
	v := SecretView{Secret: secret}
	all, err := tx.SecretsNamed(v.OrganizationID, v.StackID, []string{v.Name})
	if err != nil {
		return v, err
	}
	takes := func(place Place) bool {
		best := -1
		for i, s := range all {
			if place.sees(s) && (best < 0 || s.Rank() > all[best].Rank()) {
				best = i
			}
		}
		return best >= 0 && all[best].ID == v.ID
	}
	if err := usesOfModules(tx, &v, takes); err != nil {
		return v, err
	}
	return v, usesOfRunbooks(tx, &v, takes)
}

// usesNamed is how many uses of a Secret a refusal names.
const usesNamed = 5

// unused refuses when a Secret is used.
func unused(tx *store.Tx, s catalog.Secret) error {
	v, err := viewOf(tx, s)
	if err != nil || len(v.Uses) == 0 {
		return err
	}
	var uses []string
	for _, use := range v.Uses[:min(usesNamed, len(v.Uses))] {
		uses = append(uses, fmt.Sprintf("%s %s (%s)", use.Kind, use.Path, use.Where))
	}
	if more := len(v.Uses) - len(uses); more > 0 {
		uses = append(uses, fmt.Sprintf("%d more", more))
	}
	return fault.New(fault.Conflict, "secret_used", "the Secret %s is used by %s", s.Path(), strings.Join(uses, ", ")).
		WithHint("take it out there first, or delete it all the same with --force (force=true)")
}

func usesOfModules(tx *store.Tx, v *SecretView, takes func(Place) bool) error {
	namespaces, err := tx.Namespaces(v.OrganizationID, v.StackID)
	if err != nil {
		return err
	}
	defaults := map[string]catalog.Defaults{}
	for _, n := range namespaces {
		defaults[n.ID] = n.Defaults
	}
	modules, err := tx.Modules(v.OrganizationID, store.ModuleFilter{StackID: v.StackID})
	for _, m := range modules {
		if !takes(OfModule(m)) {
			continue
		}
		for _, in := range catalog.Effective(m.ModuleSpec, defaults[m.NamespaceID]).Inputs {
			if in.From == catalog.FromSecret && catalog.Text(in.Value) == v.Name {
				v.Uses = append(v.Uses, SecretUse{catalog.KindModule, m.Path(), "input " + in.Name})
			}
		}
	}
	return err
}

func usesOfRunbooks(tx *store.Tx, v *SecretView, takes func(Place) bool) error {
	runbooks, err := tx.Runbooks(v.OrganizationID, v.StackID)
	for _, b := range runbooks {
		if !takes(Place{StackID: b.StackID, RunbookID: b.ID}) {
			continue
		}
		for _, where := range namedIn(b.RunbookSpec, v.Name) {
			v.Uses = append(v.Uses, SecretUse{catalog.KindRunbook, b.Path(), where})
		}
	}
	return err
}

var secretTemplate = lazyregexp.New(`\$\{\s*secret\.([A-Za-z0-9._-]+)\s*\}`)

// namedIn says where a Runbook names a Secret.
func namedIn(b catalog.RunbookSpec, name string) (places []string) {
	for _, o := range b.Options {
		if o.Secret == name {
			places = append(places, "option "+o.Name)
		}
	}
	connection := b.Connection
	if slices.Contains([]string{connection.KeySecret, connection.KeyPassphrase, connection.PasswordSecret, connection.SudoPassword}, name) {
		places = append(places, "connection")
	}
	if mentions(b.Env, name) {
		places = append(places, "env")
	}
	for i, s := range b.Steps {
		if s.Ansible != nil && s.Ansible.VaultPassword == name || mentions(s, name) {
			step := s.Name
			if step == "" {
				step = fmt.Sprintf("step%d", i+1)
			}
			places = append(places, "step "+step)
		}
	}
	return places
}

// mentions tells whether some text of v holds ${secret.NAME}.
func mentions(v any, name string) bool {
	text, err := json.Marshal(v)
	if err != nil {
		return false
	}
	for _, found := range secretTemplate.FindAllSubmatch(text, -1) {
		if string(found[1]) == name {
			return true
		}
	}
	return false
}
