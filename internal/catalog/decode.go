package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"legwork/internal/fault"
)

// decoder turns the nodes of one document into a Spec by the json tags of its type, strictly: a key
// that is not known and a value of another type are problems, with their line.
type decoder struct {
	doc      document
	total    *budget
	own      budget
	depth    int
	stopped  bool // over a bound: nothing more is read of this document
	lines    map[string]int
	problems []fault.Problem
}

func (d *decoder) add(line int, field, format string, args ...any) {
	d.problems = append(d.problems, fault.Problem{File: d.doc.file, Line: line, Field: field, Message: fmt.Sprintf(format, args...)})
	d.stopped = d.stopped || len(d.problems) >= maxProblems
}

func (d *decoder) line(n *yaml.Node) int { return n.Line + d.doc.offset }

// enter follows an alias to its value and spends from the budget. Every value goes through it,
// each time it is referred to.
func (d *decoder) enter(n *yaml.Node, field string) (*yaml.Node, bool) {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		line := n.Line
		alias := *n.Alias
		alias.Line = line // where it is used is where it can be corrected
		n = &alias
	}
	if d.stopped {
		return n, false
	}
	if !d.own.spend(len(n.Value)) || !d.total.spend(len(n.Value)) {
		d.stopped = true
		d.add(d.line(n), field, "is too much: anchors may not expand to more than %d values and %d bytes", maxDocumentNodes, MaxManifestFile)
		return n, false
	}
	if d.depth > MaxDepth {
		d.stopped = true
		d.add(d.line(n), field, "is nested more than %d deep, or an anchor holds itself", MaxDepth)
		return n, false
	}
	return n, true
}

// entry is one key of a mapping with its value.
type entry struct {
	key   string
	line  int
	value *yaml.Node
}

// entries lists the keys of a mapping, merge keys resolved: a key of the mapping itself wins, then
// the merged mapping that is named first.
func (d *decoder) entries(n *yaml.Node, field string) ([]entry, bool) {
	n, ok := d.enter(n, field)
	if !ok {
		return nil, false
	}
	if n.Kind != yaml.MappingNode {
		d.wrong(n, field, "keys with values")
		return nil, false
	}
	var list []entry
	var merges []*yaml.Node
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content) && !d.stopped; i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.ScalarNode && key.Tag == "!!merge" {
			merges = append(merges, value)
			continue
		}
		word, ok := d.key(key, field)
		switch {
		case !ok:
		case seen[word]:
			d.add(d.line(key), join(field, word), "is there twice")
		default:
			seen[word] = true
			list = append(list, entry{word, d.line(key), value})
		}
	}
	for _, m := range merges {
		list = d.merge(list, seen, m, field)
	}
	return list, !d.stopped
}

// merge adds what `<<` brings: a mapping, or a list of them.
func (d *decoder) merge(list []entry, seen map[string]bool, n *yaml.Node, field string) []entry {
	d.depth++
	defer func() { d.depth-- }()
	from, ok := d.enter(n, field)
	if !ok {
		return list
	}
	sources := []*yaml.Node{from}
	if from.Kind == yaml.SequenceNode {
		sources = from.Content
	}
	for _, source := range sources {
		merged, _ := d.entries(source, field)
		for _, e := range merged {
			if !seen[e.key] {
				seen[e.key] = true
				list = append(list, e)
			}
		}
	}
	return list
}

func (d *decoder) key(n *yaml.Node, field string) (string, bool) {
	n, ok := d.enter(n, field)
	if !ok {
		return "", false
	}
	if n.Kind != yaml.ScalarNode {
		d.add(d.line(n), field, "has a key that is no text")
		return "", false
	}
	if s := readScalar(n); s.kind == scalarNull || s.kind == scalarBad {
		d.add(d.line(n), field, "has a key that is no text: put it in quotes")
		return "", false
	}
	return n.Value, true
}

var (
	rawType      = reflect.TypeFor[json.RawMessage]()
	durationType = reflect.TypeFor[Duration]()
)

// value decodes n into v; null leaves v as it is, as if the key were not there.
func (d *decoder) value(n *yaml.Node, v reflect.Value, field string) {
	d.lines[field] = d.line(n)
	d.depth++
	defer func() { d.depth-- }()
	if v.Type() == rawType {
		if raw, ok := d.json(n, field); ok {
			v.SetBytes(raw)
		}
		return
	}
	if isNull(n) {
		return
	}
	switch {
	case v.Type() == durationType:
		d.duration(n, v, field)
	case v.Kind() == reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		d.value(n, p.Elem(), field)
		v.Set(p)
	case v.Kind() == reflect.Struct:
		if entries, ok := d.entries(n, field); ok {
			d.fields(entries, v, field)
		}
	case v.Kind() == reflect.Slice:
		d.list(n, v, field)
	case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.Interface:
		d.values(n, v, field)
	case v.Kind() == reflect.Map:
		d.texts(n, v, field)
	case v.Kind() == reflect.Interface:
		if value, ok := d.any(n, field); ok {
			v.Set(reflect.ValueOf(value))
		}
	default:
		d.scalar(n, v, field)
	}
}

