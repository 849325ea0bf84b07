package web

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

// runEvery is how often the page of a Runbook Job under way looks at its Nodes: they write no events, since they are many.
const runEvery = time.Second

// nodeMoods are the states of an Item on a Node.
var nodeMoods = map[work.NodeStatus]mood{
	control.NodePending: {"Pending", "dashed", "calm"},
	work.NodeRunning:    {"Running", "spin", "busy"},
	work.NodeSucceeded:  {"Succeeded", "check", "good"},
	work.NodeFailed:     {"Failed", "cross", "bad"},
	work.NodeRecovered:  {"Recovered", "again", "warn"},
	work.NodeIgnored:    {"Failed, ignored", "half", "warn"},
	work.NodeSkipped:    {"Skipped", "minus", "calm"},
	work.NodeNotRun:     {"Not run", "ring", "calm"},
	work.NodeCanceled:   {"Canceled", "slash", "calm"},
	work.NodeUnknown:    {"Unknown", "warn", "bad"},
}

// nodeStatuses are these states, what needs a person first.
var nodeStatuses = []work.NodeStatus{work.NodeFailed, work.NodeUnknown, work.NodeCanceled, work.NodeRunning, work.NodeIgnored, work.NodeRecovered, control.NodePending, work.NodeNotRun,
	work.NodeSkipped, work.NodeSucceeded}

// worse tells whether a state tells more of a Node than another.
func worse(a, b work.NodeStatus) bool {
	order := []work.NodeStatus{control.NodePending, work.NodeSkipped, work.NodeSucceeded, work.NodeNotRun, work.NodeRecovered, work.NodeIgnored, work.NodeRunning, work.NodeCanceled, work.NodeUnknown, work.NodeFailed}
	return slices.Index(order, a) > slices.Index(order, b)
}

// runDetails is what the page of a Runbook Job shows beside that of others.
type runDetails struct {
	control.RunView
	matrix  *matrix
	outputs map[int][]string // of a command Job: what Nodes printed first, by index
	chosen  logChoice
	cell    *control.NodeResult // of the Node and step whose log is open
}

// logChoice narrows the log of a Runbook Job.
type logChoice struct {
	control.LogFilter
	node string // its name
}

func (c logChoice) on() bool { return c.LogFilter != control.LogFilter{} }

// query gives what stands in an address for it.
func (c logChoice) query() url.Values {
	q := url.Values{}
	if c.node != "" {
		q.Set("node", c.node)
	}
	if c.Item > 0 {
		q.Set("step", number(c.Item))
	}
	if c.Part > 0 {
		q.Set("part", number(c.Part))
	}
	return q
}

// logChoice reads what the log of a Job is narrowed to.
func (v *visit) logChoice(j *work.Job) (c logChoice, err error) {
	if !j.IsRun() {
		return c, nil
	}
	c.Item, c.Part = max(0, atoi(v.query("step"))), max(0, atoi(v.query("part")))
	if c.node = v.query("node"); c.node == "" {
		return c, nil
	}
	names, err := v.namesOf(j)
	if err != nil {
		return c, err
	}
	at, ok := names[c.node]
	if !ok {
		return c, fault.New(fault.NotFound, "node_not_in_job", "job #%d has no node %q", j.Number, c.node).WithHint("its page lists its Nodes")
	}
	c.Node = at + 1
	return c, nil
}

// loadRun adds to the view of a Job what is known of its Nodes.
func (p *jobView) loadRun() (err error) {
	r := &runDetails{}
	if r.RunView, err = p.Control.RunView(p.ctx, p.actor, p.job.ID); err != nil {
		return err
	}
	p.job = r.Job
	if r.chosen, err = p.logChoice(p.job); err != nil {
		return err
	}
	if r.matrix, err = p.visit.matrixOf(r.RunView); err != nil {
		return err
	}
	if p.job.Kind == work.CommandJob {
		if r.outputs, err = p.visit.nodeOutputs(p.job, r.matrix.lines); err != nil {
			return err
		}
	}
	if r.chosen.Node > 0 && r.chosen.Item > 0 {
		found, err := p.Control.NodeResults(p.ctx, p.actor, p.job.ID, control.NodeResultFilter{Nodes: []int{r.chosen.Node - 1}, Items: []int{r.chosen.Item - 1}, WithValues: true})
		if err != nil {
			return err
		}
		if len(found) > 0 {
			r.cell = &found[0]
		}
	}
	p.run = r
	return nil
}

