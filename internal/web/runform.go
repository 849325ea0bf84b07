package web

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

const (
	optionPrefix = "options." // of the names of fields, as faults name them
	filePrefix   = "file."    // of the fields that a browser sends a file in
	maxRunForm   = 8 << 20    // bytes: files are among the values of Options
)

// runSheet runs a Runbook: a field for each Option, by its type.
func runSheet() sheet {
	return sheet{path: "/runbooks/{stack}/{runbook}/run", nav: "/runbooks", need: catalog.Operate,
		show: func(v *visit, f form) (sheetContent, error) {
			b, err := v.runbook()
			return sheetContent{"Run " + b.Path() + "?", runForm(runFields{f: f, RunbookView: b})}, err
		},
		act: func(v *visit, f form) (outcome, error) {
			b, err := v.runbook()
			if err != nil {
				return outcome{}, err
			}
			r := control.RunRequest{Runbook: b.ID, Options: optionsOf(b.Options, f), Check: f.get("check") != "", Priority: work.Priority(f.get("priority"))}
			if filter := f.get("nodes"); filter != b.Nodes {
				r.Nodes = filter
			}
			j, err := v.Control.SubmitRun(v.ctx, v.actor, r)
			if err != nil {
				return outcome{}, atNodes(err)
			}
			return outcome{next: "/jobs/" + number(j.Number), note: "Job #" + number(j.Number) + " is queued."}, nil
		},
	}
}

// atNodes puts what is wrong with the Nodes of a run at their field.
func atNodes(err error) error {
	for _, code := range []string{"node_filter", "no_nodes", "nodes_unknown", "nodes_uncovered", "too_many_nodes"} {
		if found := fault.Of(err); found.Code == code {
			return found.WithDetails(fault.Problem{Field: "nodes", Message: strings.TrimSuffix(sentence(found.Message)+" "+sentence(found.Hint), " ")})
		}
	}
	return err
}

// runFields are the form of a run.
type runFields struct {
	f form
	control.RunbookView
}

// checks tells whether there is something that can say what it would change.
func (r runFields) checks() bool {
	return slices.ContainsFunc(r.Steps, func(s catalog.RunbookStep) bool { return s.Ansible != nil })
}

// optionField is an Option as a field.
type optionField struct {
	catalog.Option
	at    int // among the Options
	f     form
	path  string // of the Runbook's form
	after []int  // earlier Options that its offered values hang on
}

func (r runFields) fields() []optionField {
	fields := make([]optionField, len(r.Options))
	for i, o := range r.Options {
		fields[i] = optionField{Option: o, at: i, f: r.f, path: runbookPath(r.RunbookSpec, "run")}
		for j, earlier := range r.Options[:i] {
			if o.ValuesFrom != nil && strings.Contains(o.ValuesFrom.URL, "${option."+earlier.Name+"}") {
				fields[i].after = append(fields[i].after, j)
			}
		}
	}
	return fields
}

func (o optionField) name() string { return optionPrefix + o.Name }

func optionID(at int) string { return "option-" + number(at) }

func (o optionField) id() string { return optionID(o.at) }

// value is what the field holds: what was typed, else the default. A secret is not sent back.
func (o optionField) value() string {
	if o.Type == catalog.SecretOption {
		return ""
	}
	if o.f.values.Has(o.name()) {
		return o.f.values.Get(o.name())
	}
	return optionDefault(o.Option)
}

// chosen tells whether one of the values of a list is.
func (o optionField) chosen(value string) bool {
	if o.f.values == nil {
		return slices.Contains(strings.Split(optionDefault(o.Option), ", "), value)
	}
	return slices.Contains(o.f.values[o.name()], value)
}

// help says what the field takes.
func (o optionField) help() string {
	var says []string
	if o.Description != "" {
		says = append(says, sentence(o.Description))
	}
	plain := o.Option
	if o.Type == catalog.EnumOption || o.Type == catalog.ListOption {
		plain.Values = nil // they are in the field
	}
	if text := optionTakes(plain); text != "" {
		says = append(says, sentence(text))
	}
	switch {
	case o.Type == catalog.SecretOption && o.Secret != "":
		says = append(says, "Empty: the Secret "+o.Secret+".")
	case o.Type == catalog.ListOption && len(o.Values) == 0:
		says = append(says, "With commas between them.")
	case o.Type == catalog.DateOption && !o.isDay():
		says = append(says, "Such as 2026-01-31T12:00:00Z.")
	}
	return strings.Join(says, " ")
}

// isDay tells whether a date has no time.
func (o optionField) isDay() bool { return !strings.Contains(o.value(), "T") }

// about ties what is said of the field to it.
func (o optionField) about() templ.Attributes {
	return invalid(input{name: o.name(), help: o.help()}, o.f)
}

