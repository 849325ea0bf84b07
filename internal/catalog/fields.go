package catalog

import (
	"reflect"
	"strings"
)

// specField is one key of a Spec: a field of its type, or of a struct that its type embeds.
type specField struct {
	name  string // of the json tag
	owner string // name of the type that has the field
	index []int
}

// fieldsOf lists the keys of a struct in their order, those of embedded structs among them.
func fieldsOf(t reflect.Type) []specField {
	var fields []specField
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.Anonymous || name != "" {
			fields = append(fields, specField{name: name, owner: t.Name(), index: []int{i}})
			continue
		}
		for _, inner := range fieldsOf(f.Type) {
			inner.index = append([]int{i}, inner.index...)
			fields = append(fields, inner)
		}
	}
	return fields
}

func namesOf(fields []specField) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}
