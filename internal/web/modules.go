package web

import (
	"net/url"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/work"
)

// moduleMoods are the states of Modules.
var moduleMoods = map[control.ModuleState]mood{
	control.ModuleApproval:    {"Needs approval", "pause", "ask"},
	control.ModuleInterrupted: {"Interrupted", "warn", "warn"},
	control.ModuleFailed:      {"Failed", "cross", "bad"},
	control.ModuleRunning:     {"Running", "spin", "busy"},
	control.ModuleWaiting:     {"Waiting", "ring", "calm"},
	control.ModuleChanged:     {"Changed since", "half", "ask"},
	control.ModuleUpToDate:    {"Applied", "check", "good"},
	control.ModuleNever:       {"Never applied", "dashed", "calm"},
	control.ModuleDestroyed:   {"Destroyed", "slash", "calm"},
}

// moduleMood is how the state of a module is shown: a script is run, not applied.
func moduleMood(m control.ModuleNode) mood {
	if m.State == control.ModuleUpToDate && m.Settled.Action == work.Run {
		return mood{"Last run succeeded", "check", "good"}
	}
	return known(moduleMoods, m.State)
}

// moduleKinds are the events that may change how a Module is, or which there are.
var moduleKinds = []string{"job.", "module.", "stack.", "namespace."}

func modulesPage() page {
	return page{path: "/modules", nav: "/modules", kinds: moduleKinds, load: loadModules}
}

const (
	mostOpened  = 60  // Modules up to which all of the tree is open at first
	mostModules = 300 // Modules that one page shows
)

// stateCounts counts Modules by state.
type stateCounts map[control.ModuleState]int

func (c stateCounts) all() (n int) {
	for _, k := range c {
		n += k
	}
	return n
}

// treeView is the page of Stacks, Namespaces and Modules.
type treeView struct {
	*visit
	search string
	state  control.ModuleState
	tabs   []tab
	rows   []treeRow
	sorted sorting
	jobs   map[int64]*work.Job // that the rows show
	empty  bool                // nothing is declared at all
}

// treeRow is one line of the tree: a stack (level 0), a namespace (1), a module (2), or the number of modules that are
// left out (3). A list that is sorted by a column has modules only.
type treeRow struct {
	level            int
	id, name, path   string
	open             bool
	counts           stateCounts // of a Stack or Namespace, as far as filter and search let through
	node             control.ModuleNode
	left             int    // Modules that are left out
	link, linkTitle  string // of a Stack or Namespace
	describedAs      string
	stack, namespace string
}

func loadModules(v *visit) (content, error) {
	t := treeView{visit: v, search: v.query("q"), state: control.ModuleState(v.query("state"))}
	stacks, err := v.Control.Stacks(v.ctx, v.actor)
	if err != nil {
		return content{}, err
	}
	namespaces, err := v.Control.Namespaces(v.ctx, v.actor, "")
	if err != nil {
		return content{}, err
	}
	modules, err := v.Control.ModuleTree(v.ctx, v.actor, control.ModuleFilter{})
	if err != nil {
		return content{}, err
	}
	t.empty = len(stacks) == 0
	found := t.narrow(modules)
	if t.sorted = sortList(v, found, moduleColumns()...); t.sorted.changed() {
		t.list(found)
	} else {
		t.tree(stacks, namespaces, found, len(modules))
	}
	if t.jobs, err = v.tellingJobs(t.nodes()); err != nil {
		return content{}, err
	}
	return content{title: "Modules", body: modulesBody(t), parts: t.parts()}, nil
}

// list shows the modules without stacks and namespaces.
func (t *treeView) list(found []control.ModuleNode) {
	for _, m := range first(found, mostModules) {
		t.rows = append(t.rows, treeRow{level: 2, id: "module-" + m.ID, node: m})
	}
	if left := len(found) - mostModules; left > 0 {
		t.rows = append(t.rows, treeRow{level: 3, id: "more", left: left})
	}
}

// tree shows the modules in their namespaces and stacks.
func (t *treeView) tree(
	stacks []catalog.Stack, namespaces []catalog.Namespace, found []control.ModuleNode, modules int,
) {
	counts := map[string]stateCounts{}
	for _, m := range found {
		for _, path := range []string{m.Stack, m.Stack + "/" + m.Namespace} {
			if counts[path] == nil {
				counts[path] = stateCounts{}
			}
			counts[path][m.State]++
		}
	}
	for _, s := range stacks {
		row := treeRow{level: 0, id: "stack-" + s.ID, name: s.Name, path: s.Name, counts: counts[s.Name], describedAs: s.Description,
			link: t.link("/stacks/{stack}", s.Name), linkTitle: "Graph", stack: s.Name}
		t.branch(&row, modules)
	}
	slices.SortFunc(namespaces, func(a, b catalog.Namespace) int { return strings.Compare(a.Path(), b.Path()) })
	for _, n := range namespaces {
		row := treeRow{level: 1, id: "namespace-" + n.ID, name: n.Name, path: n.Path(), counts: counts[n.Path()], describedAs: n.Description,
			link: t.link("/stacks/{stack}/{namespace}", n.Stack, n.Name), linkTitle: "Defaults",
			stack: n.Stack, namespace: n.Name}
		t.branch(&row, modules)
	}
	t.fill(found)
}

