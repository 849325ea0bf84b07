package api

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// schemaKeys are the keys of a schema object that the document may use: OpenAPI 3.1 and JSON Schema 2020-12.
var schemaKeys = []string{"$ref", "additionalProperties", "anyOf", "const", "contentEncoding", "contentMediaType", "default", "deprecated",
	"description", "enum", "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maxLength", "maxProperties",
	"maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "oneOf", "pattern", "properties", "readOnly", "required",
	"title", "type", "uniqueItems", "writeOnly"}

// apiDocument walks the OpenAPI document as JSON.
type apiDocument struct {
	t    *testing.T
	root map[string]any
}

// TestOpenAPIHoldsTheRules holds the rules of OpenAPI 3.1 that generators of clients depend on, and that everything
// has a description.
func TestOpenAPIHoldsTheRules(t *testing.T) {
	text, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	d := apiDocument{t: t}
	if err := json.Unmarshal(text, &d.root); err != nil {
		t.Fatal(err)
	}
	if servers, _ := d.root["servers"].([]any); len(servers) == 0 {
		t.Error("got no servers, want at least one")
	}
	for name, schema := range object(object(d.root, "components"), "schemas") {
		d.schema(name, schema.(map[string]any))
	}
	ids := map[string]bool{}
	for path, methods := range object(d.root, "paths") {
		for method, op := range methods.(map[string]any) {
			op := op.(map[string]any)
			id, _ := op["operationId"].(string)
			if id == "" || ids[id] {
				t.Errorf("%s %s: got the operation id %q, want a unique one", method, path, id)
			}
			ids[id] = true
			d.operation(path, id, op)
		}
	}
	d.references("", d.root)
}

func object(in map[string]any, key string) map[string]any {
	found, _ := in[key].(map[string]any)
	return found
}

func (d apiDocument) described(where string, in map[string]any) {
	text, _ := in["description"].(string)
	if len(strings.Fields(text)) < 2 {
		d.t.Errorf("%s: got the description %q, want a sentence", where, text)
	}
}

var pathParameter = regexp.MustCompile(`\{([a-z]+)\}`)

func (d apiDocument) operation(path, id string, op map[string]any) {
	d.described(id, op)
	if summary, _ := op["summary"].(string); summary == "" {
		d.t.Errorf("%s has no summary", id)
	}
	if len(object(op, "responses")) == 0 {
		d.t.Errorf("%s has no responses", id)
	}
	inPath := []string{}
	parameters, _ := op["parameters"].([]any)
	for _, one := range parameters {
		p := one.(map[string]any)
		name, _ := p["name"].(string)
		d.described(id+" parameter "+name, p)
		d.keys(id+" parameter "+name, object(p, "schema"))
		if p["in"] == "path" {
			inPath = append(inPath, name)
		}
	}
	want := []string{}
	for _, found := range pathParameter.FindAllStringSubmatch(path, -1) {
		want = append(want, found[1])
	}
	slices.Sort(inPath)
	slices.Sort(want)
	if !slices.Equal(inPath, want) {
		d.t.Errorf("%s: got the path parameters %v, want %v", id, inPath, want)
	}
	bodies := map[string]any{}
	maps.Copy(bodies, object(object(op, "requestBody"), "content"))
	for _, response := range object(op, "responses") {
		maps.Copy(bodies, object(response.(map[string]any), "content"))
	}
	for kind, body := range bodies {
		d.schema(id+" "+kind, object(body.(map[string]any), "schema"))
	}
}

// schema checks a schema and the schemas in it.
func (d apiDocument) schema(where string, s map[string]any) {
	d.keys(where, s)
	for name, property := range object(s, "properties") {
		p := property.(map[string]any)
		d.described(where+"."+name, p)
		d.schema(where+"."+name, p)
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner := object(s, key); inner != nil {
			d.schema(where+"."+key, inner)
		}
	}
}

func (d apiDocument) keys(where string, s map[string]any) {
	for key := range s {
		if !slices.Contains(schemaKeys, key) {
			d.t.Errorf("%s: got the key %q, which OpenAPI does not have", where, key)
		}
	}
}

// references checks that every reference leads somewhere.
func (d apiDocument) references(where string, v any) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			d.references(where, one)
		}
	case map[string]any:
		ref, _ := v["$ref"].(string)
		if name, ok := strings.CutPrefix(ref, "#/components/schemas/"); ok && object(object(object(d.root, "components"), "schemas"), name) == nil {
			d.t.Errorf("%s: the reference %s leads nowhere", where, ref)
		}
		for key, one := range v {
			d.references(where+"/"+key, one)
		}
	}
}
