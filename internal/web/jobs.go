package web

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/work"
)

func jobsPage() page {
	return page{path: "/jobs", nav: "/jobs", kinds: []string{"job."}, every: 30 * time.Second, load: loadJobs}
}

// jobsView is the page of Jobs: a filter that is an address, and what it lets through.
type jobsView struct {
	*visit
	list   jobList
	sorted sorting
	tabs   []tab
	next   int64
	search string
	wrong  map[string]string // what is wrong with a filter, by its name
}

const jobsShown = 50

// jobStates are the filters of states: one word for those that a person looks for together.
var jobStates = []struct {
	name, title string
	statuses    []work.Status
}{
	{"waiting", "Queued", []work.Status{work.Queued}},
	{"running", "Running", running},
	{"approval", "Needs approval", []work.Status{work.AwaitingApproval}},
	{"succeeded", "Succeeded", []work.Status{work.Succeeded}},
	{"failed", "Failed", []work.Status{work.Failed}},
	{"ended", "Canceled", []work.Status{work.Canceled, work.Superseded, work.Declined, work.Expired}},
}

// jobTimes are the filters of time: how long ago a Job was created at most.
var jobTimes = []option{{value: "1h", title: "The last hour"}, {value: "24h", title: "The last day"}, {value: "168h", title: "The last week"}, {value: "720h", title: "The last 30 days"}}

// The first theActions are actions, the others kinds of Jobs.
var jobActions = []option{{value: "plan", title: "plan"}, {value: "apply", title: "apply"}, {value: "destroy", title: "destroy"}, {value: "run", title: "run"},
	{value: string(work.Deploy), title: "deploy"}, {value: string(work.Update), title: "update"}, {value: string(work.Remove), title: "remove"},
	{value: string(work.Launch), title: "launch"}, {value: string(work.Tidy), title: "cleanup"},
	{value: string(work.RunnerJob), title: "runner jobs"}, {value: string(work.RunbookJob), title: "runbook"}, {value: string(work.CommandJob), title: "command"}, {value: string(work.DiscoveryJob), title: "discovery"}, {value: string(work.SecretsJob), title: "secret discovery"}}

const theActions = 9

func loadJobs(v *visit) (content, error) {
	p := jobsView{visit: v, search: v.query("q"), sorted: sortPages(v, "created"), wrong: map[string]string{}}
	f, err := p.filter()
	if err != nil {
		return content{}, err
	}
	counts, err := v.Control.AliveJobs(v.ctx, v.actor)
	if err != nil {
		return content{}, err
	}
	var found control.JobPage
	if len(p.wrong) == 0 {
		if found, err = v.Control.JobPage(v.ctx, v.actor, f); err != nil {
			return content{}, err
		}
	}
	p.next = found.Next
	p.list = jobList{visit: v, id: "jobs", label: "Jobs", jobs: found.Jobs, sorted: &p.sorted, none: noJobs(p)}
	p.fillTabs(counts)
	parts := []part{{id: "job-filters", body: filterTabs("job-filters", "State", p.tabs)}, p.list.part(), {id: "pager", body: jobsPager(p)}}
	return content{title: "Jobs", body: jobsBody(p), parts: parts}, nil
}

// filter reads the address. What is wrong in it is noted, and nothing is listed.
func (p *jobsView) filter() (control.JobFilter, error) {
	f := control.JobFilter{Search: p.search, Limit: jobsShown, Action: work.Action(p.query("action"))}
	after, _ := strconv.ParseInt(p.query("after"), 10, 64) // an invalid number is the first page
	if f.OldestFirst = !p.sorted.descending; f.OldestFirst {
		f.AfterNumber = max(after, 0)
	} else {
		f.BeforeNumber = max(after, 0)
	}
	if f.Action != "" && !slices.ContainsFunc(jobActions, func(o option) bool { return o.value == string(f.Action) }) {
		p.wrong["action"] = "there is no such action"
	}
	if i := slices.IndexFunc(jobActions, func(o option) bool { return o.value == string(f.Action) }); i >= theActions {
		f.Kind, f.Action = work.Kind(f.Action), ""
	}
	_, noNumber := strconv.ParseInt(strings.TrimPrefix(f.Search, "#"), 10, 64)
	f.WithoutChores = f.Kind == "" && f.Action != work.Launch && f.Action != work.Tidy && noNumber != nil
	f.Statuses = statusesOf(p.query("state"))
	if p.query("state") != "" && len(f.Statuses) == 0 {
		p.wrong["state"] = "there is no such state"
	}
	p.times(&f)
	if err := p.named(&f); err != nil {
		return f, err
	}
	return f, nil
}

