package boot

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"legwork/internal/catalog"
)

// structSource holds the comments that describe the settings: what a key means is written once.
//
//go:embed settings_runner.go settings_host.go settings_server.go
var structSource embed.FS

const (
	// sameAs marks a key that is another name of the key it gives.
	sameAs = "x-same-as"
	// goDuration is the format of a text such as "1h30m".
	goDuration = "go-duration"
)

// RunnerSchema gives the JSON Schema (draft 2020-12) of a Runner's settings file.
func RunnerSchema() ([]byte, error) { return printedSchema("runner") }

// ServerSchema gives the JSON Schema (draft 2020-12) of a Server's settings file.
func ServerSchema() ([]byte, error) { return printedSchema("server") }

func printedSchema(program string) ([]byte, error) {
	schema, err := schemaOf(program)
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema of the %s's settings: %w", program, err)
	}
	return append(text, '\n'), nil
}

// schemaOf gives the schema of a program's settings. It is made once and never changed.
func schemaOf(program string) (*jsonschema.Schema, error) {
	if program == "runner" {
		return runnerSchema()
	}
	return serverSchema()
}

var (
	runnerSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
		schema, err := makeSchema("Settings of a Legwork Runner", DefaultRunnerSettings())
		if err == nil {
			addOtherNames(schema, RunnerSettings{}.otherNames())
			property(schema, "Logging").AdditionalProperties = &jsonschema.Schema{
				Type: "object", Description: "Blocks for other log providers are accepted and not used.",
			}
		}
		return schema, err
	})
	serverSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
		return makeSchema("Settings of a Legwork Server", DefaultServerSettings())
	})
)

// makeSchema reflects a settings struct that holds its defaults.
func makeSchema(title string, defaults any) (*jsonschema.Schema, error) {
	comments, err := structComments()
	if err != nil {
		return nil, err
	}
	reflector := jsonschema.Reflector{
		Anonymous:                  true,
		DoNotReference:             true,
		ExpandedStruct:             true,
		RequiredFromJSONSchemaTags: true, // nothing is required of a file: the rest may come from elsewhere
		Mapper:                     mapType,
		LookupComment: func(t reflect.Type, field string) string {
			return comments[strings.TrimSuffix(t.Name()+"."+field, ".")]
		},
	}
	schema := reflector.Reflect(defaults)
	schema.Title = title
	encoded, err := json.Marshal(defaults)
	if err != nil {
		return nil, fmt.Errorf("encode default settings: %w", err)
	}
	var values map[string]any
	if err := json.Unmarshal(encoded, &values); err != nil {
		return nil, fmt.Errorf("decode default settings: %w", err)
	}
	addDefaults(schema, values)
	schema.Properties.Set("$schema", &jsonschema.Schema{Type: "string", Description: "Where an editor finds this schema."})
	return schema, nil
}

// mapType gives the schemas of the types that are written otherwise than Go shows them.
func mapType(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[Secret]():
		return &jsonschema.Schema{Type: "string", WriteOnly: true}
	case reflect.TypeFor[catalog.Duration]():
		return &jsonschema.Schema{Type: "string", Format: goDuration, Examples: []any{"90s", "1h30m"}}
	case reflect.TypeFor[LogLevel]():
		schema := &jsonschema.Schema{Type: "string"}
		for _, known := range slogLevels {
			schema.Enum = append(schema.Enum, string(known.name))
		}
		return schema
	}
	return nil
}

// addDefaults writes the defaults that say something into the schema's leaves.
func addDefaults(schema *jsonschema.Schema, values map[string]any) {
	for pair := schema.Properties.Oldest(); pair != nil; pair = pair.Next() {
		value, sub := values[pair.Key], pair.Value
		section, isObject := value.(map[string]any)
		switch {
		case sub.Properties.Len() > 0:
			addDefaults(sub, section)
		case value == nil || value == "" || sub.WriteOnly || (isObject && len(section) == 0):
		default:
			sub.Default = value
		}
	}
}

