package web

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"legwork/internal/access"
	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/work"
)

// runnerPage is one Runner with all that concerns it.
func runnerPage() page {
	return page{path: "/runners/{runner}", nav: "/runners", kinds: []string{"runner.", "job.", "assignment.", "credential.", "webhook."},
		every: 10 * time.Second, load: loadRunner}
}

// runnerDetail is what the page of a Runner shows.
type runnerDetail struct {
	*visit
	runnerView
	assignments []catalog.Assignment
	credentials []access.Credential // for who may administer alone
	webhook     control.WebhookView
	jobs        []*work.Job
	load        loadHistory
	hosted      *hostedState // nil: it is self-hosted
}

const (
	mostRunnerJobs  = 20
	mostInstances   = 100
	mostAssignments = 100
	mostCredentials = 20
	mostDeliveries  = 5
)

func loadRunner(v *visit) (content, error) {
	d := runnerDetail{visit: v}
	var err error
	if d.runnerView, err = v.runner(v.request.PathValue("runner")); err != nil {
		return content{}, err
	}
	if d.hosted, err = v.hostedState(d.runnerView); err != nil {
		return content{}, err
	}
	if d.hosted != nil {
		d.demand = &d.hosted.demand
	}
	if d.assignments, err = v.Control.Assignments(v.ctx, v.actor, d.ID); err != nil {
		return content{}, err
	}
	if v.can(catalog.Administer) {
		if d.credentials, err = v.Access.Credentials(v.ctx, v.actor, d.Runner.ServicePrincipalID); err != nil {
			return content{}, err
		}
	}
	if d.Webhook != "" {
		if d.webhook, err = v.Control.Webhook(v.ctx, v.actor, d.ID, false); err != nil {
			return content{}, err
		}
	}
	if d.jobs, err = v.Control.Jobs(v.ctx, v.actor, control.JobFilter{RunnerID: d.ID, WithoutChores: true, Limit: mostRunnerJobs}); err != nil {
		return content{}, err
	}
	if d.load, err = v.loadHistory(d.ID); err != nil {
		return content{}, err
	}
	return content{title: d.Name, crumbs: []crumb{{"Runners", "/runners"}}, body: runnerBody(d), parts: d.parts(), about: d.about()}, nil
}

// about tells which events concern the Runner: its own, those of the Jobs that are shown, and of those that come to it.
func (d runnerDetail) about() func(control.Event) bool {
	ids := map[string]bool{d.ID: true}
	for _, j := range d.jobs {
		ids[j.ID] = true
	}
	return func(e control.Event) bool {
		switch {
		case ids[e.Subject]:
			return true
		case strings.HasPrefix(e.Kind, "runner."):
			return false
		case strings.HasPrefix(e.Kind, "job."):
			var job control.JobEvent
			return json.Unmarshal(e.Data, &job) != nil || ids[job.RunnerID]
		}
		return true
	}
}

// runner gives a Runner, by id or name, with how it is.
func (v *visit) runner(idOrName string) (runnerView, error) {
	r, err := v.Control.RunnerView(v.ctx, v.actor, idOrName)
	if err != nil {
		return runnerView{}, err
	}
	versions, err := v.Control.RunnerVersions(v.ctx, v.actor, r.ID)
	view := viewOf(r)
	view.versions = versions[r.ID]
	return view, err
}

func (d runnerDetail) parts() []part {
	instances := []part{}
	for _, i := range first(d.Instances, mostInstances) {
		instances = append(instances, part{id: "instance-" + i.ID, body: instanceRow(d.visit, d.runnerView, i)})
	}
	parts := d.hostedParts()
	return append(parts, []part{
		{id: "runner-head", body: runnerHead(d)},
		{id: "runner-condition", body: runnerCondition(d)},
		{id: "instances", body: instanceRows(d), rows: instances},
		d.jobTable().part(),
		{id: "runner-load", body: runnerLoad(d)},
		{id: "runner-settings", body: runnerSettings(d)},
		{id: "assignments", body: assignmentLines(d)},
		{id: "credentials", body: credentialLines(d)},
		{id: "webhook", body: webhookState(d)},
	}...)
}

// hostedParts are those that a hosted Runner alone has.
func (d runnerDetail) hostedParts() []part {
	if d.hosted == nil {
		return nil
	}
	rows := []part{}
	for _, l := range first(d.hosted.ledger, mostLaunches) {
		rows = append(rows, part{id: "launch-" + l.ID, body: ledgerRow(d.visit, l, d.hosted.numbers[l.JobID])})
	}
	return []part{
		{id: "runner-demand", body: demandFigures(d.hosted.demand)}, {id: "ledger", body: ledgerRows(d.visit, d.runnerView, d.hosted), rows: rows},
		{id: "runner-hosting", body: hostingFacts(d.runnerView)},
	}
}

func (d runnerDetail) jobTable() jobList {
	return jobList{visit: d.visit, id: "runner-jobs", label: "Jobs of " + d.Name, jobs: d.jobs, without: []string{"runner"}, none: smallEmpty("No jobs yet")}
}

// takenText says how many places are taken, as noted last.
func (d runnerDetail) takenText() string {
	if math.IsNaN(d.load.taken.last()) {
		return "no data yet"
	}
	return sayCount(d.load.taken.last()) + " of " + sayCount(d.load.places.last())
}

// who says who may use the Runner.
func (d runnerDetail) who() string {
	if d.IsAssignedToAllModules {
		return "all modules"
	}
	if len(d.assignments) == 0 {
		return "nothing yet"
	}
	return counted(len(d.assignments), "assignment")
}

// scopeOf says what an Assignment is for: a Stack, a Namespace or a Module.
func scopeOf(a catalog.Assignment) string {
	switch {
	case a.ModuleID != "":
		return "Module"
	case a.NamespaceID != "":
		return "Namespace"
	}
	return "Stack"
}

// titleOf gives the words of a setting's value, among those to choose from.
func titleOf(options []option, value string) string {
	for _, o := range options {
		if o.value == value {
			return o.title
		}
	}
	return value
}

// deliveryMood is how a delivery of a webhook is shown.
func deliveryMood(d control.WebhookDelivery) mood {
	switch d.Status {
	case "delivered":
		return mood{"Delivered", "check", "good"}
	case "failed":
		return mood{"Failed", "cross", "bad"}
	case "dropped":
		return mood{"Not needed", "minus", "calm"}
	}
	return mood{"Under way", "half", "busy"}
}

// selectionOf and lifetimeOf give the settings as they are chosen from: empty for the usual.
func selectionOf(d runnerDetail) string {
	if d.Selection == catalog.FirstResponse {
		return ""
	}
	return string(d.Selection)
}

func lifetimeOf(d runnerDetail) string {
	if d.Lifetime == catalog.Persistent {
		return ""
	}
	return string(d.Lifetime)
}

func triesText(n int) string {
	if n == 1 {
		return "1 try"
	}
	return number(n) + " tries"
}
