package api

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"legwork/internal/access"
	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
)

// requestInfo is what is known of a request before anything looks at it.
type requestInfo struct {
	id      string
	method  string
	path    string
	address string // of the client, seen through trusted proxies
}

func requestOf(ctx context.Context) *requestInfo {
	if info, ok := ctx.Value(requestKey).(*requestInfo); ok {
		return info
	}
	return &requestInfo{}
}

// wrap puts around every request what all of them need, outermost first: its id and the log, headers,
// a deadline for the answer, and recovery from a defect.
func (s *Server) wrap(next http.Handler) http.Handler {
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(1<<10), gzhttp.CompressionLevel(1), gzhttp.EnableZstd(false),
		gzhttp.ContentTypes([]string{"application/json", problemType, "application/yaml", "text/plain", "text/html"}))
	if err != nil {
		panic(err) // constant options
	}
	plain := s.recover(next)
	compressed := compress(plain)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		info := &requestInfo{id: requestID(r), method: r.Method, path: r.URL.Path, address: s.ClientAddress(r)}
		ctx, quotas := access.WithQuotas(context.WithValue(r.Context(), requestKey, info))
		r = r.WithContext(ctx)
		setHeaders(w.Header(), info.id)
		if s.ClientTLS(r) {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		inner := plain
		if !isStream(r) {
			inner = compressed
			_ = http.NewResponseController(w).SetWriteDeadline(begun.Add(answerTimeout)) // not every writer has one
		}
		if !isUnlimited(r) {
			ctx, cancel := context.WithDeadlineCause(r.Context(), begun.Add(s.RequestTimeout), errRequestTimeout)
			defer cancel()
			r = r.WithContext(ctx)
		}
		body := s.limitBodyTime(w, r)
		seen := &statusWriter{ResponseWriter: w, before: func() { body.closeUnread(w.Header(), r) }}
		seen.quotas = quotas
		inner.ServeHTTP(seen, r)
		seen.begin(http.StatusOK) // of an answer without a body
		s.metrics.observe(r, seen.status, time.Since(begun))
		s.Log.LogAttrs(r.Context(), slog.LevelDebug, "request", slog.String("request_id", info.id), slog.String("method", info.method),
			slog.String("path", info.path), slog.Int("status", seen.status), slog.Duration("took", time.Since(begun)),
			slog.Int64("bytes", seen.bytes), slog.String("address", info.address))
	})
}

// errRequestTimeout is why the context of a request ended.
var errRequestTimeout = fault.New(fault.Unavailable, "request_timeout",
	"the Server could not answer the request in time").
	WithHint("try again; if it happens again, look at the load of the Server and its database")

// timedOut returns errRequestTimeout in place of an error that a request has because its time is over.
func timedOut(ctx context.Context, err error) error {
	isInternal := err != nil && fault.Of(err).Kind == fault.Internal
	if isInternal && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errRequestTimeout
	}
	return err
}

// LivePath is where Pages has its event streams.
const LivePath = "/-/live"

// RawLogSuffix is how the path ends under which the pages send the whole log of a job.
const RawLogSuffix = "/log.txt"

// isUnlimited reports whether a request may last longer than RequestTimeout: streams, uploads and downloads of any
// size.
func isUnlimited(r *http.Request) bool {
	return isStream(r) || !strings.HasPrefix(r.URL.Path, "/api/") && strings.HasSuffix(r.URL.Path, RawLogSuffix)
}

// isStream tells whether a request's answer may last as long as it likes.
func isStream(r *http.Request) bool {
	return r.URL.Path == hubPath || r.URL.Path == prefix+"/events" || r.URL.Path == LivePath || isReleaseFile(r) ||
		strings.HasSuffix(r.URL.Path, "/logs") && (wantsStream(r) || strings.Contains(r.Header.Get("Accept"), plainType))
}

