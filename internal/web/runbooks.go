package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/work"
)

const runbooksShown = 50 // of one page

func runbooksPage() page {
	return page{path: "/runbooks", nav: "/runbooks", kinds: []string{"runbook.", "job.", "stack."}, every: 30 * time.Second, load: loadRunbooks}
}

// runbooksView is the page of Runbooks.
type runbooksView struct {
	*visit
	search string
	sorted sorting
	lines  []runbookLine // of this page
	total  int           // that fit the search
	next   int           // that come before the next page, 0 at the end
}

// compareDue compares when runbooks are run next by a schedule; one without a schedule comes last.
func compareDue(a, b catalog.Runbook, now time.Time) int {
	first, _ := nextDue(a.RunbookSpec, now)
	second, _ := nextDue(b.RunbookSpec, now)
	if first.IsZero() != second.IsZero() {
		return cmp.Compare(second.Unix(), first.Unix())
	}
	return first.Compare(second)
}

// runbookLine is a Runbook with its last Job and when it is run next by itself.
type runbookLine struct {
	catalog.Runbook
	last *work.Job // nil: none yet
	due  time.Time // zero: never
	zone string
	// heading is the group of this runbook and those below it, where another one begins.
	heading string
}

func loadRunbooks(v *visit) (content, error) {
	all, err := v.Control.Runbooks(v.ctx, v.actor, "")
	if err != nil {
		return content{}, err
	}
	p := runbooksView{visit: v, search: v.query("q")}
	var fit []catalog.Runbook
	for _, b := range all {
		if strings.Contains(strings.ToLower(b.Path()+" "+b.Group+" "+b.Description), strings.ToLower(p.search)) {
			fit = append(fit, b)
		}
	}
	grouped := v.query("sort") == "" // another order has no headings
	if grouped {
		slices.SortStableFunc(fit, func(a, b catalog.Runbook) int { return cmp.Compare(a.Group, b.Group) })
	}
	p.sorted = sortList(v, fit,
		column[catalog.Runbook]{"path", byText(func(b catalog.Runbook) string { return b.Path() })},
		column[catalog.Runbook]{"steps", func(a, b catalog.Runbook) int { return cmp.Compare(len(a.Steps), len(b.Steps)) }},
		column[catalog.Runbook]{"next", func(a, b catalog.Runbook) int { return compareDue(a, b, v.now) }},
	)
	from, _ := strconv.Atoi(v.query("after")) // what is no number is the first page
	from = min(max(from, 0), len(fit))
	if p.total = len(fit); from+runbooksShown < p.total {
		p.next = from + runbooksShown
	}
	rows := []part{}
	group := ""
	for _, b := range first(fit[from:], runbooksShown) {
		line := runbookLine{Runbook: b}
		if grouped && b.Group != group {
			group, line.heading = b.Group, b.Group
		}
		if line.last, err = v.lastRun(b.ID); err != nil {
			return content{}, err
		}
		line.due, line.zone = nextDue(b.RunbookSpec, v.now)
		p.lines = append(p.lines, line)
		rows = append(rows, part{id: "runbook-" + b.ID, body: runbookRow(p, line)})
	}
	return content{title: "Runbooks", body: runbooksBody(p), parts: []part{{id: "runbooks", body: runbookRows(p), rows: rows}}}, nil
}

// lastRun gives the newest Job of a Runbook, nil for none.
func (v *visit) lastRun(id string) (*work.Job, error) {
	jobs, err := v.Control.Jobs(v.ctx, v.actor, control.JobFilter{RunbookID: id, Limit: 1})
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	return jobs[0], nil
}

// nextDue gives when the first of the Schedules runs a Runbook next, and in which time zone.
func nextDue(spec catalog.RunbookSpec, now time.Time) (due time.Time, zone string) {
	for _, s := range spec.Schedules {
		if s.Disabled || !spec.IsEnabled() {
			continue
		}
		if next, err := catalog.NextRun(s, now); err == nil && (due.IsZero() || next.Before(due)) {
			due, zone = next, s.TimeZone
		}
	}
	return due, zone
}

// isTemplate reports whether values of options decide what a node filter matches.
func isTemplate(filter string) bool { return strings.Contains(filter, "${option.") }

// inZone writes a moment as the clock in a time zone shows it: "Sun 22 Nov 2026, 02:30 CET".
func inZone(t time.Time, zone string) string {
	if at, err := time.LoadLocation(zone); err == nil { // the empty one is UTC
		t = t.In(at)
	}
	return t.Format("Mon 2 Jan 2006, 15:04 MST")
}

// maxRelative is the longest time that is shown relative to now. A time.Duration cannot hold more than 292 years.
const maxRelative = 100 * 365 * 24 * time.Hour

// until returns how long it is until a moment, or the date of a moment that is far away.
func until(t, now time.Time) string {
	if t.Sub(now) > maxRelative {
		return "on " + t.UTC().Format("2 January 2006")
	}
	return "in " + span(t.Sub(now))
}

