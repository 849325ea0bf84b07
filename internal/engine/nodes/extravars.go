package nodes

import "strings"

// unsafeText is how Ansible's JSON marks a text that is no template, whatever stands in it.
const unsafeText = "__ansible_unsafe"

// untemplated marks, in extra vars, the texts that values were put into, so that Ansible evaluates nothing of a value. What was declared
// without a template of the Runbook stays as it is, and may be one of Ansible's.
func untemplated(declared, expanded any) any {
	switch e := expanded.(type) {
	case string:
		if d, ok := declared.(string); ok && d != e && strings.Contains(e, "{") {
			return map[string]any{unsafeText: e}
		}
	case map[string]any:
		d, _ := declared.(map[string]any)
		for key, element := range e {
			e[key] = untemplated(d[key], element)
		}
	case []any:
		d, _ := declared.([]any)
		for i, element := range e {
			if i < len(d) {
				e[i] = untemplated(d[i], element)
			}
		}
	}
	return expanded
}
