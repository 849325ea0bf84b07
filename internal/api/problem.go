package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"legwork/internal/fault"
	"legwork/internal/wire"
)

// Problem is the body of every answer that is not a success (RFC 9457, application/problem+json).
type Problem struct {
	Type      string          `json:"type" doc:"Always about:blank: the code tells what it is."`
	Title     string          `json:"title" doc:"The HTTP status in words."`
	Status    int             `json:"status"`
	Detail    string          `json:"detail" doc:"One sentence for a person."`
	Code      string          `json:"code" doc:"Stable, for programs, for example not_found."`
	Kind      string          `json:"kind" doc:"The group of codes that are dealt with alike." enum:"internal,invalid,unauthenticated,forbidden,not_found,conflict,too_large,rate_limited,unavailable,failed,unsupported"`
	Hint      string          `json:"hint,omitempty" doc:"What to do about it."`
	Details   []fault.Problem `json:"details,omitempty" doc:"The single problems, when there are several."`
	RequestID string          `json:"request_id,omitempty" doc:"Stands beside the cause in the Server's own log."`
}

const problemType = "application/problem+json"

// maxDetails bounds how many single problems an answer lists.
const maxDetails = 200

// statusOf is the one place where kinds of faults become HTTP statuses.
var statusOf = map[fault.Kind]int{
	fault.Internal:        http.StatusInternalServerError,
	fault.Invalid:         http.StatusBadRequest,
	fault.Unauthenticated: http.StatusUnauthorized,
	fault.Forbidden:       http.StatusForbidden,
	fault.NotFound:        http.StatusNotFound,
	fault.Conflict:        http.StatusConflict,
	fault.TooLarge:        http.StatusRequestEntityTooLarge,
	fault.RateLimited:     http.StatusTooManyRequests,
	fault.Unavailable:     http.StatusServiceUnavailable,
	fault.Failed:          http.StatusUnprocessableEntity,
	fault.Unsupported:     http.StatusNotImplemented,
}

// statusOfCode are the codes that have a status of their own.
var statusOfCode = map[string]int{
	"precondition_failed":    http.StatusPreconditionFailed,
	"idempotency_key_reused": http.StatusUnprocessableEntity,
	"request_timeout":        http.StatusGatewayTimeout,
}

// kindNamed is the way back, for the client.
var kindNamed = func() map[string]fault.Kind {
	kinds := map[string]fault.Kind{}
	for kind := range statusOf {
		kinds[kind.String()] = kind
	}
	return kinds
}()

// Error and GetStatus make a Problem what huma takes for an error with a status.
func (p *Problem) Error() string  { return p.Detail }
func (p *Problem) GetStatus() int { return p.Status }

// ContentType makes huma name the type of the body as RFC 9457 wants it.
func (p *Problem) ContentType(string) string { return problemType }

// problemOf turns any error into the Problem that is safe to show.
func problemOf(err error, requestID string) *Problem {
	var ready *Problem
	if errors.As(err, &ready) {
		p := *ready
		p.RequestID = requestID
		return &p
	}
	f := hinted(fault.Of(err))
	status := cmp.Or(statusOfCode[f.Code], statusOf[f.Kind])
	details := f.Details
	if len(details) > maxDetails {
		details = details[:maxDetails]
	}
	return &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: f.Message,
		Code: f.Code, Kind: f.Kind.String(), Hint: f.Hint, Details: details, RequestID: requestID,
	}
}

// hinted gives a Fault that says what to do: by its own hint, else by what is known of its code or its kind.
func hinted(f *fault.Fault) *fault.Fault {
	if f.Hint != "" {
		return f
	}
	if hint := hintOfCode[f.Code]; hint != "" {
		return f.WithHint("%s", hint)
	}
	return f.WithHint("%s", hintOfKind[f.Kind])
}

