package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Facts lists the names that an Input with `from: definition` may take as its value.
var Facts = []string{
	"module_name", "module_id", "namespace_name", "namespace_id", "stack_name", "stack_id",
	"source_url", "source_revision", "source_subdirectory",
}

// Key is what makes two Inputs of one list the same: a parameter and an environment variable may share a name.
func (in Input) Key() string {
	if in.Kind == Env {
		return "env:" + in.Name
	}
	return in.Name
}

func (c *checker) inputs(field, stack, namespace string, inputs []Input) {
	if len(inputs) > MaxInputs {
		c.add(field, "has %d inputs, more than %d", len(inputs), MaxInputs)
		return
	}
	seen := make(map[string]bool, len(inputs))
	for i, in := range inputs {
		at := fmt.Sprintf("%s[%d].", field, i)
		if in.Name != "" && seen[in.Key()] {
			c.add(at+"name", "%s is there twice", brief(in.Name))
		}
		seen[in.Key()] = true
		choice(c, at+"kind", in.Kind, []InputKind{Parameter, Env}, false)
		c.inputName(at+"name", in)
		c.inputFrom(at, stack, namespace, in)
	}
}

func (c *checker) inputName(field string, in Input) {
	switch {
	case in.Name == "":
		c.add(field, "is missing")
	case len(in.Name) > 255:
		c.add(field, "has %d letters, more than 255", len(in.Name))
	case in.Kind == Env && !isEnvName(in.Name):
		c.add(field, "%s is not the name of an environment variable: letters, digits and _, not beginning with a digit", brief(in.Name))
	case in.Kind == Env && strings.HasPrefix(in.Name, "LEGWORK_"):
		c.add(field, "%s is kept for what Legwork itself tells the engine", brief(in.Name))
	case in.Kind != Env && !isIdentifier(in.Name):
		c.add(field, "%s is not the name of an input variable: letters, digits, _ and -, beginning with a letter or _", brief(in.Name))
	}
}

func (c *checker) inputFrom(at, stack, namespace string, in Input) {
	only := func(field string, given bool) {
		if given {
			c.add(at+field, "is for `from: output` alone")
		}
	}
	switch in.From {
	case FromValue:
		if len(in.Value) == 0 {
			if !in.Sensitive { // a sensitive one keeps the value that is stored: see Plan
				c.add(at+"value", "is missing")
			}
		} else if problem := passable(in.Value); problem != "" {
			c.add(at+"value", "%s", problem)
		}
	case FromDefinition:
		var fact string
		if json.Unmarshal(in.Value, &fact) != nil {
			fact = ""
		}
		choice(c, at+"value", fact, Facts, true)
	case FromSecret:
		var name string
		if json.Unmarshal(in.Value, &name) != nil || name == "" {
			c.add(at+"value", "is missing: the name of a Secret")
		}
		c.secretName(at+"value", name)
	case FromOutput:
		if len(in.Value) > 0 {
			c.add(at+"value", "cannot stand beside `from: output`")
		}
		if in.Output == "" {
			c.add(at+"output", "is missing: the name of an output of the Module")
		} else if !isIdentifier(in.Output) {
			c.add(at+"output", "%s is not the name of an output", brief(in.Output))
		}
		if in.Module == "" {
			c.add(at+"module", "is missing: the Module whose output it takes")
		} else if _, err := UpstreamPath(stack, namespace, in.Module); err != nil {
			c.add(at+"module", "%s %s", brief(in.Module), err)
		}
		return
	default:
		choice(c, at+"from", in.From, []InputFrom{FromDefinition, FromOutput, FromSecret}, false)
		return
	}
	only("module", in.Module != "")
	only("output", in.Output != "")
}

// passable says why a value cannot reach a program through its environment, or "". A null can: it
// leaves the variable unset.
func passable(value json.RawMessage) string {
	if !json.Valid(value) {
		return "is not JSON"
	}
	text := Text(value)
	switch {
	case len(text) > MaxInputBytes:
		return fmt.Sprintf("has %d bytes, more than the %d that an environment variable holds: use an extra file", len(text), MaxInputBytes)
	case strings.ContainsRune(text, 0):
		return "has a zero byte, which no environment variable can hold"
	}
	return ""
}

func isEnvName(s string) bool {
	for i := range len(s) {
		switch b := s[i]; {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b == '_':
		case i > 0 && b >= '0' && b <= '9':
		default:
			return false
		}
	}
	return s != ""
}

// isIdentifier follows the identifiers of HCL.
func isIdentifier(s string) bool {
	for i, r := range s {
		switch {
		case unicode.IsLetter(r), r == '_':
		case i > 0 && (unicode.IsDigit(r) || r == '-'):
		default:
			return false
		}
	}
	return s != ""
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