// runParts are the parts of the page of a Runbook Job.
func (p jobView) runParts() []part {
	rows := []part{}
	for _, l := range p.run.matrix.lines {
		rows = append(rows, part{id: nodeLineID(l.at), body: p.nodeLineBody(l)})
	}
	itemRows := []part{}
	for i := range p.run.Plan.Items {
		itemRows = append(itemRows, part{id: "item-" + number(i), body: itemRow(p, i)})
	}
	return []part{
		{id: "items", body: itemLines(p), rows: itemRows}, {id: "run-parts", body: runPartsPanel(p)}, {id: "matrix-filters", body: filterTabs("matrix-filters", "Nodes", p.run.matrix.tabs)},
		{id: "matrix-rows", body: matrixRows(p), rows: rows}, {id: "matrix-pager", body: matrixPager(p)}, {id: "run-cell", body: runCell(p)},
	}
}

// jobWord says what a Job does, in a word.
func jobWord(j *work.Job) string {
	switch {
	case j.Action != "":
		return string(j.Action)
	case j.Kind == work.SecretsJob:
		return "secret paths"
	}
	return string(j.Kind)
}

// jobNodePath gives the way to what a Job did on a Node.
func jobNodePath(j *work.Job, node, step string) string {
	q := url.Values{"node": {node}}
	if step != "" {
		q.Set("step", step)
	}
	return "/jobs/" + number(j.Number) + "?" + q.Encode() + "#log"
}

// subjectPath gives the way to what a Job is a run of, "" when there is none.
func (v *visit) subjectPath(j *work.Job) string {
	switch {
	case j.Kind == work.RunbookJob && j.Runbook != "":
		return "/runbooks/" + j.Runbook
	case j.Kind == work.DiscoveryJob && j.Runbook != "":
		return "/node-sources/" + j.Runbook
	case j.Kind == work.RunnerJob && j.Runbook != "":
		return runnerPath(catalog.Runner{RunnerSpec: catalog.RunnerSpec{Name: j.Runbook}})
	case j.Module != "" && v.link("/modules/{path...}") != "":
		return "/modules/" + j.Module
	}
	return ""
}

// subjectText names what a Job is a run of.
func subjectText(j *work.Job) string { return orWord(j.Module, j.Runbook) }

// partPlace names the runner of a part and the instance that it is bound to.
func (r *runDetails) partPlace(part int) string {
	place := r.partRunner(part)
	if part < 1 || part > len(r.Parts) || r.Parts[part-1].Binding == nil {
		return place
	}
	return place + " @" + r.Parts[part-1].Binding.Instance
}

// partRunner names the Runner of a Part.
func (r *runDetails) partRunner(part int) string {
	if part < 1 || part > len(r.Plan.Parts) {
		return ""
	}
	if part <= len(r.Parts) && r.Parts[part-1].Binding != nil {
		return r.Parts[part-1].Binding.Runner
	}
	return orWord(r.Plan.Parts[part-1].Runner, "any with "+labelsText(r.Plan.Parts[part-1].Labels))
}

// itemCounts lists how many Nodes are where in an Item, what needs a person first.
func (r *runDetails) itemCounts(i int) (counts []statusCount) {
	for _, s := range nodeStatuses {
		if n := r.Counts[i][s]; n > 0 {
			counts = append(counts, statusCount{s, n})
		}
	}
	return counts
}

type statusCount struct {
	status work.NodeStatus
	n      int
}

func (c statusCount) text() string {
	return number(c.n) + " " + strings.ToLower(known(nodeMoods, c.status).word)
}

// bars gives where the bar of each count begins and how wide it is, of 100.
func bars(counts []statusCount) (at, width []float64) {
	all, from := 0, 0.0
	for _, c := range counts {
		all += c.n
	}
	for _, c := range counts {
		w := 100 * float64(c.n) / float64(max(all, 1))
		at, width = append(at, from), append(width, w)
		from += w
	}
	return at, width
}

// sumText counts the Nodes of a run by how they are: "3 failed, 7 succeeded".
func (m *matrix) sumText() string {
	var texts []string
	for _, s := range nodeStatuses {
		if n := m.counts[s]; n > 0 {
			texts = append(texts, statusCount{s, n}.text())
		}
	}
	return strings.Join(texts, ", ")
}

// askedApproval gives the step that a Runbook Job waits for approval at, nil when it is at none.
func (r *runDetails) askedApproval() *runbook.Item {
	if r.Job.Status != work.AwaitingApproval {
		return nil
	}
	if i := r.Job.Current(); i < len(r.Plan.Items) && r.Plan.Items[i].Step.Approval != nil {
		return &r.Plan.Items[i]
	}
	return nil
}

// itemKind names what an Item does, with its sign.
func itemKind(i runbook.Item) (word, sign string) { return stepKind(i.Step) }