func setHeaders(h http.Header, id string) {
	h.Set("X-Request-Id", id)
	h.Set(versionHeader, hiddenVersion)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
}

var requestIDShape = lazyregexp.New(`^[A-Za-z0-9_.-]{1,64}$`)

// requestID takes the id that the caller or a proxy gave, or makes one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); requestIDShape.MatchString(id) {
		return id
	}
	return rand.Text()
}

// ClientAddress gives the address of the client of a request. X-Forwarded-For is read from its end, as long as who
// wrote the entry is a trusted proxy.
func (s *Server) ClientAddress(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	address := from.Addr().Unmap()
	entries := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, entry := range slices.Backward(entries) {
		if !s.trusted(address) {
			break
		}
		next, err := netip.ParseAddr(strings.TrimSpace(entry))
		if err != nil {
			break
		}
		address = next.Unmap()
	}
	return address.String()
}

// ClientTLS tells whether the client of a request came by TLS: to this Server, or to a trusted proxy, which says so in
// X-Forwarded-Proto. Of several entries the first is the client's; one that it made up concerns its own cookies alone.
func (s *Server) ClientTLS(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !s.trusted(from.Addr().Unmap()) {
		return false
	}
	proto, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return strings.EqualFold(strings.TrimSpace(proto), "https")
}

func (s *Server) trusted(address netip.Addr) bool {
	return slices.ContainsFunc(s.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(address) })
}

// recover turns a panic into an answer, and its stack into one line of the log.
func (s *Server) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(cause)
			}
			s.Log.Error("request panicked", "request_id", requestOf(r.Context()).id, "panic", cause, "stack", string(debug.Stack()))
			p := problemOf(fault.New(fault.Internal, "internal", "something went wrong inside the program"), requestOf(r.Context()).id)
			s.writeProblem(w, r, p)
		}()
		next.ServeHTTP(w, r)
	})
}

// route authenticates what is of the API, and answers in problem documents where the mux would in plain text.
func (s *Server) route(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ofAPI := strings.HasPrefix(r.URL.Path, "/api/")
		if ofAPI {
			ctx, err := s.identify(r)
			if err != nil {
				s.writeProblem(w, r, err)
				return
			}
			w.Header().Set(versionHeader, s.Version)
			r = r.WithContext(ctx)
		}
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		refusal := &refusal{header: http.Header{}}
		mux.ServeHTTP(refusal, r)
		switch {
		case refusal.status == http.StatusMethodNotAllowed:
			w.Header().Set("Allow", refusal.header.Get("Allow"))
			s.writeProblem(w, r, withStatus(http.StatusMethodNotAllowed,
				fault.New(fault.Invalid, "method_not_allowed", "%s is not possible here", r.Method).WithHint("this takes %s", refusal.header.Get("Allow"))))
		case s.Pages != nil && !ofAPI:
			s.Pages.ServeHTTP(w, r)
		default:
			s.writeProblem(w, r, fault.New(fault.NotFound, "no_such_path", "there is nothing at this path").
				WithHint("/openapi.json describes every path of the API"))
		}
	})
}

// refusal takes the mux's own answer to a request that it has no handler for.
type refusal struct {
	header http.Header
	status int
}

func (f *refusal) Header() http.Header         { return f.header }
func (f *refusal) WriteHeader(status int)      { f.status = status }
func (f *refusal) Write(b []byte) (int, error) { return len(b), nil }

// statusWriter notes the status and size of an answer.
type statusWriter struct {
	http.ResponseWriter
	before func() // is called before the header is written
	quotas *access.Quotas
	status int
	bytes  int64
}

// begin notes the status, once.
func (w *statusWriter) begin(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	w.before()
	rateLimitHeaders(w.Header(), status, w.quotas)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Flush is for the compression, which asks for it by name.
func (w *statusWriter) Flush() {
	_ = http.NewResponseController(w.ResponseWriter).Flush() // whoever left does not hear it
}
