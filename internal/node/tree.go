package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
)

// Limits of what a Node source gives.
const (
	MaxList      = 8 << 20 // bytes
	MaxNodes     = 10_000
	maxValues    = 500_000   // values in a list, each counted as often as it is referred to
	maxDepth     = 32        // of nesting
	maxYAMLSigns = 1_000_000 // characters that part values: bounds the memory that the YAML parser takes
)

// tree is a value of YAML or JSON with its line.
type tree struct {
	kind    treeKind
	line    int
	text    string  // of a scalar, as it is written
	entries []entry // of a mapping, or items of a list, where key is ""
}

type entry struct {
	key   string
	line  int
	value *tree
}

type treeKind uint8

const (
	nullTree treeKind = iota
	scalarTree
	listTree
	mapTree
)

var treeNames = [...]string{"nothing", "a text", "a list", "an object"}

// badTree is what makes a list unreadable as a whole.
type badTree struct {
	line    int
	message string
}

func (b *badTree) Error() string { return b.message }

func bad(line int, format string, args ...any) error {
	return &badTree{line, fmt.Sprintf(format, args...)}
}

// readTree reads JSON, or else YAML of one document. Its errors are *badTree, or a Fault for what is too large.
func readTree(data []byte) (*tree, error) {
	if len(data) > MaxList {
		return nil, fault.New(fault.TooLarge, "node_list_too_large", "the list of Nodes has %d bytes, at most %d are allowed", len(data), MaxList).
			WithHint("give fewer Nodes, or fewer attributes of each")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return nil, bad(firstBadLine(data), "is not UTF-8 text")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, bad(1, "is empty: write [] where there are no Nodes")
	}
	if first := bytes.TrimSpace(data)[0]; (first == '{' || first == '[') && json.Valid(data) {
		return readJSON(data)
	}
	return readYAML(data)
}

func firstBadLine(data []byte) int {
	line := 1
	for text := range bytes.Lines(data) {
		if !utf8.Valid(text) {
			return line
		}
		line++
	}
	return line
}

// budget bounds the size of a tree.
type budget struct{ values int }

func (b *budget) take(line, depth int) error {
	if b.values++; b.values > maxValues {
		return bad(line, "has more than %d values, each counted as often as an alias refers to it", maxValues)
	}
	if depth > maxDepth {
		return bad(line, "is nested more than %d deep", maxDepth)
	}
	return nil
}

// jsonReader makes a tree of JSON that is known to be valid.
type jsonReader struct {
	budget
	d      *json.Decoder
	data   []byte
	offset int // up to which lines are counted
	line   int
}

func readJSON(data []byte) (*tree, error) {
	r := &jsonReader{d: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1}
	r.d.UseNumber()
	return r.value(0)
}

// token gives the next token and the line on which it ends.
func (r *jsonReader) token() (json.Token, int, error) {
	token, err := r.d.Token()
	end := int(r.d.InputOffset())
	r.line += bytes.Count(r.data[r.offset:end], []byte("\n"))
	r.offset = end
	return token, r.line, err
}

func (r *jsonReader) value(depth int) (*tree, error) {
	token, line, err := r.token()
	if err != nil {
		return nil, bad(line, "is not JSON: %s", err)
	}
	t := &tree{kind: scalarTree, line: line}
	if err := r.take(line, depth); err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		t.kind = listTree
		if token == '{' {
			t.kind = mapTree
		}
		return t, r.entries(t, depth)
	case nil:
		t.kind = nullTree
	case string:
		t.text = token
	case json.Number:
		t.text = token.String()
	case bool:
		t.text = strconv.FormatBool(token)
	}
	return t, nil
}

func (r *jsonReader) entries(t *tree, depth int) error {
	for r.d.More() {
		e := entry{line: t.line}
		if t.kind == mapTree {
			token, line, err := r.token()
			if err != nil {
				return bad(line, "is not JSON: %s", err)
			}
			e.key, _ = token.(string)
			e.line = line
		}
		var err error
		if e.value, err = r.value(depth + 1); err != nil {
			return err
		}
		if t.kind == listTree {
			e.line = e.value.line
		}
		t.entries = append(t.entries, e)
	}
	_, _, err := r.token() // what closes it
	return err
}

