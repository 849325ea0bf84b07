package wire

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"

	"legwork/internal/fault"
)

// HubPath is where a Server takes Sessions.
const HubPath = "/runnerhub"

// DialConfig says where a Runner connects to, and as whom.
type DialConfig struct {
	URL            string // base URL of the Server, "https://legwork.example.com"
	Token          string // bearer token
	HTTPClient     *http.Client
	OrganizationID string
	RunnerID       string
	Instance       string
}

// Dial opens a Session. Its errors are faults, or a *CloseError when the Server refused with a
// status that has a close code: 401 is CloseUnauthorized.
func Dial(ctx context.Context, cfg DialConfig) (*Conn, error) {
	return dial(ctx, cfg, defaultTuning())
}

func dial(ctx context.Context, cfg DialConfig, tune tuning) (*Conn, error) {
	target := strings.TrimRight(cfg.URL, "/") + HubPath + "?" + url.Values{
		"organization_id": {cfg.OrganizationID}, "runner_id": {cfg.RunnerID}, "runner_instance": {cfg.Instance},
	}.Encode()
	var c *Conn
	var line net.Conn
	ready := make(chan struct{})
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { line = got.Conn }})
	ws, resp, err := websocket.Dial(ctx, target, &websocket.DialOptions{
		HTTPClient: cfg.HTTPClient,
		HTTPHeader: http.Header{"Authorization": {"Bearer " + cfg.Token}},
		OnPongReceived: func(context.Context, []byte) {
			<-ready
			c.touch()
		},
	})
	if err != nil {
		return nil, dialFailed(cfg.URL, resp, err)
	}
	c = newConn(ws, line, true, tune)
	close(ready)
	return c, nil
}

// Upgrade makes the Server's end of a Session out of a request. Who asks must be known before;
// an error was already answered.
func Upgrade(w http.ResponseWriter, r *http.Request) (*Conn, error) {
	return accept(w, r, defaultTuning())
}

func accept(w http.ResponseWriter, r *http.Request, tune tuning) (*Conn, error) {
	var c *Conn
	ready := make(chan struct{})
	catch := &catcher{ResponseWriter: w}
	ws, err := websocket.Accept(catch, r, &websocket.AcceptOptions{
		OnPingReceived: func(context.Context, []byte) bool {
			<-ready
			c.touch()
			return true
		},
	})
	if err != nil {
		return nil, fmt.Errorf("accepting a Session: %w", err)
	}
	c = newConn(ws, catch.line, false, tune)
	close(ready)
	return c, nil
}

// catcher keeps the connection that a request came on, which the library does not give out.
type catcher struct {
	http.ResponseWriter
	line net.Conn
}

// lineBuffer is the size of the buffers, one each way, that a connection keeps while it is idle. Larger frames pass them by.
const lineBuffer = 512

// Hijack takes the connection out of the HTTP server. It comes with small buffers instead of the server's, which would be
// most of what an idle Session takes of memory.
func (c *catcher) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	line, buffered, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	c.line = line
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered()) // what is buffered can be had
	in := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(early)), line), max(lineBuffer, len(early)))
	_, _ = in.Peek(len(early)) // who takes the connection looks for it in the buffer
	return line, bufio.NewReadWriter(in, bufio.NewWriterSize(line, lineBuffer)), nil
}

func dialFailed(base string, resp *http.Response, err error) error {
	if resp == nil {
		return unreachable(base, err)
	}
	var body []byte
	if resp.Body != nil {
		body, _ = io.ReadAll(io.LimitReader(resp.Body, 1024))
	}
	return refused(base, resp, body)
}

// refused gives the meaning of an answer that is not what was asked for.
func refused(base string, resp *http.Response, body []byte) error {
	told := problemOf(resp, body)
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized:
		return &CloseError{Code: CloseUnauthorized, Reason: told.Detail}
	case told.Detail != "" && status >= 500 || mayPass(status):
		f := unavailable(base, status)
		if told.Detail == "" || told.Code == "" {
			return f
		}
		return fault.New(fault.Unavailable, told.Code, "%s: %s", f.Message, told.Detail).WithHint("%s", told.Hint)
	case told.Detail != "":
		return told.fault(status)
	case ToldToUseTLS(body):
		return wrongScheme(base)
	case status >= 300 && status < 400:
		return notLegwork(base).WithHint("it redirects to %s: set Server.Url to where the Server is", cut(resp.Header.Get("Location"), 200))
	}
	return notLegwork(base)
}

