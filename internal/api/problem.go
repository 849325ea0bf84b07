package api

import (
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
	f := fault.Of(err)
	status := statusOf[f.Kind]
	details := f.Details
	if len(details) > maxDetails {
		details = details[:maxDetails]
	}
	return &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: f.Message,
		Code: f.Code, Kind: f.Kind.String(), Hint: f.Hint, Details: details, RequestID: requestID,
	}
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
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", "2")
	}
}

// readProblem turns an answer that is no success into a fault with the same meaning. An answer that no Legwork
// Server gives becomes one that says so.
func readProblem(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if at := resp.Request.URL; wire.ToldToUseTLS(body) && at.Scheme == "http" {
		return wrongScheme(at.Scheme + "://" + at.Host)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var p Problem
	if kind != problemType || json.Unmarshal(body, &p) != nil || p.Code == "" {
		return foreignAnswer(resp)
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
func foreignAnswer(resp *http.Response) error {
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
		WithHint("check the address: --server or LEGWORK_SERVER")
}
