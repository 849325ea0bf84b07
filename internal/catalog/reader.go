package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"legwork/internal/fault"
)

// readDocuments splits a file into documents and parses each.
func readDocuments(f ManifestFile) ([]document, []fault.Problem) {
	data := bytes.TrimPrefix(f.Data, []byte("\ufeff"))
	if at := badByte(data); at >= 0 {
		return nil, []fault.Problem{{File: f.Name, Line: 1 + bytes.Count(data[:at], []byte("\n")), Message: "is not UTF-8 text"}}
	}
	if strings.HasSuffix(strings.ToLower(f.Name), ".json") {
		return readJSON(f.Name, data)
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		// YAML as its parser has it lacks some of JSON, such as tabs between values.
		if documents, problems := readJSON(f.Name, data); len(problems) == 0 {
			return documents, nil
		}
	}
	return readYAML(f.Name, data)
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
func readYAML(file string, data []byte) ([]document, []fault.Problem) {
	var documents []document
	var problems []fault.Problem
	for _, c := range splitYAML(data) {
		root, problem := parseYAML(c.text)
		switch {
		case problem != nil:
			problem.File = file
			problem.Line += c.offset
			problems = append(problems, *problem)
		case root != nil:
			documents = append(documents, document{file: file, line: root.Line + c.offset, offset: c.offset, root: root})
		}
		if len(documents) > MaxDocuments {
			break
		}
	}
	return documents, problems
}

type chunk struct {
	text   []byte
	offset int // lines before it
}

func splitYAML(data []byte) []chunk {
	var chunks []chunk
	begin, offset, line := 0, 0, 0
	for at := 0; at < len(data); line++ {
		end := len(data)
		if n := bytes.IndexByte(data[at:], '\n'); n >= 0 {
			end = at + n + 1
		}
		marker := isMarker(data[at:end], "---")
		if marker && at > begin {
			chunks = append(chunks, chunk{data[begin:at], offset})
			begin, offset = at, line
		}
		if isMarker(data[at:end], "...") {
			chunks = append(chunks, chunk{data[begin:at], offset})
			begin, offset = end, line+1
		}
		at = end
	}
	return append(chunks, chunk{data[begin:], offset})
}

func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

var (
	yamlLine     = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)
	parserErrors = regexp.MustCompile(`^did not find expected (',' or|'-' indicator|key|node content|<)|^found undefined tag`)
)

// parseYAML gives the root of one document, or nil when it holds nothing but comments.
func parseYAML(text []byte) (*yaml.Node, *fault.Problem) {
	if isBlank(text) {
		return nil, nil
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

// isBlank tells whether a text has nothing but blank lines, comments and directives.
func isBlank(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// readJSON reads a sequence of JSON values as nodes, so that everything after is the same for both.
// A file that is a list is a list of documents.
func readJSON(file string, data []byte) ([]document, []fault.Problem) {
	r := &jsonReader{data: data, decoder: json.NewDecoder(bytes.NewReader(data))}
	r.decoder.UseNumber()
	for i, b := range data {
		if b == '\n' {
			r.breaks = append(r.breaks, i)
		}
	}
	var documents []document
	for {
		root, err := r.next(0)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return documents, []fault.Problem{{File: file, Line: r.errorLine(err), Message: "is not JSON: " + strings.ToValidUTF8(err.Error(), "?")}}
		}
		roots := []*yaml.Node{root}
		if root.Kind == yaml.SequenceNode {
			roots = root.Content
		}
		for _, n := range roots {
			documents = append(documents, document{file: file, line: n.Line, root: n})
		}
		if len(documents) > MaxDocuments {
			return documents, nil
		}
	}
}

type jsonReader struct {
	data    []byte
	breaks  []int // places of line ends
	decoder *json.Decoder
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
	if depth >= 2*maxDepth {
		return fmt.Errorf("nested more than %d deep", 2*maxDepth)
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
