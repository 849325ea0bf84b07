package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/wire"
	"legwork/internal/work"
)

const maxAnswerBytes = 256 << 20

// Client talks to a Server. Its errors are faults of the same kind and code as the Server's own; a
// Server that does not answer is fault.Unavailable with code server_unreachable.
type Client struct {
	base  string
	token string
	agent string
	http  *http.Client
	where string // what names the Server
	trust string // what names authorities
}

// ClientOptions are what NewClient needs. Server and Token are required for most calls.
type ClientOptions struct {
	Server  string // base URL: http://127.0.0.1:8440
	Token   string // bearer token
	CAFile  string // PEM file of certificate authorities to trust besides those of the host
	Version string // of the program, for the Server's log

	OfRunner       bool // the address is a Runner's Server.Url: hints name its settings
	AllowPlainHTTP bool // requests may go to another host without TLS
}

// NewClient makes a Client. Nothing is sent yet.
func NewClient(o ClientOptions) (*Client, error) {
	base, err := url.Parse(o.Server)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || base.User != nil || base.RawQuery != "" {
		return nil, fault.New(fault.Invalid, "server_address", "%q is not the address of a Server", o.Server).
			WithHint("it is written like http://127.0.0.1:8440 or https://legwork.example.com")
	}
	where, authority := "--server or LEGWORK_SERVER", "--ca-file or LEGWORK_CA_FILE"
	if o.OfRunner {
		where, authority = "--url, Server.Url or LEGWORK_SERVER__URL", "Server.CaFile or LEGWORK_SERVER__CAFILE"
	}
	if wire.ExposesPlainHTTP(o.Server) && !o.AllowPlainHTTP {
		return nil, plainHTTP(o)
	}
	trust, err := trusting(o.CAFile, authority)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:       trust,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 90 * time.Second,
		IdleConnTimeout:       30 * time.Second,
		MaxIdleConnsPerHost:   8,
		ForceAttemptHTTP2:     true,
		DisableCompression:    wire.LoopbackHost(base.Hostname()), // there it costs more than it saves
	}
	return &Client{
		base: strings.TrimRight(base.String(), "/"), token: o.Token, agent: "legwork/" + o.Version, where: where, trust: authority,
		http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// plainHTTP is why a client sends nothing to a Server without TLS.
func plainHTTP(o ClientOptions) error {
	hint := "use https, or allow it with --allow-plain-http or LEGWORK_ALLOW_PLAIN_HTTP=true"
	if o.OfRunner {
		hint = "use https, or allow it with Runner.allow_plain_http"
	}
	return fault.New(fault.Invalid, "plain_http", "the Server's address %s is plain http to another host: the token can be read on the way", o.Server).
		WithHint("%s", hint)
}

func trusting(caFile, setBy string) (*tls.Config, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return trust, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fault.New(fault.Invalid, "ca_file_unreadable", "the file of certificate authorities %s cannot be read", caFile).WithHint("check %s", setBy).WithCause(err)
	}
	if trust.RootCAs, err = x509.SystemCertPool(); err != nil {
		trust.RootCAs = x509.NewCertPool()
	}
	if !trust.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fault.New(fault.Invalid, "ca_file_empty", "the file %s holds no certificate in PEM form", caFile).WithHint("check %s", setBy)
	}
	return trust, nil
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Server gives the base URL.
func (c *Client) Server() string { return c.base }

// call sends in as JSON and reads the answer into out. Either may be nil.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	_, err := c.callIf(ctx, "", method, path, query, in, out)
	return err
}

// callIf is call under the condition that the record still has a tag, "" for none. It returns the tag of the answer.
func (c *Client) callIf(ctx context.Context, tag, method, path string, query url.Values, in, out any) (string, error) {
	header := http.Header{"Accept": {"application/json"}}
	if tag != "" {
		header.Set("If-Match", tag)
	}
	var text []byte
	if in != nil {
		var err error
		if text, err = json.Marshal(in); err != nil {
			return "", fault.New(fault.Invalid, "request_invalid", "the request cannot be written as JSON").WithCause(err)
		}
		header.Set("Content-Type", "application/json")
	}
	once := func() error {
		var content io.Reader
		if in != nil {
			content = bytes.NewReader(text)
		}
		resp, err := c.send(ctx, method, path, query, header, content)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		tag = resp.Header.Get("ETag")
		return c.read(resp, out)
	}
	if method != http.MethodPost {
		err := once()
		return tag, err
	}
	header.Set(idempotencyHeader, rand.Text())
	err := repeatLost(ctx, once)
	if fault.Code(err) == keysFull { // the server ran nothing
		header.Del(idempotencyHeader)
		err = once()
	}
	return tag, err
}

