package secrets

import (
	"cmp"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// Place is where something stands that takes Secrets: it sees those of all that it stands in.
type Place struct{ StackID, NamespaceID, ModuleID, RunbookID string }

// OfModule is the Place of a Module.
func OfModule(m catalog.Module) Place {
	return Place{StackID: m.StackID, NamespaceID: m.NamespaceID, ModuleID: m.ID}
}

// sees tells whether a Secret of the same Stack is one of the place.
func (p Place) sees(s catalog.Secret) bool {
	return s.StackID == p.StackID && (s.NamespaceID == "" || s.NamespaceID == p.NamespaceID) &&
		(s.ModuleID == "" || s.ModuleID == p.ModuleID) && (s.RunbookID == "" || s.RunbookID == p.RunbookID)
}

// narrowest is the id that a Secret of exactly this place belongs to.
func (p Place) narrowest() string {
	return cmp.Or(p.RunbookID, p.ModuleID, p.NamespaceID, p.StackID)
}

// placeAt finds what a scope names.
func placeAt(tx *store.Tx, org string, scope catalog.Scope) (p Place, err error) {
	switch {
	case scope.Runbook != "":
		var b catalog.Runbook
		b, err = tx.Runbook(org, scope.Stack+"/"+scope.Runbook)
		p = Place{StackID: b.StackID, RunbookID: b.ID}
	case scope.Module != "":
		var m catalog.Module
		m, err = tx.Module(org, scope.String())
		p = OfModule(m)
	case scope.Namespace != "":
		var n catalog.Namespace
		n, err = tx.Namespace(org, scope.String())
		p = Place{StackID: n.StackID, NamespaceID: n.ID}
	default:
		var s catalog.Stack
		s, err = tx.Stack(org, scope.Stack)
		p = Place{StackID: s.ID}
	}
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.NotFound, "scope_not_found", "there is nothing at the scope %s", scope).
			WithHint("a scope is STACK, STACK/NAMESPACE, STACK/NAMESPACE/MODULE or runbook:STACK/NAME").WithCause(err)
	}
	return p, err
}

// belonging finds the Secret of a name that belongs to exactly a place.
func belonging(tx *store.Tx, org string, p Place, name string) (catalog.Secret, bool, error) {
	found, err := tx.SecretsNamed(org, p.StackID, []string{name})
	i := slices.IndexFunc(found, func(s catalog.Secret) bool { return s.ScopeID() == p.narrowest() })
	if err != nil || i < 0 {
		return catalog.Secret{}, false, err
	}
	return found[i], true, nil
}

// find finds a Secret by its id or its path "name@scope".
func find(tx *store.Tx, org, idOrPath string) (catalog.Secret, error) {
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
	place, err := placeAt(tx, org, scope)
	if err != nil {
		return catalog.Secret{}, err
	}
	s, ok, err := belonging(tx, org, place, name)
	if err == nil && !ok {
		err = missing
	}
	return s, err
}
