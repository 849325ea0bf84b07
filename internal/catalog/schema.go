package catalog

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
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
		KindModule: ModuleSpec{}, KindAssignment: AssignmentSpec{},
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
		Namer: func(t reflect.Type) string { return strings.TrimSuffix(t.Name(), "Spec") },
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
	words := map[string][]string{"Hook.task": HookTasks, "Hook.shell": shells, "Script.shell": shells}
	for p := definition.Properties.Oldest(); p != nil; p = p.Next() {
		for _, word := range words[name+"."+p.Key] {
			p.Value.Enum = append(p.Value.Enum, word)
		}
		switch p.Key {
		case "name", "stack", "namespace", "runner":
			if name != "Input" {
				p.Value.Pattern = `^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`
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
		return enum([]InputFrom{FromDefinition, FromOutput})
	case reflect.TypeFor[HookPhase]():
		return enum([]HookPhase{Before, After})
	case reflect.TypeFor[Selection]():
		return enum([]Selection{FirstResponse, LeastLoaded, Random})
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
		return descriptions[t.Name()]
	}
	if f, ok := t.FieldByName(field); ok {
		field, _, _ = strings.Cut(f.Tag.Get("json"), ",")
	}
	return descriptions[t.Name()+"."+field]
}
