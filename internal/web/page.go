package web

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
)

// page is one address of the dashboard that people read. Its content is loaded anew for every view, and, while it is open,
// whenever an event that concerns it comes.
type page struct {
	path  string             // as http.ServeMux has it: "/runners/{runner}"
	nav   string             // path of the entry of the navigation that it belongs to
	need  catalog.Permission // "" = Read
	kinds []string           // how the kinds of the events begin that concern it: "runner.", "job."; none: it is not live

	// every is how often its parts are rendered anew without an event: where they show what time alone changes. 0 = never.
	every time.Duration

	load func(v *visit) (content, error)

	feed func(v *visit) (feed, error) // nil: parts are all that its stream tells
}

// content is what a page shows now.
type content struct {
	title  string
	status mood            // of what the page is about, shown in the browser's tab as well; zero for a page about many things
	crumbs []crumb         // above the page itself, from the top
	body   templ.Component // holds the parts
	parts  []part          // of the body, each rendered by its own component with its own id

	// soon is how soon the parts are rendered anew without an event, where that is sooner than for the page as such. 0 = no sooner.
	soon time.Duration

	// about tells of an event of the page's kinds whether it may change what is shown: the one Job of its own page, say.
	// nil: each may. It is called while the content is rendered anew, so it reads nothing that changes.
	about func(control.Event) bool
}

// tabTitle returns the title of the browser's tab: the status comes first because tabs are narrow.
func (c content) tabTitle() string {
	if c.status.word == "" {
		return c.title
	}
	return c.status.word + " · " + c.title
}

type crumb struct{ title, path string }

// visit is one request for a page, or one rendering of its parts for a stream.
type visit struct {
	*Web
	ctx     context.Context
	request *http.Request
	url     *url.URL // of the page
	actor   catalog.Actor
	now     time.Time
}

func (v *visit) query(name string) string { return strings.TrimSpace(v.url.Query().Get(name)) }

// with gives the page's own address with one value of its query changed, "" for none. A list begins anew with that.
func (v *visit) with(name, value string) string {
	q := v.url.Query()
	q.Del("after")
	q.Del("before")
	if value == "" {
		q.Del(name)
	} else {
		q.Set(name, value)
	}
	u := url.URL{Path: v.url.Path, RawQuery: q.Encode()}
	return u.String()
}

// queries returns the values of parameters of the address.
func (v *visit) queries(names ...string) map[string]string {
	values := map[string]string{}
	for _, name := range names {
		values[name] = v.query(name)
	}
	return values
}

func (v *visit) can(p catalog.Permission) bool { return v.actor.Can(p) }

func (w *Web) visitOf(r *http.Request) *visit {
	actor, _ := r.Context().Value(actorKey).(catalog.Actor)
	return &visit{Web: w, ctx: r.Context(), request: r, url: r.URL, actor: actor, now: w.Now()}
}

// addPage lets a page be seen, and its stream be followed under the same address.
func (w *Web) addPage(p page) {
	if p.need == "" {
		p.need = catalog.Read
	}
	p.load = withTabStatus(p.load)
	pattern := "GET " + p.path
	if p.path == "/" {
		pattern = "GET /{$}"
	}
	w.pages.HandleFunc(pattern, func(rw http.ResponseWriter, r *http.Request) {
		v := w.visitOf(r)
		if err := v.actor.Need(p.need); err != nil {
			w.fail(rw, r, err)
			return
		}
		if s, ok := r.Context().Value(streamKey).(*stream); ok {
			s.follow(v, p)
			return
		}
		w.showPage(rw, r, v, p)
	})
}

// withTabStatus adds the part that keeps the browser's tab up to date to a page that has a status.
func withTabStatus(load func(*visit) (content, error)) func(*visit) (content, error) {
	return func(v *visit) (content, error) {
		c, err := load(v)
		if err == nil && c.status != (mood{}) {
			c.parts = append(c.parts, part{id: "tab-status", body: tabStatus(v.Web, c)})
		}
		return c, err
	}
}

func (w *Web) showPage(rw http.ResponseWriter, r *http.Request, v *visit, p page) {
	c, err := p.load(v)
	if err != nil {
		w.fail(rw, r, err)
		return
	}
	f := frame{theme: themeOf(r), note: w.takeNote(rw, r)}
	if len(p.kinds) > 0 {
		sum, err := sumOf(v.ctx, c.parts)
		if err != nil {
			w.fail(rw, r, err)
			return
		}
		f.stream = streamPath(v.url, sum)
	}
	w.answer(rw, r, http.StatusOK, shellPage(v, p, c, f))
}

// frame is what stands around a page's content.
type frame struct {
	theme  string
	note   string // of the action before
	stream string // address of the event stream, "" when the page is not live
}

