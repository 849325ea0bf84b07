package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
)

// readDocuments splits a file into documents and parses each as it is asked for: a document, or what
// is wrong with one.
func readDocuments(f ManifestFile) iter.Seq2[document, *fault.Problem] {
	data := bytes.TrimPrefix(f.Data, []byte("\ufeff"))
	if at := badByte(data); at >= 0 {
		problem := &fault.Problem{File: f.Name, Line: 1 + bytes.Count(data[:at], []byte("\n")), Message: "is not UTF-8 text"}
		return func(yield func(document, *fault.Problem) bool) { yield(document{}, problem) }
	}
	// YAML as its parser has it lacks some of JSON, such as tabs between values.
	if strings.HasSuffix(strings.ToLower(f.Name), ".json") || isJSON(data) {
		return readJSON(f.Name, data)
	}
	return readYAML(f.Name, data)
}

// isJSON tells whether a file of another name is a sequence of JSON objects, or of lists of them.
func isJSON(data []byte) bool {
	if begin := bytes.TrimSpace(data); len(begin) == 0 || begin[0] != '{' && begin[0] != '[' {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// badByte gives the place of the first byte that is no text, or -1.
func badByte(data []byte) int {
	zero := bytes.IndexByte(data, 0)
	if utf8.Valid(data) {
		return zero
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if i == zero || (r == utf8.RuneError && size == 1) {
			return i
		}
		i += size
	}
	return zero
}

// readYAML parses each document by itself, so that one that is broken does not hide those after it.
// A line of --- or ... at its beginning parts documents everywhere, also within a block of text.
func readYAML(file string, data []byte) iter.Seq2[document, *fault.Problem] {
	return func(yield func(document, *fault.Problem) bool) {
		for c := range splitYAML(data) {
			root, problem := parseYAML(c.text)
			doc := document{file: file, offset: c.offset}
			switch {
			case problem != nil:
				problem.File = file
				problem.Line += c.offset
			case root == nil:
				continue
			default:
				doc.line, doc.root = root.Line+c.offset, root
			}
			if !yield(doc, problem) {
				return
			}
		}
	}
}

type chunk struct {
	text   []byte
	offset int // lines before it
}

func splitYAML(data []byte) iter.Seq[chunk] {
	return func(yield func(chunk) bool) {
		begin, offset, at, line := 0, 0, 0, 0
		for text := range bytes.Lines(data) {
			end := at + len(text)
			next, nextLine := -1, line
			switch {
			case isMarker(text, "---") && at > begin:
				next = at
			case isMarker(text, "..."):
				next, nextLine = end, line+1
			}
			if next >= 0 {
				if !yield(chunk{data[begin:at], offset}) {
					return
				}
				begin, offset = next, nextLine
			}
			at = end
			line++
		}
		yield(chunk{data[begin:], offset})
	}
}

func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

var (
	yamlLine     = lazyregexp.New(`^(?:yaml: )?(?:line (\d+): )?`)
	parserErrors = lazyregexp.New(`^did not find expected (',' or|'-' indicator|key|node content|<)|^found undefined tag`)
)

// parseYAML gives the root of one document, or nil when it holds nothing but comments.
func parseYAML(text []byte) (*yaml.Node, *fault.Problem) {
	if isBlank(text) {
		return nil, nil
	}
	if len(text) > MaxDocument {
		return nil, &fault.Problem{Line: 1, Message: fmt.Sprintf("is a document of %d bytes, more than %d: keep large files in a git source", len(text), MaxDocument)}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, yamlProblem(text, err.Error())
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 {
		return nil, nil
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Value == "" && root.Style == 0 {
		return nil, nil // nothing but --- and comments
	}
	return root, nil
}

// yamlProblem takes the line out of an error of the YAML library, which counts it from 0 in its parser
// and from 1 in its scanner.
func yamlProblem(text []byte, message string) *fault.Problem {
	m := yamlLine.FindStringSubmatch(message)
	message = message[len(m[0]):]
	line, _ := strconv.Atoi(m[1])
	if parserErrors.MatchString(message) {
		line++
	}
	line = min(max(line, 1), 1+bytes.Count(text, []byte("\n")))
	return &fault.Problem{Line: line, Message: "is not YAML: " + strings.ToValidUTF8(message, "?")}
}

// isBlank tells whether a document has nothing but blank lines, comments and directives.
func isBlank(text []byte) bool {
	if isMarker(text, "---") {
		text = text[len("---"):]
	}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// readJSON reads a sequence of JSON values as nodes, so that everything after is the same for both.
// A value that is a list is a list of documents.
func readJSON(file string, data []byte) iter.Seq2[document, *fault.Problem] {
	return func(yield func(document, *fault.Problem) bool) {
		r := newJSONReader(data)
		for {
			r.nodes = 0
			root, err := r.next(0)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(document{}, &fault.Problem{File: file, Line: r.errorLine(err), Message: "is not JSON: " + strings.ToValidUTF8(err.Error(), "?")})
				return
			}
			roots := []*yaml.Node{root}
			if root.Kind == yaml.SequenceNode {
				roots = root.Content
			}
			for _, n := range roots {
				if !yield(document{file: file, line: n.Line, root: n}, nil) {
					return
				}
			}
		}
	}
}

func newJSONReader(data []byte) *jsonReader {
	r := &jsonReader{data: data, decoder: json.NewDecoder(bytes.NewReader(data))}
	r.decoder.UseNumber()
	for i, b := range data {
		if b == '\n' {
			r.breaks = append(r.breaks, i)
		}
	}
	return r
}

type jsonReader struct {
	data    []byte
	breaks  []int // places of line ends
	decoder *json.Decoder
	nodes   int // of the value that is read
}

func (r *jsonReader) line(offset int64) int {
	n, _ := slices.BinarySearch(r.breaks, int(offset))
	return n + 1
}

func (r *jsonReader) errorLine(err error) int {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return r.line(syntax.Offset - 1)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return r.line(int64(len(r.data)))
	}
	return r.line(r.decoder.InputOffset())
}

func (r *jsonReader) next(depth int) (*yaml.Node, error) {
	token, err := r.decoder.Token()
	if err != nil {
		if depth > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if r.nodes++; r.nodes > maxDocumentNodes {
		return nil, fmt.Errorf("more than %d values", maxDocumentNodes)
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: r.line(r.decoder.InputOffset() - 1)}
	switch t := token.(type) {
	case json.Delim:
		return n, r.composite(n, t, depth)
	case string:
		n.Value, n.Style, n.Tag = t, yaml.DoubleQuotedStyle, "!!str"
	case json.Number:
		n.Value = t.String()
	case bool:
		n.Value = strconv.FormatBool(t)
	case nil:
		n.Value = "null"
	}
	return n, nil
}

func (r *jsonReader) composite(n *yaml.Node, open json.Delim, depth int) error {
	if depth >= 2*MaxDepth {
		return fmt.Errorf("nested more than %d deep", 2*MaxDepth)
	}
	n.Kind = yaml.SequenceNode
	if open == '{' {
		n.Kind = yaml.MappingNode
	}
	for r.decoder.More() {
		part, err := r.next(depth + 1)
		if err != nil {
			return err
		}
		n.Content = append(n.Content, part)
	}
	_, err := r.decoder.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
