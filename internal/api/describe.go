package api

import (
	"cmp"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
)

// describeProperties adds the descriptions that no doc tag holds: those of declared records are in catalog, where the
// schema of manifests takes them from, and all others in propertyDescriptions.
func describeProperties(spec *huma.OpenAPI) {
	registry := spec.Components.Schemas
	for name, schema := range registry.Map() {
		record := registry.TypeFromRef("#/components/schemas/" + name)
		for property, s := range schema.Properties {
			declared := propertyType(record, property)
			if text := describeProperty(name, declared, property); text != "" && s.Description == "" {
				s.Description = text
			}
		}
	}
}

func describeProperty(schema, declared, property string) string {
	return cmp.Or(propertyDescriptions[schema+"."+property], propertyDescriptions[declared+"."+property],
		sentence(catalog.Describe(declared+"."+property)), propertyDescriptions["*."+property])
}

// sentence writes the text of a manifest's schema as the texts of the API are written.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// propertyType returns the name of the struct that declares a property: an embedded one, or the record itself.
func propertyType(record reflect.Type, property string) string {
	for record != nil && record.Kind() == reflect.Pointer {
		record = record.Elem()
	}
	if record == nil || record.Kind() != reflect.Struct {
		return ""
	}
	for _, f := range reflect.VisibleFields(record) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != property {
			continue
		}
		declaring := record
		for _, i := range f.Index[:len(f.Index)-1] {
			declaring = declaring.Field(i).Type
			if declaring.Kind() == reflect.Pointer {
				declaring = declaring.Elem()
			}
		}
		return declaring.Name()
	}
	return record.Name()
}

// eventStream describes server-sent events: an array of events, as OpenAPI 3.1 has no other form for a stream.
func eventStream(description string, names []string) *huma.Schema {
	enum := make([]any, len(names))
	for i, name := range names {
		enum[i] = name
	}
	event := &huma.Schema{Type: huma.TypeObject, Required: []string{"data"}, Properties: map[string]*huma.Schema{
		"id":    {Type: huma.TypeString, Description: "Position of the event: send it as Last-Event-ID to continue a stream."},
		"event": {Type: huma.TypeString, Description: "Name of the event.", Enum: enum},
		"data":  {Type: huma.TypeString, Description: "The data of the event, as JSON."},
	}}
	return &huma.Schema{Type: huma.TypeArray, Description: description, Items: event}
}

// parameterDescriptions describe the parameters of paths, by operation and name or by name.
var parameterDescriptions = map[string]string{
	"stack":                    "Name of the stack.",
	"namespace":                "Name of the namespace in the stack.",
	"name":                     "Name of the record in its stack or namespace.",
	"option":                   "Name of the option of the runbook.",
	"credential":               "Id of the credential.",
	"version":                  "Version of the release, for example 1.4.0.",
	"kind":                     "Only jobs of this kind.",
	"minutes":                  "How far back to look, in minutes.",
	"put-release-asset.name":   "Name of the asset in the manifest of the release.",
	"get-release-file.name":    "Name of the asset, legwork-release.json or legwork-release.json.sig.",
	"get-release-file.version": "Version of the release; latest is the newest stable one.",
}

// describeOperations adds the descriptions of parameters and operations that the code of an operation does not have.
func describeOperations(spec *huma.OpenAPI) {
	for _, path := range spec.Paths {
		for _, op := range []*huma.Operation{path.Get, path.Put, path.Post, path.Patch, path.Delete} {
			if op == nil {
				continue
			}
			for _, p := range op.Parameters {
				p.Description = cmp.Or(p.Description, parameterDescriptions[op.OperationID+"."+p.Name], parameterDescriptions[p.Name])
			}
			op.Description = cmp.Or(op.Description, operationDescription(op))
		}
	}
}

func operationDescription(op *huma.Operation) string {
	text := operationDescriptions[op.OperationID]
	if strings.HasPrefix(op.OperationID, "list-") && op.Method == http.MethodGet {
		text = strings.TrimSpace(text + " " + pagesOf)
	}
	if need := permissions[op.OperationID]; need != "" {
		text = strings.TrimSpace(text + " Needs the permission " + string(need) + ".")
	}
	return text
}

const pagesOf = "The list comes in pages: next is the position of the next page, and is missing on the last one."
