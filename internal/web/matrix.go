package web

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/runbook"
	"legwork/internal/web/terminal"
	"legwork/internal/work"
)

const (
	matrixRowsShown    = 50 // Nodes of one page
	matrixColumnsShown = 24 // Items of one page
	outputLines        = 12 // of a Node that are shown beside it
	outputScanned      = 100_000
	outputBytes        = 2 << 10 // of a Node
)

// matrix is a window onto Nodes and Items: a page of Nodes, those that failed first, and a page of Items.
type matrix struct {
	all     int
	matched int
	counts  map[work.NodeStatus]int // of all Nodes
	lines   []nodeLine              // of this page
	columns []int                   // Items of this page
	items   int                     // that are about Nodes
	from    int
	next    int // Nodes that come before the next page, 0 at the end
	column  int // the first Item of this page among those about Nodes
	tabs    []tab
	search  string
}

// nodeLine is a Node with how each Item of the page went there.
type nodeLine struct {
	at     int
	name   string
	part   int // that has it, from 1
	status work.NodeStatus
	cells  []cell
}

// cell is how an Item went on a Node.
type cell struct {
	item   int
	status work.NodeStatus
	result *control.NodeResult // nil: nothing was said of it
}

func atoi(text string) int {
	n, _ := strconv.Atoi(text) // what is no number is 0
	return n
}

func nodeLineID(at int) string { return "n-" + number(at) }

// matrixFilters are what a matrix can be narrowed to.
var matrixFilters = []struct {
	name, title string
	statuses    []work.NodeStatus
}{
	{"failed", "Failed", []work.NodeStatus{work.NodeFailed, work.NodeUnknown, work.NodeCanceled}},
	{"running", "Running", []work.NodeStatus{work.NodeRunning}},
	{"waiting", "Pending", []work.NodeStatus{control.NodePending}},
	{"not-run", "Not run", []work.NodeStatus{work.NodeNotRun}},
	{"done", "Completed", []work.NodeStatus{work.NodeSucceeded, work.NodeSkipped, work.NodeRecovered, work.NodeIgnored}},
}

// matrixOf makes the window that the address asks for. It reads how many Items are where of each Node, and of the Nodes of the window alone what became
// of each.
func (v *visit) matrixOf(r control.RunView) (*matrix, error) {
	m := &matrix{all: len(r.Plan.Nodes), counts: map[work.NodeStatus]int{}, search: v.query("find"), column: max(0, atoi(v.query("column")))}
	sums, err := v.Control.NodeSums(v.ctx, v.actor, r.Job.ID)
	if err != nil {
		return nil, err
	}
	m.addColumns(r.Plan)
	fit := m.choose(r, sums, v.query("show"))
	m.matched = len(fit)
	if m.from = min(max(0, atoi(v.query("from"))), max(0, len(fit)-1)); m.from+matrixRowsShown < len(fit) {
		m.next = m.from + matrixRowsShown
	}
	m.lines = first(fit[m.from:], matrixRowsShown)
	m.tabs = append(m.tabs, tab{title: "All", path: v.matrixPath("show", ""), count: m.all, on: v.query("show") == ""})
	for _, f := range matrixFilters {
		t := tab{title: f.title, path: v.matrixPath("show", f.name), on: v.query("show") == f.name}
		for _, s := range f.statuses {
			t.count += m.counts[s]
		}
		m.tabs = append(m.tabs, t)
	}
	return m, v.fillCells(m, r)
}

// matrixPath gives the page's own address with one value changed; another filter begins at its first page.
func (v *visit) matrixPath(name, value string) string {
	q := v.url.Query()
	if name != "from" {
		q.Del("from")
	}
	if q.Del(name); value != "" && value != "0" {
		q.Set(name, value)
	}
	u := url.URL{Path: v.url.Path, RawQuery: q.Encode()}
	return u.String()
}

// addColumns finds the Items that are about Nodes, and those of this page.
func (m *matrix) addColumns(p *runbook.Plan) {
	var about []int
	for i, item := range p.Items {
		if item.OnNodes() || item.Kind == runbook.AnsibleItem {
			about = append(about, i)
		}
	}
	m.items = len(about)
	m.column = min(m.column, max(0, len(about)-1))
	m.columns = first(about[m.column:], matrixColumnsShown)
}

// choose counts all Nodes and gives those that the filter lets through: those that failed first, the others in their order.
func (m *matrix) choose(r control.RunView, sums []control.NodeSum, show string) []nodeLine {
	parts := make([]int, len(r.Plan.Nodes))
	for i, p := range r.Plan.Parts {
		for _, n := range p.Nodes {
			parts[n] = i + 1
		}
	}
	var statuses []work.NodeStatus
	for _, f := range matrixFilters {
		if f.name == show {
			statuses = f.statuses
		}
	}
	var bad, others []nodeLine
	for n, node := range r.Plan.Nodes {
		line := nodeLine{at: n, name: node.Name, part: parts[n]}
		var counts map[work.NodeStatus]int
		if len(sums) > 0 && sums[0].Node == n {
			counts, sums = sums[0].Counts, sums[1:]
		}
		line.status = lineStatus(counts, itemsOf(r.Plan, n), r.Job.Status.Terminal())
		if isLeftOut(r.Plan, n) {
			line.status = work.NodeSkipped
		}
		m.counts[line.status]++
		switch {
		case statuses != nil && !slices.Contains(statuses, line.status), !strings.Contains(strings.ToLower(node.Name), strings.ToLower(m.search)):
		case line.status.Bad():
			bad = append(bad, line)
		default:
			others = append(others, line)
		}
	}
	return append(bad, others...)
}

