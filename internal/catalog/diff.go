package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"legwork/internal/node"
)

// masked stands for a sensitive value.
const masked = "***"

// diff lists the fields that differ between two Specs of one type, by path.
func diff(before, after any) []FieldChange {
	was, is := flatten(before), flatten(after)
	var changes []FieldChange
	for path, from := range was.values {
		if to := is.values[path]; from != to {
			changes = append(changes, FieldChange{Path: path, Old: from, New: to})
		}
	}
	for path, to := range is.values {
		if _, ok := was.values[path]; !ok {
			changes = append(changes, FieldChange{Path: path, New: to})
		}
	}
	for i := range changes {
		c := &changes[i]
		hide := was.sensitive[c.Path] || is.sensitive[c.Path]
		c.Old, c.New = shown(c.Old, hide), shown(c.New, hide)
	}
	slices.SortFunc(changes, func(a, b FieldChange) int { return strings.Compare(a.Path, b.Path) })
	return changes
}

func shown(value string, hide bool) string {
	if hide && value != "" {
		return masked
	}
	return Text(json.RawMessage(value))
}

// flat is a Spec as canonical JSON values by path. What equals a default, and what is empty, is not in
// it; Inputs and Extra files go by name, since their order means nothing.
type flat struct {
	values    map[string]string
	sensitive map[string]bool // paths whose value is not to be shown
}

func flatten(spec any) flat {
	f := flat{values: map[string]string{}, sensitive: map[string]bool{}}
	f.add("", reflect.ValueOf(spec))
	return f
}

// implied are the values that mean the same as nothing.
var implied = map[string]string{
	"Input.kind":           string(Parameter),
	"Hook.shell":           "bash",
	"ScriptSpec.shell":     "bash",
	"RunnerSpec.selection": string(FirstResponse),
	"ModuleSpec.trigger_on_upstream_output_changed": "true",

	"Node.connection":                string(node.SSH),
	"Node.port":                      "22",
	"RunbookSpec.strategy":           string(NodeFirst),
	"RunbookSpec.concurrency":        fmt.Sprint(DefaultConcurrency),
	"RunbookSpec.max_failures":       "0",
	"RunbookSpec.on_failure":         string(StopOnFailure),
	"RunbookSpec.order_by":           "name",
	"RunbookSpec.concurrency_policy": string(AllowConcurrent),
	"Dispatch.mode":                  string(AutomaticDispatch),
	"Option.type":                    string(StringOption),
	"ConnectionSpec.host_keys":       string(StrictHostKeys),
	"ConnectionSpec.sudo_user":       "root",
	"Schedule.time_zone":             "UTC",

	"CloudIdentitySpec.session_name": "legwork",
}

func (f flat) add(path string, v reflect.Value) {
	switch value := v.Interface().(type) {
	case json.RawMessage:
		if len(value) > 0 {
			f.values[path] = string(canonical(value))
		}
		return
	case Duration:
		if value != 0 {
			f.leaf(path, value)
		}
		return
	case Hosting: // what is spelled out and what is left to the default are the same
		f.fields(path, reflect.ValueOf(value.Filled()))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		f.fields(path, v)
	case reflect.Slice:
		for i := range v.Len() {
			at := path + "[" + elementKey(i, v.Index(i).Interface()) + "]"
			f.add(at, v.Index(i))
			if v.Index(i).Kind() == reflect.String { // an empty one counts
				f.leaf(at, v.Index(i).Interface())
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			f.leaf(path+"["+key.String()+"]", v.MapIndex(key).Interface())
		}
	case reflect.Pointer:
		switch {
		case v.IsNil():
		case v.Elem().Kind() == reflect.Struct:
			before := len(f.values)
			if f.add(path, v.Elem()); len(f.values) == before { // that it is there counts
				f.values[path] = "{}"
			}
		default: // what is pointed at counts even when it is zero
			f.leaf(path, v.Elem().Interface())
		}
	default:
		if !v.IsZero() {
			f.leaf(path, v.Interface())
		}
	}
}

func (f flat) fields(path string, v reflect.Value) {
	if in, ok := v.Interface().(Input); ok && in.Sensitive {
		f.sensitive[join(path, "value")] = true
	}
	if i, ok := v.Interface().(CloudIdentitySpec); ok && !i.HasReference() {
		f.sensitive[join(path, "secret_access_key")] = true
	}
	for _, key := range fieldsOf(v.Type()) {
		field := v.FieldByIndex(key.index)
		if word, ok := implied[key.owner+"."+key.name]; ok && fmt.Sprint(reflect.Indirect(field)) == word {
			continue
		}
		f.add(join(path, key.name), field)
	}
}

func (f flat) leaf(path string, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // texts, numbers, booleans and durations always encode
	f.values[path] = strings.TrimSuffix(b.String(), "\n")
}

// elementKey names an element of a list by what makes it that element.
func elementKey(i int, element any) string {
	switch e := element.(type) {
	case Input:
		return e.Key()
	case ExtraFile:
		return e.FileName
	case Schedule:
		if e.Name != "" {
			return e.Name
		}
	}
	return fmt.Sprint(i)
}
