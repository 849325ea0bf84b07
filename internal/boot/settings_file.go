package boot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The limits of a settings file.
const (
	maxFileBytes = 1 << 20
	maxFileDepth = 32
)

// nodeKind is the shape of a node of a settings file.
type nodeKind uint8

const (
	nullNode nodeKind = iota
	scalarNode
	listNode
	objectNode
)

func (k nodeKind) String() string {
	return [...]string{"nothing", "a single value", "a list", "an object"}[k]
}

// node is one value of a settings file, whatever its language is.
type node struct {
	kind    nodeKind
	line    int      // 1-based
	text    string   // of a scalar, as it is written: `5`, `true`, `edge-1`
	items   []*node  // of a list
	members []member // of an object, in the order of the file
}

// member is one key of an object, with its value.
type member struct {
	key   string
	line  int
	value *node
}

// syntaxError is why a file cannot be parsed. The text names no content of the file but its keys.
type syntaxError struct {
	line int // 0 = not known
	text string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.text) }

// readFile takes in a settings file and tells whether it could be read and parsed.
func (g *gathering) readFile(path string) bool {
	if path == "" {
		return true
	}
	g.file = path
	data, err := readLimited(path)
	if err != nil {
		g.problem(origin{file: path}, "", "cannot be read: %s", reason(err))
		g.unreadable = true
		return false
	}
	root, err := parse(path, data)
	if err != nil {
		var syntax *syntaxError
		errors.As(err, &syntax)
		g.problem(origin{path, syntax.line}, "", "%s", syntax.text)
		return false
	}
	if root.kind == nullNode {
		return true
	}
	if root.kind != objectNode {
		g.problem(origin{path, root.line}, "", "must hold an object of settings, not %s", root.kind)
		return false
	}
	g.absorb(nil, g.schema, root)
	return true
}

func readLimited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(data) > maxFileBytes {
		err = fmt.Errorf("it is larger than %d KiB", maxFileBytes>>10)
	}
	return data, err
}

// parse reads JSON (with comments and trailing commas) or YAML: as the file's name says, else by
// its first character. An error is a *syntaxError.
func parse(name string, data []byte) (*node, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json", ".jsonc":
		return parseJSON(data)
	case ".yaml", ".yml":
		return parseYAML(data)
	}
	if trimmed := bytes.TrimSpace(plainJSON(data)); len(trimmed) > 0 && trimmed[0] == '{' {
		return parseJSON(data)
	}
	return parseYAML(data)
}

// jsonReader reads JSON token by token, to know the line of every value.
type jsonReader struct {
	data    []byte
	decoder *json.Decoder
	counted int64 // up to here lines were counted
	line    int
}

func parseJSON(data []byte) (*node, error) {
	r := &jsonReader{data: plainJSON(data), line: 1}
	r.decoder = json.NewDecoder(bytes.NewReader(r.data))
	r.decoder.UseNumber()
	token, err := r.next()
	if errors.Is(err, io.EOF) {
		return &node{line: 1}, nil
	}
	var root *node
	if err == nil {
		root, err = r.value(token, 0)
	}
	if err != nil {
		return nil, r.explain(err)
	}
	if _, err := r.next(); !errors.Is(err, io.EOF) {
		return nil, &syntaxError{r.line, "there is more after the end of the object"}
	}
	return root, nil
}

// next reads a token and counts the lines up to its end.
func (r *jsonReader) next() (json.Token, error) {
	token, err := r.decoder.Token()
	r.countTo(r.decoder.InputOffset())
	return token, err
}

func (r *jsonReader) countTo(offset int64) {
	offset = min(offset, int64(len(r.data)))
	if offset > r.counted {
		r.line += bytes.Count(r.data[r.counted:offset], []byte("\n"))
		r.counted = offset
	}
}

func (r *jsonReader) explain(err error) error {
	var already *syntaxError
	if errors.As(err, &already) {
		return already
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		r.countTo(syntax.Offset)
		return &syntaxError{r.line, "is not JSON: " + syntax.Error()}
	}
	r.countTo(int64(len(r.data)))
	return &syntaxError{r.line, "is not JSON: it ends too early"}
}