// hintOfCode is for faults from below, which know nothing of command lines.
var hintOfCode = map[string]string{
	"stack_not_found":      "see: legwork stack list",
	"namespace_not_found":  "see: legwork namespace list",
	"module_not_found":     "see: legwork module list",
	"runner_not_found":     "see: legwork runner list",
	"assignment_not_found": "see: legwork assignment list",
	"job_not_found":        "see: legwork job list",
	"no_plan":              "only Jobs of OpenTofu and Terraform have one, after their Step plan: see legwork job show",
	"database_unreachable": "look whether the database runs; the Server's own log names the cause, and the Server goes on by itself when it is back",
	"server_stopping":      "wait a little and try again: another Server takes over, or this one starts again",
}

var hintOfKind = map[fault.Kind]string{
	fault.Internal:        "look for the request_id in the Server's own log",
	fault.Invalid:         "correct what is named; /openapi.json describes what is taken",
	fault.Unauthenticated: "send a token of this Server: Authorization: Bearer ...",
	fault.Forbidden:       "use a token with more rights, or ask an owner of the Organization",
	fault.NotFound:        "check the name or the id; a listing shows what there is",
	fault.Conflict:        "look at how things stand now, then try again",
	fault.TooLarge:        "send less at once",
	fault.RateLimited:     "wait a little and try again",
	fault.Unavailable:     "wait a little and try again; the Server's own log tells more",
	fault.Failed:          "the log of the Job tells why",
	fault.Unsupported:     "look whether Server and client are of the same version",
}

// withStatus is a Problem of a status that no kind of fault has of its own (405, 406, 415).
func withStatus(status int, f *fault.Fault) *Problem {
	p := problemOf(f, "")
	p.Status, p.Title = status, http.StatusText(status)
	return p
}

// writeProblem answers a request with the Problem of err. What is internal is logged here, once, with its cause.
func (s *Server) writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := s.problem(r.Context(), err)
	body, _ := json.Marshal(p) // plain strings and numbers: it cannot fail
	problemHeaders(w.Header(), p)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // whoever left does not hear it
}

// problemHeaders sets the headers that belong to the status (RFC 6750 section 3, RFC 9110 section 10.2.3).
func problemHeaders(h http.Header, p *Problem) {
	h.Set("Content-Type", problemType)
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="legwork"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		h.Set("Retry-After", "2")
	}
}

// readProblem turns an answer that is no success into a fault with the same meaning. An answer that no Legwork
// Server gives becomes one that says so.
func readProblem(resp *http.Response, where string) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if at := resp.Request.URL; wire.ToldToUseTLS(body) && at.Scheme == "http" {
		return wrongScheme(at.Scheme+"://"+at.Host, where)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var p Problem
	if kind != problemType || json.Unmarshal(body, &p) != nil || p.Code == "" {
		return foreignAnswer(resp, where)
	}
	f := fault.New(kindNamed[p.Kind], p.Code, "%s", p.Detail)
	if p.Hint != "" {
		f = f.WithHint("%s", p.Hint)
	}
	if p.Kind == "internal" && p.RequestID != "" {
		f = f.WithHint("look for request_id %s in the log of the Server", p.RequestID)
	}
	return f.WithDetails(p.Details...)
}

// foreignAnswer is the fault for an answer that did not come from a Legwork Server.
func foreignAnswer(resp *http.Response, where string) error {
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fault.New(fault.Unavailable, "server_unreachable", "a proxy answers for the Server, but the Server does not: %s", resp.Status).
			WithHint("wait a little and try again; if it stays, look whether the Server runs")
	case http.StatusRequestEntityTooLarge:
		return fault.New(fault.TooLarge, "proxy_limit", "a proxy before the Server refuses a request of this size").
			WithHint("raise the limit of the proxy")
	}
	server := resp.Header.Get("Server")
	if server != "" {
		server = " (it says it is " + strings.ToValidUTF8(server, "?") + ")"
	}
	return fault.New(fault.Unsupported, "not_legwork", "what answers at %s is not a Legwork Server%s", resp.Request.URL.Host, server).
		WithHint("check the address: %s", where)
}
