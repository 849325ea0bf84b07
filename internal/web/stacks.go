package web

import (
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/work"
)

func stackPage() page {
	return page{path: "/stacks/{stack}", nav: "/modules", kinds: moduleKinds, load: loadStack}
}

// stackView is the page of a Stack: its Modules as a picture, and the same as a list.
type stackView struct {
	*visit
	control.StackView
	chosen  string // Namespace that the picture is of, "" for all
	crowded bool   // the Stack has too many Modules for one picture
	shown   []control.ModuleNode
	listed  []control.ModuleNode // the modules that are shown, in the order of the list
	sorted  sorting
	tabs    []tab
	picture graphView
	jobs    map[int64]*work.Job
	exists  map[string]bool // paths of the Modules that are there
}

func loadStack(v *visit) (content, error) {
	found, err := v.Control.StackView(v.ctx, v.actor, v.request.PathValue("stack"))
	if err != nil {
		return content{}, err
	}
	s := stackView{visit: v, StackView: found, chosen: v.query("namespace"), exists: map[string]bool{}}
	for _, m := range s.Modules {
		s.exists[m.Path()] = true
	}
	s.crowded = len(s.Modules) > mostDrawn
	if s.crowded && s.chosen == "" && len(s.Namespaces) > 0 {
		s.chosen = s.Namespaces[0].Name
	}
	near := s.choose()
	s.picture = drawGraph(s.shown, s.Takes, near)
	s.listed = slices.Clone(s.shown)
	s.sorted = sortList(v, s.listed, moduleColumns()...)
	s.countTabs()
	if s.jobs, err = v.tellingJobs(s.shown); err != nil {
		return content{}, err
	}
	return content{title: s.Name, crumbs: []crumb{{"Modules", "/modules"}}, body: stackBody(s), parts: s.parts()}, nil
}

// choose finds the Modules to show: all, or those of one Namespace with whatever they give to and take from, which is near.
func (s *stackView) choose() (near map[string]bool) {
	near = map[string]bool{}
	if s.chosen == "" {
		s.shown = s.Modules
		return near
	}
	inside := map[string]bool{}
	for _, m := range s.Modules {
		inside[m.Path()] = m.Namespace == s.chosen
	}
	for path, takes := range s.Takes {
		for _, up := range takes {
			if inside[path] != inside[up] {
				near[path], near[up] = !inside[path], !inside[up]
			}
		}
	}
	for _, m := range s.Modules {
		if (inside[m.Path()] || near[m.Path()]) && len(s.shown) < mostDrawn {
			s.shown = append(s.shown, m)
		}
	}
	return near
}

func (s *stackView) countTabs() {
	counts := map[string]int{}
	for _, m := range s.Modules {
		counts[m.Namespace]++
	}
	if !s.crowded {
		s.tabs = []tab{{title: "All", path: s.with("namespace", ""), count: len(s.Modules), on: s.chosen == ""}}
	}
	for _, n := range s.Namespaces {
		s.tabs = append(s.tabs, tab{title: n.Name, path: s.with("namespace", n.Name), count: counts[n.Name], on: n.Name == s.chosen})
	}
}

func (s stackView) parts() []part {
	boxes, rows := []part{}, []part{}
	for _, b := range s.picture.boxes {
		boxes = append(boxes, part{id: "box-" + b.ID, body: graphBoxView(b)})
	}
	for _, m := range s.listed {
		rows = append(rows, part{id: "module-" + m.ID, body: stackLine(s, m)})
	}
	return []part{
		{id: "stack-sums", body: stackSums(s)},
		{id: "graph", body: graphPicture(s.Name, s.picture), rows: boxes},
		{id: "stack-modules", body: stackLines(s), rows: rows},
	}
}

func (s stackView) counts() stateCounts { return countsOf(s.Modules) }

func countsOf(modules []control.ModuleNode) stateCounts {
	counts := stateCounts{}
	for _, m := range modules {
		counts[m.State]++
	}
	return counts
}

func namespacePage() page {
	return page{path: "/stacks/{stack}/{namespace}", nav: "/modules", kinds: moduleKinds, load: loadNamespace}
}

// namespaceView is the page of a Namespace: its defaults and its Modules.
type namespaceView struct {
	*visit
	catalog.Namespace
	modules []control.ModuleNode // of this page
	counts  stateCounts          // of all
	jobs    map[int64]*work.Job
	sorted  sorting
	next    string // address of the next page, "" at the end
}

const modulesPerPage = 200

func loadNamespace(v *visit) (content, error) {
	n, err := v.Control.Namespace(v.ctx, v.actor, catalog.NamespacePath(v.request.PathValue("stack"), v.request.PathValue("namespace")))
	if err != nil {
		return content{}, err
	}
	p := namespaceView{visit: v, Namespace: n}
	all, err := v.Control.ModuleTree(v.ctx, v.actor, control.ModuleFilter{NamespaceID: n.ID})
	if err != nil {
		return content{}, err
	}
	p.counts = countsOf(all)
	p.sorted = sortList(v, all, moduleColumns()...)
	from := p.pageStart(all)
	p.modules = first(all[from:], modulesPerPage)
	if len(all)-from > modulesPerPage {
		p.next = v.with("after", p.modules[len(p.modules)-1].Name)
	}
	if p.jobs, err = v.tellingJobs(p.modules); err != nil {
		return content{}, err
	}
	rows := []part{}
	for _, m := range p.modules {
		id := "module-" + m.ID
		rows = append(rows, part{id: id, body: moduleLine(v, id, m.Name, m, p.jobs[tellingJob(m)])})
	}
	return content{title: n.Name, crumbs: []crumb{{"Modules", "/modules"}, {n.Stack, v.link("/stacks/{stack}", n.Stack)}}, body: namespaceBody(p), parts: []part{
		{id: "namespace-sums", body: namespaceSums(p)},
		{id: "namespace-modules", body: namespaceLines(p), rows: rows},
		{id: "defaults", body: defaultsPanel(p)},
	}}, nil
}

// pageStart returns where the page begins in the sorted list of all modules. Sorted by name, the page stays where it is
// when the module before it is deleted.
func (p namespaceView) pageStart(all []control.ModuleNode) int {
	after := p.query("after")
	if p.sorted.changed() {
		return slices.IndexFunc(all, func(m control.ModuleNode) bool { return m.Name == after }) + 1
	}
	byName := func(m control.ModuleNode, name string) int { return strings.Compare(m.Name, name) }
	from, found := slices.BinarySearchFunc(all, after, byName)
	if found {
		from++
	}
	return from
}