// send makes a request and gives a successful answer; any other one is an error.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, header http.Header, content io.Reader) (*http.Response, error) {
	return c.sendSized(ctx, method, path, query, header, content, 0)
}

// sendSized is send of a content whose size is known; 0: the library finds out.
func (c *Client) sendSized(ctx context.Context, method, path string, query url.Values, header http.Header, content io.Reader, size int64) (*http.Response, error) {
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, fault.New(fault.Invalid, "request_invalid", "the request cannot be made").WithCause(err)
	}
	if size > 0 {
		req.ContentLength = size
	}
	req.Header = header
	req.Header.Set("User-Agent", c.agent)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 && resp.Header.Get(versionHeader) != "" {
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode < 300 {
		return nil, foreignAnswer(resp, c.where)
	}
	return nil, readProblem(resp, c.where)
}

func (c *Client) read(resp *http.Response, out any) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return c.unreachable(resp.Request.Context(), err)
	}
	if out == nil {
		return nil
	}
	if raw, ok := out.(*[]byte); ok {
		*raw = text
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fault.New(fault.Unsupported, "answer_unreadable", "the Server's answer cannot be read: Server and command line are too far apart in age, or something between them changes answers").
			WithHint("the Server says that it is of version %s", resp.Header.Get(versionHeader)).WithCause(err)
	}
	return nil
}

// unreachable gives the meaning of an error of the network.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	if wire.SchemeMismatch(err) {
		return wrongScheme(c.base, c.where).WithCause(err)
	}
	reason := err
	var outer *url.Error
	if errors.As(err, &outer) {
		reason = outer.Err
	}
	f := fault.New(fault.Unavailable, "server_unreachable", "cannot reach the Server at %s: %v", c.base, reason).
		WithHint("look whether it runs there: %s says where", c.where).WithCause(err)
	var authority x509.UnknownAuthorityError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &authority):
		return f.WithHint("name the certificate authority that signed the Server's certificate: %s", c.trust)
	case errors.As(err, &plain):
		return f.WithHint("the Server does not speak TLS there: is it http instead of https?")
	}
	return f
}

// wrongScheme says that https is spoken where http was asked for, or the reverse. where names what says where the Server is.
func wrongScheme(base, where string) *fault.Fault {
	scheme, rest, _ := strings.Cut(base, "://")
	other := "https"
	if scheme == "https" {
		other = "http"
	}
	return fault.New(fault.Unavailable, "wrong_scheme", "what answers at %s speaks %s, not %s", base, other, scheme).
		WithHint("name the Server as %s://%s: %s says where it is", other, rest, where)
}

