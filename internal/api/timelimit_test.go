package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// streamOperations are the operations that may last longer than RequestTimeout.
var streamOperations = []string{"follow-events", "get-release-file", "put-release-asset"}

// TestEveryOperationHasATimeLimit asks for every operation of the description whether its requests have a deadline.
func TestEveryOperationHasATimeLimit(t *testing.T) {
	spec, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var described struct {
		Paths map[string]map[string]struct {
			ID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(spec, &described); err != nil {
		t.Fatal(err)
	}
	for path, methods := range described.Paths {
		for method, op := range methods {
			got := !isUnlimited(httptest.NewRequest(strings.ToUpper(method), path, nil))
			if want := !slices.Contains(streamOperations, op.ID); got != want {
				t.Errorf("%s: got a time limit: %t, want %t", op.ID, got, want)
			}
		}
	}
	for _, path := range []string{"/login", "/openapi.json", "/jobs/1/log", "/jobs/1/log/search"} {
		if isUnlimited(httptest.NewRequest(http.MethodGet, path, nil)) {
			t.Errorf("%s has no time limit", path)
		}
	}
	following := httptest.NewRequest(http.MethodGet, "/api/v1/jobs/1/logs", nil)
	following.Header.Set("Accept", "text/event-stream")
	if !isUnlimited(following) {
		t.Error("following a log has a time limit")
	}
}
