package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"legwork/internal/node"
)

//go:generate go test -count=1 -run ^TestSchemaFileIsCurrent$ . -update

// ManifestSchema gives the JSON Schema (draft 2020-12) of one document of a manifest, for editors:
// one of the kinds, keys that are not known refused, every key described. It is generated from the
// Spec types and is the same every time. What it cannot say, such as which keys go together,
// ParseManifest checks.
func ManifestSchema() ([]byte, error) {
	root := &jsonschema.Schema{
		Version: jsonschema.Version, Title: "Legwork manifest", Definitions: jsonschema.Definitions{},
		Description: "One document of a Legwork manifest. A file holds several, parted by ---.",
	}
	documents := map[Kind]any{
		KindStack: StackSpec{}, KindNamespace: NamespaceSpec{}, KindRunner: RunnerSpec{},
		KindModule: ModuleSpec{}, KindAssignment: AssignmentSpec{}, KindNode: NodeSpec{},
		KindNodeSource: NodeSourceSpec{}, KindRunbook: RunbookSpec{}, KindSecret: SecretDocument{},
		KindCloudIdentity: CloudIdentitySpec{},
	}
	for _, kind := range Kinds {
		addDocument(root, kind, reflect.TypeOf(documents[kind]))
	}
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the schema: %w", err)
	}
	return append(text, '\n'), nil
}

// addDocument adds the schema of a Spec with its kind as one of the alternatives.
func addDocument(root *jsonschema.Schema, kind Kind, spec reflect.Type) {
	r := jsonschema.Reflector{
		Anonymous: true, Mapper: mapType, LookupComment: describeField, RequiredFromJSONSchemaTags: true,
		Namer: func(t reflect.Type) string {
			return strings.TrimSuffix(strings.TrimSuffix(t.Name(), "Spec"), "Document")
		},
	}
	s := r.ReflectFromType(spec)
	for name, definition := range s.Definitions {
		root.Definitions[name] = definition
		definition.Required = required[name]
		narrow(name, definition)
	}
	document := root.Definitions[string(kind)]
	document.Properties.Set("kind", &jsonschema.Schema{Type: "string", Const: string(kind), Description: "what the document declares"})
	_ = document.Properties.MoveToFront("kind")
	document.Required = append([]string{"kind"}, document.Required...)
	root.OneOf = append(root.OneOf, &jsonschema.Schema{Ref: "#/$defs/" + string(kind)})
}

// narrow says of texts what their Go type does not.
func narrow(name string, definition *jsonschema.Schema) {
	words := map[string][]string{"Hook.task": HookTasks, "Hook.shell": shells, "Script.shell": shells, "ModuleStep.action": moduleActions,
		"CloudIdentity.provider": Providers}
	for p := definition.Properties.Oldest(); p != nil; p = p.Next() {
		for _, word := range words[name+"."+p.Key] {
			p.Value.Enum = append(p.Value.Enum, word)
		}
		switch p.Key {
		case "name", "stack", "namespace", "runner":
			switch {
			case p.Key != "name" || !slices.Contains([]string{"Input", "Node", "Option", "RunbookStep", "Schedule", "Secret"}, name):
				p.Value.Pattern = `^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`
			case name == "Secret":
				p.Value.Pattern = `^[A-Za-z0-9][A-Za-z0-9._-]*$`
			case name != "Input" && name != "Node":
				p.Value.Pattern = `^[A-Za-z][A-Za-z0-9_-]{0,62}$`
			}
		}
	}
}

// required lists the keys that each type must have, by the name of its definition.
var required = map[string][]string{
	"Stack":      {"name"},
	"Namespace":  {"stack", "name"},
	"Module":     {"stack", "namespace", "name"},
	"Runner":     {"name"},
	"Assignment": {"runner", "scope"},
	"Input":      {"name"},
	"ExtraFile":  {"file_name"},
	"Hook":       {"task", "phase", "script"},
	"Source":     {"type"},

	"Node":        {"stack", "name"},
	"NodeSource":  {"stack", "name", "type"},
	"Runbook":     {"stack", "name", "steps"},
	"Option":      {"name"},
	"ValuesFrom":  {"url"},
	"AnsibleStep": {"playbook"},
	"ModuleStep":  {"module", "action"},
	"RunbookRef":  {"name"},
	"Schedule":    {"cron"},
	"Secret":      {"name", "scope"},

	"CloudIdentity": {"name", "provider"},
	"Hosting":       {"launcher"},
}

// mapType gives the schema of the types whose values are fewer than their Go type says.
func mapType(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[Engine]():
		return enum(Engines)
	case reflect.TypeFor[SourceType]():
		return enum([]SourceType{Git, Inline})
	case reflect.TypeFor[InputKind]():
		return enum([]InputKind{Parameter, Env})
	case reflect.TypeFor[InputFrom]():
		return enum([]InputFrom{FromDefinition, FromOutput, FromSecret})
	case reflect.TypeFor[HookPhase]():
		return enum([]HookPhase{Before, After})
	case reflect.TypeFor[Approval]():
		return enum(Approvals)
	case reflect.TypeFor[Selection]():
		return enum([]Selection{FirstResponse, LeastLoaded, Random})
	case reflect.TypeFor[Lifetime]():
		return enum([]Lifetime{Persistent, Ephemeral})
	case reflect.TypeFor[OS]():
		return enum(OSes)
	case reflect.TypeFor[node.Connection]():
		return enum([]node.Connection{node.SSH, node.Local})
	case reflect.TypeFor[NodeSourceType]():
		return enum(NodeSourceTypes)
	case reflect.TypeFor[OptionType]():
		return enum(OptionTypes)
	case reflect.TypeFor[Strategy]():
		return enum(strategies)
	case reflect.TypeFor[OnFailure]():
		return enum(onFailures)
	case reflect.TypeFor[ConcurrencyPolicy]():
		return enum(concurrencyPolicies)
	case reflect.TypeFor[DispatchMode]():
		return enum(dispatchModes)
	case reflect.TypeFor[Each]():
		return enum(eaches)
	case reflect.TypeFor[LauncherKind]():
		return enum(LauncherKinds)
	case reflect.TypeFor[Size]():
		return enum(Sizes)
	case reflect.TypeFor[HostKeys]():
		return enum(hostKeys)
	case durationType:
		return &jsonschema.Schema{Type: "string", Pattern: `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`, Examples: []any{"90s", "1h30m"}}
	case rawType:
		return &jsonschema.Schema{Description: descriptions["Input.value"]} // any value
	}
	return nil
}

func enum[T ~string](words []T) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, w := range words {
		s.Enum = append(s.Enum, string(w))
	}
	return s
}

// describeField finds the description of a type or one of its fields.
func describeField(t reflect.Type, field string) string {
	if field == "" {
		return described(t.Name())
	}
	if f, ok := t.FieldByName(field); ok {
		field, _, _ = strings.Cut(f.Tag.Get("json"), ",")
	}
	return described(t.Name() + "." + field)
}

// Describe returns the description of a field in the manifest, by the name of its type and its key:
// "RunnerSpec.name". It is empty for a field without one.
func Describe(key string) string { return described(key) }

func described(key string) string {
	return cmp.Or(descriptions[key], runbookDescriptions[key], hostingDescriptions[key])
}
