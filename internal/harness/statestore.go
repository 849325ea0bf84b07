package harness

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// maxState bounds a state that StateStore keeps.
const maxState = 1 << 20

// StateStore starts an HTTP server that keeps states for the backend "http" of the engines, so that any instance can run a module. Each
// path of the URL that it returns is a state of its own.
func StateStore(t testing.TB) (url string) {
	t.Helper()
	var mu sync.Mutex
	states := map[string][]byte{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxState))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		switch r.Method {
		case http.MethodPost:
			states[r.URL.Path] = body
		case http.MethodDelete:
			delete(states, r.URL.Path)
		default:
			if states[r.URL.Path] == nil {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write(states[r.URL.Path])
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// InStateStore returns the code that keeps the state of a module at a path of a StateStore.
func InStateStore(url, path string) string {
	return "terraform {\n  backend \"http\" {\n    address = \"" + url + "/" + path + "\"\n  }\n}\n"
}
