package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"legwork/internal/lazyregexp"
)

// Export writes the Snapshot as a manifest: YAML documents in the order of Kinds and, within a kind, of
// paths. Parsing it gives the Snapshot again, and applying it changes nothing, also where the Snapshot went
// through WithoutSecrets: an Input that is sensitive and has no value keeps the stored one. The same Snapshot always
// gives the same bytes. Sensitive Inputs are written with what values the Snapshot has of them.
func Export(s Snapshot) ([]byte, error) {
	s = s.Sorted()
	var b bytes.Buffer
	err := errors.Join(
		exportAll(&b, KindStack, s.Stacks), exportAll(&b, KindNamespace, s.Namespaces),
		exportAll(&b, KindCloudIdentity, s.CloudIdentities), exportAll(&b, KindRunner, s.Runners),
		exportAll(&b, KindModule, s.Modules), exportAll(&b, KindAssignment, s.Assignments), exportAll(&b, KindNode, s.Nodes),
		exportAll(&b, KindNodeSource, s.NodeSources), exportAll(&b, KindRunbook, s.Runbooks),
		exportAll(&b, KindSecret, s.Secrets),
	)
	if err != nil {
		return nil, fmt.Errorf("writing the manifest: %w", err)
	}
	return b.Bytes(), nil
}

// exportAll writes each Spec with an encoder of its own: one encoder slows down with every document.
func exportAll[T specification](b *bytes.Buffer, kind Kind, list []T) error {
	for _, spec := range list {
		if b.Len() > 0 {
			b.WriteString("---\n")
		}
		root := mappingNode()
		appendEntry(root, "kind", textNode(string(kind)))
		e := yaml.NewEncoder(b)
		e.SetIndent(2)
		if err := errors.Join(appendFields(root, reflect.ValueOf(spec)), e.Encode(root), e.Close()); err != nil {
			return fmt.Errorf("%s %s: %w", kind, spec.Path(), err)
		}
	}
	return nil
}

// appendFields writes the fields of a struct under the names of their json tags, without empty ones.
func appendFields(root *yaml.Node, v reflect.Value) error {
	for _, f := range fieldsOf(v.Type()) {
		if field := v.FieldByIndex(f.index); !isEmpty(field) {
			n, err := nodeOf(field)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			appendEntry(root, f.name, n)
		}
	}
	return nil
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		for i := range v.NumField() {
			if !isEmpty(v.Field(i)) {
				return false
			}
		}
		return true
	}
	return v.IsZero()
}

func nodeOf(v reflect.Value) (*yaml.Node, error) {
	switch value := v.Interface().(type) {
	case json.RawMessage:
		return jsonNode(value)
	case Duration:
		text, err := value.MarshalText()
		return textNode(string(text)), err
	}
	switch v.Kind() {
	case reflect.Pointer:
		return nodeOf(v.Elem())
	case reflect.Struct:
		n := mappingNode()
		return n, appendFields(n, v)
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			part, err := nodeOf(v.Index(i))
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, part)
		}
		return n, nil
	case reflect.Interface:
		return valueNode(v.Interface())
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.Interface {
			return valueNode(v.Interface())
		}
		n := mappingNode()
		for _, key := range sortedKeys(v.Convert(textsType).Interface().(map[string]string)) {
			appendEntry(n, key, textNode(v.MapIndex(reflect.ValueOf(key)).String()))
		}
		return n, nil
	case reflect.String:
		return textNode(v.String()), nil
	}
	return plainNode(fmt.Sprint(v.Interface())), nil
}

var textsType = reflect.TypeFor[map[string]string]()

// valueNode writes any value as JSON has it.
func valueNode(v any) (*yaml.Node, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing a value: %w", err)
	}
	return jsonNode(raw)
}

// jsonNode writes a JSON value with the same types and digits.
func jsonNode(raw json.RawMessage) (*yaml.Node, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("reading a value: %w", err)
	}
	return anyNode(v), nil
}

func anyNode(v any) *yaml.Node {
	switch v := v.(type) {
	case map[string]any:
		n := mappingNode()
		for _, key := range sortedKeys(v) {
			appendEntry(n, key, anyNode(v[key]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, part := range v {
			n.Content = append(n.Content, anyNode(part))
		}
		return n
	case string:
		return textNode(v)
	case nil:
		return plainNode("null")
	}
	return plainNode(fmt.Sprint(v)) // a number with its digits, or a boolean
}

func mappingNode() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }

func plainNode(v string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: v} }

func appendEntry(n *yaml.Node, key string, value *yaml.Node) {
	k := textNode(key)
	if k.Style == yaml.LiteralStyle {
		k.Style = yaml.DoubleQuotedStyle
	}
	n.Content = append(n.Content, k, value)
}

// doubtful are the texts that readers of YAML 1.1 take for a boolean, a number or a time.
var doubtful = lazyregexp.New(`^([yY]|[nN]|(?i:yes|no|on|off)|[-+.0-9][-+.,:_0-9a-fA-FxXoTZ]*)$`)

// textNode writes a text so that any reader of YAML, old or new, takes it for one: lines as a block
// where that keeps every letter, what looks like something else in quotes.
func textNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	switch {
	case strings.Contains(s, "\n"):
		n.Style = yaml.DoubleQuotedStyle
		if fitsBlock(s) {
			n.Style = yaml.LiteralStyle
		}
	case readPlain(s).kind != scalarText || s != strings.TrimSpace(s) || s == "<<" || doubtful.MatchString(s):
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// fitsBlock tells whether a text survives as a block: no blanks at the end of a line, where editors
// lose them, no indent or empty line at its beginning, which the indent of the block hangs on, and
// nothing but printable letters and tabs.
func fitsBlock(s string) bool {
	if strings.ContainsAny(s[:1], " \t\n") || strings.Trim(s, "\n") == "" {
		return false
	}
	lines := strings.Split(s, "\n")
	return !slices.ContainsFunc(lines, func(l string) bool {
		return strings.HasSuffix(l, " ") || strings.HasSuffix(l, "\t") || !printable(strings.ReplaceAll(l, "\t", ""))
	})
}