// itemsOf returns how many items a node goes through.
func itemsOf(p *runbook.Plan, n int) (count int) {
	for _, item := range p.Items {
		if item.OnNodes() && p.IsAbout(item, n) {
			count++
		}
	}
	return count
}

// isLeftOut reports whether no item of a plan is about a node.
func isLeftOut(p *runbook.Plan, n int) bool {
	return len(p.NodeSets) > 0 && !slices.ContainsFunc(p.Items, func(i runbook.Item) bool { return p.IsAbout(i, n) })
}

// lineStatus says in one word how a Node is, of how its Items are.
func lineStatus(counts map[work.NodeStatus]int, wanted int, over bool) work.NodeStatus {
	for _, s := range []work.NodeStatus{work.NodeFailed, work.NodeUnknown, work.NodeCanceled, work.NodeRunning} {
		if counts[s] > 0 {
			return s
		}
	}
	done := 0
	for _, n := range counts {
		done += n
	}
	switch {
	case counts[work.NodeNotRun] > 0, done < wanted && over:
		return work.NodeNotRun
	case done < wanted && done > 0:
		return work.NodeRunning
	case done < wanted || done == 0:
		return control.NodePending
	case counts[work.NodeIgnored] > 0:
		return work.NodeIgnored
	case counts[work.NodeRecovered] > 0:
		return work.NodeRecovered
	case counts[work.NodeSucceeded] == 0:
		return work.NodeSkipped
	}
	return work.NodeSucceeded
}

// fillCells reads what became of the Items of the window.
func (v *visit) fillCells(m *matrix, r control.RunView) error {
	if len(m.lines) == 0 || len(m.columns) == 0 {
		return nil
	}
	nodes := make([]int, len(m.lines))
	at := map[int]int{}
	for i, l := range m.lines {
		nodes[i], at[l.at] = l.at, i
	}
	columns := map[int]int{}
	rest := control.NodePending
	if r.Job.Status.Terminal() {
		rest = work.NodeNotRun
	}
	for i, item := range m.columns {
		columns[item] = i
	}
	for i := range m.lines {
		m.lines[i].cells = make([]cell, len(m.columns))
		for c, item := range m.columns {
			m.lines[i].cells[c] = cell{item: item, status: rest}
		}
	}
	results, err := v.Control.NodeResults(v.ctx, v.actor, r.Job.ID, control.NodeResultFilter{Nodes: nodes, Items: m.columns, Limit: 10_000})
	for i := range results {
		o := &results[i]
		line, ok := at[o.Node]
		column, shown := columns[o.Item]
		if ok && shown {
			m.lines[line].cells[column].status, m.lines[line].cells[column].result = o.Status, o
		}
	}
	return err
}

// nodeLineBody is a Node in the matrix, or in the list of a command Job.
func (p jobView) nodeLineBody(l nodeLine) templ.Component {
	if p.job.Kind == work.CommandJob {
		return outputRow(p, l)
	}
	return matrixRow(p, l)
}

// cellPath gives the way to the log of an Item on a Node; what the matrix is narrowed to stays.
func (p jobView) cellPath(l nodeLine, item int) string {
	q := url.Values{"node": {l.name}}
	if item >= 0 {
		q.Set("step", number(item+1))
	}
	for _, name := range []string{"show", "find", "from", "column"} {
		if value := p.query(name); value != "" {
			q.Set(name, value)
		}
	}
	return "?" + q.Encode() + "#log"
}

// cellTitle says of a cell what its shape does not.
func (p jobView) cellTitle(l nodeLine, c cell) string {
	text := p.run.Plan.Items[c.item].Name + " on " + l.name + ": " + strings.ToLower(known(nodeMoods, c.status).word)
	if o := c.result; o != nil {
		if o.ExitCode != 0 {
			text += ", status " + number(o.ExitCode)
		}
		if o.Detail != "" {
			text += ", " + o.Detail
		}
	}
	return text
}

// tookOf says how long an Item took on a Node, "" when that is not known.
func tookOf(o *control.NodeResult) string {
	if o == nil || o.Started.IsZero() || o.Finished.IsZero() {
		return ""
	}
	return exactly(o.Finished.Sub(o.Started))
}

// nodeOutputs gives the first lines that Nodes printed in a command Job, in one pass over the log.
func (v *visit) nodeOutputs(j *work.Job, lines []nodeLine) (map[int][]string, error) {
	outputs, sizes := map[int][]string{}, map[int]int{}
	missing := map[int]bool{}
	for _, l := range lines {
		missing[l.at] = true
	}
	looked := 0
	err := v.Control.ScanLog(v.ctx, v.actor, j.ID, 0, func(l *control.LogLine) bool {
		looked++
		at := l.Node - 1
		if missing[at] && l.Stream != work.System {
			text := string(terminal.Plain(nil, l.Data[:min(len(l.Data), outputBytes)]))
			outputs[at] = append(outputs[at], strings.ToValidUTF8(text, "\ufffd"))
			if sizes[at] += len(text); len(outputs[at]) > outputLines || sizes[at] > outputBytes {
				delete(missing, at)
			}
		}
		return len(missing) > 0 && looked < outputScanned
	})
	return outputs, err
}

// itemEach says how often an Item is done.
func itemEach(i runbook.Item) string {
	switch {
	case i.Kind == runbook.ModuleItem, i.Kind == runbook.ApprovalItem:
		return ""
	case i.Kind == runbook.AnsibleItem, i.Step.Each == catalog.EachRunner:
		return "once per Runner"
	}
	return "on every Node"
}