func (r *jsonReader) value(token json.Token, depth int) (*node, error) {
	if depth > maxFileDepth {
		return nil, &syntaxError{r.line, "is nested too deeply"}
	}
	n := &node{line: r.line}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			n.kind = objectNode
			return n, r.members(n, depth)
		}
		n.kind = listNode
		return n, r.items(n, depth)
	case nil:
		return n, nil
	default: // string, json.Number or bool
		n.kind, n.text = scalarNode, fmt.Sprint(t)
		return n, nil
	}
}

func (r *jsonReader) members(n *node, depth int) error {
	for {
		token, err := r.next()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok { // the closing brace
			return nil
		}
		m := member{key: key, line: r.line}
		if token, err = r.next(); err != nil {
			return err
		}
		if m.value, err = r.value(token, depth+1); err != nil {
			return err
		}
		n.members = append(n.members, m)
	}
}

func (r *jsonReader) items(n *node, depth int) error {
	for {
		token, err := r.next()
		if err != nil {
			return err
		}
		if token == json.Delim(']') {
			return nil
		}
		item, err := r.value(token, depth+1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
}

// plainJSON gives the same bytes with comments and trailing commas turned into spaces, so that
// every offset and line stays what it was.
func plainJSON(data []byte) []byte {
	out := bytes.Clone(data)
	comma := -1 // a comma after which only blanks came
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			i, comma = endOfString(out, i), -1
		case c == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			end := endOfComment(out, i)
			blank(out[i:end])
			i = end - 1
		case c == ',':
			comma = i
		case c == '}' || c == ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			comma = -1
		}
	}
	return out
}

// endOfString gives the index of the quote that ends the string which begins at i.
func endOfString(data []byte, i int) int {
	for i++; i < len(data) && data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i
}

// endOfComment gives the index after the comment that begins at i. One that does not end is left
// to the JSON reader to complain about.
func endOfComment(data []byte, i int) int {
	if data[i+1] == '/' {
		if n := bytes.IndexByte(data[i:], '\n'); n >= 0 {
			return i + n
		}
		return len(data)
	}
	if n := bytes.Index(data[i+2:], []byte("*/")); n >= 0 {
		return i + 2 + n + 2
	}
	return i + 1
}

func blank(data []byte) {
	for i, c := range data {
		if c != '\n' {
			data[i] = ' '
		}
	}
}

func parseYAML(data []byte) (*node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, more yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return &node{line: 1}, nil
	case err != nil:
		return nil, explainYAML(err)
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, &syntaxError{more.Line, "holds more than one document"}
	}
	if len(document.Content) == 0 {
		return &node{line: 1}, nil
	}
	return fromYAML(document.Content[0], 0)
}

// explainYAML moves the line out of the text "yaml: line 3: ...".
func explainYAML(err error) error {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if _, scanErr := fmt.Sscanf(rest, "%d:", &line); scanErr == nil {
			_, text, _ = strings.Cut(rest, ": ")
		}
	}
	return &syntaxError{line, "is not YAML: " + text}
}

func fromYAML(y *yaml.Node, depth int) (*node, error) {
	n := &node{line: y.Line}
	if depth > maxFileDepth {
		return nil, &syntaxError{y.Line, "is nested too deeply"}
	}
	switch y.Kind {
	case yaml.ScalarNode:
		if y.ShortTag() != "!!null" {
			n.kind, n.text = scalarNode, y.Value
		}
		return n, nil
	case yaml.SequenceNode:
		n.kind = listNode
		for _, c := range y.Content {
			item, err := fromYAML(c, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
		return n, nil
	case yaml.MappingNode:
		return fromYAMLMapping(n, y, depth)
	}
	return nil, &syntaxError{y.Line, "uses an alias (*name): write the value itself"}
}

func fromYAMLMapping(n *node, y *yaml.Node, depth int) (*node, error) {
	n.kind = objectNode
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := y.Content[i]
		if key.Kind != yaml.ScalarNode {
			return nil, &syntaxError{key.Line, "has a key that is not a plain text"}
		}
		value, err := fromYAML(y.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		n.members = append(n.members, member{key.Value, key.Line, value})
	}
	return n, nil
}