// fields decodes the keys of a mapping into the fields of a struct. Keys in besides are known, too.
func (d *decoder) fields(entries []entry, v reflect.Value, field string, besides ...string) {
	known := fieldsOf(v.Type())
	names := namesOf(known)
	for _, e := range entries {
		if d.stopped {
			return
		}
		at := join(field, e.key)
		i := slices.Index(names, e.key)
		switch {
		case i >= 0:
			d.value(e.value, v.FieldByIndex(known[i].index), at)
			d.lines[at] = e.line
		case slices.Contains(besides, e.key):
		default:
			d.add(e.line, at, "is not a key that is known here%s", didYouMean(e.key, names))
		}
	}
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, field string) {
	n, ok := d.enter(n, field)
	if !ok {
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.wrong(n, field, "a list")
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, part := range n.Content {
		if d.stopped {
			return
		}
		at := fmt.Sprintf("%s[%d]", field, i)
		d.value(part, list.Index(i), at)
		if isNull(part) {
			d.add(d.line(part), at, "is empty")
		}
	}
	v.Set(list)
}

func (d *decoder) texts(n *yaml.Node, v reflect.Value, field string) {
	entries, ok := d.entries(n, field)
	if !ok {
		return
	}
	m := reflect.MakeMapWithSize(v.Type(), len(entries))
	for _, e := range entries {
		at := field + "[" + e.key + "]"
		d.lines[at] = e.line
		if text, ok := d.text(e.value, at); ok {
			m.SetMapIndex(reflect.ValueOf(e.key), reflect.ValueOf(text))
		}
	}
	v.Set(m)
}

// values reads a mapping of any values. One that is null stays as such.
func (d *decoder) values(n *yaml.Node, v reflect.Value, field string) {
	entries, ok := d.entries(n, field)
	if !ok {
		return
	}
	m := make(map[string]any, len(entries))
	for _, e := range entries {
		at := field + "[" + e.key + "]"
		d.lines[at] = e.line
		if value, ok := d.any(e.value, at); ok {
			m[e.key] = value
		}
	}
	v.Set(reflect.ValueOf(m))
}

const inexactNumber = "has a number that is too large to be kept digit by digit: put it in quotes"

// any reads any value as JSON has it. A number that does not survive as a 64-bit float is refused: it is an identifier rather
// than a number, and goes in quotes.
func (d *decoder) any(n *yaml.Node, field string) (value any, ok bool) {
	raw, ok := d.json(n, field)
	if !ok {
		return nil, false
	}
	if err := json.Unmarshal(raw, &value); err != nil || !floats(raw) {
		d.add(d.line(n), field, inexactNumber)
		return nil, false
	}
	return value, true
}

// floats tells whether every whole number of a JSON value is one that a 64-bit float holds.
func floats(raw json.RawMessage) bool {
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()
	for {
		token, err := in.Token()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		number, ok := token.(json.Number)
		if !ok || strings.ContainsAny(number.String(), ".eE") {
			continue
		}
		if f, err := number.Float64(); err != nil || math.Abs(f) >= 1<<53 {
			return false
		}
	}
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, field string) {
	if v.Kind() == reflect.String {
		if text, ok := d.text(n, field); ok {
			v.SetString(text)
		}
		return
	}
	n, ok := d.enter(n, field)
	if !ok {
		return
	}
	s := readScalar(n)
	switch {
	case v.Kind() == reflect.Bool && s.kind == scalarBool:
		v.SetBool(s.text == "true")
	case v.Kind() == reflect.Bool:
		d.wrong(n, field, "true or false")
	case s.kind == scalarNumber:
		if err := json.Unmarshal([]byte(s.text), v.Addr().Interface()); err != nil {
			whole := "whole "
			if v.CanFloat() {
				whole = ""
			}
			d.add(d.line(n), field, "%s is not a %snumber that fits", brief(n.Value), whole)
		}
	default:
		d.wrong(n, field, "a number")
	}
}

// text reads a text; a number or a boolean is no text unless it is in quotes, since 1.10 and yes
// would not survive the reading.
func (d *decoder) text(n *yaml.Node, field string) (string, bool) {
	n, ok := d.enter(n, field)
	if !ok {
		return "", false
	}
	s := readScalar(n)
	switch {
	case s.kind == scalarText:
		return s.text, true
	case s.kind == scalarBad:
		d.add(d.line(n), field, "%s", s.text)
	default:
		d.wrong(n, field, "a text")
	}
	return "", false
}

func (d *decoder) duration(n *yaml.Node, v reflect.Value, field string) {
	n, ok := d.enter(n, field)
	if !ok {
		return
	}
	s := readScalar(n)
	var value Duration
	if (s.kind != scalarText && s.text != "0") || value.UnmarshalText([]byte(s.text)) != nil {
		d.add(d.line(n), field, "wants a duration such as 90s, 10m or 1h30m")
		return
	}
	v.SetInt(int64(value))
}

// wrong says that a node is not what was wanted, and what it is.
func (d *decoder) wrong(n *yaml.Node, field, wanted string) {
	found, more := describe(n), ""
	if wanted == "a text" && n.Kind == yaml.ScalarNode && found != "nothing" {
		more = ": put it in quotes"
	}
	d.add(d.line(n), field, "wants %s, found %s%s", wanted, found, more)
}

func isNull(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return readScalar(n).kind == scalarNull
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}
