package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/work"
)

// formPath is the address below which the forms of a Module lie. Its own page has the same without the braces: see modulePage.
const formPath = "/modules/{stack}/{namespace}/{module}"

func addressOf(stack, namespace, module string) string {
	return "/modules/" + url.PathEscape(stack) + "/" + url.PathEscape(namespace) + "/" + url.PathEscape(module)
}

func modulePage() page {
	return page{path: "/modules/{path...}", nav: "/modules", kinds: append([]string{"runner.", "assignment."}, moduleKinds...), load: loadModule}
}

// moduleView is the page of a Module.
type moduleView struct {
	*visit
	control.ModuleView
}

// at gives the address of the Module's page, or of what lies below.
func (m moduleView) at(below ...string) string {
	return strings.Join(append([]string{addressOf(m.Stack, m.Namespace, m.Name)}, below...), "/")
}

func (v *visit) module() (moduleView, error) {
	path := v.request.PathValue("path")
	if path == "" {
		path = catalog.ModulePath(v.request.PathValue("stack"), v.request.PathValue("namespace"), v.request.PathValue("module"))
	}
	found, err := v.Control.ModuleView(v.ctx, v.actor, path)
	return moduleView{v, found}, err
}

func loadModule(v *visit) (content, error) {
	m, err := v.module()
	if err != nil {
		return content{}, err
	}
	crumbs := []crumb{{"Modules", "/modules"}, {m.Stack, v.link("/stacks/{stack}", m.Stack)}, {m.Namespace, v.link("/stacks/{stack}/{namespace}", m.Stack, m.Namespace)}}
	return content{title: m.Name, crumbs: crumbs, body: moduleBody(m), parts: []part{
		{id: "module-state", body: moduleState(m)},
		{id: "module-waits", body: moduleWaits(m)},
		{id: "module-facts", body: moduleFacts(m)},
		{id: "module-inputs", body: moduleInputs(m)},
		{id: "module-outputs", body: moduleOutputs(m)},
		{id: "module-ties", body: moduleTies(m)},
		{id: "module-code", body: moduleCode(m)},
		m.history().part(),
	}}, nil
}

// inGraph gives the address of the picture that the Module is in.
func (m moduleView) inGraph() string {
	return m.link("/stacks/{stack}", m.Stack) + "?" + url.Values{"namespace": {m.Namespace}}.Encode()
}

// history is the table of its last Jobs.
func (m moduleView) history() jobList {
	return jobList{visit: m.visit, id: "history", label: "Jobs of " + m.Path(), jobs: m.Jobs, without: []string{"module"}, none: smallEmpty("No jobs yet")}
}

// commit gives the newest Job that fetched a source.
func (m moduleView) commit() *work.Job {
	for _, j := range m.Jobs {
		if j.Commit != "" {
			return j
		}
	}
	return nil
}

// holder gives the Job that holds the Module now, nil when none does.
func (m moduleView) holder() *work.Job {
	for _, j := range m.Jobs {
		if j.Status.Bound() {
			return j
		}
	}
	return nil
}

// takes lists the Modules whose outputs this one takes.
func (m moduleView) takes() []string { return catalog.Upstreams(m.Effective) }

func (m moduleView) there(path string) bool {
	return !slices.ContainsFunc(m.Inputs, func(in control.InputView) bool { return in.Upstream == path && in.Gone })
}

// secret tells whether an output is hidden.
func (m moduleView) secret() bool {
	if m.Outputs == nil {
		return false
	}
	for _, o := range m.Outputs.Values {
		if o.Sensitive {
			return true
		}
	}
	return false
}

// inherited says where a setting comes from when it is not the Module's own.
func inherited(own, effective bool) string {
	switch {
	case own:
		return ""
	case effective:
		return "namespace default"
	}
	return ""
}

// namedLine is one line of a list of facts.
type namedLine struct{ name, value string }

// limitLines says the limits that are set.
func limitLines(l catalog.Limits) (lines []namedLine) {
	add := func(name, value string, set bool) {
		if set {
			lines = append(lines, namedLine{name, value})
		}
	}
	add("Timeout of a Step", lengthText(l.Timeout), l.Timeout != 0)
	add("Silence of a Step", lengthText(l.StallTimeout), l.StallTimeout != 0)
	if l.RecoveryWindow != nil {
		add("Recovery window", lengthText(*l.RecoveryWindow), true)
	}
	add("Attempts", number(l.MaxAttempts), l.MaxAttempts != 0)
	return lines
}

