package boot

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/invopop/jsonschema"

	"legwork/internal/fault"
	"legwork/internal/reference"
)

// origin is where a value came from.
type origin struct {
	file string // a path, "environment variable X" or "flag --set x"
	line int    // 0 = none
}

// leaf is one single value, of the type that its schema asks for, and where it came from.
type leaf struct {
	value     any // string, bool or int64
	from      origin
	reference string // that the value came from; "" = it stood there itself
}

// path leads from the root of the settings to a value: keys as the schema spells them, the keys of
// maps, and the indices of lists.
type path []string

// key gives the path as the key of a Go map.
func (p path) key() string { return strings.Join(p, "\x00") }

// String gives the path as people read it: Engine.AdditionalBinaryPaths[0].
func (p path) String() string {
	var b strings.Builder
	for i, segment := range p {
		_, err := strconv.ParseUint(segment, 10, 32)
		switch {
		case err == nil && i > 0:
			fmt.Fprintf(&b, "[%s]", segment)
		case i > 0:
			b.WriteString("." + segment)
		default:
			b.WriteString(segment)
		}
	}
	return b.String()
}

// gathering lays one layer of settings over the other and collects what is wrong with them.
type gathering struct {
	schema   *jsonschema.Schema
	file     string          // of the settings, "" = none
	leaves   map[string]leaf // by path.key
	wrong    map[string]bool // paths that have a problem already, by path.key
	problems []fault.Problem

	unfetched  int  // of the problems: references that could not be had
	unreadable bool // the file
}

func newGathering(schema *jsonschema.Schema) *gathering {
	return &gathering{schema: schema, leaves: map[string]leaf{}, wrong: map[string]bool{}}
}

func (g *gathering) problem(from origin, field, format string, args ...any) {
	g.problems = append(g.problems, fault.Problem{
		File: from.file, Line: from.line, Field: field, Message: fmt.Sprintf(format, args...),
	})
}

// reject names a problem of the value at a path and forgets the value. Where it or what holds it
// has a problem already, that one is enough.
func (g *gathering) reject(at path, from origin, format string, args ...any) {
	known := false
	for i := range at {
		known = known || g.wrong[at[:i+1].key()]
	}
	if !known {
		g.problem(from, at.String(), format, args...)
	}
	g.wrong[at.key()] = true
	delete(g.leaves, at.key())
}

// reportKey names a problem of the setting with this dotted key, with the place it came from. It
// is silent about what has a problem already.
func (g *gathering) reportKey(key, format string, args ...any) {
	at := path(strings.Split(key, "."))
	from := origin{file: g.file}
	for _, k := range slices.Sorted(maps.Keys(g.leaves)) { // itself or, of a list, its first item
		if k == at.key() || strings.HasPrefix(k, at.key()+"\x00") {
			from = g.leaves[k].from
			if ref := g.leaves[k].reference; ref != "" { // the sentence may hold the value
				said := "is not what this setting takes"
				if _, schema := g.walk(strings.Split(key, ".")); schema != nil && schema.WriteOnly { // no sentence about a secret holds it
					said = fmt.Sprintf(format, args...)
				}
				format, args = "%s; it came from %s and is not shown", []any{said, ref}
			}
			break
		}
	}
	g.reject(at, from, format, args...)
}

// absorb lays a value of the file over what is there.
func (g *gathering) absorb(at path, schema *jsonschema.Schema, n *node) {
	from := origin{g.file, n.line}
	switch {
	case n.kind == nullNode:
	case schema.Type == "object" && n.kind == objectNode:
		g.absorbMembers(at, schema, n)
	case schema.Type == "array" && n.kind == listNode:
		g.forget(at)
		for i, item := range n.items {
			g.absorb(append(slices.Clone(at), strconv.Itoa(i)), schema.Items, item)
		}
	case schema.Type != "object" && schema.Type != "array" && n.kind == scalarNode:
		g.set(at, schema, n.text, from)
	default:
		g.reject(at, from, "must be %s, not %s", wanted(schema), n.kind)
	}
}

func (g *gathering) absorbMembers(at path, schema *jsonschema.Schema, n *node) {
	lines := map[string]int{}
	for _, m := range n.members {
		if len(at) == 0 && strings.HasPrefix(m.key, "$") { // "$schema" is for editors
			continue
		}
		step, sub := g.step(at, schema, m.key)
		if ignored(sub) && m.value.kind == objectNode {
			continue
		}
		if sub == nil || ignored(sub) {
			g.unknown(at, m.key, origin{g.file, m.line})
			continue
		}
		if line, twice := lines[step.key()]; twice {
			g.problem(origin{g.file, m.line}, step.String(), "is given twice, first in line %d", line)
			continue
		}
		lines[step.key()] = m.line
		g.absorb(step, sub, m.value)
	}
}

