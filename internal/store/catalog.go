package store

import (
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// Names of what a record lies in are read from there and not out of its own document, so that a renaming shows everywhere.

const selectStack = "SELECT " + identityColumns + " FROM stacks r WHERE r.org = $1"

func scanStack(r row) (s catalog.Stack, err error) {
	err = identity(r, &s.Identity, &s.StackSpec)
	return s, err
}

// Stacks returns the Stacks of an Organization by name: all of them, or those of one Page. The other listings
// take a Page likewise.
func (tx *Tx) Stacks(org string, pages ...Page) ([]catalog.Stack, error) {
	return listPage(tx, scanStack, by("r.name"), pages, selectStack, org)
}

// Stack finds a Stack by its id or its name.
func (tx *Tx) Stack(org, idOrName string) (catalog.Stack, error) {
	return need(tx, absent("Stack", "stack", idOrName), scanStack,
		selectStack+" AND (r.id = $2 OR r.name = $2) ORDER BY r.id = $2 DESC", org, idOrName)
}

// PutStack creates the Stack when its ID is empty, else replaces it. It sets ID and times.
func (tx *Tx) PutStack(s *catalog.Stack) error {
	doc, err := document(s.StackSpec)
	if err != nil {
		return err
	}
	return tx.put(record{
		what: "Stack", code: "stack", table: "stacks", name: s.Name, id: &s.Identity,
		columns: []string{"name", "doc"}, values: []any{s.Name, doc},
	})
}

// DeleteStack deletes an empty Stack and its Assignments.
func (tx *Tx) DeleteStack(org, id string) error {
	return tx.remove("Stack", "stack", "stacks", org, id)
}

const selectNamespace = "SELECT " + identityColumns + `, r.stack_id, s.name, r.name
	FROM namespaces r JOIN stacks s ON s.id = r.stack_id WHERE r.org = $1`

func scanNamespace(r row) (n catalog.Namespace, err error) {
	var stack, name string
	err = identity(r, &n.Identity, &n.NamespaceSpec, &n.StackID, &stack, &name)
	n.Stack, n.Name = stack, name
	return n, err
}

// Namespaces gives the Namespaces of a Stack, or of all Stacks when stackID is empty, by path.
func (tx *Tx) Namespaces(org, stackID string, pages ...Page) ([]catalog.Namespace, error) {
	return listPage(tx, scanNamespace, byPath, pages, selectNamespace+" AND ($2 = '' OR r.stack_id = $2)", org, stackID)
}

// Namespace finds a Namespace by its id or its path "stack/namespace".
func (tx *Tx) Namespace(org, idOrPath string) (catalog.Namespace, error) {
	missing := absent("Namespace", "namespace", idOrPath)
	if stack, name, ok := strings.Cut(idOrPath, "/"); ok {
		return need(tx, missing, scanNamespace, selectNamespace+" AND s.name = $2 AND r.name = $3", org, stack, name)
	}
	return need(tx, missing, scanNamespace, selectNamespace+" AND r.id = $2", org, idOrPath)
}

// PutNamespace creates the Namespace when its ID is empty, else replaces it. It sets ID and times, and
// StackID from Stack when that alone is given.
func (tx *Tx) PutNamespace(n *catalog.Namespace) error {
	if n.StackID == "" {
		s, err := tx.Stack(n.OrganizationID, n.Stack)
		if err != nil {
			return err
		}
		n.StackID = s.ID
	}
	doc, err := document(n.NamespaceSpec)
	if err != nil {
		return err
	}
	return tx.put(record{
		what: "Namespace", code: "namespace", table: "namespaces", name: n.Stack + "/" + n.Name, id: &n.Identity,
		columns: []string{"stack_id", "name", "doc"}, values: []any{n.StackID, n.Name, doc},
	})
}

// DeleteNamespace deletes an empty Namespace and its Assignments.
func (tx *Tx) DeleteNamespace(org, id string) error {
	return tx.remove("Namespace", "namespace", "namespaces", org, id)
}

// ModuleFilter narrows a listing of Modules. Zero fields match all.
type ModuleFilter struct{ StackID, NamespaceID string }

const selectModule = "SELECT " + identityColumns + `, r.stack_id, r.namespace_id, s.name, n.name, r.name
	FROM modules r JOIN stacks s ON s.id = r.stack_id JOIN namespaces n ON n.id = r.namespace_id WHERE r.org = $1`

func scanModule(r row) (m catalog.Module, err error) {
	var stack, namespace, name string
	err = identity(r, &m.Identity, &m.ModuleSpec, &m.StackID, &m.NamespaceID, &stack, &namespace, &name)
	m.Stack, m.Namespace, m.Name = stack, namespace, name
	return m, err
}

// Modules gives the Modules of an Organization by path.
func (tx *Tx) Modules(org string, f ModuleFilter, pages ...Page) ([]catalog.Module, error) {
	return listPage(tx, scanModule, by("s.name", "n.name", "r.name"), pages,
		selectModule+" AND ($2 = '' OR r.stack_id = $2) AND ($3 = '' OR r.namespace_id = $3)", org, f.StackID, f.NamespaceID)
}

// Module finds a Module by its id or its path "stack/namespace/module".
func (tx *Tx) Module(org, idOrPath string) (catalog.Module, error) {
	missing := absent("Module", "module", idOrPath)
	if p := strings.SplitN(idOrPath, "/", 3); len(p) == 3 {
		// The Namespace is looked up first: SQLite would else go through all Modules of the Organization.
		return need(tx, missing, scanModule, selectModule+` AND r.name = $4 AND r.namespace_id = (SELECT n.id FROM namespaces n
			JOIN stacks s ON s.id = n.stack_id WHERE s.org = $1 AND s.name = $2 AND n.name = $3)`, org, p[0], p[1], p[2])
	}
	return need(tx, missing, scanModule, selectModule+" AND r.id = $2", org, idOrPath)
}

// PutModule creates the Module when its ID is empty, else replaces it. It sets ID and times, and StackID and
// NamespaceID from Stack and Namespace when those alone are given.
func (tx *Tx) PutModule(m *catalog.Module) error {
	if m.NamespaceID == "" || m.StackID == "" {
		n, err := tx.Namespace(m.OrganizationID, m.Stack+"/"+m.Namespace)
		if err != nil {
			return err
		}
		m.StackID, m.NamespaceID = n.StackID, n.ID
	}
	doc, err := document(m.ModuleSpec)
	if err != nil {
		return err
	}
	return tx.put(record{
		what: "Module", code: "module", table: "modules", name: m.Path(), id: &m.Identity,
		columns: []string{"stack_id", "namespace_id", "name", "doc"}, values: []any{m.StackID, m.NamespaceID, m.Name, doc},
	})
}

// DeleteModule deletes a Module with its Assignments and Output sets. Its Jobs stay.
func (tx *Tx) DeleteModule(org, id string) error {
	return tx.remove("Module", "module", "modules", org, id)
}

// runnerColumns are what scanRunner scans, of the table with the alias r.
const runnerColumns = identityColumns + ", r.principal_id, r.registered_by = '" + catalog.ServerRegistrar + "'"

const selectRunner = "SELECT " + runnerColumns + " FROM runners r WHERE r.org = $1"

func scanRunner(r row) (n catalog.Runner, err error) {
	err = identity(r, &n.Identity, &n.RunnerSpec, &n.ServicePrincipalID, &n.ServerOwned)
	return n, err
}

// Runners gives the Runners of an Organization by name.
func (tx *Tx) Runners(org string, pages ...Page) ([]catalog.Runner, error) {
	return listPage(tx, scanRunner, by("r.name"), pages, selectRunner, org)
}

// Runner finds a Runner by its id or its name.
func (tx *Tx) Runner(org, idOrName string) (catalog.Runner, error) {
	return need(tx, absent("Runner", "runner", idOrName), scanRunner,
		selectRunner+" AND (r.id = $2 OR r.name = $2) ORDER BY r.id = $2 DESC", org, idOrName)
}

// PutRunner creates the Runner when its ID is empty, else replaces it. It sets ID and times.
func (tx *Tx) PutRunner(r *catalog.Runner) error {
	doc, err := document(r.RunnerSpec)
	if err != nil {
		return err
	}
	return tx.put(record{
		what: "Runner", code: "runner", table: "runners", name: r.Name, id: &r.Identity,
		columns: []string{"name", "principal_id", "doc"}, values: []any{r.Name, r.ServicePrincipalID, doc},
	})
}

// DeleteRunner deletes a Runner with its Assignments and Instances. Its Service principal stays.
func (tx *Tx) DeleteRunner(org, id string) error {
	return tx.remove("Runner", "runner", "runners", org, id)
}

const selectAssignment = `SELECT a.id, a.org, a.created_at, a.updated_at, a.runner_id, a.stack_id, coalesce(a.namespace_id, ''),
	coalesce(a.module_id, ''), r.name, s.name, coalesce(n.name, ''), coalesce(m.name, '')
	FROM assignments a JOIN runners r ON r.id = a.runner_id JOIN stacks s ON s.id = a.stack_id
	LEFT JOIN namespaces n ON n.id = a.namespace_id LEFT JOIN modules m ON m.id = a.module_id WHERE a.org = $1`

func scanAssignment(r row) (a catalog.Assignment, err error) {
	var created, updated int64
	var stack, namespace, module string
	err = r.Scan(&a.ID, &a.OrganizationID, &created, &updated, &a.RunnerID, &a.StackID, &a.NamespaceID,
		&a.ModuleID, &a.Runner, &stack, &namespace, &module)
	a.CreatedAt, a.UpdatedAt = moment(created), moment(updated)
	a.Scope = stack
	if namespace != "" {
		a.Scope += "/" + namespace
	}
	if module != "" {
		a.Scope += "/" + module
	}
	return a, err
}

// Assignments gives the Assignments of a Runner, or of all Runners when runnerID is empty, by Runner and scope.
func (tx *Tx) Assignments(org, runnerID string, pages ...Page) ([]catalog.Assignment, error) {
	return listPage(tx, scanAssignment, by("r.name", "s.name", "coalesce(n.name, '')", "coalesce(m.name, '')"), pages,
		selectAssignment+" AND ($2 = '' OR a.runner_id = $2)", org, runnerID)
}

// PutAssignment creates the Assignment when its ID is empty, else replaces it. The ids in it count; Runner and
// Scope follow from them.
func (tx *Tx) PutAssignment(a *catalog.Assignment) error {
	if a.RunnerID == "" || a.StackID == "" || (a.ModuleID != "" && a.NamespaceID == "") {
		return fault.New(fault.Invalid, "assignment_incomplete", "an Assignment needs the ids of its Runner and of its whole scope")
	}
	scope := a.StackID
	for _, id := range []string{a.NamespaceID, a.ModuleID} {
		if id != "" {
			scope = id
		}
	}
	return tx.put(record{
		what: "Assignment", code: "assignment", table: "assignments", name: a.Runner + " for " + a.Scope, id: &a.Identity,
		columns: []string{"runner_id", "stack_id", "namespace_id", "module_id", "scope_id"},
		values:  []any{a.RunnerID, a.StackID, orNull(a.NamespaceID), orNull(a.ModuleID), scope},
	})
}

// orNull stores an empty reference as none.
func orNull(id string) any {
	if id == "" {
		return nil
	}
	return id
}

// DeleteAssignment deletes an Assignment.
func (tx *Tx) DeleteAssignment(org, id string) error {
	return tx.remove("Assignment", "assignment", "assignments", org, id)
}