// yamlReader makes a tree of what the YAML parser found, aliases followed.
type yamlReader struct{ budget }

func readYAML(data []byte) (*tree, error) {
	if signs := countSigns(data); signs > maxYAMLSigns {
		return nil, bad(1, "has too many values for YAML: give it as JSON, or give fewer Nodes")
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, bad(1, "is empty: write [] where there are no Nodes")
		}
		return nil, yamlError(err)
	}
	if err := d.Decode(&next); err == nil {
		return nil, bad(next.Line, "is a second document: a list of Nodes is one")
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlError(err)
	}
	return (&yamlReader{}).value(doc.Content[0], 0)
}

// countSigns counts what parts the values of a YAML text. It has at most about twice as many values.
func countSigns(data []byte) int {
	signs := 0
	for i, b := range data {
		switch b {
		case ',', '\n', '[', '{':
			signs++
		case ':', '-', '?':
			if i+1 < len(data) && bytes.IndexByte([]byte(" \t\r\n"), data[i+1]) >= 0 {
				signs++
			}
		}
	}
	return signs
}

var yamlLine = lazyregexp.New(`^(?:yaml: )?(?:line (\d+): )?`)

func yamlError(err error) error {
	message := err.Error()
	m := yamlLine.FindStringSubmatch(message)
	line, _ := strconv.Atoi(m[1])
	return bad(max(line, 1), "is not YAML or JSON: %s", strings.ToValidUTF8(message[len(m[0]):], "?"))
}

func (r *yamlReader) value(n *yaml.Node, depth int) (*tree, error) {
	if err := r.take(n.Line, depth); err != nil {
		return nil, err
	}
	t := &tree{line: n.Line}
	switch n.Kind {
	case yaml.AliasNode:
		aliased, err := r.value(n.Alias, depth+1)
		if err != nil {
			return nil, err
		}
		aliased.line = n.Line
		return aliased, nil
	case yaml.ScalarNode:
		return t, r.scalar(t, n)
	case yaml.SequenceNode:
		t.kind = listTree
		for _, item := range n.Content {
			value, err := r.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			t.entries = append(t.entries, entry{line: item.Line, value: value})
		}
		return t, nil
	}
	t.kind = mapTree
	return t, r.mapping(t, n, depth)
}

func (r *yamlReader) scalar(t *tree, n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!binary":
		return bad(n.Line, "has a binary value, which no Node has")
	}
	t.kind, t.text = scalarTree, n.Value
	return nil
}

// mapping reads keys and values. What "<<" merges stands before and holds where no key of the mapping itself does.
func (r *yamlReader) mapping(t *tree, n *yaml.Node, depth int) error {
	var merged, own []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return bad(key.Line, "has a key that is no text")
		}
		value, err := r.value(n.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		if key.ShortTag() == "!!merge" {
			if merged, err = mergeEntries(merged, value); err != nil {
				return err
			}
			continue
		}
		own = append(own, entry{key.Value, n.Content[i].Line, value})
	}
	if len(merged) > 0 {
		mine := make(map[string]bool, len(own))
		for _, e := range own {
			mine[e.key] = true
		}
		merged = slices.DeleteFunc(merged, func(e entry) bool { return mine[e.key] })
	}
	t.entries = append(merged, own...)
	return nil
}

// mergeEntries adds what a "<<" gives: an object, or a list of them of which the first that has a key holds.
func mergeEntries(merged []entry, value *tree) ([]entry, error) {
	sources := []*tree{value}
	if value.kind == listTree {
		sources = nil
		for _, item := range value.entries {
			sources = append(sources, item.value)
		}
	}
	known := map[string]bool{}
	for _, e := range merged {
		known[e.key] = true
	}
	for _, source := range sources {
		if source.kind != mapTree {
			return nil, bad(value.line, "merges %s: << takes an object", treeNames[source.kind])
		}
		for _, e := range source.entries {
			if !known[e.key] {
				known[e.key] = true
				merged = append(merged, e)
			}
		}
	}
	return merged, nil
}
