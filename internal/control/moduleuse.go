package control

import (
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// maxNamedModules bounds the modules that a refusal names.
const maxNamedModules = 10

// usersOf returns the paths of the modules that take outputs of a module, sorted. With applied, those are left out
// that manage nothing now.
func usersOf(tx *store.Tx, m catalog.Module, applied bool) (paths []string, err error) {
	users, err := downstream(tx, m)
	if err != nil {
		return nil, err
	}
	for _, user := range users {
		manages := true
		if applied {
			if manages, err = managesResources(tx, user); err != nil {
				return nil, err
			}
		}
		if manages {
			paths = append(paths, user.Path())
		}
	}
	return paths, nil
}

// downstream returns the modules that take outputs of a module, by path.
func downstream(tx *store.Tx, m catalog.Module) (users []catalog.Module, err error) {
	modules, err := tx.Modules(m.OrganizationID, store.ModuleFilter{StackID: m.StackID})
	if err != nil {
		return nil, err
	}
	defaults, err := defaultsOf(tx, m.OrganizationID, m.StackID)
	if err != nil {
		return nil, err
	}
	for _, other := range modules {
		effective := catalog.Effective(other.ModuleSpec, defaults[other.NamespaceID])
		if other.ID != m.ID && len(catalog.Uses(effective, m.Path())) > 0 {
			users = append(users, other)
		}
	}
	return users, nil
}

// defaultsOf returns the defaults of the namespaces of a stack, by id.
func defaultsOf(tx *store.Tx, org, stackID string) (map[string]catalog.Defaults, error) {
	namespaces, err := tx.Namespaces(org, stackID)
	defaults := make(map[string]catalog.Defaults, len(namespaces))
	for _, n := range namespaces {
		defaults[n.ID] = n.Defaults
	}
	return defaults, err
}

// managesResources reports whether a module may have built something that was not destroyed since.
func managesResources(tx *store.Tx, m catalog.Module) (bool, error) {
	head, err := tx.ModuleHead(m.OrganizationID, m.ID)
	if err != nil {
		return false, err
	}
	location, found, err := tx.StateLocation(m.OrganizationID, m.ID)
	last := head.Settled
	switch {
	case err != nil, last.Number == 0, last.Action == work.Run:
		return false, err
	case last.Action == work.Destroy && last.Status == work.Succeeded:
		return false, nil
	case found && location.State.Local && !location.StartEmpty:
		return location.Changing || location.State.Resources > 0, nil
	}
	return found || last.Status == work.Succeeded, nil
}

// refuseDestroy refuses to destroy a module whose outputs applied modules use.
func refuseDestroy(tx *store.Tx, m catalog.Module) error {
	users, err := usersOf(tx, m, true)
	if err != nil || len(users) == 0 {
		return err
	}
	return fault.New(fault.Conflict, "module_in_use", "outputs of module %s are used by: %s", m.Path(), nameModules(users)).
		WithHint("destroy those first, or use --force")
}

// refuseDelete refuses to delete a module that manages resources, or whose outputs other modules use.
func refuseDelete(tx *store.Tx, m catalog.Module) error {
	users, err := usersOf(tx, m, false)
	if err != nil {
		return err
	}
	if len(users) > 0 {
		return fault.New(fault.Conflict, "module_in_use", "outputs of module %s are used by: %s", m.Path(), nameModules(users)).
			WithHint("change or delete those first, or use --force")
	}
	manages, err := managesResources(tx, m)
	if err != nil || !manages {
		return err
	}
	return fault.New(fault.Conflict, "module_not_destroyed", "module %s still manages resources", m.Path()).
		WithHint("run: legwork module destroy %s; or use --force to leave them", m.Path())
}

// nameModules lists paths, the first few of many.
func nameModules(paths []string) string {
	if len(paths) <= maxNamedModules {
		return strings.Join(paths, ", ")
	}
	return strings.Join(paths[:maxNamedModules], ", ") + ", and others"
}