// narrow keeps what the search and the filter ask for, and counts for the filters what the search leaves.
func (t *treeView) narrow(modules []control.ModuleNode) (found []control.ModuleNode) {
	counts := stateCounts{}
	for _, m := range modules {
		if !contains(m.Path(), t.search) {
			continue
		}
		counts[m.State]++
		if t.state == "" || m.State == t.state {
			found = append(found, m)
		}
	}
	t.tabs = []tab{{title: "All", path: t.with("state", ""), count: counts.all(), on: t.state == ""}}
	for _, s := range control.ModuleStates {
		if counts[s] > 0 || s == t.state {
			t.tabs = append(t.tabs, tab{title: moduleMoods[s].word, path: t.with("state", string(s)), count: counts[s], on: s == t.state})
		}
	}
	return found
}

func contains(text, search string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(search))
}

// branch adds a Stack or a Namespace, unless filter or search leave nothing of it.
func (t *treeView) branch(row *treeRow, modules int) {
	narrowed := t.search != "" || t.state != ""
	if narrowed && row.counts.all() == 0 {
		return
	}
	q := t.url.Query()
	switch {
	case slices.Contains(q["shut"], row.path):
	case slices.Contains(q["open"], row.path):
		row.open = true
	default:
		row.open = narrowed || modules <= mostOpened
	}
	t.rows = append(t.rows, *row)
}

// fill puts the tree in its order: Stacks, in them Namespaces, in them Modules, as far as they are open.
func (t *treeView) fill(found []control.ModuleNode) {
	of := map[string][]control.ModuleNode{}
	for _, m := range found {
		path := m.Stack + "/" + m.Namespace
		of[path] = append(of[path], m)
	}
	namespaces := map[string][]treeRow{}
	for _, r := range t.rows {
		if r.level == 1 {
			namespaces[r.stack] = append(namespaces[r.stack], r)
		}
	}
	var rows []treeRow
	room := mostModules
	for _, s := range t.rows {
		if s.level != 0 {
			continue
		}
		rows = append(rows, s)
		if !s.open {
			continue
		}
		for _, n := range namespaces[s.stack] {
			rows = append(rows, n)
			if !n.open {
				continue
			}
			shown := first(of[n.path], room)
			room -= len(shown)
			for _, m := range shown {
				rows = append(rows, treeRow{level: 2, id: "module-" + m.ID, node: m})
			}
			if left := len(of[n.path]) - len(shown); left > 0 {
				rows = append(rows, treeRow{level: 3, id: "more-" + n.id, left: left, link: n.link})
			}
		}
	}
	t.rows = rows
}

func (t *treeView) nodes() (nodes []control.ModuleNode) {
	for _, r := range t.rows {
		if r.level == 2 {
			nodes = append(nodes, r.node)
		}
	}
	return nodes
}

func (t treeView) parts() []part {
	rows := []part{}
	for _, r := range t.rows {
		rows = append(rows, part{id: r.id, body: treeLine(t, r)})
	}
	return []part{
		{id: "module-filters", body: filterTabs("module-filters", "State", t.tabs)},
		{id: "tree", body: treeRows(t), rows: rows},
	}
}

// moduleName returns the name of a module as the list shows it: with its path where its namespace is not shown above
// it.
func (t treeView) moduleName(m control.ModuleNode) string {
	if t.sorted.changed() {
		return m.Path()
	}
	return m.Name
}

// toggle gives the address at which a branch is shut, or open when it is shut.
func (t treeView) toggle(r treeRow) string {
	q := t.url.Query()
	for _, key := range []string{"open", "shut"} {
		q[key] = slices.DeleteFunc(q[key], func(path string) bool { return path == r.path })
	}
	if r.open {
		q.Add("shut", r.path)
	} else {
		q.Add("open", r.path)
	}
	u := url.URL{Path: t.url.Path, RawQuery: q.Encode()}
	return u.String()
}

// tellingJob gives the number of the Job that tells how a Module is: the one that holds it, else one that waits, else the last;
// 0 when there is none.
func tellingJob(m control.ModuleNode) int64 {
	for _, j := range m.Open {
		if j.Status != work.Queued {
			return j.Number
		}
	}
	if len(m.Open) > 0 {
		return m.Open[0].Number
	}
	return m.Last.Number
}

// tellingJobs reads those of some Modules.
func (v *visit) tellingJobs(nodes []control.ModuleNode) (map[int64]*work.Job, error) {
	var numbers []int64
	for _, m := range nodes {
		if n := tellingJob(m); n > 0 {
			numbers = append(numbers, n)
		}
	}
	return v.Control.JobsNumbered(v.ctx, v.actor, numbers)
}

// moduleLink gives the address of a Module's page by its path.
func (v *visit) moduleLink(path string) string {
	parts := strings.SplitN(path, "/", 3)
	if len(parts) < 3 {
		return "/modules"
	}
	return addressOf(parts[0], parts[1], parts[2])
}
