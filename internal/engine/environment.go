package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// maxVariable bounds one environment variable, name and value together: Linux starts no program with
// a longer one.
const maxVariable = 128<<10 - 1

// Run tells which Step of which Job an environment is for.
type Run struct {
	JobID   string
	Attempt int
	Step    work.StepKind
	Commit  string // of the source; empty for inline sources
}

// Environment gives what Legwork adds to the environment of a Step, as "K=V" and each name once: the
// Inputs of the Job and the LEGWORK_ variables, which no Input can replace. secrets are the values to
// mask: of every sensitive Input the text, the JSON form, and each string inside.
//
// A parameter becomes TF_VAR_name: a string as it stands, anything else as an HCL expression. An Input
// that is null is left out, so that the code's own default holds. It fails with a fault.Invalid when a value
// cannot be an environment variable: too large for the operating system, or with a NUL byte.
func Environment(spec *work.Spec, run Run) (env, secrets []string, err error) {
	var inputs []string
	for _, in := range spec.Inputs {
		entry, hidden, err := variable(in)
		if err != nil {
			return nil, nil, err
		}
		if entry != "" && !strings.HasPrefix(entry, "LEGWORK_") {
			inputs = append(inputs, entry)
		}
		secrets = append(secrets, hidden...)
	}
	slices.Sort(secrets)
	return MergeEnv(inputs, facts(spec, run)), slices.Compact(secrets), nil
}

// facts are the variables that tell every engine and Hook where it runs.
func facts(spec *work.Spec, run Run) []string {
	return []string{
		"LEGWORK_JOB_ID=" + run.JobID,
		"LEGWORK_JOB_NUMBER=" + strconv.FormatInt(spec.Number, 10),
		"LEGWORK_MODULE=" + spec.Module,
		"LEGWORK_STACK=" + spec.StackName,
		"LEGWORK_NAMESPACE=" + spec.Namespace,
		"LEGWORK_ATTEMPT=" + strconv.Itoa(run.Attempt),
		"LEGWORK_STEP=" + string(run.Step),
		"LEGWORK_COMMIT=" + run.Commit,
	}
}

// variable turns an Input into "K=V" ("" for a null) and the texts to mask.
func variable(in work.InputValue) (entry string, secrets []string, err error) {
	value, err := decode(in.Value)
	if err != nil {
		return "", nil, badInput(in.Name, "is no valid JSON").WithCause(err)
	}
	if value == nil {
		return "", nil, nil
	}
	name, text := in.Name, plainText(value, in.Value)
	if in.Kind != catalog.Env {
		name = "TF_VAR_" + in.Name
		if _, isString := value.(string); !isString {
			text = hclText(value)
		}
	}
	switch entry = name + "=" + text; {
	case in.Name == "" || strings.ContainsRune(in.Name, '='):
		return "", nil, badInput(in.Name, "has a name that no environment variable can have")
	case strings.ContainsRune(entry, 0):
		return "", nil, badInput(in.Name, "has a NUL byte, which no environment variable can hold")
	case len(entry) > maxVariable:
		return "", nil, badInput(in.Name, fmt.Sprintf("takes %d bytes, but an environment variable holds at most %d", len(entry), maxVariable))
	}
	if in.Sensitive {
		secrets = hiddenTexts(value, text, in.Value)
	}
	return entry, secrets, nil
}

func badInput(name, what string) *fault.Fault {
	return fault.New(fault.Invalid, "bad_input", "the Input %q %s", name, what).
		WithHint("change the value of the Input; large data belongs into an Extra file or into the source")
}

// decode reads one JSON value and keeps numbers as they are written. No value at all reads as null.
func decode(data []byte) (any, error) {
	if len(data) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, fmt.Errorf("more than one value")
	}
	return value, nil
}

// plainText is a string as it stands and any other value as the JSON it came as.
func plainText(value any, raw []byte) string {
	if s, ok := value.(string); ok {
		return s
	}
	return string(raw)
}

// hclText writes a value as an HCL expression: JSON, in which strings hold no template sequences and
// only those escapes that HCL knows.
func hclText(value any) string {
	var b strings.Builder
	writeHCL(&b, value)
	return b.String()
}

func writeHCL(b *strings.Builder, value any) {
	switch v := value.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case json.Number:
		b.WriteString(v.String())
	case string:
		writeHCLString(b, v)
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeHCL(b, item)
		}
		b.WriteByte(']')
	case map[string]any:
		writeHCLObject(b, v)
	}
}

func writeHCLObject(b *strings.Builder, object map[string]any) {
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	b.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		writeHCLString(b, key)
		b.WriteByte(':')
		writeHCL(b, object[key])
	}
	b.WriteByte('}')
}

// writeHCLString quotes s. "${" and "%{" would begin a template: their first sign is doubled.
func writeHCLString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(b, `\u%04x`, r)
		case (r == '$' || r == '%') && strings.HasPrefix(s[i+1:], "{"):
			b.WriteRune(r)
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}

// hiddenTexts lists the forms in which a sensitive value may show up.
func hiddenTexts(value any, text string, raw []byte) []string {
	if _, isBool := value.(bool); isBool {
		return nil // hiding every "true" hides nothing
	}
	texts := append(leaves(value), text, strings.TrimSpace(string(raw)))
	slices.Sort(texts)
	texts = slices.Compact(texts)
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

// leaves gives every string inside a value, keys left out.
func leaves(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, item := range v {
			all = append(all, leaves(item)...)
		}
		return all
	case map[string]any:
		var all []string
		for _, item := range v {
			all = append(all, leaves(item)...)
		}
		return all
	}
	return nil
}

// MergeEnv joins lists of "K=V". A name that occurs twice keeps the last value, in the place of the first.
func MergeEnv(lists ...[]string) []string {
	at := map[string]int{}
	var merged []string
	for _, list := range lists {
		for _, entry := range list {
			name, _, ok := strings.Cut(entry, "=")
			if !ok || name == "" {
				continue
			}
			if i, seen := at[name]; seen {
				merged[i] = entry
				continue
			}
			at[name] = len(merged)
			merged = append(merged, entry)
		}
	}
	return merged
}

// Lookup gives the value of a name in a list of "K=V", the last one when there are several.
func Lookup(env []string, name string) (string, bool) {
	for _, entry := range slices.Backward(env) {
		if key, value, ok := strings.Cut(entry, "="); ok && key == name {
			return value, true
		}
	}
	return "", false
}
