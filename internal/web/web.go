// Package web is the dashboard: pages made on the Server, for people. It decides nothing. Each request belongs to a Web
// session, whose Actor access knows; what is shown and done goes through control and access in this process, which refuse
// what the Actor may not. docs/DASHBOARD.md says how a page, a live part and a form are added.
//
// Whatever changes while a page is open arrives as one event stream (live.go): the page's parts are rendered anew when an
// event of the outbox concerns them, and those that differ are sent.
package web

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"legwork/internal/access"
	"legwork/internal/api"
	"legwork/internal/control"
	"legwork/internal/fault"
)

//go:generate go -C ../../tools/templ tool templ generate -path ../../internal/web -log-level error

// Options are what the dashboard needs. Control, Access and Log are required.
type Options struct {
	Control    *control.Control
	Access     *access.Access
	Log        *slog.Logger
	Version    string                     // of the program
	PublicURL  string                     // as browsers reach it; "" = as they say
	Address    func(*http.Request) string // of the client, seen through trusted proxies; nil = of the connection
	TLS        func(*http.Request) bool   // whether the client came by TLS, seen through trusted proxies; nil = that of the connection
	Components bool                       // the page that shows every component
	Now        func() time.Time           // nil = the clock
	Streaming  context.Context            // ends when streams have to; nil = never
}

// Web answers the requests of browsers. It is safe for concurrent use.
type Web struct {
	Options
	assets    *assets
	pages     *http.ServeMux // what needs a Web session
	handler   http.Handler
	secure    bool  // the public URL is https
	plans     plans // that were read lately
	logs      logBooks
	nodeNames nodeNames
	streams   streams
	searches  *searches
	paths     map[string]bool // of the pages
}

// securityPolicy allows what the Server itself serves and nothing else; no script and no style stands in a page.
const securityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// New makes the dashboard.
func New(o Options) *Web {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Address == nil {
		o.Address = func(r *http.Request) string { return r.RemoteAddr }
	}
	if o.TLS == nil {
		o.TLS = func(r *http.Request) bool { return r.TLS != nil }
	}
	if o.Streaming == nil {
		o.Streaming = context.Background()
	}
	w := &Web{Options: o, assets: loadAssets(), pages: http.NewServeMux(), secure: strings.HasPrefix(o.PublicURL, "https://"), paths: map[string]bool{}, searches: newSearches()}
	for _, p := range w.allPages() {
		w.paths[p.path] = true
		w.addPage(p)
	}
	for _, s := range w.allSheets() {
		w.addSheet(s)
	}
	w.pages.HandleFunc("GET /audit/export", w.exportAudit)
	w.addLog()
	w.addFragments()
	w.handler = w.protect(w.routes())
	return w
}

func (w *Web) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+assetPrefix+"{name}", w.assets.serve)
	mux.HandleFunc("GET /login", w.showLogin)
	mux.HandleFunc("POST /login", w.logIn)
	mux.HandleFunc("POST /logout", w.logOut)
	mux.HandleFunc("POST /-/theme", w.setTheme)
	mux.HandleFunc("GET "+api.LivePath, w.live)
	mux.Handle("/", w.withActor(http.HandlerFunc(w.servePage)))
	return mux
}

// servePage answers with a page, or with one that says that there is none at this address.
func (w *Web) servePage(rw http.ResponseWriter, r *http.Request) {
	if _, pattern := w.pages.Handler(r); pattern == "" && r.Method == http.MethodGet {
		w.fail(rw, r, fault.New(fault.NotFound, "page_not_found", "page not found: %s", r.URL.Path).
			WithHint("check the address, or start at the overview"))
		return
	}
	w.pages.ServeHTTP(rw, r)
}

// ServeHTTP answers one request.
func (w *Web) ServeHTTP(rw http.ResponseWriter, r *http.Request) { w.handler.ServeHTTP(rw, r) }

const maxForm = 1 << 20

// protect refuses what another site had a browser send (http.CrossOriginProtection: by Sec-Fetch-Site, or Origin where that
// is missing; the cookie is SameSite beside), bounds what is sent in size, and says what a page may load.
func (w *Web) protect(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	if origin, err := url.Parse(w.PublicURL); err == nil && origin.Host != "" {
		_ = cross.AddTrustedOrigin(origin.Scheme + "://" + origin.Host) // is well formed
	}
	cross.SetDenyHandler(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.fail(rw, r, fault.New(fault.Forbidden, "cross_origin", "another site sent this request").WithHint("open the dashboard itself and do it there"))
	}))
	guarded := cross.Handler(next)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h := rw.Header()
		h.Set("Content-Security-Policy", securityPolicy)
		h.Set("Referrer-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		most := int64(maxForm)
		if strings.HasPrefix(r.URL.Path, "/runbooks/") {
			most = maxRunForm
		}
		r.Body = http.MaxBytesReader(rw, r.Body, most)
		guarded.ServeHTTP(rw, r)
	})
}
