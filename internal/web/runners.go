package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"legwork/internal/control"
	"legwork/internal/work"
)

// allRunnerPages lists the pages about Runners, and allRunnerSheets their forms.
func allRunnerPages() []page {
	return []page{runnersPage(), runnerPage(), arrivalPage(), deploymentPage(), runnerTokensPage()}
}

func allRunnerSheets() []sheet {
	return []sheet{addRunnerSheet(), addHostedSheet(), editHostingSheet(), deployRunnerSheet(), updateRunnerSheet(), updateAllSheet(), editRunnerSheet(), assignSheet(), unassignSheet(), drainRunnerSheet(), resumeRunnerSheet(), disableRunnerSheet(),
		enableRunnerSheet(), removeRunnerSheet(), rotateCredentialSheet(), drainInstanceSheet(), resumeInstanceSheet(), removeInstanceSheet(),
		newCredentialSheet(), deleteCredentialSheet(), testWebhookSheet(), rotateWebhookSheet(), webhookSecretSheet(), newTokenSheet(), revokeTokenSheet()}
}

func runnersPage() page {
	return page{path: "/runners", nav: "/runners", kinds: []string{"runner.", "job.", "release."}, every: 10 * time.Second, load: loadRunners}
}

// runnersView is the page of Runners.
type runnersView struct {
	*visit
	all    int // before the search and the filter
	found  int // after them, on all sheets of the list
	shown  []runnerView
	before string // address of the sheet of the list before this one, "" for none
	next   string
	first  int // number of the first that is shown, from 1
	tabs   []tab
	open   []string // names of the Runners whose Instances are shown
	search string
	sorted sorting
	active []*work.Job
	others []runnerView // those of another version than this Server, while no release is published

	outdated outdatedRunners
}

var runnerTabs = []work.RunnerStatus{work.StatusOnline, work.StatusOffline, work.StatusDraining, work.StatusScaledToZero}

const (
	mostActive   = 50
	mostRunners  = 50 // at once in the list
	mostUnfolded = 50 // Instances of one Runner in the list; its own page has more
	mostVersions = 5  // Runners of another version that are named
)

func loadRunners(v *visit) (content, error) {
	fleet, err := v.fleet()
	if err != nil {
		return content{}, err
	}
	page := runnersView{visit: v, all: len(fleet), search: v.query("q"), open: v.url.Query()["open"]}
	if page.active, err = v.activeJobs(); err != nil {
		return content{}, err
	}
	page.narrow(fleet)
	if err := v.fillDemand(page.shown); err != nil {
		return content{}, err
	}
	page.outdated = outdated(fleet)
	for _, r := range fleet {
		if page.outdated.newest == "" && r.otherVersion(v.Version) {
			page.others = append(page.others, r)
		}
	}
	c := content{title: "Runners", body: runnersBody(page)}
	rows := []part{}
	for _, r := range page.shown {
		rows = append(rows, part{id: "runner-" + r.ID, body: runnerRow(page, r)})
		for _, i := range page.opened(r) {
			rows = append(rows, part{id: "instance-" + i.ID, body: instanceRow(v, r, i)})
		}
	}
	jobs := []part{}
	for _, j := range page.firstActive() {
		jobs = append(jobs, part{id: "active-" + j.ID, body: activeRow(page, j)})
	}
	c.parts = []part{
		{id: "runner-filters", body: filterTabs("runner-filters", "Status", page.tabs)},
		{id: "runner-versions", body: versionsNote(page)},
		{id: "runner-updates", body: updateAlert(page)},
		{id: "runners", body: runnerRows(page), rows: rows},
		{id: "runner-pages", body: runnerPages(page)},
		{id: "active-count", body: activeCount(page)},
		{id: "active", body: activeRows(page), rows: jobs},
	}
	return c, nil
}

// activeJobs gives the Jobs that are not over, first those under way, each the newest first; one more than are shown.
func (v *visit) activeJobs() ([]*work.Job, error) {
	under, err := v.Control.Jobs(v.ctx, v.actor, control.JobFilter{Statuses: underWay, Limit: mostActive + 1})
	if err != nil || len(under) > mostActive {
		return under, err
	}
	queued, err := v.Control.Jobs(v.ctx, v.actor, control.JobFilter{Statuses: []work.Status{work.Queued}, Limit: mostActive + 1 - len(under)})
	return append(under, queued...), err
}

