package store

import (
	"encoding/json"
	"fmt"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

// ModuleHead is what a list shows of a Module: where it lies, and its Jobs in brief. It is read without any document, so that
// a thousand of them are cheap.
type ModuleHead struct {
	ID, StackID, NamespaceID string
	Stack, Namespace, Name   string

	Last    JobHead   // the newest Job of all; Number 0 = none yet
	Settled JobHead   // the newest one that changed the Module or failed to: neither a plan nor one that was called off
	Open    []JobHead // not over, by number

	Changed bool // the Module, or its Namespace, was declared anew after the settled Job was queued
}

// Path gives "stack/namespace/module".
func (m ModuleHead) Path() string { return catalog.ModulePath(m.Stack, m.Namespace, m.Name) }

// JobHead is a Job in brief.
type JobHead struct {
	Number int64
	Action work.Action
	Status work.Status
}

// isSettled is as in the index jobs_settled, which it has to be to be found.
const isSettled = "phase = 2 AND action <> 'plan' AND status IN ('succeeded', 'failed')"

const selectModuleHead = `SELECT m.id, m.stack_id, m.namespace_id, s.name, n.name, m.name,
	coalesce(l.number, 0), coalesce(l.action, ''), coalesce(l.status, ''), coalesce(d.number, 0), coalesce(d.action, ''), coalesce(d.status, ''),
	CASE WHEN m.updated_at > d.queued_at OR n.updated_at > d.queued_at THEN 1 ELSE 0 END
	FROM modules m JOIN namespaces n ON n.id = m.namespace_id JOIN stacks s ON s.id = m.stack_id
	LEFT JOIN jobs l ON l.org = m.org AND l.number = (SELECT max(number) FROM jobs WHERE org = m.org AND module_id = m.id)
	LEFT JOIN jobs d ON d.org = m.org AND d.number = (SELECT max(number) FROM jobs WHERE org = m.org AND module_id = m.id AND ` + isSettled + `)
	WHERE m.org = $1`

const selectOpenHead = "SELECT module_id, number, action, status FROM jobs WHERE org = $1 AND phase < 2 AND module_id = $2 ORDER BY number"

const selectOpenHeads = "SELECT module_id, number, action, status FROM jobs WHERE org = $1 AND phase < 2 ORDER BY number"

func scanModuleHead(r row) (m ModuleHead, err error) {
	changed := 0
	err = r.Scan(&m.ID, &m.StackID, &m.NamespaceID, &m.Stack, &m.Namespace, &m.Name,
		&m.Last.Number, &m.Last.Action, &m.Last.Status, &m.Settled.Number, &m.Settled.Action, &m.Settled.Status, &changed)
	m.Changed = changed == 1
	return m, err
}

// ModuleHeads gives Modules with their Jobs in brief, by path: in two queries, however many Modules there are.
func (tx *Tx) ModuleHeads(org string, f ModuleFilter, pages ...Page) ([]ModuleHead, error) {
	query, args := selectModuleHead, []any{org}
	for _, c := range []struct{ column, value string }{{"m.stack_id", f.StackID}, {"m.namespace_id", f.NamespaceID}} {
		if c.value != "" {
			args = append(args, c.value)
			query += fmt.Sprintf(" AND %s = $%d", c.column, len(args))
		}
	}
	heads, err := listPage(tx, scanModuleHead, by("s.name", "n.name", "m.name"), pages, query, args...)
	if err != nil {
		return nil, err
	}
	return heads, openOf(tx, heads, selectOpenHeads, org)
}

// ModuleHead gives one Module, by id, as ModuleHeads does.
func (tx *Tx) ModuleHead(org, id string) (ModuleHead, error) {
	m, err := need(tx, absent("Module", "module", id), scanModuleHead, selectModuleHead+" AND m.id = $2", org, id)
	if err != nil {
		return m, err
	}
	heads := []ModuleHead{m}
	err = openOf(tx, heads, selectOpenHead, org, id)
	return heads[0], err
}

// openOf adds the Jobs that are not over.
func openOf(tx *Tx, heads []ModuleHead, query string, args ...any) error {
	open := map[string][]JobHead{}
	_, err := list(tx, func(r row) (h JobHead, err error) {
		var module string
		err = r.Scan(&module, &h.Number, &h.Action, &h.Status)
		open[module] = append(open[module], h)
		return h, err
	}, query, args...)
	for i := range heads {
		heads[i].Open = open[heads[i].ID]
	}
	return err
}

// ChangingModules returns the modules, by id, of which a job that may change their outputs is queued or running.
func (tx *Tx) ChangingModules(org string) (map[string]bool, error) {
	ids, err := list(tx, value[string], `SELECT module_id FROM jobs WHERE org = $1 AND phase < 2 AND kind = 'module'
		AND action IN ('apply', 'run')`, org)
	changing := make(map[string]bool, len(ids))
	for _, id := range ids {
		changing[id] = true
	}
	return changing, err
}

// JobsNumbered gives the Jobs with these numbers, in no order; those that are not there are missing. At most 1000 are asked for.
func (tx *Tx) JobsNumbered(org string, numbers []int64) ([]*work.Job, error) {
	numbers = numbers[:min(len(numbers), 1000)]
	if len(numbers) == 0 {
		return nil, nil
	}
	args := []any{org}
	for _, n := range numbers {
		args = append(args, n)
	}
	return list(tx, scanJob, fmt.Sprintf("%s WHERE org = $1 AND number IN (%s)", selectJob, marks(2, len(numbers))), args...)
}

// LatestOutputsOf gives the newest Output set of each of some Modules, by their ids, as LatestOutputs does; Modules without one
// are missing. At most 1000 are asked for.
func (tx *Tx) LatestOutputsOf(org string, moduleIDs []string) (map[string]catalog.OutputSet, error) {
	moduleIDs = moduleIDs[:min(len(moduleIDs), 1000)]
	sets := map[string]catalog.OutputSet{}
	if len(moduleIDs) == 0 {
		return sets, nil
	}
	args := []any{org}
	for _, id := range moduleIDs {
		args = append(args, id)
	}
	query := fmt.Sprintf(selectLatestOutputs, marks(2, len(moduleIDs)))
	scan := func(r row) (s catalog.OutputSet, err error) {
		var created int64
		var doc []byte
		if err = r.Scan(&s.ID, &s.ModuleID, &s.JobID, &s.Serial, &created, &doc); err != nil {
			return s, err
		}
		s.CreatedAt = moment(created)
		err = json.Unmarshal(doc, &s.Values)
		sets[s.ModuleID] = s
		return s, err
	}
	_, err := list(tx, scan, query, args...)
	return sets, err
}

const selectLatestOutputs = `SELECT o.id, o.module_id, o.job_id, o.serial, o.created_at, o.doc FROM output_sets o WHERE o.org = $1
	AND o.module_id IN (%s) AND o.serial = (SELECT max(serial) FROM output_sets WHERE org = o.org AND module_id = o.module_id)`

// ModuleNames gives the ids of the Modules of a Stack by path.
func (tx *Tx) ModuleNames(org, stackID string) (map[string]string, error) {
	ids := map[string]string{}
	scan := func(r row) (string, error) {
		var id, stack, namespace, name string
		err := r.Scan(&id, &stack, &namespace, &name)
		ids[strings.Join([]string{stack, namespace, name}, "/")] = id
		return id, err
	}
	_, err := list(tx, scan, `SELECT m.id, s.name, n.name, m.name FROM modules m JOIN namespaces n ON n.id = m.namespace_id
		JOIN stacks s ON s.id = m.stack_id WHERE m.org = $1 AND m.stack_id = $2`, org, stackID)
	return ids, err
}
