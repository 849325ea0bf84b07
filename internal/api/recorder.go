package api

import (
	"bytes"
	"maps"
	"net/http"
)

// recorder keeps an answer in memory until it is known how to send it.
type recorder struct {
	under  http.ResponseWriter
	header http.Header
	status int
	body   bytes.Buffer
}

func newRecorder(w http.ResponseWriter) *recorder {
	return &recorder{under: w, header: http.Header{}}
}

// Header returns the headers of the answer.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader records the status of the answer.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write records a part of the body.
func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

// Unwrap lets a handler set the deadlines of the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.under }

// send sends what was recorded.
func (r *recorder) send() {
	r.WriteHeader(http.StatusOK)
	maps.Copy(r.under.Header(), r.header)
	r.under.WriteHeader(r.status)
	_, _ = r.under.Write(r.body.Bytes()) // the client may be gone
}
