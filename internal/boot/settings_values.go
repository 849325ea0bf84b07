package boot

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/invopop/jsonschema"

	"legwork/internal/catalog"
)

// fold makes keys comparable: tls_cert, TLSCert and tls-cert are one key.
func fold(key string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(key))
}

// convert turns a text into what the schema asks for. Values of an enumeration match in any case.
func convert(schema *jsonschema.Schema, text string) (any, bool) {
	switch schema.Type {
	case "integer":
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	case "boolean":
		yes := strings.EqualFold(text, "true")
		return yes, yes || strings.EqualFold(text, "false")
	}
	for _, allowed := range schema.Enum {
		if strings.EqualFold(text, fmt.Sprint(allowed)) {
			return allowed, true
		}
	}
	return text, len(schema.Enum) == 0 && utf8.ValidString(text)
}

// wanted says what the schema asks for, after "must be".
func wanted(schema *jsonschema.Schema) string {
	switch schema.Type {
	case "object":
		return "an object"
	case "array":
		return "a list"
	case "boolean":
		return "true or false"
	case "integer":
		return "a whole number" + bounds(schema)
	}
	if len(schema.Enum) == 0 {
		return "a text"
	}
	var allowed []string
	for _, value := range schema.Enum {
		allowed = append(allowed, fmt.Sprint(value))
	}
	if len(allowed) == 1 {
		return allowed[0]
	}
	return "one of " + strings.Join(allowed, ", ")
}

func bounds(schema *jsonschema.Schema) string {
	switch {
	case schema.Minimum != "" && schema.Maximum != "":
		return fmt.Sprintf(" between %s and %s", schema.Minimum, schema.Maximum)
	case schema.Minimum != "":
		return fmt.Sprintf(" of at least %s", schema.Minimum)
	}
	return ""
}

// instead quotes what was given, for the end of a sentence: not of a secret, and not much of it.
func instead(schema *jsonschema.Schema, text string) string {
	if schema.WriteOnly {
		return ""
	}
	return fmt.Sprintf(", not %s", quoted(text))
}

func quoted(text string) string {
	const most = 40
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	return strconv.Quote(text)
}

// unknown names a key that no setting has, with the one that was probably meant.
func (g *gathering) unknown(at path, key string, from origin) {
	full := key
	if len(at) > 0 {
		full = at.String() + "." + key
	}
	if runes := []rune(full); len(runes) > 100 {
		full = string(runes[:100]) + "..."
	}
	if near := nearest(knownKeys(g.schema, ""), full); near != "" {
		g.problem(from, full, "is not a known setting: did you mean %s?", near)
		return
	}
	g.problem(from, full, "is not a known setting")
}

// knownKeys lists all dotted keys of a schema, sections included.
func knownKeys(schema *jsonschema.Schema, prefix string) []string {
	var keys []string
	for pair := schema.Properties.Oldest(); pair != nil; pair = pair.Next() {
		if strings.HasPrefix(pair.Key, "$") {
			continue
		}
		keys = append(keys, prefix+pair.Key)
		keys = append(keys, knownKeys(pair.Value, prefix+pair.Key+".")...)
	}
	return keys
}

// nearest gives the known key that a wrong one probably stands for, or "": one of the same name in
// another section, else the one that is spelled most like it.
func nearest(known []string, wrong string) string {
	for _, key := range known {
		if fold(lastOf(key)) == fold(lastOf(wrong)) {
			return key
		}
	}
	return catalog.Nearest(wrong, known)
}

func lastOf(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }
