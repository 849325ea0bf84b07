package catalog

import (
	"encoding/json"
	"slices"
	"strings"

	"legwork/internal/fault"
)

// ResolvedInput is an Input with the value that a Job passes on.
type ResolvedInput struct {
	Name      string          `json:"name"`
	Kind      InputKind       `json:"kind"`  // never empty
	Value     json.RawMessage `json:"value"` // JSON; Text gives what the environment holds
	Sensitive bool            `json:"sensitive,omitempty"`
	Source    string          `json:"source"` // "value", "definition stack_name", "output prod/network/base.subnet_id" or "secret token"

	// Secret names the Secret that it takes, whose value is filled in later.
	Secret string `json:"secret,omitempty"`
}

// Text gives the value as the environment holds it: a string as it is, anything else compact JSON.
func (r ResolvedInput) Text() string { return Text(r.Value) }

// ResolveInputs gives the Inputs of a Module, which should be effective, their values. Outputs looks
// up the latest Output set of a Module by its path. The Modules that have none yet, and so must be
// applied first, are listed by path, sorted, in missing; the Inputs that need them are left out.
//
// An output that its Module's Output set does not hold is a Fault of kind Conflict and code
// output_missing; a value that cannot be passed on is one of code input_unusable. An Input is sensitive
// when it says so, its output is, or it takes a Secret.
func ResolveInputs(m Module, outputs func(modulePath string) (OutputSet, bool)) (inputs []ResolvedInput, missing []string, err error) {
	for _, in := range m.Inputs {
		r := ResolvedInput{Name: in.Name, Kind: in.Kind, Value: in.Value, Sensitive: in.Sensitive, Source: "value"}
		if r.Kind == "" {
			r.Kind = Parameter
		}
		switch in.From {
		case FromDefinition:
			err = r.fromDefinition(m, in)
		case FromSecret:
			r.Secret = Text(in.Value)
			r.Source, r.Sensitive, r.Value = "secret "+r.Secret, true, json.RawMessage("null")
		case FromOutput:
			var waits string
			if waits, err = r.fromOutput(m, in, outputs); waits != "" {
				missing = append(missing, waits)
				continue
			}
		}
		if err != nil {
			return nil, nil, err
		}
		if problem := passable(r.Value); problem != "" {
			return nil, nil, fault.New(fault.Conflict, "input_unusable", "input %s of %s, from %s, %s", in.Name, m.Path(), r.Source, problem)
		}
		inputs = append(inputs, r)
	}
	slices.Sort(missing)
	return inputs, slices.Compact(missing), nil
}

func (r *ResolvedInput) fromDefinition(m Module, in Input) error {
	name := Text(in.Value)
	value, ok := m.fact(name)
	if !ok {
		return fault.New(fault.Invalid, "fact_unknown", "input %s of %s takes %s, which is no fact of a definition", in.Name, m.Path(), brief(name)).
			WithHint("the facts are %s", strings.Join(Facts, ", "))
	}
	r.Source = "definition " + name
	r.Value, _ = json.Marshal(value)
	return nil
}

// fromOutput gives the path of the Module to wait for when it has no Output set.
func (r *ResolvedInput) fromOutput(m Module, in Input, outputs func(string) (OutputSet, bool)) (waits string, err error) {
	path, err := UpstreamPath(m.Stack, m.Namespace, in.Module)
	if err != nil {
		return "", fault.New(fault.Invalid, "upstream_invalid", "input %s of %s: module %s %s", in.Name, m.Path(), brief(in.Module), err)
	}
	set, ok := outputs(path)
	if !ok {
		return path, nil
	}
	out, ok := set.Values[in.Output]
	if !ok {
		f := fault.New(fault.Conflict, "output_missing", "input %s of %s takes output %s of %s, which it does not have", in.Name, m.Path(), brief(in.Output), path)
		names := sortedKeys(set.Values)
		if len(names) == 0 {
			return "", f.WithHint("%s has no outputs at all: add one to its code and apply it again", path)
		}
		return "", f.WithHint("its outputs are %s: correct the name, or apply %s again if the output is new", strings.Join(names, ", "), path)
	}
	r.Value = out.Value
	r.Sensitive = r.Sensitive || out.Sensitive
	r.Source = "output " + path + "." + in.Output
	return "", nil
}

// fact gives what `from: definition` may name. A source_revision is the one declared, which may be a
// branch; the commit that runs is in the environment, as LEGWORK_COMMIT.
func (m Module) fact(name string) (string, bool) {
	value, ok := map[string]string{
		"module_name": m.Name, "module_id": m.ID,
		"namespace_name": m.Namespace, "namespace_id": m.NamespaceID,
		"stack_name": m.Stack, "stack_id": m.StackID,
		"source_url": m.Source.URL, "source_revision": m.Source.Revision, "source_subdirectory": m.Source.Subdirectory,
	}[name]
	return value, ok
}