// step goes down from an object by one key, in any case and under any of its names. The schema is
// nil when there is no such key.
func (g *gathering) step(at path, schema *jsonschema.Schema, key string) (path, *jsonschema.Schema) {
	for pair := schema.Properties.Oldest(); pair != nil; pair = pair.Next() {
		if fold(pair.Key) != fold(key) {
			continue
		}
		if same, ok := pair.Value.Extras[sameAs].(string); ok {
			return g.walk(strings.Split(same, "."))
		}
		return append(slices.Clone(at), pair.Key), pair.Value
	}
	if schema.AdditionalProperties == nil || schema.AdditionalProperties == jsonschema.FalseSchema || !mapKey(key) {
		return nil, nil
	}
	step := append(slices.Clone(at), key)
	for k := range g.leaves { // an entry of a map keeps the case that it was first written in
		if strings.EqualFold(k, step.key()) {
			step = strings.Split(k, "\x00")
		}
	}
	return step, schema.AdditionalProperties
}

// mapKey tells whether a text may be a key of a map. A NUL would be taken for a step of the path.
func mapKey(key string) bool {
	return key != "" && len(key) <= 256 && !strings.ContainsFunc(key, unicode.IsControl)
}

// walk goes down from the root. What is left over when a map is reached is one key of it, so that
// Logging.LogLevel.Microsoft.AspNetCore works.
func (g *gathering) walk(segments []string) (path, *jsonschema.Schema) {
	at, schema := path(nil), g.schema
	for i := 0; i < len(segments); i++ {
		switch {
		case schema.Type == "object" && schema.Properties.Len() == 0:
			return g.step(at, schema, strings.Join(segments[i:], "."))
		case schema.Type == "object":
			at, schema = g.step(at, schema, segments[i])
		case schema.Type == "array":
			index, err := strconv.ParseUint(segments[i], 10, 16)
			if err != nil {
				return nil, nil
			}
			at, schema = append(slices.Clone(at), strconv.FormatUint(index, 10)), schema.Items
		default:
			return nil, nil
		}
		if schema == nil || ignored(schema) {
			return nil, schema
		}
	}
	return at, schema
}

// place lays a text of the environment or of a flag over what is there. An array takes one index,
// or the whole list separated by commas.
func (g *gathering) place(at path, schema *jsonschema.Schema, text string, from origin) {
	switch schema.Type {
	case "object":
		g.problem(from, at.String(), "is a section: set one of the keys in it")
	case "array":
		g.forget(at)
		for i, item := range strings.Split(text, ",") {
			g.set(append(slices.Clone(at), strconv.Itoa(i)), schema.Items, strings.TrimSpace(item), from)
		}
	default:
		g.set(at, schema, text, from)
	}
}

// set turns a text into a value of the schema's type and puts it at the path.
func (g *gathering) set(at path, schema *jsonschema.Schema, text string, from origin) {
	if schema.Type == "string" && reference.Is(text) {
		g.leaves[at.key()] = leaf{from: from, reference: text}
		return
	}
	value, ok := convert(schema, text)
	if !ok {
		g.reject(at, from, "must be %s%s", wanted(schema), instead(schema, text))
		return
	}
	g.leaves[at.key()] = leaf{value: value, from: from}
}

// fetch gets what settings refer to. It is asked for once all layers lie over one another, so that only
// references that count are followed. Nothing that came from a reference is ever shown.
func (g *gathering) fetch(ctx context.Context) {
	for _, k := range slices.Sorted(maps.Keys(g.leaves)) {
		found := g.leaves[k]
		if found.reference == "" {
			continue
		}
		at := path(strings.Split(k, "\x00"))
		text, err := reference.Get(ctx, found.reference)
		if err != nil {
			g.reject(at, found.from, "%s", fault.Of(err).Message)
			g.unfetched++
			continue
		}
		_, schema := g.walk(at)
		value, ok := convert(schema, text)
		if !ok {
			g.reject(at, found.from, "must be %s, which what %s stands for is not", wanted(schema), found.reference)
			continue
		}
		found.value = value
		g.leaves[k] = found
	}
}

// forget drops all values below a path.
func (g *gathering) forget(at path) {
	maps.DeleteFunc(g.leaves, func(k string, _ leaf) bool { return strings.HasPrefix(k, at.key()+"\x00") })
}

// document builds the settings out of the leaves, as encoding/json would decode them.
func (g *gathering) document() map[string]any {
	root := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(g.leaves)) {
		object, segments := root, strings.Split(k, "\x00")
		for _, segment := range segments[:len(segments)-1] {
			if _, ok := object[segment]; !ok {
				object[segment] = map[string]any{}
			}
			object = object[segment].(map[string]any)
		}
		object[segments[len(segments)-1]] = g.leaves[k].value
	}
	return lists(g.schema, root).(map[string]any)
}

// lists turns every object that the schema calls an array into one, in the order of its indices.
func lists(schema *jsonschema.Schema, value any) any {
	object, ok := value.(map[string]any)
	if !ok {
		return value
	}
	if schema.Type == "array" {
		keys := slices.SortedFunc(maps.Keys(object), func(a, b string) int { // 9 before 10
			return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
		})
		items := make([]any, 0, len(keys))
		for _, k := range keys {
			items = append(items, object[k])
		}
		return items
	}
	for k, v := range object {
		if sub := property(schema, k); sub != nil {
			object[k] = lists(sub, v)
		}
	}
	return object
}

// property gives the schema of an object's own key, nil when it has none.
func property(schema *jsonschema.Schema, key string) *jsonschema.Schema {
	if schema.Properties.Len() == 0 { // also when there is no list of properties
		return nil
	}
	return schema.Properties.Value(key)
}
