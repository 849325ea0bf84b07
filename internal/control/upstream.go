package control

import (
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// changingUpstream returns the path of a module whose outputs may change soon and reach an effective module,
// directly or through others: a job that applies it is queued or running. It is empty when there is none. A job of
// the module waits for it, so that it runs once, with final values.
func changingUpstream(tx *store.Tx, m catalog.Module) (string, error) {
	next := catalog.Upstreams(m.ModuleSpec)
	if len(next) == 0 {
		return "", nil
	}
	changing, err := tx.ChangingModules(m.OrganizationID)
	delete(changing, m.ID)
	if err != nil || len(changing) == 0 {
		return "", err
	}
	defaults, err := defaultsOf(tx, m.OrganizationID, m.StackID)
	if err != nil {
		return "", err
	}
	seen := map[string]bool{m.Path(): true}
	for len(next) > 0 {
		path := next[0]
		next = next[1:]
		if seen[path] {
			continue
		}
		seen[path] = true
		upstream, err := tx.Module(m.OrganizationID, path)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return "", err
		}
		if changing[upstream.ID] {
			return path, nil
		}
		next = append(next, catalog.Upstreams(catalog.Effective(upstream.ModuleSpec, defaults[upstream.NamespaceID]))...)
	}
	return "", nil
}

// awaitsUpstreams reports whether a job of a module waits for the queued and running jobs of its upstreams.
func awaitsUpstreams(action work.Action) bool { return action == work.Apply || action == work.Run }
