package web

import "legwork/internal/catalog"

// Route is one address of the dashboard, as tests see it.
type Route struct {
	Path  string             // the pattern
	Need  catalog.Permission // that it says it takes
	Sheet bool               // a form: POST does it
}

// Routes lists all pages and sheets that are registered.
func Routes() (routes []Route) {
	w := &Web{Options: Options{Components: true}}
	for _, p := range w.allPages() {
		need := p.need
		if need == "" {
			need = catalog.Read
		}
		routes = append(routes, Route{Path: p.path, Need: need})
	}
	for _, s := range w.allSheets() {
		routes = append(routes, Route{Path: s.path, Need: s.need, Sheet: true})
	}
	return routes
}
