package web

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"legwork/internal/catalog"
)

// A browser has one event stream for all its tabs, because it opens at most six connections to a host over HTTP/1.1. A
// shared worker (assets/live-worker.js) asks for it with the address of each open page, and hands to each what is for it.

const (
	pageEvent      = "page" // the event of a shared stream: a line with the index of the page and its event, then the data
	endEvent       = "end"  // nothing more follows for this page
	maxSharedPages = sessionStreams
)

// isShared reports whether a request asks for the stream of several pages.
func isShared(r *http.Request) bool { return r.URL.Query().Has("shared") }

// liveShared is one event stream for several pages. Each is followed by a stream of its own that writes to this one.
func (w *Web) liveShared(rw http.ResponseWriter, r *http.Request, actor catalog.Actor) {
	query := r.URL.Query()
	addresses, sums := query["at"], query["sum"]
	cookie, err := r.Cookie(w.cookieName(r))
	switch {
	case err != nil || len(addresses) == 0 || len(addresses) != len(sums) || len(addresses) > maxSharedPages:
		http.Error(rw, "at and sum name the pages of a shared stream", http.StatusBadRequest)
		return
	}
	session := sha256.Sum256([]byte(cookie.Value))
	if !w.streams.take(session, len(addresses)) {
		refuseFull(rw)
		return
	}
	defer w.streams.leave(session, len(addresses))
	ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), actorKey, actor), longestStream)
	defer cancel()
	out := &sharedWriter{rw: rw}
	out.begin()
	var all sync.WaitGroup
	for i, address := range addresses {
		at, err := url.ParseRequestURI(safeNext(address))
		if err != nil {
			continue
		}
		s := &stream{w: w, rw: &sharedPage{to: out}, request: r, prefix: strconv.Itoa(i)}
		if r.Header.Get("Last-Event-ID") == "" {
			s.sum = sums[i]
		}
		page := r.Clone(context.WithValue(ctx, streamKey, s))
		page.URL, page.RequestURI = at, at.RequestURI()
		all.Go(func() {
			w.followShared(s, page)
		})
	}
	all.Wait()
}

// followShared follows one page of a shared stream. Nothing above it recovers from a panic in this goroutine.
func (w *Web) followShared(s *stream, page *http.Request) {
	defer func() {
		if cause := recover(); cause != nil {
			w.Log.Error("a followed page failed", "page", page.URL.Path, "cause", cause)
		}
		s.buffer.Reset()
		_ = s.send("", endEvent, nil) // the browser that left does not receive it
	}()
	w.pages.ServeHTTP(discardResponse{}, page)
}

// refuseFull answers that no more streams are open at a time.
func refuseFull(rw http.ResponseWriter) {
	rw.Header().Set("Retry-After", strconv.Itoa(fullRetry))
	http.Error(rw, "too many pages are open", http.StatusServiceUnavailable)
}

// sharedWriter lets several streams write to one response.
type sharedWriter struct {
	mu sync.Mutex
	rw http.ResponseWriter
}

func (s *sharedWriter) begin() {
	first := &stream{rw: s.rw}
	first.begin()
	_ = first.send("", "", nil) // the first write of a page reports that the browser left
}

// sharedPage is the response that the stream of one page writes its events to.
type sharedPage struct {
	to      *sharedWriter
	header  http.Header
	refused bool
}

func (p *sharedPage) Header() http.Header {
	if p.header == nil {
		p.header = http.Header{}
	}
	return p.header
}

// WriteHeader notes that a page is refused: what follows is no event.
func (p *sharedPage) WriteHeader(status int) { p.refused = status != http.StatusOK }

// Write writes whole events.
func (p *sharedPage) Write(data []byte) (int, error) {
	if p.refused {
		return len(data), nil
	}
	p.to.mu.Lock()
	defer p.to.mu.Unlock()
	return p.to.rw.Write(data)
}

// FlushError sends what was written.
func (p *sharedPage) FlushError() error {
	p.to.mu.Lock()
	defer p.to.mu.Unlock()
	return http.NewResponseController(p.to.rw).Flush()
}

// SetWriteDeadline bounds the next write.
func (p *sharedPage) SetWriteDeadline(deadline time.Time) error {
	return http.NewResponseController(p.to.rw).SetWriteDeadline(deadline)
}

// discardResponse takes what a page answers that has no stream, for example that it does not exist.
type discardResponse struct{}

// Header returns a header that nobody reads.
func (discardResponse) Header() http.Header { return http.Header{} }

// Write discards data.
func (discardResponse) Write(data []byte) (int, error) { return len(data), nil }

// WriteHeader does nothing.
func (discardResponse) WriteHeader(int) {}

// eventHead returns the lines of an event before its data: on a shared stream its first line of data says whose it is.
func (s *stream) eventHead(name string) string {
	if s.prefix == "" {
		return fmt.Sprintf("event: %s\n", name)
	}
	return fmt.Sprintf("event: %s\ndata: %s %s\n", pageEvent, s.prefix, name)
}
