// Package hookstest has a receiver of webhooks for tests.
package hookstest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Receiver counts the calls it gets and answers them with a status.
type Receiver struct {
	URL    string
	mu     sync.Mutex
	status int
	bodies []string
}

// New starts a Receiver for one test.
func New(t testing.TB, status int) *Receiver {
	r := &Receiver{status: status}
	s := httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(s.Close)
	r.URL = s.URL
	return r
}

func (r *Receiver) take(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = append(r.bodies, string(body))
	w.WriteHeader(r.status)
}

// Calls tells how many there were.
func (r *Receiver) Calls() int { return len(r.Bodies()) }

// Bodies gives what they said, the first one first.
func (r *Receiver) Bodies() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bodies[:len(r.bodies):len(r.bodies)]
}

// Answer gives another status from now on.
func (r *Receiver) Answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}