func runbookPath(b catalog.RunbookSpec, rest string) string {
	path := "/runbooks/" + url.PathEscape(b.Stack) + "/" + url.PathEscape(b.Name)
	if rest != "" {
		path += "/" + rest
	}
	return path
}

// page gives the address of the list from a Runbook on.
func (p runbooksView) page(from int) string {
	q := p.url.Query()
	q.Set("after", number(from))
	u := url.URL{Path: p.url.Path, RawQuery: q.Encode()}
	return u.String()
}

func runbookPage() page {
	return page{path: "/runbooks/{stack}/{runbook}", nav: "/runbooks", kinds: append([]string{"runbook.", "job."}, nodeKinds...), every: 30 * time.Second, load: loadRunbook}
}

// runbookView is the page of a Runbook.
type runbookView struct {
	*visit
	control.RunbookView
	nodes    control.NodeList // that its filter matches now
	wrong    *filterProblem   // when the filter is wrong
	jobs     []*work.Job
	schedule []scheduleLine
}

// scheduleLine is a Schedule with when it comes next, and what came of the last time.
type scheduleLine struct {
	spec catalog.Schedule
	runs control.ScheduleView
}

const runsOfRunbook = 15 // that its page shows

func (v *visit) runbook() (control.RunbookView, error) {
	return v.Control.Runbook(v.ctx, v.actor, catalog.NodePath(v.request.PathValue("stack"), v.request.PathValue("runbook")))
}

func loadRunbook(v *visit) (content, error) {
	b, err := v.runbook()
	if err != nil {
		return content{}, err
	}
	p := runbookView{visit: v, RunbookView: b}
	if b.Nodes != "" {
		if p.nodes, err = v.Control.PreviewNodes(v.ctx, v.actor, b.Stack, b.Nodes); err != nil {
			if p.wrong = filterProblemOf(err); p.wrong == nil {
				return content{}, err
			}
		}
	}
	if p.jobs, err = v.Control.Jobs(v.ctx, v.actor, control.JobFilter{RunbookID: b.ID, Limit: runsOfRunbook}); err != nil {
		return content{}, err
	}
	for i, s := range b.Schedules {
		if i < len(b.Runs) {
			p.schedule = append(p.schedule, scheduleLine{s, b.Runs[i]})
		}
	}
	return content{title: b.Name, crumbs: []crumb{{"Runbooks", "/runbooks"}}, body: runbookBody(p), parts: []part{
		{id: "runbook-nodes", body: runbookNodes(p)}, {id: "runbook-schedules", body: runbookSchedules(p)}, p.history().part(), {id: "runbook-steps", body: runbookSteps(p)},
		{id: "runbook-options", body: runbookOptions(p)}, {id: "runbook-facts", body: runbookFacts(p)},
	}}, nil
}

func (p runbookView) history() jobList {
	return jobList{visit: p.visit, id: "runbook-jobs", label: "Jobs of the Runbook", jobs: p.jobs, without: []string{"module", "runner"}, none: smallEmpty("Not run yet")}
}

// stepKind names what a step does, with its sign.
func stepKind(s catalog.RunbookStep) (word, sign string) {
	switch {
	case s.Script != nil:
		return "script", "script"
	case s.Ansible != nil:
		return "playbook", "runbook"
	case s.Module != nil:
		return "module", "module"
	case s.Runbook != nil:
		return "runbook", "runbook"
	case s.Approval != nil:
		return "approval", "pause"
	case s.Wait != nil:
		return "wait", "clock"
	case s.Copy != nil:
		return "copy", "copy"
	case s.Fetch != nil:
		return "fetch", "down"
	}
	return "command", "command"
}

// stepName gives the name of a step, as it is known in Jobs.
func stepName(s catalog.RunbookStep, i int) string { return orWord(s.Name, "step"+number(i+1)) }

// stepEach says how often a step is done, "" for what is done once in all.
func stepEach(s catalog.RunbookStep) string {
	switch {
	case s.Module != nil, s.Approval != nil, s.Runbook != nil:
		return ""
	case s.Ansible != nil:
		return "once per Runner, over its Nodes"
	case s.Each == catalog.EachRunner:
		return "once per Runner"
	}
	return "on every Node"
}

// stepText says what a step does, in a line or some.
func stepText(s catalog.RunbookStep) string {
	switch {
	case s.Script != nil:
		return orWord(s.Script.Run, s.Script.File)
	case s.Ansible != nil:
		return s.Ansible.Playbook
	case s.Module != nil:
		return s.Module.Action + " " + s.Module.Module
	case s.Runbook != nil:
		return s.Runbook.Name
	case s.Approval != nil:
		return orWord(s.Approval.Message, "Waiting for approval")
	case s.Wait != nil:
		return waitText(*s.Wait)
	case s.Copy != nil:
		return copyText(*s.Copy)
	case s.Fetch != nil:
		return s.Fetch.Src + " of each node"
	}
	return s.Command
}

func waitText(w catalog.WaitStep) string {
	switch {
	case w.Port > 0:
		return "until port " + number(w.Port) + " answers"
	case w.URL != "":
		return "until " + w.URL + " answers"
	}
	return "until " + w.Command
}

