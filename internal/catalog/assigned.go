package catalog

import (
	"cmp"
	"fmt"
	"slices"
)

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

// HowToAssign is the hint that gives a Runner, by name, to a Stack, Namespace or Module, by its path.
func HowToAssign(runner, scope string) string {
	return fmt.Sprintf("run: legwork assignment create %s %s", runner, scope)
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

// Rights are the Assignments of one Organization, to be asked for many Modules. It answers as Assigned does.
type Rights struct {
	organizationID string
	runners        map[string]map[string]bool // ids, by the id of the Stack, Namespace or Module
}

// RightsOf gives the Rights that Assignments of an Organization grant.
func RightsOf(organizationID string, assignments []Assignment) Rights {
	r := Rights{organizationID, map[string]map[string]bool{}}
	for _, a := range assignments {
		scope := cmp.Or(a.ModuleID, a.NamespaceID, a.StackID)
		if scope == "" || a.RunnerID == "" || a.OrganizationID != organizationID {
			continue
		}
		if r.runners[scope] == nil {
			r.runners[scope] = map[string]bool{}
		}
		r.runners[scope][a.RunnerID] = true
	}
	return r
}

// Assigned tells whether the Module may use the Runner.
func (r Rights) Assigned(runner Runner, m Module) bool {
	if runner.OrganizationID != m.OrganizationID {
		return false
	}
	return runner.IsAssignedToAllModules || r.organizationID == m.OrganizationID &&
		(r.runners[m.ID][runner.ID] || r.runners[m.NamespaceID][runner.ID] || r.runners[m.StackID][runner.ID])
}
