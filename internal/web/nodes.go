package web

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/node"
)

// nodeKinds are the events that may change which Nodes there are, or who covers them.
var nodeKinds = []string{"node.", "node_source.", "runner.", "assignment.", "stack."}

const (
	nodesShown    = 100 // of one page
	conflictsMost = 5   // that are named
)

func nodesPage() page {
	return page{path: "/nodes", nav: "/nodes", kinds: nodeKinds, every: 30 * time.Second, load: loadNodes}
}

// nodesView is the page of Nodes: a Node filter that is an address, and what it chooses.
type nodesView struct {
	*visit
	control.NodeList
	filter string
	wrong  *filterProblem
	stack  string
	stacks []string
	shown  []control.NodeView // of this page
	tabs   []tab
	sorted sorting
	next   int // Nodes that come before the next page, 0 at the end
}

// filterProblem says what is wrong with a Node filter, and where.
type filterProblem struct {
	text    string // a sentence
	excerpt string // the text around it and a caret under it, "" when it is about no place
}

// filterProblemOf gives what is wrong with a filter, nil when the error is about something else.
func filterProblemOf(err error) *filterProblem {
	var wrong *node.FilterError
	if !errors.As(err, &wrong) {
		return nil
	}
	return &filterProblem{text: sentence(wrong.Message) + " " + sentence(wrong.Hint), excerpt: wrong.Excerpt}
}

func loadNodes(v *visit) (content, error) {
	p := nodesView{visit: v, filter: v.query("filter"), stack: v.query("stack")}
	stacks, err := v.Control.Stacks(v.ctx, v.actor)
	if err != nil {
		return content{}, err
	}
	for _, s := range stacks {
		p.stacks = append(p.stacks, s.Name)
	}
	if p.stack != "" && !slices.Contains(p.stacks, p.stack) {
		return content{}, fault.New(fault.NotFound, "stack_not_found", "there is no stack %q", p.stack)
	}
	if p.NodeList, err = v.Control.Nodes(v.ctx, v.actor, p.stack, p.filter); err != nil {
		if p.wrong = filterProblemOf(err); p.wrong == nil {
			return content{}, err
		}
	}
	p.choose()
	rows := []part{}
	for i, n := range p.shown {
		rows = append(rows, part{id: nodeRowID(i), body: nodeRow(p, i, n)})
	}
	return content{title: "Nodes", body: nodesBody(p), parts: []part{
		{id: "node-filters", body: filterTabs("node-filters", "Cover", p.tabs)},
		{id: "node-notes", body: nodeNotes(p)},
		{id: "nodes", body: nodeRows(p), rows: rows},
		{id: "pager", body: nodesPager(p)},
	}}, nil
}

// choose finds the Nodes of this page.
func (p *nodesView) choose() {
	uncovered := p.query("cover") == "none"
	all := p.Nodes
	if uncovered {
		all = slices.DeleteFunc(slices.Clone(all), func(n control.NodeView) bool { return n.Runner != "" })
	}
	if p.query("sort") != "" {
		all = slices.Clone(all)
	}
	p.sorted = sortList(p.visit, all,
		column[control.NodeView]{"name", byText(func(n control.NodeView) string { return n.Name })},
		column[control.NodeView]{"from", byText(func(n control.NodeView) string { return n.Source })},
		column[control.NodeView]{"system", byText(func(n control.NodeView) string { return systemText(n.Node) })},
		column[control.NodeView]{"runner", byText(func(n control.NodeView) string { return n.Runner })},
	)
	from, _ := strconv.Atoi(p.query("after")) // what is no number is the first page
	from = min(max(from, 0), len(all))
	p.shown = first(all[from:], nodesShown)
	if from+nodesShown < len(all) {
		p.next = from + nodesShown
	}
	p.tabs = []tab{
		{title: "All that match", path: p.with("cover", ""), count: p.Matched, on: !uncovered},
		{title: "No runner", path: p.with("cover", "none"), count: p.Uncovered, on: uncovered},
	}
}