// escapedPath writes a path of names so that each stays one part.
func escapedPath(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// jobPath gives the path of a Job by its id, its number, or "#number".
func jobPath(id string) string {
	return prefix + "/jobs/" + url.PathEscape(strings.TrimPrefix(id, "#"))
}

// maxPage is the largest page that a Server returns.
const maxPage = 1000

// list returns a whole list, page by page.
func list[T any](ctx context.Context, c *Client, path string, query url.Values) (all []T, err error) {
	return collect[T](ctx, c, path, query, "after")
}

// listNewest is list for a list that is newest first.
func listNewest[T any](ctx context.Context, c *Client, path string, query url.Values) (all []T, err error) {
	return collect[T](ctx, c, path, query, "before")
}

// collect returns the items of all pages of a list. cursor is the parameter for the next page.
func collect[T any](ctx context.Context, c *Client, path string, query url.Values, cursor string) (all []T, err error) {
	all = []T{} // an empty list is written as [], not as null
	err = eachPage(ctx, c, path, query, cursor, func(page listOf[T]) string {
		all = append(all, page.Items...)
		return page.Next
	})
	return all, err
}

// eachPage reads the pages of a list. fn takes a page and returns its next; cursor is the parameter that it goes into.
func eachPage[P any](ctx context.Context, c *Client, path string, query url.Values, cursor string,
	fn func(P) string) error {
	at := url.Values{"limit": {strconv.Itoa(maxPage)}}
	maps.Copy(at, query)
	for {
		var page P
		if err := c.call(ctx, http.MethodGet, prefix+path, at, nil, &page); err != nil {
			return err
		}
		next := fn(page)
		if next == "" {
			return nil
		}
		at.Set(cursor, next)
	}
}

// oneQuery is a query with one key, or none when its value is empty.
func oneQuery(key, value string) url.Values {
	if value == "" {
		return nil
	}
	return url.Values{key: {value}}
}

// Organization gives the Organization of the token.
func (c *Client) Organization(ctx context.Context) (o catalog.Organization, err error) {
	return o, c.call(ctx, http.MethodGet, prefix+"/organization", nil, nil, &o)
}

// Stacks lists every Stack.
func (c *Client) Stacks(ctx context.Context) ([]catalog.Stack, error) {
	return list[catalog.Stack](ctx, c, "/stacks", nil)
}

// Namespaces lists every Namespace, or those of a Stack (id or name).
func (c *Client) Namespaces(ctx context.Context, stack string) ([]catalog.Namespace, error) {
	return list[catalog.Namespace](ctx, c, "/namespaces", oneQuery("stack", stack))
}

// Modules lists every Module, or those of a Stack (id or name).
func (c *Client) Modules(ctx context.Context, stack string) ([]Module, error) {
	return list[Module](ctx, c, "/modules", oneQuery("stack", stack))
}

// Module gives one Module by path or id.
func (c *Client) Module(ctx context.Context, path string) (m Module, err error) {
	return m, c.call(ctx, http.MethodGet, prefix+"/modules/"+escapedPath(path), nil, nil, &m)
}

// DeleteStack deletes a Stack that holds nothing.
func (c *Client) DeleteStack(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, prefix+"/stacks/"+escapedPath(name), nil, nil, nil)
}

// DeleteNamespace deletes a Namespace that holds nothing.
func (c *Client) DeleteNamespace(ctx context.Context, path string) error {
	return c.call(ctx, http.MethodDelete, prefix+"/namespaces/"+escapedPath(path), nil, nil, nil)
}

// DeleteModule deletes a module. The server refuses a module that manages resources or is in use unless force is set.
func (c *Client) DeleteModule(ctx context.Context, path string, force bool) error {
	var query url.Values
	if force {
		query = url.Values{"force": {"true"}}
	}
	return c.call(ctx, http.MethodDelete, prefix+"/modules/"+escapedPath(path), query, nil, nil)
}

// ReleaseState releases the local state of a module, by path, so that its jobs can start on any instance.
func (c *Client) ReleaseState(ctx context.Context, path string, r StateRelease) (was control.StateLocation, err error) {
	return was, c.call(ctx, http.MethodPost, prefix+"/modules/"+escapedPath(path)+"/release-state", nil, r, &was)
}

// Runners lists every Runner.
func (c *Client) Runners(ctx context.Context) ([]RunnerView, error) {
	return list[RunnerView](ctx, c, "/runners", nil)
}

// Runner gives one Runner by id or name.
func (c *Client) Runner(ctx context.Context, idOrName string) (r RunnerView, err error) {
	return r, c.call(ctx, http.MethodGet, prefix+"/runners/"+escapedPath(idOrName), nil, nil, &r)
}

// CreateRunner makes a Runner with credentials.
func (c *Client) CreateRunner(ctx context.Context, spec catalog.RunnerSpec) (r CreatedRunner, err error) {
	return r, c.call(ctx, http.MethodPost, prefix+"/runners", nil, spec, &r)
}

// RotateCredential gives a Runner a new client secret; earlier ones end, and with disconnect its Sessions, too.
func (c *Client) RotateCredential(ctx context.Context, idOrName string, disconnect bool) (r CreatedRunner, err error) {
	query := url.Values{}
	if disconnect {
		query.Set("disconnect", "true")
	}
	return r, c.call(ctx, http.MethodPost, prefix+"/runners/"+escapedPath(idOrName)+"/credential", query, nil, &r)
}