// itemText gives the first line of what an Item runs, as it was declared; empty for what is no command.
func itemText(i runbook.Item) string {
	text := i.Step.Command
	if s := i.Step.Script; s != nil {
		if text = s.File; text == "" {
			text = s.Run
		}
	}
	line, more, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if strings.TrimSpace(more) != "" {
		line += " …"
	}
	return line
}

// hasFailed tells whether there are Nodes to run it again on.
func (p jobView) hasFailed() bool {
	if p.run == nil || !p.job.Status.Terminal() {
		return false
	}
	for _, s := range []work.NodeStatus{work.NodeFailed, work.NodeUnknown, work.NodeCanceled, work.NodeNotRun} {
		if p.run.matrix.counts[s] > 0 {
			return true
		}
	}
	return false
}

// retryFailedSheet runs a Runbook Job again on the Nodes that did not come through.
func retryFailedSheet() sheet {
	load := func(v *visit) (jobView, error) {
		j, err := v.Control.Job(v.ctx, v.actor, v.request.PathValue("job"))
		p := jobView{visit: v, job: j}
		if err == nil {
			err = p.loadRun()
		}
		return p, err
	}
	return sheet{path: "/jobs/{job}/retry-failed", nav: "/jobs", need: operate,
		show: func(v *visit, f form) (sheetContent, error) {
			p, err := load(v)
			if err != nil {
				return sheetContent{}, err
			}
			return sheetContent{"Run " + p.title() + " again on the Nodes that failed?", retryFailedForm(p, f)}, nil
		},
		act: func(v *visit, f form) (outcome, error) {
			p, err := load(v)
			if err != nil {
				return outcome{}, err
			}
			given := map[string]any{}
			for _, name := range p.run.Asked.Secrets {
				if value := f.values.Get(optionPrefix + name); value != "" {
					given[name] = value
				}
			}
			j, err := v.Control.SubmitRun(v.ctx, v.actor, control.RunRequest{RetryOf: p.job.ID, Options: given})
			return followed(j, err, "A new Job is queued for the Nodes that failed.")
		},
	}
}

// stackOf gives the name of the Stack of a Runbook Job.
func stackOf(j *work.Job) string {
	stack, _, _ := strings.Cut(j.Runbook, "/")
	return stack
}

// runText says in a sentence how a Runbook Job is.
func (p jobView) runText() string {
	switch p.job.Status {
	case work.Queued:
		return "It has not begun yet."
	case work.AwaitingApproval:
		return "It goes on when a person approves."
	case work.Declined:
		return "It was declined: nothing further was done."
	case work.Expired:
		return "Nobody approved in time: nothing further was done."
	case work.Running:
		if i := p.job.Current(); i < len(p.job.Steps) {
			return "Running step " + p.job.Steps[i].Name + " on " + counted(len(p.run.Plan.Parts), "runner") + "."
		}
	}
	return stateText(p.job)
}

// waysText says in a line how Nodes are gone through.
func (r *runDetails) waysText() string {
	text := counted(len(r.Plan.Nodes), "Node")
	if len(r.Plan.Items) > 1 && len(r.Plan.Nodes) > 0 {
		text += ", " + strategyText(r.Plan.Strategy)
	}
	return text
}

// itemStatus tells how an Item went: once it is over, as its Nodes say. What a Job says of several Items that Nodes go through together
// is how they went together.
func (r *runDetails) itemStatus(i int) work.StepStatus {
	s := r.Job.Steps[i]
	counts := r.Counts[i]
	if !s.Status.Done() || len(counts) == 0 || s.Failure != nil {
		return s.Status
	}
	switch {
	case counts[work.NodeFailed]+counts[work.NodeUnknown] > 0:
		return work.StepFailed
	case counts[work.NodeCanceled] > 0:
		return work.StepCanceled
	case counts[work.NodeSucceeded]+counts[work.NodeRecovered]+counts[work.NodeIgnored] > 0:
		return work.StepSucceeded
	}
	return work.StepSkipped
}

// itemMood is how an Item is shown.
func (r *runDetails) itemMood(i int) mood {
	if asked := r.askedApproval(); asked == &r.Plan.Items[i] {
		return jobMoods[work.AwaitingApproval]
	}
	status, counts := r.itemStatus(i), r.Counts[i]
	if status == work.StepSucceeded && counts[work.NodeIgnored] > 0 && counts[work.NodeSucceeded]+counts[work.NodeRecovered] == 0 {
		return nodeMoods[work.NodeIgnored]
	}
	return known(stepMoods, status)
}

// declaredTime says a length of time as people declare it: "5m", "1m 30s".
func declaredTime(d catalog.Duration) string {
	if time.Duration(d)%time.Minute == 0 {
		return span(time.Duration(d))
	}
	return exactly(time.Duration(d))
}
