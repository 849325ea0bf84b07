package web

import (
	"net/http"
	"net/url"

	"legwork/internal/catalog"
)

const keysCookie = "legwork-keys"

// keysOf tells whether keys of one letter do something: "on", or "off" as a person chose. Who dictates, or whose hands slip, wants
// them off.
func keysOf(r *http.Request) string {
	if c, err := r.Cookie(keysCookie); err == nil && c.Value == "off" {
		return "off"
	}
	return "on"
}

// keyHelp is what a key does.
type keyHelp struct {
	keys []string
	text string
}

type keyGroup struct {
	title string
	keys  []keyHelp
}

// keyGroups has every key that a script of the pages listens to.
func keyGroups() []keyGroup {
	return []keyGroup{
		{"Everywhere", []keyHelp{
			{[]string{"?"}, "this list"}, {[]string{"/"}, "search"}, {[]string{"j", "k"}, "down and up the rows of a list"},
			{[]string{"g", "o"}, "Overview"}, {[]string{"g", "r"}, "Runners"}, {[]string{"g", "n"}, "Nodes"}, {[]string{"g", "m"}, "Modules"}, {[]string{"g", "b"}, "Runbooks"}, {[]string{"g", "j"}, "Jobs"},
			{[]string{"g", "a"}, "Audit"}, {[]string{"g", "u"}, "Users"},
		}},
		{"A Job", []keyHelp{{[]string{"a"}, "approve"}, {[]string{"d"}, "decline"}, {[]string{"c"}, "cancel"}, {[]string{"r"}, "run again"}}},
		{"Its log", []keyHelp{
			{[]string{"n", "N"}, "the next match, the one before"}, {[]string{"g", "g"}, "go to top"}, {[]string{"G"}, "go to bottom"},
			{[]string{"f"}, "follow"}, {[]string{"w"}, "wrap lines"}, {[]string{"t"}, "times"},
		}},
	}
}

// keyboardSheet lists the keys, and turns them off and on.
func keyboardSheet() sheet {
	return sheet{path: "/-/keyboard", nav: "/", need: catalog.Read,
		show: func(v *visit, f form) (sheetContent, error) {
			f.back = "Close"
			return sheetContent{"Keyboard", keyboardForm(keysOf(v.request), f)}, nil
		},
		act: func(v *visit, f form) (outcome, error) {
			keys, note := "on", "The keys are on."
			if f.get("keys") == "off" {
				keys, note = "off", "The keys are off."
			}
			return outcome{next: cameFrom(v.request), note: note, keep: func(rw http.ResponseWriter, r *http.Request) {
				v.setCookie(rw, r, keysCookie, keys, year)
			}}, nil
		},
	}
}

// cameFrom gives the page of this Server that a sheet stands over, else the start.
func cameFrom(r *http.Request) string {
	from, err := url.Parse(r.Header.Get("HX-Current-URL"))
	if err != nil || from.Path == "" || from.Path == r.URL.Path {
		return "/"
	}
	return safeNext(from.RequestURI())
}
