// Package api is the Server's face to programs: REST under /api/v1 with problem details (RFC 9457) and
// OpenAPI 3.1, event streams, the token endpoint (RFC 6749), the door for Runners, health and metrics; and the
// Go client of all that. It decides nothing: each request is authenticated by access and handed to control.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"legwork/internal/access"
	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
)

// Options are what a Server face needs. Control, Access and Log are required.
type Options struct {
	Control         *control.Control
	Access          *access.Access
	Log             *slog.Logger
	Version         string         // of the program
	TrustedProxies  []netip.Prefix // whose X-Forwarded-For is believed
	MaxBodyBytes    int64          // of a manifest; 0 = 16 MiB
	MaxSessions     int            // of Runners at this Server at once; 0 = 20,000
	BodyTimeout     time.Duration  // in which the body of a request has to arrive; 0 = 30 s
	RequestTimeout  time.Duration  // of a request that is not a stream or an upload; 0 = 60 s
	RecheckInterval time.Duration  // between two looks at the rights of open streams and Sessions; 0 = 10 s
	MetricsPublic   bool           // /metrics needs no token
	Pages           http.Handler   // answers whatever is not of the API; nil = 404
	Draining        func() bool    // tells that the Server is stopping; nil = never
}

// Server answers HTTP requests. It is safe for concurrent use.
type Server struct {
	Options
	spec     []byte // of /openapi.json
	mux      *http.ServeMux
	gets     map[string]bool // paths of operations that read
	records  map[string]bool // paths of what can be changed
	metrics  *metrics
	handler  http.Handler
	sessions atomic.Int64 // at the door or beyond it
	grants   grants

	bodyBudget *bodyBudget

	streaming  context.Context // ends when the HTTP server is shut down: streams would hold it up
	endStreams context.CancelFunc
}

const (
	prefix             = "/api/v1"
	defaultMaxBody     = 16 << 20
	defaultMaxSessions = 20_000
	requestTimeout     = 60 * time.Second // of a request whose answer is not a stream
	answerTimeout      = 75 * time.Second // until its answer is written
	versionHeader      = "Legwork-Version"
	hiddenVersion      = "hidden" // in the header of an answer to a caller who is not known
)

// New makes a Server face.
func New(o Options) *Server {
	if o.MaxBodyBytes == 0 {
		o.MaxBodyBytes = defaultMaxBody
	}
	if o.MaxSessions == 0 {
		o.MaxSessions = defaultMaxSessions
	}
	if o.BodyTimeout == 0 {
		o.BodyTimeout = bodyTimeout
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = requestTimeout
	}
	if o.RecheckInterval == 0 {
		o.RecheckInterval = recheckInterval
	}
	if o.Draining == nil {
		o.Draining = func() bool { return false }
	}
	s := &Server{Options: o, metrics: newMetrics(o)}
	s.bodyBudget = newBodyBudget(o.MaxBodyBytes)
	s.streaming, s.endStreams = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	s.mux = mux
	s.spec = s.register(mux)
	s.registerPlain(mux)
	s.handler = s.wrap(s.route(mux))
	return s
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// HTTPServer gives a server with the limits of time and size that every connection is held to.
// Its Shutdown ends the event streams; their clients resume at another Server or later.
func (s *Server) HTTPServer() *http.Server {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	server.RegisterOnShutdown(s.endStreams)
	return server
}

// OpenAPI gives the description of the API as JSON, without a Server behind it.
func OpenAPI() ([]byte, error) {
	s := &Server{Options: Options{MaxBodyBytes: defaultMaxBody}}
	var spec any
	if err := json.Unmarshal(s.register(http.NewServeMux()), &spec); err != nil {
		return nil, fmt.Errorf("describe the API: %w", err)
	}
	text, err := json.MarshalIndent(spec, "", "  ")
	return append(text, '\n'), err
}

// register adds every described operation to mux and gives the description.
func (s *Server) register(mux *http.ServeMux) []byte {
	h := humago.New(mux, description())
	s.registerCatalog(h)
	s.registerRunners(h)
	s.registerHosted(h)
	s.registerWebhooks(h)
	s.registerSecrets(h)
	s.registerPrincipals(h)
	s.registerUsers(h)
	s.registerRegistration(h)
	s.registerManifest(h)
	s.registerNodes(h)
	s.registerRunbooks(h)
	s.registerRuns(h)
	s.registerJobs(h)
	s.registerMaintenance(h)
	s.registerHold(h)
	s.registerLogs(h)
	s.registerEvents(h)
	s.registerAudit(h)
	s.registerLoad(h)
	s.registerReleases(h)
	s.registerPatches(h)
	describePlain(h.OpenAPI())
	describeProperties(h.OpenAPI())
	describeOperations(h.OpenAPI())
	spec, err := json.Marshal(h.OpenAPI())
	if err != nil {
		panic(err) // the description is made of our own types: a defect that every test sees
	}
	return spec
}

func description() huma.Config {
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Legwork", Version: "1",
				Description: "The Server decides; Runners do the legwork. Every answer that is no success is a problem document (RFC 9457).",
			},
			Servers: []*huma.Server{{URL: "/", Description: "The server that sends this document."}},
			Components: &huma.Components{
				Schemas:         huma.NewMapRegistry("#/components/schemas/", schemaName),
				SecuritySchemes: map[string]*huma.SecurityScheme{"bearer": {Type: "http", Scheme: "bearer"}},
			},
			Security: []map[string][]string{{"bearer": {}}},
		},
		Formats:       map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat: "application/json",
	}
}

