package terraform

import (
	"encoding/json"

	tfjson "github.com/hashicorp/terraform-json"

	"legwork/internal/process"
	"legwork/internal/work"
)

// What stands where a value must not or cannot be shown.
const (
	hidden  = "(sensitive)"
	unknown = "(known after apply)"
)

// redactor takes out of changes what the engine marks as sensitive and, since the code may forget the
// mark, every value of a sensitive Input, in all forms that are masked in logs.
type redactor struct {
	exact  map[string]bool // a text that is a secret as a whole: shorter ones than the masker looks for inside others
	masker *process.Masker
}

func newRedactor(secrets []string) redactor {
	r := redactor{exact: map[string]bool{}, masker: process.NewMasker(secrets).Replacing(hidden)}
	for _, s := range secrets {
		if s != "" {
			r.exact[s] = true
		}
	}
	return r
}

// holds reports whether a text has a secret in it.
func (r redactor) holds(text string) bool { return r.exact[text] || r.masker.Holds(text) }

func (r redactor) text(s string) string {
	if r.exact[s] {
		return hidden
	}
	return r.masker.Mask(s)
}

// resource turns the engine's change of a resource into ours.
func (r redactor) resource(rc *tfjson.ResourceChange) work.ResourceChange {
	address := rc.Address
	if rc.DeposedKey != "" {
		address += " (deposed " + rc.DeposedKey + ")"
	}
	return r.change(address, rc.Type, rc.Change)
}

func (r redactor) change(address, kind string, c *tfjson.Change) work.ResourceChange {
	change := work.ResourceChange{
		Address: r.text(address),
		Type:    r.text(kind),
		Before:  r.value(c.Before, c.BeforeSensitive, nil),
		After:   r.value(c.After, c.AfterSensitive, c.AfterUnknown),
	}
	for _, action := range c.Actions {
		change.Actions = append(change.Actions, r.text(string(action)))
	}
	return change
}

// value walks a value beside its two masks. A mask is true for all that lies below it, or has the shape of
// the value. What is unknown has no value: it stands in its mask alone.
func (r redactor) value(v, sensitive, unknowns any) any {
	if sensitive == true {
		return hidden
	}
	if unknowns == true {
		return unknown
	}
	if v == nil {
		return r.unknownShape(unknowns, sensitive)
	}
	switch v := v.(type) {
	case map[string]any:
		return r.object(v, sensitive, unknowns)
	case []any:
		return r.list(v, sensitive, unknowns)
	case string:
		return r.text(v)
	case json.Number:
		if r.exact[v.String()] {
			return hidden
		}
	}
	return v
}

// unknownShape handles a value that is absent, while its mask may still say which parts will be known.
func (r redactor) unknownShape(unknowns, sensitive any) any {
	switch u := unknowns.(type) {
	case map[string]any:
		if len(u) > 0 {
			return r.object(map[string]any{}, sensitive, u)
		}
	case []any:
		if len(u) > 0 {
			return r.list(nil, sensitive, u)
		}
	}
	return nil
}

func (r redactor) object(v map[string]any, sensitive, unknowns any) any {
	s, _ := sensitive.(map[string]any)
	u, _ := unknowns.(map[string]any)
	out := make(map[string]any, len(v)+len(u))
	for key, value := range v {
		out[r.text(key)] = r.value(value, s[key], u[key])
	}
	for key := range u {
		if _, has := v[key]; has {
			continue
		}
		if value := r.value(nil, s[key], u[key]); value != nil {
			out[r.text(key)] = value
		}
	}
	return out
}

func (r redactor) list(v []any, sensitive, unknowns any) any {
	s, _ := sensitive.([]any)
	u, _ := unknowns.([]any)
	out := make([]any, max(len(v), len(u)))
	for i := range out {
		out[i] = r.value(at(v, i), at(s, i), at(u, i))
	}
	return out
}

func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}