// loads has the values that are offered be asked for, and again whenever an Option that they hang on changes.
func (o optionField) loads() templ.Attributes {
	if o.ValuesFrom == nil {
		return templ.Attributes{}
	}
	trigger, include := "load", "#"+o.id()
	for _, i := range o.after {
		trigger += ", change from:#" + optionID(i)
		include += ", #" + optionID(i)
	}
	return templ.Attributes{"hx-get": o.path + "/values?option=" + number(o.at), "hx-trigger": trigger, "hx-include": include, "hx-target": "this", "hx-swap": "innerHTML", "hx-push-url": "false",
		"hx-select": "unset"}
}

// optionsOf reads the values of Options out of a form. What was left empty is no value, but for a text that would have another by default.
func optionsOf(options []catalog.Option, f form) map[string]any {
	given := map[string]any{}
	for _, o := range options {
		values, sent := f.values[optionPrefix+o.Name]
		if !sent && !f.values.Has("sent."+o.Name) {
			continue
		}
		text := ""
		if len(values) > 0 {
			text = values[0]
		}
		switch {
		case o.Type == catalog.ListOption && len(o.Values) > 0:
			given[o.Name] = values
			if values == nil {
				given[o.Name] = []string{}
			}
		case text == "" && (o.Default == nil || o.Type == catalog.SecretOption):
		default:
			given[o.Name] = text
		}
	}
	return given
}

// readFiles puts the files that a browser sent where their texts would be typed in.
func readFiles(r *http.Request) error {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		return nil
	}
	if err := r.ParseMultipartForm(maxRunForm); err != nil {
		return fault.New(fault.Invalid, "form_unreadable", "the form cannot be read").WithCause(err)
	}
	defer func() { _ = r.MultipartForm.RemoveAll() }() // of the parts that were too large for memory: none
	for name, files := range r.MultipartForm.File {
		option, ok := strings.CutPrefix(name, filePrefix)
		if !ok || len(files) == 0 || files[0].Size == 0 {
			continue
		}
		if files[0].Size > runbook.MaxFileBytes {
			return fault.New(fault.TooLarge, "file_too_large", "the file of the option %s has more than 1 MiB", option)
		}
		opened, err := files[0].Open()
		if err != nil {
			return fault.New(fault.Invalid, "form_unreadable", "the form cannot be read").WithCause(err)
		}
		text, err := io.ReadAll(io.LimitReader(opened, runbook.MaxFileBytes))
		if err := opened.Close(); err != nil {
			return err
		}
		if err != nil {
			return fault.New(fault.Invalid, "form_unreadable", "the form cannot be read").WithCause(err)
		}
		r.PostForm.Set(optionPrefix+option, string(text))
	}
	return nil
}

// offeredField is the field of an Option whose values come from a URL, with them or with why there are none.
type offeredField struct {
	optionField
	offers []control.OfferedValue
	failed *fault.Fault
}

// optionValues answers with the field of an Option whose values come from a URL.
func (w *Web) optionValues(v *visit) (templ.Component, error) {
	if err := v.actor.Need(catalog.Operate); err != nil {
		return nil, err
	}
	b, err := v.runbook()
	if err != nil {
		return nil, err
	}
	fields := runFields{f: form{values: v.url.Query()}, RunbookView: b}.fields()
	at := slices.IndexFunc(fields, func(o optionField) bool { return number(o.at) == v.query("option") })
	if at < 0 || fields[at].ValuesFrom == nil {
		return nil, fault.New(fault.NotFound, "option_not_found", "there is no such option")
	}
	o := offeredField{optionField: fields[at]}
	given := map[string]any{}
	for _, i := range o.after {
		if value := fields[i].value(); value != "" {
			given[fields[i].Name] = value
		}
	}
	if o.offers, err = v.Control.OptionValues(v.ctx, v.actor, b.ID, o.Name, given); err != nil {
		if o.failed = fault.Of(err); o.failed.Kind == fault.Internal {
			return nil, err
		}
	}
	return offeredInput(o), nil
}

// fragment answers with a piece of a page, for who has scripts.
func (w *Web) fragment(make func(v *visit) (templ.Component, error)) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		body, err := make(w.visitOf(r))
		if err != nil {
			w.fail(rw, r, err)
			return
		}
		w.answer(rw, r, http.StatusOK, body)
	}
}

// addFragments lets forms ask for what hangs on what is typed.
func (w *Web) addFragments() {
	w.pages.HandleFunc("GET /-/nodes", w.fragment(w.previewNodes))
	w.pages.HandleFunc("GET /runbooks/{stack}/{runbook}/run/values", w.fragment(w.optionValues))
}
