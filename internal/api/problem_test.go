package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"legwork/internal/fault"
)

// TestEveryKindSurvivesTheWire sends a fault of each kind through a Problem and back.
func TestEveryKindSurvivesTheWire(t *testing.T) {
	for kind, status := range statusOf {
		f := fault.New(kind, "some_code", "a sentence").WithHint("a hint").WithDetails(fault.Problem{File: "a.yaml", Line: 3, Field: "x", Message: "y"})
		p := problemOf(fmt.Errorf("doing this: %w", f), "req-1")
		if p.Status != status || p.Kind != kind.String() || p.RequestID != "req-1" {
			t.Errorf("%v became %+v", kind, p)
		}
		back := fault.Of(readProblem(responseOf(p.Status, problemType, mustJSON(t, p)), "--server"))
		if back.Kind != kind || back.Code != "some_code" || back.Message != "a sentence" || len(back.Details) != 1 || back.Details[0] != f.Details[0] {
			t.Errorf("%v came back as %+v", kind, back)
		}
		if kind != fault.Internal && back.Hint != "a hint" {
			t.Errorf("%v: the hint came back as %q", kind, back.Hint)
		}
	}
}

func TestInternalErrorsShowNothing(t *testing.T) {
	p := problemOf(errors.New("dial tcp 10.0.0.7:5432: password authentication failed"), "r")
	text := string(mustJSON(t, p))
	if p.Status != http.StatusInternalServerError || strings.Contains(text, "10.0.0.7") || strings.Contains(text, "password") {
		t.Errorf("shown: %s", text)
	}
}

func TestForeignAnswers(t *testing.T) {
	for _, c := range []struct {
		status int
		kind   string
		body   string
		want   string
	}{
		{http.StatusBadGateway, "text/html", "<html>", "server_unreachable"},
		{http.StatusRequestEntityTooLarge, "text/html", "<html>", "proxy_limit"},
		{http.StatusNotFound, "text/html", "<html>", "not_legwork"},
		{http.StatusNotFound, "application/json", `{"error":"x"}`, "not_legwork"},
		{http.StatusFound, "text/html", "", "not_legwork"},
		{http.StatusNotFound, problemType, `{"title":"other"}`, "not_legwork"},
	} {
		if got := fault.Code(readProblem(responseOf(c.status, c.kind, []byte(c.body)), "--server")); got != c.want {
			t.Errorf("%d %s gave %s", c.status, c.kind, got)
		}
	}
}

func responseOf(status int, kind string, body []byte) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {kind}},
		Body: io.NopCloser(strings.NewReader(string(body))), Request: &http.Request{URL: &url.URL{Host: "example.com"}}}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
