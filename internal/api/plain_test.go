package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/fault"
)

// TestUnknownQueryParameterIsRefused: a filter with a typing error must not give everything.
func TestUnknownQueryParameterIsRefused(t *testing.T) {
	w := apitest.Start(t)
	for path, status := range map[string]int{
		"/api/v1/jobs?modul=a/b/c": 400, "/api/v1/stacks?x": 400, "/api/v1/events?afer=1": 400, "/api/v1/jobs?limit=1": 200,
	} {
		req, err := http.NewRequest(http.MethodGet, w.URL+path, nil)
		w.Must(err)
		req.Header.Set("Authorization", "Bearer "+w.Token)
		resp, err := http.DefaultClient.Do(req)
		w.Must(err)
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, status)
		}
	}
}

// TestEventOfTheFutureResets: who has seen more than there is hears so, and then what comes.
func TestEventOfTheFutureResets(t *testing.T) {
	w := apitest.Start(t)
	w.Apply("kind: Stack\nname: before\n")
	ctx, cancel := context.WithTimeout(context.Background(), apitest.Patience)
	defer cancel()
	enough := errors.New("enough")
	var kinds []string
	err := w.Client.FollowEvents(ctx, 1<<40, func(e api.Event) error {
		kinds = append(kinds, e.Kind)
		if len(kinds) == 2 {
			return enough
		}
		if e.ID <= 0 || e.ID >= 1<<40 {
			t.Errorf("goes on from %d", e.ID)
		}
		w.Apply("kind: Stack\nname: after\n")
		return nil
	})
	if !errors.Is(err, enough) || kinds[0] != "reset" || kinds[1] == "reset" {
		t.Errorf("%v, %v", kinds, err)
	}
}

// TestRawLogThatBreaksIsAnError: half a log must not be taken for the whole.
func TestRawLogThatBreaksIsAnError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Legwork-Version", "test")
		_, _ = w.Write(bytes.Repeat([]byte("line\n"), 100_000))
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	client, err := api.NewClient(api.ClientOptions{Server: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.RawLog(context.Background(), "1", io.Discard); fault.Code(err) != "server_unreachable" {
		t.Errorf("%v", err)
	}
	full := errors.New("disk full")
	if err := client.RawLog(context.Background(), "1", failing{full}); !errors.Is(err, full) || fault.Code(err) != "" {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
