package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"legwork/internal/fault"
)

const (
	mergePatchType = "application/merge-patch+json"
	patchAttempts  = 5
)

// registerPatches adds PATCH to every record that can be read and replaced as a whole. A PATCH reads the record,
// merges, and replaces the record, so that rules and permissions are those of the PUT.
func (s *Server) registerPatches(h huma.API) {
	paths := make([]string, 0, len(s.gets))
	for path := range s.gets {
		if item := h.OpenAPI().Paths[path]; item != nil && item.Put != nil {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		s.registerPatch(h, h.OpenAPI().Paths[path].Put)
	}
}

func (s *Server) registerPatch(h huma.API, put *huma.Operation) {
	of := strings.TrimPrefix(put.OperationID, "put-")
	schemas := h.OpenAPI().Components.Schemas
	fields := schemas.SchemaFromRef(put.RequestBody.Content["application/json"].Schema.Ref)
	change := &huma.Schema{Type: huma.TypeObject, Description: "Fields of the request of put-" + of +
		": a value replaces the field, null removes it, an object is merged, a list is replaced as a whole."}
	op := &huma.Operation{OperationID: "patch-" + of, Method: http.MethodPatch, Path: put.Path, Tags: put.Tags,
		Summary:     "Change some fields of a record (" + of + ")",
		Description: "A JSON merge patch (RFC 7396). Fields that the request leaves out stay as they are.",
		Parameters:  put.Parameters, Metadata: put.Metadata, MaxBodyBytes: put.MaxBodyBytes,
		RequestBody: &huma.RequestBody{Required: true, Description: "The fields to change.",
			Content: map[string]*huma.MediaType{mergePatchType: {Schema: change},
				"application/json": {Schema: change}}},
		Responses: put.Responses,
	}
	h.OpenAPI().AddOperation(op)
	run := func(ctx huma.Context) { s.patch(ctx, fields) }
	chain := huma.Middlewares{s.guardBody(*op), s.conditional(*op)}
	h.Adapter().Handle(op, chain.Handler(run))
}

// patch reads a record, merges the request into it and replaces the record. It starts
// again if the record changes meanwhile.
func (s *Server) patch(ctx huma.Context, fields *huma.Schema) {
	r, w := humago.Unwrap(ctx)
	limit := ctx.Operation().MaxBodyBytes
	if limit == 0 {
		limit = defaultBody
	}
	change, err := readPatch(w, r, limit)
	if err != nil {
		s.writeProblem(w, r, err)
		return
	}
	var answer *recorder
	for range patchAttempts {
		answer = s.patchOnce(r, fields, change)
		if answer.status != http.StatusPreconditionFailed || r.Header.Get("If-Match") != "" {
			break
		}
	}
	answer.under = w
	answer.send()
}

// patchOnce returns the answer of the PUT, or of the GET if there is no record.
func (s *Server) patchOnce(r *http.Request, fields *huma.Schema, change map[string]any) *recorder {
	at := above(r.URL, 0)
	current := s.call(r, http.MethodGet, at, nil)
	if current.status != http.StatusOK {
		return current
	}
	wanted := r.Header.Values("If-Match")
	if len(wanted) == 0 {
		wanted = []string{entityTag(current.body.Bytes())}
	}
	ctx, refused := s.checkMatch(r, at, wanted)
	if refused != nil {
		return refused
	}
	merged, err := patched(current.body.Bytes(), fields, change)
	if err != nil {
		return s.problemAnswer(r, err)
	}
	return s.call(r.WithContext(ctx), http.MethodPut, at, merged)
}

// readPatch reads a merge patch. A merge patch that is not an object would replace the whole record, and is refused.
func readPatch(w http.ResponseWriter, r *http.Request, limit int64) (map[string]any, error) {
	content, err := readBody(w, r, limit)
	if err != nil {
		return nil, err
	}
	var change map[string]any
	if decodeExactly(content, &change) != nil || change == nil {
		return nil, fault.New(fault.Invalid, "request_invalid",
			"the body is not a JSON object with the fields to change").
			WithHint("send a JSON merge patch (RFC 7396), for example {\"description\":\"new\"}")
	}
	return change, nil
}

// patched returns the body of the PUT: a record without the fields that the server adds, with a change merged into it.
// Fields that the change does not name keep their text.
func patched(current []byte, fields *huma.Schema, change map[string]any) ([]byte, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(current, &given); err != nil {
		return nil, err
	}
	record := map[string]any{}
	for name, text := range given {
		if fields.Properties[name] == nil {
			continue
		}
		record[name] = text
		if _, ok := change[name].(map[string]any); !ok {
			continue
		}
		var value any
		if err := decodeExactly(text, &value); err != nil {
			return nil, err
		}
		record[name] = value
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(mergePatch(record, change))
	return out.Bytes(), err
}

// decodeExactly decodes a JSON value without rounding its numbers.
func decodeExactly(content []byte, value any) error {
	if !json.Valid(content) {
		return errors.New("this is not one JSON value")
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	return decoder.Decode(value)
}

// mergePatch merges a change into a record (RFC 7396).
func mergePatch(record, change map[string]any) map[string]any {
	if record == nil {
		record = map[string]any{}
	}
	for name, value := range change {
		switch part := value.(type) {
		case nil:
			delete(record, name)
		case map[string]any:
			before, _ := record[name].(map[string]any)
			record[name] = mergePatch(before, part)
		default:
			record[name] = value
		}
	}
	return record
}
