package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
)

const (
	idempotencyHeader = "Idempotency-Key"
	replayedHeader    = "Idempotency-Replayed"
)

var idempotencyKeyShape = lazyregexp.New(`^[\x21-\x7e]{1,255}$`)

var errKeyShape = fault.New(fault.Invalid, "idempotency_key_invalid",
	"the Idempotency-Key is not 1 to 255 visible ASCII characters").WithHint("use a random UUID")

// onlyReads are the POST operations that change nothing. They run each time, and no answer is stored.
var onlyReads = map[string]bool{"diff-manifest": true, "validate-runbook": true}

// idempotent returns what every POST does before its handler: with an Idempotency-Key, the first request runs, and
// later ones get its answer.
func (s *Server) idempotent(op huma.Operation) func(huma.Context, func(huma.Context)) {
	limit := op.MaxBodyBytes
	if limit == 0 {
		limit = defaultBody
	}
	return func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		key := r.Header.Get(idempotencyHeader)
		if op.Method != http.MethodPost || key == "" {
			next(ctx)
			return
		}
		if !idempotencyKeyShape.MatchString(key) {
			s.writeProblem(w, r, errKeyShape)
			return
		}
		if onlyReads[op.OperationID] {
			next(ctx)
			return
		}
		if err := s.runKeyed(ctx.Operation(), key, limit, r, w, next); err != nil {
			s.writeProblem(w, r, err)
		}
	}
}

// describeHeaders adds the headers that operations take because of their method to the description of the operation.
func describeHeaders(op *huma.Operation) {
	if op.Method != http.MethodPost {
		return
	}
	op.Parameters = append(op.Parameters, &huma.Param{Name: idempotencyHeader, In: "header",
		Example: "8e03978e-40d5-43e8-bc93-6894a57f9324",
		Schema:  &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(255)},
		Description: "Makes the request safe to repeat: the same key with the same request gets the first answer again for 24 hours. " +
			"The same key with another request is 422, and 409 while the first one runs."})
}

// runKeyed runs a request with an idempotency key, or sends the answer that it got before.
func (s *Server) runKeyed(op *huma.Operation, key string, limit int64, r *http.Request, w http.ResponseWriter,
	next func(huma.Context)) error {
	content, err := readBody(w, r, limit)
	if err != nil {
		return err
	}
	running, kept, err := s.Control.BeginKeyed(r.Context(), senderOf(r.Context()), key, fingerprint(r, content))
	switch {
	case err != nil:
		return err
	case kept != nil:
		replay(w, *kept)
		return nil
	}
	ctx, cancel := running.Context(r.Context())
	defer cancel()
	answer := newRecorder(w)
	s.runRecorded(op, r.WithContext(ctx), content, answer, next)
	err = running.Finish(ctx, keyedAnswer(answer))
	if errors.Is(err, control.ErrAnswerLost) {
		return err
	}
	if err != nil {
		s.Log.Warn("answer to a request with an idempotency key not kept", "request_id", requestOf(ctx).id, "error",
			err)
	}
	answer.send()
	return nil
}

// runRecorded runs a handler and records its answer, also when the handler panics: the change may be made already.
func (s *Server) runRecorded(op *huma.Operation, r *http.Request, content []byte, answer *recorder,
	next func(huma.Context)) {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	if len(content) == 0 {
		r.Body = http.NoBody
	}
	s.recover(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next(humago.NewContext(op, r, w))
	})).ServeHTTP(answer, r)
}

// readBody reads the body of a request. One byte more than the limit makes the handler refuse it as too large.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	content, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit+1))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge), int64(len(content)) > limit:
		return nil, refused(http.StatusRequestEntityTooLarge, "", nil)
	case fault.Code(err) != "": // of the budget of bodies
		return nil, err
	case err != nil:
		return nil, refused(http.StatusRequestTimeout, "", nil)
	}
	return content, nil
}

// senderOf returns whose idempotency keys a request uses.
func senderOf(ctx context.Context) control.Sender {
	if by, ok := ctx.Value(registrarKey).(catalog.Registrar); ok {
		return control.Sender{OrganizationID: by.OrganizationID, ID: "registration " + by.ID, Role: by.Launch}
	}
	actor := actorOf(ctx)
	return control.Sender{OrganizationID: actor.OrganizationID, ID: actor.ID, Role: string(actor.Role)}
}

// fingerprint returns a hash of all of a request that its answer depends on.
func fingerprint(r *http.Request, content []byte) []byte {
	sum := sha256.New()
	for _, part := range []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Content-Type")} {
		sum.Write([]byte(part + "\x00"))
	}
	sum.Write(content)
	return sum.Sum(nil)
}

func keyedAnswer(r *recorder) control.KeyedAnswer {
	r.WriteHeader(http.StatusOK)
	header := map[string]string{}
	for name, values := range r.header {
		header[name] = strings.Join(values, ", ")
	}
	return control.KeyedAnswer{Status: r.status, Header: header, Body: r.body.Bytes()}
}

// replay sends an answer again.
func replay(w http.ResponseWriter, a control.KeyedAnswer) {
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	w.Header().Set(replayedHeader, "true")
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the client may be gone
}