// running are the states of jobs that an instance executes.
var running = []work.Status{work.Claimed, work.Running, work.Canceling, work.Interrupted}

// underWay are the states of Jobs that are bound to an Instance.
var underWay = []work.Status{work.Claimed, work.Running, work.AwaitingApproval, work.Canceling, work.Interrupted}

// narrow keeps what the search and the filter ask for, counts for the filters what the search leaves, and takes one sheet of it.
func (p *runnersView) narrow(fleet []runnerView) {
	wanted := work.RunnerStatus(strings.ToUpper(p.query("state")))
	counts := map[work.RunnerStatus]int{}
	var fits []runnerView
	found := 0
	for _, r := range fleet {
		if !r.matches(p.search) {
			continue
		}
		found++
		counts[r.Status]++
		if wanted == "" || r.Status == wanted {
			fits = append(fits, r)
		}
	}
	p.tabs = []tab{{title: "All", path: p.with("state", ""), count: found, on: wanted == ""}}
	for _, s := range runnerTabs {
		p.tabs = append(p.tabs, tab{title: known(runnerMoods, s).word, path: p.with("state", strings.ToLower(string(s))), count: counts[s], on: wanted == s})
	}
	p.sorted = sortList(p.visit, fits,
		column[runnerView]{"name", byText(func(r runnerView) string { return r.Name })},
		column[runnerView]{"type", byText(runnerView.kind)},
		column[runnerView]{"region", byText(runnerView.region)},
		column[runnerView]{"status", byText(func(r runnerView) string { return string(r.Status) })},
		column[runnerView]{"load", func(a, b runnerView) int { return cmp.Compare(a.load(), b.load()) }},
		column[runnerView]{"version", byText(runnerView.version)},
		column[runnerView]{"created", byTime(func(r runnerView) time.Time { return r.CreatedAt })},
	)
	p.leaf(fits)
}

// load returns the share of the slots of a runner that are taken.
func (r runnerView) load() float64 { return float64(r.used) / float64(max(r.capacity, 1)) }

// leaf takes the sheet of the list that begins after a name, so that it stays the same while Runners come and go before it.
func (p *runnersView) leaf(fits []runnerView) {
	begin := 0
	switch after := p.query("after"); {
	case p.sorted.changed():
		begin = slices.IndexFunc(fits, func(r runnerView) bool { return r.Name == after }) + 1
	case after != "":
		for begin < len(fits) && fits[begin].Name <= after {
			begin++
		}
	}
	end := min(begin+mostRunners, len(fits))
	p.found, p.first, p.shown = len(fits), begin+1, fits[begin:end]
	if end < len(fits) {
		p.next = p.after(fits[end-1].Name)
	}
	switch {
	case begin > mostRunners:
		p.before = p.after(fits[begin-mostRunners-1].Name)
	case begin > 0:
		p.before = p.after("")
	}
}

func (p *runnersView) after(name string) string {
	q := p.url.Query()
	q.Del("open")
	if q.Del("after"); name != "" {
		q.Set("after", name)
	}
	u := url.URL{Path: p.url.Path, RawQuery: q.Encode()}
	return u.String()
}

func (p runnersView) isOpen(r runnerView) bool { return slices.Contains(p.open, r.Name) }

// opened gives the Instances that stand below a Runner in the list: none while it is closed.
func (p runnersView) opened(r runnerView) []control.InstanceView {
	if !p.isOpen(r) {
		return nil
	}
	return first(r.Instances, mostUnfolded)
}

// toggle gives the address at which the Instances of a Runner are shown, or hidden when they are.
func (p runnersView) toggle(r runnerView) string {
	q := p.url.Query()
	q.Del("open")
	for _, name := range p.open {
		if name != r.Name {
			q.Add("open", name)
		}
	}
	if !p.isOpen(r) {
		q.Add("open", r.Name)
	}
	u := url.URL{Path: p.url.Path, RawQuery: q.Encode()}
	return u.String()
}

func (p runnersView) firstActive() []*work.Job { return first(p.active, mostActive) }