// addOtherNames adds the keys that are another name of a key.
func addOtherNames(schema *jsonschema.Schema, names map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		section, last := schema, name
		if before, after, ok := strings.Cut(name, "."); ok {
			section, last = property(schema, before), after
		}
		_, meant := newGathering(schema).walk(strings.Split(names[name], "."))
		other := *meant
		other.Default = nil
		other.Description = "Another name of " + names[name] + "."
		other.Extras = map[string]any{sameAs: names[name]}
		section.Properties.Set(last, &other)
	}
}

// structComments reads the comments of the settings structs and their fields, by "Type" and
// "Type.Field".
func structComments() (map[string]string, error) {
	comments := map[string]string{}
	for _, name := range []string{"settings_runner.go", "settings_host.go", "settings_server.go"} {
		source, err := structSource.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the embedded %s: %w", name, err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("parse the embedded %s: %w", name, err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				fieldComments(comments, spec)
			}
			return true
		})
	}
	return comments, nil
}

func fieldComments(comments map[string]string, spec *ast.TypeSpec) {
	structure, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range structure.Fields.List {
		for _, name := range field.Names {
			comments[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
		}
	}
}

// validate checks the gathered settings against the schema and rejects what does not conform. The
// error is a defect of the program, not of the settings.
func (g *gathering) validate(schema *jsonschema.Schema) error {
	compiled, err := compile(schema)
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(g.document())
	if err != nil {
		return fmt.Errorf("encode the settings: %w", err)
	}
	document, err := validator.UnmarshalJSON(bytes.NewReader(encoded))
	if err != nil {
		return fmt.Errorf("decode the settings: %w", err)
	}
	var invalid *validator.ValidationError
	if errors.As(compiled.Validate(document), &invalid) {
		g.rejectAll(invalid)
	}
	return nil
}

func compile(schema *jsonschema.Schema) (*validator.Schema, error) {
	encoded, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("encode the schema of the settings: %w", err)
	}
	document, err := validator.UnmarshalJSON(bytes.NewReader(encoded))
	if err != nil {
		return nil, fmt.Errorf("decode the schema of the settings: %w", err)
	}
	c := validator.NewCompiler()
	c.AssertFormat()
	c.RegisterFormat(&validator.Format{Name: goDuration, Validate: validateDuration})
	if err := c.AddResource("settings.json", document); err != nil {
		return nil, fmt.Errorf("add the schema of the settings: %w", err)
	}
	return c.Compile("settings.json")
}

func validateDuration(v any) error {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	_, err := time.ParseDuration(text)
	return err
}

// rejectAll names the problem of every leaf of the tree of errors, in the order of their places.
func (g *gathering) rejectAll(e *validator.ValidationError) {
	causes := slices.Clone(e.Causes)
	slices.SortFunc(causes, func(a, b *validator.ValidationError) int {
		return slices.Compare(a.InstanceLocation, b.InstanceLocation)
	})
	for _, cause := range causes {
		g.rejectAll(cause)
	}
	if len(causes) > 0 {
		return
	}
	at := path(e.InstanceLocation)
	from := origin{file: g.file}
	value, ok := g.leaves[at.key()]
	if ok {
		from = value.from
	}
	_, schema := g.walk(e.InstanceLocation)
	if schema == nil {
		schema = g.schema
	}
	if value.reference != "" {
		hiding := *schema
		hiding.WriteOnly, schema = true, &hiding
	}
	g.reject(at, from, "%s", complaint(schema, e.ErrorKind, value.value))
}

// complaint says in a sentence what the schema's keyword found. The validator's own words would
// print the value, which may be a secret.
func complaint(schema *jsonschema.Schema, found validator.ErrorKind, value any) string {
	got := instead(schema, fmt.Sprint(value))
	switch k := found.(type) {
	case *kind.Format:
		switch k.Want {
		case "uuid":
			return "must be a UUID such as 0191d2c4-6f3e-7b1a-9c55-3f1f0a7c2b10" + got
		case goDuration:
			return `must be a duration such as "90s" or "1h30m"` + got
		}
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, not %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d entries, not %d", k.Want, k.Got)
	}
	return "must be " + wanted(schema) + got
}

// ignored tells whether a schema stands for blocks that are accepted and not used.
func ignored(schema *jsonschema.Schema) bool {
	return schema != nil && schema.Type == "object" && schema.Properties.Len() == 0 && schema.AdditionalProperties == nil
}
