package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/work"
)

const (
	auditAtOnce = 100  // entries of a page
	auditExport = 1000 // entries that an export reads at once
)

func auditPage() page {
	return page{path: "/audit", nav: "/audit", need: catalog.Administer, kinds: []string{""}, load: loadAudit}
}

// choice is one of the links that narrow a list without counting.
type choice struct {
	title, path string
	on          bool
}

// auditView is the page of the audit.
type auditView struct {
	*visit
	entries []control.AuditEntry
	sorted  sorting
	kinds   []choice
	times   []choice
	who     string
	next    string // address of the next page, "" on the last
	export  string
}

type auditKind struct{ action, title string }

var auditKinds = []auditKind{
	{"", "All"}, {"job", "Jobs"}, {"manifest", "Manifests"}, {"runner", "Runners"}, {"instance", "Instances"}, {"assignment", "Assignments"},
	{"outputs", "Outputs"}, {"user", "Users"}, {"principal", "Principals"}, {"credential", "Credentials"},
	{"registration_token", "Registration tokens"}, {"secret", "Secrets"}, {"cloud_identity", "Cloud identities"}, {"release", "Releases"},
	{"stack", "Stacks"}, {"namespace", "Namespaces"}, {"module", "Modules"}, {"runbook", "Runbooks"}, {"node", "Nodes"}, {"node_source", "Node sources"},
	{"webhook", "Webhooks"}, {"maintenance", "Maintenance"}, {"audit", "Audit"},
}

type auditTime struct {
	since        time.Duration
	value, title string
}

var auditTimes = []auditTime{{0, "", "Any time"}, {time.Hour, "1h", "Last hour"}, {24 * time.Hour, "24h", "Last day"}, {7 * 24 * time.Hour, "168h", "Last week"}, {30 * 24 * time.Hour, "720h", "Last 30 days"}}

// auditFilter reads the filter out of the address. What is not known is refused: an export must not be wider than was meant.
func (v *visit) auditFilter() (control.AuditFilter, error) {
	f := control.AuditFilter{Actor: v.query("q"), Action: v.query("action"), Subject: v.query("subject"), Limit: auditAtOnce}
	unknown := func(name string) error {
		return fault.New(fault.Invalid, "filter_unknown", "%q is nothing that %s can be", v.query(name), name).WithHint("open the audit without a filter: /audit")
	}
	if !slices.ContainsFunc(auditKinds, func(k auditKind) bool { return k.action == f.Action }) {
		return f, unknown("action")
	}
	at := slices.IndexFunc(auditTimes, func(t auditTime) bool { return t.value == v.query("since") })
	if at < 0 {
		return f, unknown("since")
	}
	if since := auditTimes[at].since; since > 0 {
		f.Since = v.now.Add(-since)
	}
	for name, bound := range map[string]*int64{"before": &f.BeforeID, "after": &f.AfterID} {
		text := v.query(name)
		if text == "" {
			continue
		}
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id <= 0 {
			return f, unknown(name)
		}
		*bound = id
	}
	return f, nil
}

func loadAudit(v *visit) (content, error) {
	f, err := v.auditFilter()
	if err != nil {
		return content{}, err
	}
	sorted := sortPages(v, "time")
	f.OldestFirst = !sorted.descending
	entries, err := v.Control.Audit(v.ctx, v.actor, f)
	if err != nil {
		return content{}, err
	}
	a := auditView{visit: v, entries: entries, sorted: sorted, who: f.Actor}
	for _, k := range auditKinds {
		a.kinds = append(a.kinds, choice{k.title, v.with("action", k.action), f.Action == k.action})
	}
	for _, t := range auditTimes {
		a.times = append(a.times, choice{t.title, v.with("since", t.value), v.query("since") == t.value})
	}
	if len(entries) == auditAtOnce {
		cursor := "before"
		if f.OldestFirst {
			cursor = "after"
		}
		a.next = v.with(cursor, strconv.FormatInt(entries[len(entries)-1].ID, 10))
	}
	export := url.URL{Path: "/audit/export", RawQuery: v.url.RawQuery}
	a.export = export.String()
	return content{title: "Audit", body: auditBody(a), parts: []part{{id: "audit", body: auditRows(a)}}}, nil
}

// auditWhat names what an entry is about, as people name it, and where that can be seen, "" for nowhere.
func (v *visit) auditWhat(e control.AuditEntry) (text, path string) {
	text, job := api.AuditEntryOf(e).What()
	if job > 0 {
		path = v.link("/jobs/{job}", number(job))
	}
	return text, path
}

// auditDetail says what else an entry tells, "" for nothing: what became of a Job and why, what was done to what is declared, the role
// of a user.
func auditDetail(e control.AuditEntry) string {
	var data struct {
		Action, Role string
		Failure      *work.Failure
	}
	_ = json.Unmarshal(e.Data, &data) // what it does not hold is not shown
	switch {
	case data.Failure != nil:
		return sentence(data.Failure.Message)
	case data.Role != "":
		return "role " + data.Role
	case data.Action != "" && !strings.HasSuffix(e.Action, "."+data.Action):
		return data.Action
	}
	return ""
}

// exportAudit writes all that the filter lets through, one JSON object per line, newest first.
func (w *Web) exportAudit(rw http.ResponseWriter, r *http.Request) {
	v := w.visitOf(r)
	f, err := v.auditFilter()
	if err == nil {
		err = v.Control.NoteAuditExport(v.ctx, v.actor)
	}
	if err != nil {
		w.fail(rw, r, err)
		return
	}
	f.Limit = auditExport
	f.BeforeID, f.AfterID = 0, 0
	lines := json.NewEncoder(rw)
	for first := true; ; first = false {
		entries, err := v.Control.Audit(v.ctx, v.actor, f)
		if err != nil {
			if first {
				w.fail(rw, r, err)
				return
			}
			w.Log.Warn("export of the audit was cut short", "error", err)
			panic(http.ErrAbortHandler) // the reader has to see that it is not whole
		}
		if first {
			rw.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
			rw.Header().Set("Content-Disposition", `attachment; filename="audit.jsonl"`)
		}
		for _, e := range entries {
			if lines.Encode(api.AuditEntryOf(e)) != nil {
				return // whoever left
			}
		}
		if len(entries) < auditExport {
			return
		}
		f.BeforeID = entries[len(entries)-1].ID
	}
}