// registerPlain adds what the description does not hold.
func (s *Server) registerPlain(mux *http.ServeMux) {
	mux.HandleFunc("POST /connect/token", s.issueToken)
	mux.HandleFunc("GET /runnerhub", s.runnerHub)
	mux.HandleFunc("GET /openapi.json", s.openAPI)
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", s.metricsHandler())
	s.registerReleaseFiles(mux)
}

func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.spec)
}

// healthz tells that the process answers.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"status":"ok"}` + "\n"))
}

// readyz tells whether this Server should get requests: its database answers, writes do not fail, and it is not stopping. A Server that is on
// hold says so and is ready, because that is ended by a request.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	if s.Draining() {
		s.writeProblem(w, r, fault.New(fault.Unavailable, "server_stopping", "the Server is stopping"))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	if err := s.Control.Ping(ctx); err != nil {
		s.Log.Warn("database does not answer", "error", err)
		s.writeProblem(w, r, fault.New(fault.Unavailable, "database_unreachable", "the Server cannot reach its database"))
		return
	}
	if err := s.Control.WriteFailure(); err != nil {
		s.writeProblem(w, r, err)
		return
	}
	if reason := s.Control.HoldReason(); reason != "" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"status": "on_hold", "reason": reason}) // the client may be gone
		return
	}
	s.healthz(w, r)
}

// actorKey and requestKey find what middleware knows of a request in its context.
type contextKey int

const (
	actorKey contextKey = iota
	registrarKey
	requestKey
)

func actorOf(ctx context.Context) catalog.Actor {
	actor, _ := ctx.Value(actorKey).(catalog.Actor)
	return actor
}

// bearer gives the token of a request, "" when there is none.
func bearer(r *http.Request) string {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// problem turns err into what is shown, and logs what is not.
func (s *Server) problem(ctx context.Context, err error) *Problem {
	info := requestOf(ctx)
	p := problemOf(timedOut(ctx, err), info.id)
	if p.Status < http.StatusInternalServerError || p.Kind != fault.Internal.String() {
		return p
	}
	if ctx.Err() != nil {
		s.Log.Debug("request given up by its client", "request_id", info.id, "error", err)
		return p
	}
	s.Log.Error("request failed", "request_id", info.id, "method", info.method, "path", info.path, "error", err, "cause", errors.Unwrap(fault.Of(err)))
	return p
}