func nodeRowID(i int) string { return "node-" + number(i) }

// page gives the address of the list from a Node on.
func (p nodesView) page(from int) string {
	q := p.url.Query()
	q.Del("after")
	if from > 0 {
		q.Set("after", number(from))
	}
	u := url.URL{Path: p.url.Path, RawQuery: q.Encode()}
	return u.String()
}

// narrowingAt has a field narrow the list of a page as it is changed.
func narrowingAt(path string) templ.Attributes {
	return templ.Attributes{"form": "search", "hx-get": path, "hx-include": "#search", "hx-trigger": "change", "hx-target": "#list", "hx-select": "#list", "hx-select-oob": "#live", "hx-swap": "outerHTML", "hx-push-url": "true"}
}

func nodePath(n control.NodeView, rest string) string {
	path := "/nodes/" + url.PathEscape(n.Stack) + "/" + url.PathEscape(n.Name)
	if rest != "" {
		path += "/" + rest
	}
	return path
}

// systemText says what runs on a Node: "linux/arm64".
func systemText(n node.Node) string {
	switch {
	case n.OS != "" && n.Arch != "":
		return n.OS + "/" + n.Arch
	case n.OS != "":
		return n.OS
	}
	return n.Arch
}

// reachText says how a Node is reached: "deploy@10.0.0.1:2222".
func reachText(n node.Node) string {
	if n.Connection == node.Local {
		return "on the Runner's own host"
	}
	text := n.Host()
	if n.User != "" {
		text = n.User + "@" + text
	}
	if n.Port != 0 && n.Port != 22 {
		text += ":" + number(n.Port)
	}
	return text
}

// previewNodes answers with what a Node filter chooses, for a form that has a field for one.
func (w *Web) previewNodes(v *visit) (templ.Component, error) {
	filter := v.query("nodes")
	found, err := v.Control.PreviewNodes(v.ctx, v.actor, v.query("stack"), filter)
	if err != nil {
		if wrong := filterProblemOf(err); wrong != nil {
			return filterSays(*wrong), nil
		}
		return nil, err
	}
	return nodesPreview(filter, found), nil
}

func nodePage() page {
	return page{path: "/nodes/{stack}/{node}", nav: "/nodes", kinds: append([]string{"job."}, nodeKinds...), every: 30 * time.Second, load: loadNode}
}

// oneNode is the page of a Node.
type oneNode struct {
	*visit
	control.NodeView
	conflicts []control.StackConflict
	jobs      []nodeJob
}

func (v *visit) node() (control.NodeView, error) {
	return v.Control.Node(v.ctx, v.actor, catalog.NodePath(v.request.PathValue("stack"), v.request.PathValue("node")))
}

func loadNode(v *visit) (content, error) {
	n, err := v.node()
	if err != nil {
		return content{}, err
	}
	p := oneNode{visit: v, NodeView: n}
	preview, err := v.Control.PreviewNodes(v.ctx, v.actor, n.Stack, "")
	if err != nil {
		return content{}, err
	}
	for _, c := range preview.Conflicts {
		if c.Conflict.Node == n.Name {
			p.conflicts = append(p.conflicts, c)
		}
	}
	if p.jobs, err = v.nodeJobs(n.Stack, n.Name); err != nil {
		return content{}, err
	}
	return content{title: n.Name, crumbs: []crumb{{"Nodes", "/nodes"}, {n.Stack, "/nodes?stack=" + url.QueryEscape(n.Stack)}}, body: nodeBody(p), parts: []part{
		{id: "node-facts", body: nodeFacts(p)}, {id: "node-jobs", body: nodeJobsPanel(p)},
	}}, nil
}

// nodeWords names the first of some Nodes.
func nodeWords(nodes []control.NodeView, most int) string {
	var names []string
	for _, n := range first(nodes, most) {
		names = append(names, n.Name)
	}
	return strings.Join(names, ", ")
}
