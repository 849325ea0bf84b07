package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/work"
)

// send makes a request with headers and returns its answer.
func send(t *testing.T, w *apitest.World, method, path, content string, header map[string]string) (*http.Response,
	[]byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.URL+path, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.Token)
	if content != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, text
}

func wantStatus(t *testing.T, what string, resp *http.Response, text []byte, want int) {
	t.Helper()
	if resp.StatusCode != want {
		t.Errorf("%s: got status %d %s, want %d", what, resp.StatusCode, text, want)
	}
}

const submitVPC = `{"module":"prod/network/vpc","action":"run"}`

// TestIdempotencyKeyRunsOnce repeats a request with its key, and changes the request.
func TestIdempotencyKeyRunsOnce(t *testing.T) {
	w := apitest.Start(t)
	w.Runner("edge", func(*apitest.StepRun) work.StepResult { return work.StepResult{} })
	w.Apply(scripts("vpc"))
	key := map[string]string{"Idempotency-Key": "first"}
	resp, first := send(t, w, "POST", "/api/v1/jobs", submitVPC, key)
	wantStatus(t, "the first request", resp, first, http.StatusCreated)
	location := resp.Header.Get("Location")

	resp, again := send(t, w, "POST", "/api/v1/jobs", submitVPC, key)
	wantStatus(t, "the same request again", resp, again, http.StatusCreated)
	if got := resp.Header; got.Get("Location") != location || got.Get("Idempotency-Replayed") != "true" {
		t.Errorf("got Location %q and Idempotency-Replayed %q, want %q and true", got.Get("Location"),
			got.Get("Idempotency-Replayed"), location)
	}
	if !bytes.Equal(first, again) {
		t.Errorf("got answer %s, want %s", again, first)
	}
	resp, text := send(t, w, "POST", "/api/v1/jobs", strings.Replace(submitVPC, "run", "plan", 1), key)
	wantStatus(t, "another request with the key", resp, text, http.StatusUnprocessableEntity)
	resp, text = send(t, w, "POST", "/api/v1/jobs", submitVPC, map[string]string{"Idempotency-Key": "second"})
	wantStatus(t, "another key", resp, text, http.StatusCreated)
	resp, text = send(t, w, "POST", "/api/v1/jobs", submitVPC,
		map[string]string{"Idempotency-Key": strings.Repeat("k", 256)})
	wantStatus(t, "a key that is too long", resp, text, http.StatusBadRequest)
	jobs, err := w.Client.Jobs(context.Background(), api.JobQuery{})
	w.Must(err)
	if len(jobs.Items) != 2 {
		t.Errorf("got %d jobs, want 2", len(jobs.Items))
	}
}

// TestIdempotencyKeyOfAFailureIsFree: a request that changed nothing may be corrected and sent with its key again.
func TestIdempotencyKeyOfAFailureIsFree(t *testing.T) {
	w := apitest.Start(t)
	key := map[string]string{"Idempotency-Key": "corrected"}
	resp, text := send(t, w, "POST", "/api/v1/principals", `{"name":"x","role":"none"}`, key)
	wantStatus(t, "a wrong role", resp, text, http.StatusBadRequest)
	resp, text = send(t, w, "POST", "/api/v1/principals", `{"name":"x","role":"viewer"}`, key)
	wantStatus(t, "the corrected request", resp, text, http.StatusCreated)
}

// TestKeyedAnswerIsSealed: a token that is shown once is replayed to its principal only, and is not in the database.
func TestKeyedAnswerIsSealed(t *testing.T) {
	w := apitest.Start(t)
	key := map[string]string{"Idempotency-Key": "with-a-secret"}
	body := `{"name":"ci","role":"viewer"}`
	resp, first := send(t, w, "POST", "/api/v1/principals", body, key)
	wantStatus(t, "the first request", resp, first, http.StatusCreated)
	_, again := send(t, w, "POST", "/api/v1/principals", body, key)
	if !bytes.Equal(first, again) || !bytes.Contains(again, []byte(`"token"`)) {
		t.Errorf("got %s, want %s", again, first)
	}
	other := w.TokenFor("default", catalog.RoleOwner)
	resp, text := send(t, w, "POST", "/api/v1/principals", body, map[string]string{"Idempotency-Key": "with-a-secret",
		"Authorization": "Bearer " + other})
	wantStatus(t, "another principal with the key", resp, text, http.StatusConflict)
	if bytes.Contains(text, []byte(`"token"`)) {
		t.Errorf("another principal got the answer %s", text)
	}
	var made api.CreatedCredential
	w.Must(json.Unmarshal(first, &made))
	for _, name := range []string{"legwork.db", "legwork.db-wal"} {
		data, err := os.ReadFile(filepath.Join(w.Dir, name))
		w.Must(err)
		if bytes.Contains(data, []byte(made.Token)) {
			t.Errorf("the token is in the file %s", name)
		}
	}

}

// TestConcurrentIdempotencyKey sends a request many times at once: one runs, and the others are told to wait or get
// its answer.
func TestConcurrentIdempotencyKey(t *testing.T) {
	w := apitest.Start(t)
	w.Runner("edge", func(*apitest.StepRun) work.StepResult { return work.StepResult{} })
	w.Apply(scripts("vpc"))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			resp, text := send(t, w, "POST", "/api/v1/jobs", submitVPC, map[string]string{"Idempotency-Key": "at-once"})
			if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusConflict {
				t.Errorf("got status %d %s, want 201 or 409", resp.StatusCode, text)
			}
		})
	}
	all.Wait()
	jobs, err := w.Client.Jobs(context.Background(), api.JobQuery{})
	w.Must(err)
	if len(jobs.Items) != 1 {
		t.Errorf("got %d jobs, want 1", len(jobs.Items))
	}
}

// TestEveryPostTakesAnIdempotencyKey repeats every POST of the description with a key: a success is replayed.
func TestEveryPostTakesAnIdempotencyKey(t *testing.T) {
	w := apitest.Start(t)
	for _, op := range operations(t) {
		if op.method != http.MethodPost || op.id == "issue-token" {
			continue // tokens follow RFC 6749, and change nothing
		}
		onlyReads := op.id == "diff-manifest" || op.id == "validate-runbook" // nothing is stored for them
		header := map[string]string{"Idempotency-Key": "key-of-" + op.id}
		resp, text := send(t, w, op.method, op.path, needs[op.id].body, header)
		again, same := send(t, w, op.method, op.path, needs[op.id].body, header)
		if replayed := again.Header.Get("Idempotency-Replayed") == "true"; resp.StatusCode < 300 && !onlyReads &&
			(!replayed || !bytes.Equal(text, same)) || onlyReads && replayed {
			t.Errorf("%s: got %s (replayed: %t), want %s", op.id, same, replayed, text)
		}
		resp, text = send(t, w, op.method, op.path, needs[op.id].body,
			map[string]string{"Idempotency-Key": "not allowed"})
		if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
			continue // it takes the token of a runner, and rights come before the key
		}
		wantStatus(t, op.id+" with a wrong key", resp, text, http.StatusBadRequest)
	}
}