func unavailable(base string, status int) *fault.Fault {
	return fault.New(fault.Unavailable, "server_unavailable", "the Server at %s cannot serve now (HTTP status %d)", base, status)
}

// mayPass tells the statuses with which a proxy stands in for a Server that is away for a while.
func mayPass(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// problem is an RFC 9457 answer as a Server of ours gives it.
type problem struct {
	Title, Detail, Code, Hint string
}

// problemOf reads an answer; its Detail is empty when it is none of a Server of ours.
func problemOf(resp *http.Response, body []byte) (p problem) {
	if !strings.Contains(resp.Header.Get("Content-Type"), "problem+json") || json.Unmarshal(body, &p) != nil {
		return problem{}
	}
	if p.Detail == "" {
		p.Detail = p.Title
	}
	p.Detail, p.Code, p.Hint = cut(p.Detail, 500), cut(p.Code, 100), cut(p.Hint, 500)
	return p
}

func (p problem) fault(status int) *fault.Fault {
	kind := fault.Invalid
	switch status {
	case http.StatusForbidden:
		kind = fault.Forbidden
	case http.StatusNotFound:
		kind = fault.NotFound
	case http.StatusConflict:
		kind = fault.Conflict
	}
	if p.Code == "" {
		p.Code = "refused"
	}
	return fault.New(kind, p.Code, "%s", p.Detail).WithHint("%s", p.Hint)
}

// NotLegwork is the code of the fault for a Server that answers but is none of ours.
const NotLegwork = "not_legwork"

func notLegwork(base string) *fault.Fault {
	return fault.New(fault.Unsupported, NotLegwork, "what answers at %s is not a Legwork Server", base).
		WithHint("check Server.Url: it is the Server's base URL, without a path behind it")
}

// WrongScheme is the code of the fault for http where https is spoken, or the reverse.
const WrongScheme = "wrong_scheme"

func wrongScheme(base string) *fault.Fault {
	scheme, rest, _ := strings.Cut(base, "://")
	if scheme == "https" {
		return fault.New(fault.Unsupported, WrongScheme, "what answers at %s speaks http, not https", base).
			WithHint("set Server.Url to http://%s, or have the Server speak TLS (--tls-cert, --tls-key)", rest)
	}
	return fault.New(fault.Unsupported, WrongScheme, "what answers at %s speaks https, not http", base).
		WithHint("set Server.Url to https://%s", rest)
}

// ToldToUseTLS tells by the body of an answer that plain HTTP came to a door for TLS. The sentences are those of Go and
// of nginx.
func ToldToUseTLS(body []byte) bool {
	return bytes.Contains(body, []byte("HTTP request to an HTTPS server")) || bytes.Contains(body, []byte("plain HTTP request was sent to HTTPS port"))
}

// SchemeMismatch tells by the error of a request that http came to a door for TLS, or the reverse. An alert of TLS in
// answer to plain HTTP is quoted by the client as a malformed answer.
func SchemeMismatch(err error) bool {
	return errors.Is(err, http.ErrSchemeMismatch) || strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`)
}

// unreachable gives the meaning of an error of the network.
func unreachable(base string, err error) error {
	if SchemeMismatch(err) {
		return wrongScheme(base).WithCause(err)
	}
	reason := err
	var outer *url.Error
	if errors.As(err, &outer) {
		reason = outer.Err
	}
	f := fault.New(fault.Unavailable, "server_unreachable", "cannot reach the Server at %s: %v", base, reason).WithCause(err)
	var authority x509.UnknownAuthorityError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &authority):
		return f.WithHint("set Server.CaFile to the certificate of the authority that signed the Server's")
	case errors.As(err, &plain):
		return f.WithHint("the Server does not speak TLS there: is it http instead of https?")
	}
	return f
}
