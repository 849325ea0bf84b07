package web

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/a-h/templ"

	"legwork/internal/lazyregexp"
)

// tab is one filter of a list.
type tab struct {
	title, path string
	count       int // negative: not shown
	on          bool
}

// soft has a link replace the list alone, where there are scripts, and stand in the address bar. The stream goes on for the new
// address.
func soft() templ.Attributes {
	return templ.Attributes{"hx-boost": "true", "hx-target": "#list", "hx-select": "#list", "hx-select-oob": "#live", "hx-swap": "outerHTML", "hx-push-url": "true"}
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// unitName matches a text that begins with the name of an Instance of a hosted Runner: pool-6921f2a01f2e3d4c.
var unitName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]*-([0-9a-f]{8}){1,2}([ :,.]|$)`)

// sentence makes of an error's text what a person reads: a capital at its begin, but for the name of an Instance, and a point at its end.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(text)
	if rest := text[size:]; rest == "" || !unicode.IsUpper(rune(rest[0])) && !unitName.MatchString(text) {
		text = string(unicode.ToUpper(first)) + rest
	}
	if !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "?") && !strings.HasSuffix(text, "!") {
		text += "."
	}
	return text
}

// backWord is what the button says that leaves everything as it is.
func backWord(f form) string {
	if f.back != "" {
		return f.back
	}
	return "Cancel"
}

func noteRole(tone string) string {
	if tone == "bad" {
		return "alert"
	}
	return "note"
}

func orText(kind string) string {
	if kind == "" {
		return "text"
	}
	return kind
}

// valueOf gives what a field holds. What was typed as a secret is not sent back.
func valueOf(in input, f form) string {
	if in.kind == "password" {
		return ""
	}
	return f.or(in.name, in.value)
}

// focuses tells whether a field is to have the focus: where something is wrong, one at fault, else the one to begin with.
func focuses(in input, f form) bool {
	if len(f.problems) > 0 {
		return f.problem(in.name) != ""
	}
	return in.focus
}

// invalid ties what is said of a field to it.
func invalid(in input, f form) templ.Attributes {
	a := templ.Attributes{}
	var about []string
	if f.problem(in.name) != "" {
		a["aria-invalid"] = "true"
		about = append(about, "p-"+in.name)
	}
	if in.help != "" {
		about = append(about, "h-"+in.name)
	}
	if len(about) > 0 {
		a["aria-describedby"] = strings.Join(about, " ")
	}
	return a
}

var themes = []string{"", "light", "dark"}

func themeName(theme string) string {
	if theme == "" {
		return "system"
	}
	return theme
}

// themeAfter gives what the switch turns to.
func themeAfter(theme string) string {
	return themes[(slices.Index(themes, theme)+1)%len(themes)]
}
