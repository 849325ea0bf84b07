package catalog

import "slices"

// Assigned tells whether the Module may use the Runner: the Runner is given to all Modules, or one of
// the Assignments gives it to the Module, its Namespace or its Stack. Never across Organizations.
// Whether the Runner is disabled is another question.
func Assigned(runner Runner, assignments []Assignment, m Module) bool {
	if runner.OrganizationID != m.OrganizationID {
		return false
	}
	return runner.IsAssignedToAllModules || slices.ContainsFunc(assignments, func(a Assignment) bool {
		return a.RunnerID == runner.ID && a.RunnerID != "" && a.OrganizationID == m.OrganizationID && a.covers(m)
	})
}

// covers compares the narrowest id that is set; the ones above it follow from it.
func (a Assignment) covers(m Module) bool {
	switch {
	case a.ModuleID != "":
		return a.ModuleID == m.ID
	case a.NamespaceID != "":
		return a.NamespaceID == m.NamespaceID
	}
	return a.StackID != "" && a.StackID == m.StackID
}

// MatchesLabels tells whether have holds every label of want. Nothing wanted matches everything.
func MatchesLabels(want, have map[string]string) bool {
	for k, v := range want {
		if h, ok := have[k]; !ok || h != v {
			return false
		}
	}
	return true
}
