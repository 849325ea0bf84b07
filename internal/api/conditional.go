package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"legwork/internal/control"
	"legwork/internal/fault"
)

// An entity tag has two parts: "DECLARED.WHOLE". The first changes when the record is changed, the second with
// anything in the answer, such as the status of a module. If-None-Match compares both, If-Match only the first: a
// runner that goes offline does not block an edit of its record.

// recordOf names the record that an operation changes, where the record is not at the path of the operation itself but
// above.
var recordOf = map[string]int{ // how many segments above
	"set-user-role":     1,
	"set-user-password": 1,
}

// unconditional are the operations that change a state for which there is no record to compare. They refuse If-Match.
var unconditional = map[string]string{
	"delete-credential":   "a credential never changes",
	"end-web-session":     "a session never changes",
	"end-web-sessions":    "all sessions of a user at once",
	"remove-instance":     "instances are not declared",
	"set-draining":        "a command that can be repeated",
	"set-runner-draining": "a command that can be repeated",
	"withdraw-release":    "a release never changes",
}

// volatile are fields that change without a change of the record.
var volatile = []string{"last_used_at", "seen_at", "stale", "instance", "runner", "runner_id", "uses_left"}

// conditional returns what an operation does about If-Match and If-None-Match, and adds ETag to answers.
func (s *Server) conditional(op huma.Operation) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		switch {
		case op.Method == http.MethodGet && s.records[op.Path], (op.Method == http.MethodPut ||
			op.Method == http.MethodPatch) && s.gets[op.Path]:
			answer := newRecorder(w)
			s.withMatch(op, r, w, func(r *http.Request) {
				next(humago.NewContext(ctx.Operation(), r, answer))
				answer.tag(r)
				answer.send()
			})
		case isChange(op.Method):
			s.withMatch(op, r, w, func(r *http.Request) { next(humago.NewContext(ctx.Operation(), r, w)) })
		default:
			next(ctx)
		}
	}
}

func isChange(method string) bool {
	return method == http.MethodPut || method == http.MethodPatch || method == http.MethodDelete
}

// tag adds the ETag to an answer, and empties the answer if the client has it already.
func (r *recorder) tag(request *http.Request) {
	if r.status != http.StatusOK {
		return
	}
	tag := entityTag(r.body.Bytes())
	r.header.Set("ETag", tag)
	if request.Method == http.MethodGet && anyTag(request.Header.Values("If-None-Match"),
		func(t string) bool { return t == tag || t == "*" }) {
		r.status = http.StatusNotModified
		r.header.Del("Content-Type")
		r.body.Reset()
	}
}

// anyTag reports whether one of the tags of a header fits. Proxies that compress mark tags as weak.
func anyTag(header []string, fits func(tag string) bool) bool {
	for tag := range strings.SplitSeq(strings.Join(header, ","), ",") {
		if fits(strings.TrimPrefix(strings.TrimSpace(tag), "W/")) {
			return true
		}
	}
	return false
}

// entityTag returns the tag of a record as JSON.
func entityTag(record []byte) string {
	return `"` + declaredPart(record) + "." + shortHash(record) + `"`
}

func declaredPart(record []byte) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(record, &fields) != nil {
		return shortHash(record)
	}
	if at := fields["updated_at"]; at != nil && fields["id"] != nil {
		return shortHash(append(at, fields["id"]...))
	}
	for _, name := range volatile {
		delete(fields, name)
	}
	text, _ := json.Marshal(fields) // it was JSON, and maps are sorted
	return shortHash(text)
}

func shortHash(b []byte) string {
	sum := sha256.Sum256(bytes.TrimSpace(b))
	return hex.EncodeToString(sum[:8])
}

// withMatch runs a change if If-Match allows it. The transaction of the change refuses it if the record has changed
// meanwhile.
func (s *Server) withMatch(op huma.Operation, r *http.Request, w http.ResponseWriter, change func(r *http.Request)) {
	wanted := r.Header.Values("If-Match")
	if len(wanted) == 0 || !isChange(op.Method) {
		change(r)
		return
	}
	levels, path := recordOf[op.OperationID], op.Path
	for range levels {
		path = path[:strings.LastIndexByte(path, '/')]
	}
	if !s.gets[path] || unconditional[op.OperationID] != "" {
		s.writeProblem(w, r, fault.New(fault.Invalid, "condition_unsupported", "this takes no If-Match").
			WithHint("leave the header out"))
		return
	}
	ctx, refused := s.checkMatch(r, above(r.URL, levels), wanted)
	if refused != nil {
		refused.under = w
		refused.send()
		return
	}
	change(r.WithContext(ctx))
}

// checkMatch compares a record with If-Match. It returns a context whose changes require that version of the record,
// or the answer that refuses the change.
func (s *Server) checkMatch(r *http.Request, at *url.URL, wanted []string) (context.Context, *recorder) {
	current := s.call(r, http.MethodGet, at, nil)
	var record struct{ ID string }
	_ = json.Unmarshal(current.body.Bytes(), &record) // the maintenance mode has no id
	ctx, err := s.Control.RequireUnchanged(r.Context(), actorOf(r.Context()), kindAt(at), record.ID)
	if err != nil {
		return nil, s.problemAnswer(r, err)
	}
	current = s.call(r, http.MethodGet, at, nil) // not older than what ctx requires
	switch {
	case current.status == http.StatusNotFound:
		return nil, s.problemAnswer(r, control.ErrPreconditionFailed)
	case current.status != http.StatusOK:
		return nil, current
	}
	tag := entityTag(current.body.Bytes())
	declared, _, _ := strings.Cut(tag, ".")
	if !anyTag(wanted, func(t string) bool { return t == "*" || strings.HasPrefix(t, declared+".") }) {
		answer := s.problemAnswer(r, control.ErrPreconditionFailed)
		answer.header.Set("ETag", tag)
		return nil, answer
	}
	return ctx, nil
}

// kindAt returns the segment of a path that names the kind of its record.
func kindAt(at *url.URL) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(at.Path, prefix+"/"), "/")
	return kind
}

// above returns the path some segments above that of a URL.
func above(u *url.URL, levels int) *url.URL {
	path := u.EscapedPath()
	for range levels {
		path = path[:strings.LastIndexByte(path, '/')]
	}
	plain, _ := url.PathUnescape(path) // it was a path
	return &url.URL{Path: plain, RawPath: path}
}

// call runs another operation on behalf of a request, and returns its answer.
func (s *Server) call(r *http.Request, method string, at *url.URL, content []byte) *recorder {
	answer := newRecorder(nil)
	inner := (&http.Request{Method: method, URL: at, Header: http.Header{}, Body: http.NoBody, Host: r.Host,
		RemoteAddr: r.RemoteAddr,
		Proto:      r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor}).WithContext(r.Context())
	if content != nil {
		inner.Body, inner.ContentLength = &memoryBody{bytes.NewReader(content)}, int64(len(content))
		inner.Header.Set("Content-Type", "application/json")
	}
	s.mux.ServeHTTP(answer, inner)
	return answer
}

// memoryBody is the body of a request that another operation makes.
type memoryBody struct{ *bytes.Reader }

// Close does nothing.
func (*memoryBody) Close() error { return nil }

// problemAnswer returns the answer for an error.
func (s *Server) problemAnswer(r *http.Request, err error) *recorder {
	answer := newRecorder(nil)
	s.writeProblem(answer, r, err)
	return answer
}
