package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"legwork/internal/lazyregexp"
)

type scalarKind uint8

const (
	scalarNone scalarKind = iota // not a scalar
	scalarText
	scalarNumber // text is a JSON number
	scalarBool   // text is "true" or "false"
	scalarNull
	scalarBad // text says what is wrong
)

type scalar struct {
	kind scalarKind
	text string
}

var (
	numberForm = lazyregexp.New(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	basedForm  = lazyregexp.New(`^0(o[0-7]+|x[0-9a-fA-F]+)$`)
	notFinite  = lazyregexp.New(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

const maxNumber = 1_000 // letters of a number

// readScalar tells what a scalar is by the core schema of YAML 1.2, rather than by the older rules
// of the YAML library: yes, on and 1_000 are text. Digits that begin with 0 or + are refused, since
// they may be a number or, as an account or a mode often is, a text.
func readScalar(n *yaml.Node) scalar {
	if n.Kind != yaml.ScalarNode {
		return scalar{kind: scalarNone}
	}
	quoted := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	if n.Style&yaml.TaggedStyle != 0 {
		return readTagged(n, quoted)
	}
	if quoted {
		return scalar{scalarText, n.Value}
	}
	return readPlain(n.Value)
}

func readTagged(n *yaml.Node, quoted bool) scalar {
	tag := n.ShortTag()
	if tag == "!!str" {
		return scalar{scalarText, n.Value}
	}
	s := readPlain(n.Value)
	known := (tag == "!!null" && s.kind == scalarNull) || (tag == "!!bool" && s.kind == scalarBool) ||
		(tag == "!!int" || tag == "!!float") && s.kind == scalarNumber
	if quoted || !known {
		return scalar{scalarBad, "has a tag, " + brief(tag) + ", that is not known here or does not fit"}
	}
	return s
}

func readPlain(v string) scalar {
	switch v {
	case "", "~", "null", "Null", "NULL":
		return scalar{scalarNull, "null"}
	case "true", "True", "TRUE":
		return scalar{scalarBool, "true"}
	case "false", "False", "FALSE":
		return scalar{scalarBool, "false"}
	}
	numeric := numberForm.MatchString(v) || basedForm.MatchString(v)
	digits := strings.TrimLeft(v, "-+")
	switch {
	case notFinite.MatchString(v):
		return scalar{scalarBad, brief(v) + " is not a number that JSON has: put it in quotes if it is a text"}
	case !numeric:
		return scalar{scalarText, v}
	case len(v) > maxNumber:
		return scalar{scalarBad, fmt.Sprintf("is a number of more than %d letters", maxNumber)}
	case basedForm.MatchString(v):
		i, _ := new(big.Int).SetString(v, 0)
		return scalar{scalarNumber, i.String()}
	case v[0] == '+' || (len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9'):
		return scalar{scalarBad, brief(v) + " may be a number or a text: put it in quotes, or write the number without what leads it"}
	}
	return scalar{scalarNumber, jsonNumber(v)}
}

// jsonNumber writes a YAML number as JSON has it, every digit kept: .5 is 0.5, and 1. is 1.
func jsonNumber(v string) string {
	sign := ""
	if v[0] == '-' {
		sign, v = "-", v[1:]
	}
	if v[0] == '.' {
		v = "0" + v
	}
	if i := strings.IndexByte(v, '.'); i >= 0 && (i+1 == len(v) || v[i+1] == 'e' || v[i+1] == 'E') {
		v = v[:i] + v[i+1:]
	}
	return sign + v
}

// json writes a value as canonical JSON: compact, keys sorted, numbers as they are written.
func (d *decoder) json(n *yaml.Node, field string) (json.RawMessage, bool) {
	var b bytes.Buffer
	before := len(d.problems)
	d.writeJSON(&b, n, field)
	return b.Bytes(), len(d.problems) == before
}

func (d *decoder) writeJSON(b *bytes.Buffer, n *yaml.Node, field string) {
	d.depth++
	defer func() { d.depth-- }()
	if n.Kind == yaml.MappingNode || (n.Kind == yaml.AliasNode && n.Alias != nil && n.Alias.Kind == yaml.MappingNode) {
		d.writeObject(b, n, field)
		return
	}
	n, ok := d.enter(n, field)
	if !ok {
		return
	}
	if n.Kind == yaml.SequenceNode {
		b.WriteByte('[')
		for i, part := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			d.writeJSON(b, part, fmt.Sprintf("%s[%d]", field, i))
		}
		b.WriteByte(']')
		return
	}
	switch s := readScalar(n); s.kind {
	case scalarText:
		writeText(b, s.text)
	case scalarBad, scalarNone:
		d.add(d.line(n), field, "%s", s.text)
	default:
		b.WriteString(s.text)
	}
}

func (d *decoder) writeObject(b *bytes.Buffer, n *yaml.Node, field string) {
	entries, _ := d.entries(n, field)
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	b.WriteByte('{')
	for i, e := range entries {
		if i > 0 {
			b.WriteByte(',')
		}
		writeText(b, e.key)
		b.WriteByte(':')
		d.writeJSON(b, e.value, join(field, e.key))
	}
	b.WriteByte('}')
}

// writeText writes a JSON string without the escapes that are meant for web pages.
func writeText(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	b.Truncate(b.Len() - 1)
}

// canonical writes JSON compact, with sorted keys and every digit kept. What is no JSON stays as it is.
func canonical(raw json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return raw
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return raw
	}
	return b.Bytes()[:b.Len()-1]
}

// Text gives a JSON value as a program reads it from its environment: a string as it is, anything
// else as compact JSON.
func Text(value json.RawMessage) string {
	var s string
	if len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(canonical(value))
}

// describe names what a node is, for "wants a list, found a text".
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	}
	switch readScalar(n).kind {
	case scalarText:
		return "the text " + brief(n.Value)
	case scalarNumber:
		return "the number " + n.Value
	case scalarBool:
		return n.Value
	case scalarNull:
		return "nothing"
	}
	return "something else"
}