// ChangeRunner reads a runner, by id or name, and writes it back with a change. It starts again when another client
// changed the runner in between, so neither change is lost.
func (c *Client) ChangeRunner(ctx context.Context, idOrName string,
	change func(*catalog.RunnerSpec) error) (r catalog.Runner, err error) {
	for range maxRepeats {
		var found RunnerView
		tag, err := c.callIf(ctx, "", http.MethodGet, prefix+"/runners/"+escapedPath(idOrName), nil, nil, &found)
		if err != nil {
			return r, err
		}
		if err := change(&found.RunnerSpec); err != nil {
			return r, err
		}
		_, err = c.callIf(ctx, tag, http.MethodPut, prefix+"/runners/"+found.ID, nil, found.RunnerSpec, &r)
		if fault.Code(err) != "precondition_failed" {
			return r, err
		}
	}
	return r, fault.New(fault.Conflict, "precondition_failed", "the runner %s was changed by others at the same time", idOrName).
		WithHint("Try again.")
}

// PutRunner changes a Runner to what spec says.
func (c *Client) PutRunner(ctx context.Context, idOrName string, spec catalog.RunnerSpec) (r catalog.Runner, err error) {
	return r, c.call(ctx, http.MethodPut, prefix+"/runners/"+escapedPath(idOrName), nil, spec, &r)
}

// DeleteRunner deletes a Runner with its credentials.
func (c *Client) DeleteRunner(ctx context.Context, idOrName string) error {
	return c.call(ctx, http.MethodDelete, prefix+"/runners/"+escapedPath(idOrName), nil, nil, nil)
}

// Assignments lists every Assignment, or those of a Runner (id or name).
func (c *Client) Assignments(ctx context.Context, runner string) ([]catalog.Assignment, error) {
	return list[catalog.Assignment](ctx, c, "/assignments", oneQuery("runner", runner))
}

// CreateAssignment gives a scope the right to use a Runner.
func (c *Client) CreateAssignment(ctx context.Context, spec catalog.AssignmentSpec) (a catalog.Assignment, err error) {
	return a, c.call(ctx, http.MethodPost, prefix+"/assignments", nil, spec, &a)
}

// DeleteAssignment takes that right back.
func (c *Client) DeleteAssignment(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, prefix+"/assignments/"+escapedPath(id), nil, nil, nil)
}

// Instances lists every Instance, or those of a Runner (id or name).
func (c *Client) Instances(ctx context.Context, runner string) ([]Instance, error) {
	return list[Instance](ctx, c, "/instances", oneQuery("runner", runner))
}

// SetDraining lets an Instance take no further Job, or take Jobs again.
func (c *Client) SetDraining(ctx context.Context, id string, draining bool) error {
	return c.call(ctx, http.MethodPut, prefix+"/instances/"+escapedPath(id)+"/draining", nil, map[string]bool{"draining": draining}, nil)
}

// SetRunnerDraining lets all Instances of a Runner (id or name) take no further Job, or take Jobs again.
func (c *Client) SetRunnerDraining(ctx context.Context, idOrName string, draining bool) error {
	return c.call(ctx, http.MethodPut, prefix+"/runners/"+escapedPath(idOrName)+"/draining", nil, map[string]bool{"draining": draining}, nil)
}

// RemoveInstance forgets an Instance, by id, that will not come back.
func (c *Client) RemoveInstance(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, prefix+"/instances/"+escapedPath(id), nil, nil, nil)
}

// ApplyManifest applies the files of a manifest, or says with dryRun what that would do.
func (c *Client) ApplyManifest(ctx context.Context, files []catalog.ManifestFile, dryRun bool) (r ManifestResult, err error) {
	verb := "/manifest/apply"
	if dryRun {
		verb = "/manifest/diff"
	}
	return r, c.call(ctx, http.MethodPost, prefix+verb, nil, ManifestFiles{Files: files}, &r)
}

// ExportManifest gives everything that is declared, as YAML: without the values of sensitive Inputs unless
// showSensitive asks for them.
func (c *Client) ExportManifest(ctx context.Context, showSensitive bool) (text []byte, err error) {
	return text, c.call(ctx, http.MethodGet, prefix+"/manifest/export", sensitively(showSensitive), nil, &text)
}

// sensitively is the query that asks for sensitive values, or none.
func sensitively(show bool) url.Values {
	if !show {
		return nil
	}
	return url.Values{"show_sensitive": {"true"}}
}

// Submit queues a Job of normal priority.
func (c *Client) Submit(ctx context.Context, module string, action work.Action) (*work.Job, error) {
	return c.SubmitJob(ctx, JobRequest{Module: module, Action: action})
}

// SubmitJob queues a Job.
func (c *Client) SubmitJob(ctx context.Context, r JobRequest) (j *work.Job, err error) {
	return j, c.call(ctx, http.MethodPost, prefix+"/jobs", nil, r, &j)
}

