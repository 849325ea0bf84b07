package secrets

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// Declare stores a Secret of a manifest, leaves a value as it is, and tells whether that was to create or to update it.
func (s *Safe) Declare(tx *store.Tx, actor catalog.Actor, declared catalog.SecretDocument) (kept catalog.Secret, action string, err error) {
	return s.put(tx, actor, Change{SecretSpec: declared.Spec()})
}

// put stores a Secret, and tells whether that was to create or to update it.
func (s *Safe) put(tx *store.Tx, actor catalog.Actor, change Change) (kept catalog.Secret, action string, err error) {
	scope, err := catalog.ParseScope(change.Scope)
	if err != nil {
		return kept, "", err
	}
	place, err := placeAt(tx, actor.OrganizationID, scope)
	if err != nil {
		return kept, "", err
	}
	kept, there, err := belonging(tx, actor.OrganizationID, place, change.Name)
	if err != nil {
		return kept, "", err
	}
	keeps := there && kept.Kind == catalog.SecretValue
	if change.Kind == catalog.SecretValue && change.Value == nil && !keeps {
		return kept, "", fault.New(fault.Invalid, "secret_value", "the value of the Secret %s is missing", change.Path()).
			WithHint("legwork secret set %s --scope %s < file", change.Name, change.Scope).
			WithDetails(fault.Problem{Field: "value", Message: "is missing"})
	}
	action = "update"
	if !there {
		action = "create"
		if n, err := tx.CountSecrets(actor.OrganizationID, place.StackID); err != nil || n >= catalog.MaxSecrets {
			if err == nil {
				err = fault.New(fault.Conflict, "too_many_secrets", "the Stack has %d Secrets, and more than that are not kept", n).WithHint("delete some: legwork secret list")
			}
			return kept, "", err
		}
		kept = catalog.Secret{Identity: catalog.Identity{OrganizationID: actor.OrganizationID},
			StackID: place.StackID, NamespaceID: place.NamespaceID, ModuleID: place.ModuleID, RunbookID: place.RunbookID}
	}
	kept.SecretSpec, kept.ChangedBy = change.SecretSpec, actor.Name
	if err := tx.PutSecret(&kept); err != nil {
		return kept, "", err
	}
	switch {
	case change.Kind == catalog.SecretReference:
		err = tx.SealSecret(kept.OrganizationID, kept.ID, nil)
	case change.Value != nil:
		var sealed []byte
		if sealed, err = s.sealer.Seal([]byte(*change.Value), valueFor(kept.ID)); err == nil {
			err = tx.SealSecret(kept.OrganizationID, kept.ID, sealed)
		}
	}
	if err != nil {
		return kept, "", fmt.Errorf("keep the value of a Secret: %w", err)
	}
	return kept, action, nil
}

// seenFrom gives, of each name, the narrowest Secret that a place sees. Those that are missing are one fault that names them all.
func seenFrom(tx *store.Tx, org string, place Place, names []string) (map[string]catalog.Secret, error) {
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
	return nil, fault.New(fault.Conflict, "secret_missing", "these secrets are not set: %s", strings.Join(missing, ", ")).
		WithHint("set them, in its scope or in one around it: %s", strings.Join(hint, "; "))
}

// For gives the values of the Secrets that something at a place takes: of each name the narrowest that it sees. What is a reference
// stays one. Values are JSON texts of kind env, named as the Secrets are, in the order of names.
func (s *Safe) For(tx *store.Tx, org string, place Place, names []string) (values []work.InputValue, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	seen, err := seenFrom(tx, org, place, names)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		secret := seen[name]
		v := work.InputValue{Name: name, Kind: catalog.Env, Sensitive: true, Reference: secret.Kind == catalog.SecretReference}
		text := secret.Reference
		if !v.Reference {
			if text, err = s.value(tx, secret); err != nil {
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

func (s *Safe) value(tx *store.Tx, secret catalog.Secret) (string, error) {
	sealed, err := tx.SealedSecret(secret.OrganizationID, secret.ID)
	if err != nil {
		return "", err
	}
	plain, err := s.sealer.Open(sealed, valueFor(secret.ID))
	if err != nil {
		return "", fault.New(fault.Failed, "secret_broken", "the Secret %s cannot be opened: it was sealed with another master key, or is damaged", secret.Path()).
			WithHint("give the Server its master key back, or set the Secret anew").WithCause(err)
	}
	return string(plain), nil
}

// Fill puts the values of Secrets into the resolved Inputs of a Module that take one.
func (s *Safe) Fill(tx *store.Tx, m catalog.Module, resolved []catalog.ResolvedInput, values []work.InputValue) error {
	var names []string
	for _, r := range resolved {
		if r.Secret != "" && !slices.Contains(names, r.Secret) {
			names = append(names, r.Secret)
		}
	}
	got, err := s.For(tx, m.OrganizationID, OfModule(m), names)
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