func copyText(c catalog.CopyStep) string {
	from := c.Src
	if from == "" {
		from = "a text"
	}
	return from + " to " + c.Dest
}

// copyNotes lists the settings of a copy.
func copyNotes(c catalog.CopyStep) (notes []string) {
	if c.Mode != "" {
		notes = append(notes, "mode "+c.Mode)
	}
	if c.Owner != "" {
		notes = append(notes, "owner "+c.Owner)
	}
	if c.Group != "" {
		notes = append(notes, "group "+c.Group)
	}
	if c.Template {
		notes = append(notes, "templates filled in")
	}
	if c.Check {
		notes = append(notes, "check only")
	}
	return notes
}

// stepNotes are what else is said of a step.
func stepNotes(s catalog.RunbookStep) (notes []string) {
	if s.Copy != nil {
		notes = copyNotes(*s.Copy)
	}
	if s.Timeout > 0 {
		notes = append(notes, "at most "+declaredTime(s.Timeout))
	}
	if s.Retries > 0 {
		text := counted(s.Retries, "further try")
		if s.Retries > 1 {
			text = number(s.Retries) + " further tries"
		}
		if s.RetryDelay > 0 {
			text += " after " + declaredTime(s.RetryDelay)
		}
		notes = append(notes, text)
	}
	if s.OnError != nil {
		text := "an error handler"
		if s.OnError.Recover {
			text += " that may recover"
		}
		notes = append(notes, text)
	}
	if s.IgnoreErrors {
		notes = append(notes, "errors are ignored")
	}
	if s.Repeatable {
		notes = append(notes, "may be repeated")
	}
	if s.Sudo != nil && *s.Sudo {
		notes = append(notes, "with sudo")
	}
	return notes
}

var strategyTexts = map[catalog.Strategy]string{
	catalog.NodeFirst: "node by node", catalog.StepFirst: "step by step",
	catalog.Parallel: "all at once",
}

func strategyText(s catalog.Strategy) string {
	return orWord(strategyTexts[s], strategyTexts[catalog.NodeFirst])
}

func dispatchText(d catalog.Dispatch) string {
	switch {
	case d.Mode == catalog.LocalDispatch:
		return "the Server's own Runner"
	case d.Mode == catalog.ManualDispatch && d.Runner != "":
		return "the Runner " + d.Runner + " for all Nodes"
	case d.Mode == catalog.ManualDispatch:
		return "a Runner with " + labelsText(d.Labels)
	}
	return "each Node by the Runner that covers it"
}

var policyTexts = map[catalog.ConcurrencyPolicy]string{
	catalog.AllowConcurrent: "several may run at once", catalog.QueueConcurrent: "one after the other", catalog.ReplaceConcurrent: "a new one cancels the older",
	catalog.RefuseConcurrent: "a new one is refused while one is under way",
}

func policyText(p catalog.ConcurrencyPolicy) string {
	return orWord(policyTexts[p], policyTexts[catalog.AllowConcurrent])
}

// failureText says what failures do.
func failureText(spec catalog.RunbookSpec) string {
	allowed := orWord(spec.MaxFailures, "0")
	text := "more than " + allowed + " failed nodes of a batch stop the job"
	if allowed == "0" {
		text = "the first failed node stops the job"
	}
	if spec.OnFailure == catalog.ContinueOnFailure {
		text = "failed nodes are left out, the others go on"
	}
	return text
}

// optionDefault writes the default of an Option.
func optionDefault(o catalog.Option) string {
	switch value := o.Default.(type) {
	case nil:
		if o.Secret != "" {
			return "the Secret " + o.Secret
		}
		return ""
	case []any:
		var texts []string
		for _, v := range value {
			texts = append(texts, fmt.Sprint(v))
		}
		return strings.Join(texts, ", ")
	case []string:
		return strings.Join(value, ", ")
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	default:
		return fmt.Sprint(value)
	}
}

func optionType(o catalog.Option) string { return orWord(string(o.Type), string(catalog.StringOption)) }

// optionTakes says which values an Option takes.
func optionTakes(o catalog.Option) string {
	var says []string
	if len(o.Values) > 0 {
		text := strings.Join(first(o.Values, 6), ", ")
		if len(o.Values) > 6 {
			text += " and " + number(len(o.Values)-6) + " more"
		}
		says = append(says, text)
	}
	if len(o.Suggestions) > 0 {
		says = append(says, "for example "+strings.Join(first(o.Suggestions, 6), ", "))
	}
	if o.ValuesFrom != nil {
		says = append(says, "values from a URL")
	}
	if o.Pattern != "" {
		says = append(says, "matches "+o.Pattern)
	}
	if o.Min != nil {
		says = append(says, "from "+strconv.FormatFloat(*o.Min, 'f', -1, 64))
	}
	if o.Max != nil {
		says = append(says, "up to "+strconv.FormatFloat(*o.Max, 'f', -1, 64))
	}
	return strings.Join(says, "; ")
}