// JobQuery narrows a listing of Jobs. Zero fields match all.
type JobQuery struct {
	Statuses []work.Status
	Module   string // path or id
	Runner   string // name or id
	Action   work.Action
	Kind     work.Kind
	All      bool      // also discoveries of Nodes, and launches and tidies of hosted Runners
	Since    time.Time // created at or after
	Until    time.Time // created before
	Search   string    // part of a Module's path or of who created the Job, or its number
	Before   int64
	Limit    int // 1 to 1000; 0 = 100
}

// Jobs gives one page of Jobs, newest first.
func (c *Client) Jobs(ctx context.Context, q JobQuery) (p JobPage, err error) {
	query := url.Values{}
	statuses := make([]string, len(q.Statuses))
	for i, status := range q.Statuses {
		statuses[i] = string(status)
	}
	set := func(key, value string) {
		if value != "" && value != "0" {
			query.Set(key, value)
		}
	}
	set("status", strings.Join(statuses, ","))
	set("module", q.Module)
	set("runner", q.Runner)
	set("action", string(q.Action))
	set("kind", string(q.Kind))
	if q.All {
		set("all", "true")
	}
	set("search", q.Search)
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	set("before", strconv.FormatInt(q.Before, 10))
	set("limit", strconv.Itoa(q.Limit))
	return p, c.call(ctx, http.MethodGet, prefix+"/jobs", query, nil, &p)
}

// Job gives one Job by id, number or "#number".
func (c *Client) Job(ctx context.Context, id string) (j *work.Job, err error) {
	return j, c.call(ctx, http.MethodGet, jobPath(id), nil, nil, &j)
}

// Plan gives what the plan of a Job would do.
func (c *Client) Plan(ctx context.Context, id string) (p Plan, err error) {
	return p, c.call(ctx, http.MethodGet, jobPath(id)+"/plan", nil, nil, &p)
}

// Cancel asks to end a Job.
func (c *Client) Cancel(ctx context.Context, id string, mode work.CancelMode, reason string) (j *work.Job, err error) {
	return j, c.call(ctx, http.MethodPost, jobPath(id)+"/cancel", nil, CancelRequest{Mode: mode, Reason: reason}, &j)
}

// Retry queues what a Job did anew.
func (c *Client) Retry(ctx context.Context, id string) (j *work.Job, err error) {
	return j, c.call(ctx, http.MethodPost, jobPath(id)+"/retry", nil, nil, &j)
}

// Approve approves the plan that a Job waits with.
func (c *Client) Approve(ctx context.Context, id string, what Approve) (j *work.Job, err error) {
	return j, c.call(ctx, http.MethodPost, jobPath(id)+"/approve", nil, what, &j)
}

// Decline declines it.
func (c *Client) Decline(ctx context.Context, id, reason string) (j *work.Job, err error) {
	return j, c.call(ctx, http.MethodPost, jobPath(id)+"/decline", nil, Decline{Reason: reason}, &j)
}

// Outputs gives the latest Output set of a Module.
func (c *Client) Outputs(ctx context.Context, module string, showSensitive bool) (o catalog.OutputSet, err error) {
	query := url.Values{"module": {module}}
	if showSensitive {
		query.Set("show_sensitive", "true")
	}
	return o, c.call(ctx, http.MethodGet, prefix+"/outputs", query, nil, &o)
}

// LogQuery narrows the log of a Runbook Job. Its zero value is all of it.
type LogQuery struct {
	Part int    // from 1; 0 for all
	Node string // by name
	Item string // likewise
}

// values gives the parameters of the first of some LogQueries, if there is one.
func values(of []LogQuery) url.Values {
	query := url.Values{}
	for _, q := range of[:min(len(of), 1)] {
		if q.Part > 0 {
			query.Set("part", strconv.Itoa(q.Part))
		}
		if q.Node != "" {
			query.Set("node", q.Node)
		}
		if q.Item != "" {
			query.Set("item", q.Item)
		}
	}
	return query
}

// Log gives one page of a Job's log, narrowed by at most one LogQuery.
func (c *Client) Log(ctx context.Context, id string, after int64, limit int, of ...LogQuery) (p LogPage, err error) {
	query := values(of)
	query.Set("after", strconv.FormatInt(after, 10))
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return p, c.call(ctx, http.MethodGet, jobPath(id)+"/logs", query, nil, &p)
}
