package api

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// bodyTimeout is the default time in which the body of a request has to arrive.
const bodyTimeout = 30 * time.Second

// timedBody is the body of a request under a read deadline. Its end lifts the deadline, which would otherwise end the
// request itself.
type timedBody struct {
	io.ReadCloser
	controller *http.ResponseController
	ended      atomic.Bool
}

// limitBodyTime sets the deadline in which the body of a request has to arrive. A handler that needs longer, such as the
// upload of a release, moves the deadline itself. It returns nil for a request without a body.
func (s *Server) limitBodyTime(w http.ResponseWriter, r *http.Request) *timedBody {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	body := &timedBody{ReadCloser: r.Body, controller: http.NewResponseController(w)}
	_ = body.controller.SetReadDeadline(time.Now().Add(s.BodyTimeout)) // not every writer has one
	r.Body = body
	return body
}

// Read reads the body and lifts the deadline at its end.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && !b.ended.Swap(true) {
		_ = b.controller.SetReadDeadline(time.Time{})
	}
	return n, err
}

// closeUnread ends the connection after an answer that was given before the body was read. Otherwise the HTTP server
// would wait for the rest of the body.
func (b *timedBody) closeUnread(h http.Header, r *http.Request) {
	if b == nil || b.ended.Load() || r.ProtoMajor > 1 {
		return
	}
	h.Set("Connection", "close")
}