// lengthText writes a duration as a manifest does, without the zeros at its end: "30m", "1h30m", "90s".
func lengthText(d catalog.Duration) string {
	text := time.Duration(d).String()
	for _, zero := range []string{"0s", "0m"} {
		if short := strings.TrimSuffix(text, zero); short != text && (strings.HasSuffix(short, "m") || strings.HasSuffix(short, "h")) {
			text = short
		}
	}
	return text
}

func approvalText(a catalog.Approval) string {
	switch a {
	case catalog.ApproveAlways:
		return "before every apply, destroy and run"
	case catalog.ApproveOnDestroy:
		return "before a destroy"
	}
	return "never"
}

func orWord(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func inputKind(k catalog.InputKind) string {
	if k == catalog.Env {
		return "environment"
	}
	return "parameter"
}

// hookLine is a Hook with where it comes from.
type hookLine struct {
	catalog.Hook
	inherited bool
}

// hooksOf lists the Hooks of an effective Module in the order in which they stand: those of the Namespace around its own.
func hooksOf(effective, defaults []catalog.Hook) (lines []hookLine) {
	before := 0
	for _, h := range defaults {
		if h.Phase != catalog.After {
			before++
		}
	}
	own := len(effective) - len(defaults)
	for i, h := range effective {
		lines = append(lines, hookLine{h, i < before || i >= before+own})
	}
	return lines
}

// fileLine is a file with where it comes from.
type fileLine struct {
	catalog.ExtraFile
	inherited bool
}

func filesOf(effective, own []catalog.ExtraFile) (lines []fileLine) {
	for _, f := range effective {
		mine := slices.ContainsFunc(own, func(o catalog.ExtraFile) bool { return o.FileName == f.FileName })
		lines = append(lines, fileLine{f, !mine})
	}
	return lines
}

const (
	mostExcerpt = 4 << 10 // bytes of a text that a page shows
	mostFiles   = 20      // files and Hooks that a page shows with their text
	mostValue   = 120     // letters of a value that stand in its line
)

// excerpt gives the beginning of a text, and how many bytes are left out.
func excerpt(text string) (begin string, left int) {
	if len(text) <= mostExcerpt {
		return text, 0
	}
	cut := mostExcerpt
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut], len(text) - cut
}

// written gives a JSON value as people read it: a string as it is, a structure with its lines.
func written(value json.RawMessage) string {
	text := catalog.Text(value)
	var b bytes.Buffer
	if len(text) > mostValue && len(value) > 0 && value[0] != '"' && json.Indent(&b, value, "", "  ") == nil {
		return b.String()
	}
	return text
}

// typeText says the type of an output: "string", "list(string)".
func typeText(t json.RawMessage) string {
	var v any
	if len(t) == 0 || json.Unmarshal(t, &v) != nil {
		return ""
	}
	return shortened(typeWord(v), 60)
}

func typeWord(v any) string {
	switch t := v.(type) {
	case string:
		return t
	case []any:
		if len(t) == 2 {
			if kind, ok := t[0].(string); ok && kind != "object" && kind != "tuple" {
				return fmt.Sprintf("%s(%s)", kind, typeWord(t[1]))
			}
		}
		if len(t) > 0 {
			return typeWord(t[0])
		}
	}
	return "object"
}

func commitWord(commit string) string { return commit[:min(len(commit), 12)] }

// revisionText says which revision of a git source is taken, and which folder.
func revisionText(s catalog.Source) string {
	text := orWord(s.Revision, "HEAD")
	if s.Subdirectory != "" {
		text += ", folder " + s.Subdirectory
	}
	return text
}

// sourceText says in a line where the code comes from.
func sourceText(m catalog.ModuleSpec) string {
	switch {
	case m.Source.Type == catalog.Git:
		return m.Source.URL
	case m.Source.Type == catalog.Inline:
		return "inline, " + counted(len(m.Source.Files), "file")
	case m.Script != nil:
		return "a script of its own"
	}
	return "none"
}
