package api_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
)

// brokenProxy passes requests on and cuts the connection in place of the first answers to requests of a method.
func brokenProxy(t *testing.T, w *apitest.World, method string, cut int32) *api.Client {
	t.Helper()
	target, err := url.Parse(w.URL)
	w.Must(err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	var left atomic.Int32
	left.Store(cut)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != method || left.Add(-1) < 0 {
			proxy.ServeHTTP(rw, r)
			return
		}
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r) // the server did it
		_, _ = io.Copy(io.Discard, answer.Result().Body)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	client, err := api.NewClient(api.ClientOptions{Server: server.URL, Token: w.Token})
	w.Must(err)
	t.Cleanup(client.Close)
	return client
}

// TestClientRepeatsLostRequests: a POST whose answer was lost is repeated, and runs once.
func TestClientRepeatsLostRequests(t *testing.T) {
	w := apitest.Start(t)
	client := brokenProxy(t, w, http.MethodPost, 2)
	made, err := client.CreateRunner(context.Background(), catalog.RunnerSpec{Name: "edge"})
	if err != nil || made.ClientSecret == "" {
		t.Fatalf("got %+v and %v, want the runner with its secret", made, err)
	}
	runners, err := w.Client.Runners(context.Background())
	w.Must(err)
	if len(runners) != 1 {
		t.Errorf("got %d runners, want 1", len(runners))
	}
}

// TestClientWithoutRoomForKeys: a sender whose idempotency keys are used up can still send requests.
func TestClientWithoutRoomForKeys(t *testing.T) {
	w := apitest.Start(t)
	target, err := url.Parse(w.URL)
	w.Must(err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") == "" {
			proxy.ServeHTTP(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "application/problem+json")
		rw.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(rw, `{"status":429,"code":"idempotency_keys_full","detail":"no room"}`)
	}))
	t.Cleanup(server.Close)
	client, err := api.NewClient(api.ClientOptions{Server: server.URL, Token: w.Token})
	w.Must(err)
	t.Cleanup(client.Close)
	if made, err := client.CreateRunner(t.Context(), catalog.RunnerSpec{Name: "edge"}); err != nil || made.Name != "edge" {
		t.Errorf("got %+v and %v, want the runner edge", made, err)
	}
}

// TestClientChangesWhatItRead: a change of another client between reading and writing is kept.
func TestClientChangesWhatItRead(t *testing.T) {
	w, ctx := apitest.Start(t), context.Background()
	_, err := w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "edge"})
	w.Must(err)
	tries := 0
	changed, err := w.Client.ChangeRunner(ctx, "edge", func(spec *catalog.RunnerSpec) error {
		if tries++; tries == 1 {
			resp, text := do(t, w, "PATCH", "/api/v1/runners/edge", w.Token, "application/merge-patch+json",
				strings.NewReader(`{"description":"of others"}`))
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("%d %s", resp.StatusCode, text)
			}
		}
		spec.IsDisabled = true
		return nil
	})
	w.Must(err)
	if tries != 2 || !changed.IsDisabled || changed.Description != "of others" {
		t.Errorf("after %d tries: got %+v, want both changes after 2", tries, changed.RunnerSpec)
	}
}