// statusesOf gives the states of a filter: of its word here, or of a state's own name.
func statusesOf(name string) []work.Status {
	for _, s := range jobStates {
		if s.name == name {
			return s.statuses
		}
	}
	if slices.Contains(work.Statuses, work.Status(name)) {
		return []work.Status{work.Status(name)}
	}
	return nil
}

func (p *jobsView) times(f *control.JobFilter) {
	for name, at := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		text := p.query(name)
		if text == "" {
			continue
		}
		if ago, err := time.ParseDuration(text); err == nil {
			*at = p.now.Add(-ago)
		} else if *at, err = time.Parse(time.RFC3339, text); err != nil {
			p.wrong[name] = "write 24h, or a time such as 2026-11-20T08:00:00Z"
		}
	}
}

// named finds the Module and the Runner that are named.
func (p *jobsView) named(f *control.JobFilter) error {
	note := func(field string, err error) error {
		if fault.Is(err, fault.NotFound) {
			p.wrong[field], err = fault.Of(err).Message, nil
		}
		return err
	}
	if name := p.query("module"); name != "" {
		m, err := p.Control.Module(p.ctx, p.actor, name)
		if err := note("module", err); err != nil {
			return err
		}
		f.ModuleID = m.ID
	}
	if name := p.query("runbook"); name != "" {
		b, err := p.Control.Runbook(p.ctx, p.actor, name)
		if err := note("runbook", err); err != nil {
			return err
		}
		f.RunbookID = b.ID
	}
	if name := p.query("runner"); name != "" {
		r, err := p.Control.Runner(p.ctx, p.actor, name)
		if err := note("runner", err); err != nil {
			return err
		}
		f.RunnerID = r.ID
	}
	return nil
}

// fillTabs counts those alone that are not over: the others are many, and nobody waits for them.
func (p *jobsView) fillTabs(alive map[work.Status]int) {
	state := p.query("state")
	p.tabs = []tab{{title: "All", path: p.with("state", ""), count: -1, on: state == ""}}
	for _, s := range jobStates {
		t := tab{title: s.title, path: p.with("state", s.name), count: -1, on: s.name == state}
		if !s.statuses[0].Terminal() {
			t.count = 0
			for _, status := range s.statuses {
				t.count += alive[status]
			}
		}
		p.tabs = append(p.tabs, t)
	}
}

// narrowed tells whether a filter is on.
func (p jobsView) narrowed() bool {
	return slices.ContainsFunc([]string{"q", "state", "module", "runbook", "runner", "action", "since", "until"}, func(name string) bool { return p.query(name) != "" })
}

// page returns the address of the list that continues after the job with a number, or of its first page for 0.
func (p jobsView) page(after int64) string {
	q := p.url.Query()
	q.Del("after")
	if after > 0 {
		q.Set("after", number(after))
	}
	u := url.URL{Path: p.url.Path, RawQuery: q.Encode()}
	return u.String()
}

// runners gives the Runners to choose from, by name; they are asked for when the page is shown, not for each change in it.
func (p jobsView) runners() []option {
	runners, err := p.Control.Runners(p.ctx, p.actor)
	if err != nil {
		return nil // the list itself tells of it
	}
	options := make([]option, len(runners))
	for i, r := range runners {
		options[i] = option{value: r.Name, title: r.Name}
	}
	slices.SortFunc(options, func(a, b option) int { return strings.Compare(a.title, b.title) })
	return options
}

// narrowing has a field narrow the list as it is changed; without scripts the button does.
func narrowing() templ.Attributes {
	return templ.Attributes{"form": "search", "hx-get": "/jobs", "hx-include": "#search", "hx-trigger": "change", "hx-target": "#list", "hx-select": "#list", "hx-swap": "outerHTML", "hx-push-url": "true"}
}

// marks ties what is wrong with a filter to its field.
func (p jobsView) marks(name string) templ.Attributes {
	if p.wrong[name] == "" {
		return templ.Attributes{}
	}
	return templ.Attributes{"aria-invalid": "true", "aria-describedby": "wrong-" + name}
}

func offered(options []option, value string) bool {
	return slices.ContainsFunc(options, func(o option) bool { return o.value == value })
}
