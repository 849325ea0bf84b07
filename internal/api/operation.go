package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
	"legwork/internal/work"
)

// The library makes its own errors (a body that does not fit the description, one that is too large) through
// two variables of its package. They are set once, before anything runs, so that these errors are Problems, too.
func init() {
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return refused(status, msg, errs)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		p := refused(status, msg, errs)
		if ctx != nil {
			p.RequestID = requestOf(ctx.Context()).id
		}
		return p
	}
}

// refused is the Problem of a request that the library refused before a handler saw it.
func refused(status int, msg string, errs []error) *Problem {
	for _, err := range errs {
		if fault.Code(err) != "" {
			return problemOf(err, "") // of the body, while it was read
		}
	}
	switch status {
	case http.StatusUnprocessableEntity, http.StatusBadRequest:
		return problemOf(wrongRequest(msg, errs), "")
	case http.StatusRequestEntityTooLarge:
		return problemOf(fault.New(fault.TooLarge, "body_too_large", "the body of the request is too large").WithHint("send less at once"), "")
	case http.StatusRequestTimeout:
		return withStatus(status, fault.New(fault.Unavailable, "body_too_slow", "the body of the request did not arrive in time"))
	case http.StatusUnsupportedMediaType:
		return withStatus(status, fault.New(fault.Invalid, "media_type", "the body is of a type that is not taken here").
			WithHint("send JSON with Content-Type: application/json"))
	}
	if status < http.StatusInternalServerError && status != 0 {
		return withStatus(status, fault.New(fault.Invalid, "bad_request", "the request cannot be served: %s", strings.ToLower(http.StatusText(status))))
	}
	return problemOf(errors.New(msg), "") // whose kind is Internal: nothing of it is shown
}

func wrongRequest(msg string, errs []error) *fault.Fault {
	problems := make([]fault.Problem, 0, len(errs))
	for _, err := range errs {
		var d huma.ErrorDetailer
		if errors.As(err, &d) {
			detail := d.ErrorDetail() // its value is left out: it may be a secret
			problems = append(problems, problemAt(detail))
		} else if err != nil {
			problems = append(problems, fault.Problem{Message: err.Error()})
		}
	}
	if len(problems) == 0 {
		return fault.New(fault.Invalid, "request_invalid", "the request is wrong: %s", msg).WithHint("/openapi.json describes what is taken")
	}
	f := fault.New(fault.Invalid, "request_invalid", "the request is wrong: %s", problems[0])
	if len(problems) > 1 {
		f = fault.New(fault.Invalid, "request_invalid", "the request has %d problems; the first: %s", len(problems), problems[0])
	}
	return f.WithHint("/openapi.json describes what is taken").WithDetails(problems...)
}

// missingProperty matches the message of the library about a missing property. It is located at the object.
var missingProperty = lazyregexp.New(`^expected required property (\S+) to be present$`)

// problemAt returns a problem of a request with the field that it is about.
func problemAt(detail *huma.ErrorDetail) fault.Problem {
	field := fieldName(detail.Location)
	found := missingProperty.FindStringSubmatch(detail.Message)
	if found == nil {
		return fault.Problem{Field: field, Message: detail.Message}
	}
	return fault.Problem{Field: strings.TrimPrefix(field+"."+found[1], "."), Message: "is required"}
}

// fieldName makes "inputs[2].name" out of "body.inputs[2].name".
func fieldName(location string) string {
	for _, part := range []string{"body", "query", "path", "header"} {
		if location == part {
			return ""
		}
		if rest, ok := strings.CutPrefix(location, part+"."); ok {
			return rest
		}
	}
	return location
}

// schemaName keeps apart types of the same name from different packages.
func schemaName(t reflect.Type, hint string) string {
	switch t {
	case reflect.TypeFor[fault.Problem]():
		return "ProblemDetail"
	case reflect.TypeFor[work.Limits]():
		return "JobLimits"
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// handle adds an operation whose handler gets the Actor of the request and whose errors become Problems: they are
// described as the default answer.
func handle[I, O any](s *Server, h huma.API, op huma.Operation, handler func(ctx context.Context, actor catalog.Actor, in *I) (*O, error)) {
	op.Path = prefix + op.Path
	op.RejectUnknownQueryParameters = true
	if op.BodyReadTimeout == 0 {
		op.BodyReadTimeout = s.BodyTimeout
	}
	op.Middlewares = append(op.Middlewares, s.guardBody(op), s.idempotent(op), s.conditional(op))
	s.noteRecord(op)
	describeHeaders(&op)
	huma.Register(h, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handler(ctx, actorOf(ctx), in)
		if err != nil {
			p := s.problem(ctx, err)
			header := http.Header{}
			problemHeaders(header, p)
			header.Del("Content-Type")
			return nil, huma.ErrorWithHeaders(p, header)
		}
		return out, nil
	})
}

// noteRecord notes which paths are records: what can be read, and changed at the same path.
func (s *Server) noteRecord(op huma.Operation) {
	if s.gets == nil {
		s.gets, s.records = map[string]bool{}, map[string]bool{}
	}
	if op.Method == http.MethodGet {
		s.gets[op.Path] = true
	}
	if isChange(op.Method) && unconditional[op.OperationID] == "" {
		path := op.Path
		for range recordOf[op.OperationID] {
			path = path[:strings.LastIndexByte(path, '/')]
		}
		s.records[path] = true
	}
}

// operation describes one operation briefly; handle does the rest.
func operation(id, method, path, tag, summary string) huma.Operation {
	return huma.Operation{OperationID: id, Method: method, Path: path, Tags: []string{tag}, Summary: summary}
}

// body is an answer with a body.
type body[T any] struct{ Body T }

func answer[T any](v T, err error) (*body[T], error) {
	if err != nil {
		return nil, err
	}
	return &body[T]{v}, nil
}

// answerOne answers with the record of a list that has an id or a name.
func answerOne[R, T any](code, idOrName string, all []R, err error, show func(R) T) (*body[T], error) {
	if err != nil {
		return nil, err
	}
	for _, record := range all {
		var known struct{ ID, Name string }
		text, _ := json.Marshal(record) // records are plain data
		_ = json.Unmarshal(text, &known)
		if idOrName == known.ID || idOrName == known.Name {
			return &body[T]{show(record)}, nil
		}
	}
	return nil, fault.New(fault.NotFound, code+"_not_found", "there is no %s %q", strings.ReplaceAll(code, "_", " "),
		idOrName)
}

func itself[T any](v T) T { return v }

// none is the answer without a body.
type none struct{}
