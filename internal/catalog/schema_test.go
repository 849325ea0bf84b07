package catalog_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"legwork/internal/catalog"
)

var update = flag.Bool("update", false, "write generated files anew")

const schemaFile = "../../docs/schema/manifest.json"

func TestSchemaFileIsCurrent(t *testing.T) {
	want, err := catalog.ManifestSchema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s is not current (%v): go test ./internal/catalog -run Schema -update", schemaFile, err)
	}
}

func compileSchema(t testing.TB) *jsonschema.Schema {
	text, err := catalog.ManifestSchema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("manifest.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// documents reads YAML by the library alone, as an editor would.
func documents(t rapid.TB, text []byte) []any {
	var docs []any
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var v any
		if err := d.Decode(&v); err != nil {
			return docs
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, doc)
	}
}

func TestExamplesAreSound(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.Glob("../../examples/quickstart/*.yaml")
	if err != nil || len(files) == 0 || len(folder) == 0 {
		t.Fatalf("%d files, %d in quickstart: %v", len(files), len(folder), err)
	}
	schema := compileSchema(t)
	current := catalog.Snapshot{Runners: []catalog.RunnerSpec{{Name: "dev", IsAssignedToAllModules: true}}}
	for _, name := range append(files, folder...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: name, Data: text}})
		if err != nil {
			t.Fatalf("%s:\n%s", err, details(err))
		}
		if _, err := catalog.Plan(current, m); err != nil {
			t.Errorf("%s:\n%s", err, details(err))
		}
		for i, doc := range documents(t, text) {
			if err := schema.Validate(doc); err != nil {
				t.Errorf("%s document %d: %v", name, i, err)
			}
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	schema := compileSchema(t)
	for _, text := range []string{
		"{name: prod}", "{kind: Stak, name: prod}", "{kind: Stack}", "{kind: Stack, name: prod, colour: red}",
		"{kind: Stack, name: Prod}", "{kind: Stack, name: a/b}", "{kind: Assignment, runner: r-, scope: s}",
		"{kind: Namespace, stack: s, name: n, defaults: {engine: opentufu}}",
		"{kind: Module, stack: s, namespace: n, name: m, limits: {timeout: soon}}",
		"{kind: Module, stack: s, namespace: n, name: m, hooks: [{task: aply, phase: before, script: x}]}",
	} {
		for _, doc := range documents(t, []byte(text)) {
			if schema.Validate(doc) == nil {
				t.Errorf("takes %s", text)
			}
		}
	}
}

func TestSchemaDescribesEveryKey(t *testing.T) {
	text, err := catalog.ManifestSchema()
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs map[string]struct {
			Description string
			Additional  *bool `json:"additionalProperties"`
			Properties  map[string]struct{ Description string }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	for name, def := range schema.Defs {
		if def.Description == "" || def.Additional == nil || *def.Additional {
			t.Errorf("%s: description %q, additionalProperties %v", name, def.Description, def.Additional)
		}
		for key, property := range def.Properties {
			if strings.TrimSpace(property.Description) == "" {
				t.Errorf("%s.%s has no description", name, key)
			}
		}
	}
}