// answer renders a page. It is rendered whole before anything is sent, so that an error in it is still an error.
func (w *Web) answer(rw http.ResponseWriter, r *http.Request, status int, body templ.Component) {
	var b bytes.Buffer
	if err := body.Render(r.Context(), &b); err != nil {
		w.Log.Error("page not rendered", "path", r.URL.Path, "error", err)
		http.Error(rw, "something went wrong inside the program", http.StatusInternalServerError)
		return
	}
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	rw.WriteHeader(status)
	_, _ = rw.Write(b.Bytes()) // whoever left does not hear it
}

// fail shows an error as a page: what is wrong and what to do. What is not for people is logged.
func (w *Web) fail(rw http.ResponseWriter, r *http.Request, err error) {
	found := fault.Of(err)
	if found.Kind == fault.Internal && r.Context().Err() == nil {
		w.Log.Error("page failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	v := w.visitOf(r)
	if v.actor.ID == "" {
		v.actor, _ = w.actorOf(r, false) // nobody: the page is shown without navigation
	}
	retryLater(rw, statusOf(found.Kind))
	w.answer(rw, r, statusOf(found.Kind), faultPage(v, found, frame{theme: themeOf(r)}))
}

// faultTitle returns the heading of the page that shows an error.
func faultTitle(f *fault.Fault) string {
	switch f.Kind {
	case fault.NotFound:
		return "Not found"
	case fault.Forbidden:
		return "No permission"
	case fault.Internal, fault.Unavailable:
		return "Something went wrong"
	}
	return "This is not possible"
}

// retryAfter is in how many seconds a browser may try again what was refused for now.
const retryAfter = "10"

func retryLater(rw http.ResponseWriter, status int) {
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		rw.Header().Set("Retry-After", retryAfter)
	}
}

var statuses = map[fault.Kind]int{
	fault.Invalid: http.StatusUnprocessableEntity, fault.Unauthenticated: http.StatusUnauthorized, fault.Forbidden: http.StatusForbidden,
	fault.NotFound: http.StatusNotFound, fault.Conflict: http.StatusConflict, fault.TooLarge: http.StatusRequestEntityTooLarge,
	fault.RateLimited: http.StatusTooManyRequests, fault.Unavailable: http.StatusServiceUnavailable,
}

func statusOf(k fault.Kind) int {
	if status, ok := statuses[k]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// navEntry is one line of what stands at the side, for who may see it.
type navEntry struct {
	path, title, icon string
	need              catalog.Permission
	gap               bool // before it
}

var navigation = []navEntry{
	{path: "/", title: "Overview", icon: "overview"},
	{path: "/runners", title: "Runners", icon: "runner"},
	{path: "/nodes", title: "Nodes", icon: "node"},
	{path: "/modules", title: "Modules", icon: "module"},
	{path: "/runbooks", title: "Runbooks", icon: "runbook"},
	{path: "/jobs", title: "Jobs", icon: "job"},
	{path: "/secrets", title: "Secrets", icon: "key"},
	{path: "/cloud-identities", title: "Cloud identities", icon: "cloud"},
	{path: "/audit", title: "Audit", icon: "audit", need: catalog.Administer, gap: true},
	{path: "/users", title: "Users", icon: "users", need: catalog.Administer},
}

func (v *visit) navigation() []navEntry {
	var seen []navEntry
	for _, e := range navigation {
		if e.need == "" || v.can(e.need) {
			seen = append(seen, e)
		}
	}
	return seen
}

// allPages lists the pages. Each is described in the file of its name.
func (w *Web) allPages() []page {
	pages := []page{overviewPage(), jobsPage(), jobPage(), usersPage(), auditPage()}
	pages = append(pages, modulesPage(), stackPage(), namespacePage(), modulePage())
	pages = append(pages, nodesPage(), nodePage(), nodeSourcesPage(), nodeSourcePage(), runbooksPage(), runbookPage())
	pages = append(pages, secretsPage(), secretPage(), secretPathsPage())
	pages = append(pages, cloudIdentitiesPage(), releasesPage())
	pages = append(pages, allRunnerPages()...)
	if w.Components {
		pages = append(pages, componentsPage())
	}
	return pages
}

// allSheets lists the forms.
func (w *Web) allSheets() []sheet {
	sheets := []sheet{keyboardSheet(), accountSheet(), accountSessionsSheet(), newUserSheet(), userSessionsSheet(), rolesSheet(), passwordSheet(), deleteUserSheet(), cancelSheet(), approveSheet(), declineSheet(), retrySheet()}
	sheets = append(sheets, moduleSheets()...)
	sheets = append(sheets, nodeSheets()...)
	sheets = append(sheets, sourceSheets()...)
	sheets = append(sheets, runSheet(), retryFailedSheet())
	sheets = append(sheets, secretSheets()...)
	sheets = append(sheets, cloudIdentitySheets()...)
	sheets = append(sheets, releaseNotesSheet(), withdrawReleaseSheet())
	sheets = append(sheets, allRunnerSheets()...)
	if w.Components {
		sheets = append(sheets, componentsSheet())
	}
	return sheets
}
