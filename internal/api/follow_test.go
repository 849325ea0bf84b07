package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"

	"legwork/internal/fault"
)

// script answers one request after the other with what a test says, and notes where each wanted to go on.
type script struct {
	answers []string // "" is a status of 503
	resumed []string
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	n := len(s.resumed)
	s.resumed = append(s.resumed, r.Header.Get(lastEventIDField))
	if n >= len(s.answers) {
		return nil, errors.New("connection refused")
	}
	w := httptest.NewRecorder()
	w.Header().Set(versionHeader, "test")
	if s.answers[n] == "" {
		p := problemOf(fault.New(fault.Unavailable, "server_stopping", "the Server is stopping"), "")
		problemHeaders(w.Header(), p)
		w.WriteHeader(p.Status)
		fmt.Fprint(w, `{"code":"server_stopping","kind":"unavailable","detail":"x"}`)
	} else {
		w.Header().Set("Content-Type", eventStreamType)
		fmt.Fprint(w, s.answers[n])
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

func scripted(answers ...string) (*Client, *script) {
	s := &script{answers: answers}
	return &Client{base: "http://example.com", http: &http.Client{Transport: s}}, s
}

func line(pos int) string {
	return fmt.Sprintf("id: %d\nevent: lines\ndata: {\"lines\":[{\"pos\":%d}]}\n\n", pos, pos)
}

const end = "event: end\ndata: {\"status\":\"succeeded\"}\n\n"

func TestFollowResumesAtTheLastEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, script := scripted(line(1)+line(2), "", "id: 2\nevent: lines\ndata: {\"lin", line(3), ": alive\n\n", end)
		var seen []int64
		job, err := client.FollowLog(context.Background(), "7", 0, func(lines []LogLine) error {
			for _, l := range lines {
				seen = append(seen, l.Pos)
			}
			return nil
		})
		if err != nil || job.Status != "succeeded" {
			t.Fatalf("%v %v", job, err)
		}
		if !slices.Equal(seen, []int64{1, 2, 3}) || !slices.Equal(script.resumed, []string{"0", "2", "2", "2", "3", "3"}) {
			t.Errorf("saw %v, resumed at %q", seen, script.resumed)
		}
	})
}

func TestFollowEventsResumesBeforeAnythingHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, script := scripted("id: 41\n\n", "id: 42\nevent: job.queued\ndata: {\"id\":42}\n\n")
		enough := errors.New("enough")
		err := client.FollowEvents(context.Background(), -1, func(Event) error { return enough })
		if !errors.Is(err, enough) || !slices.Equal(script.resumed, []string{"", "41"}) {
			t.Errorf("%v, resumed at %q", err, script.resumed)
		}
	})
}

func TestFollowGivesUpInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, script := scripted(line(1))
		_, err := client.FollowLog(context.Background(), "7", 0, func([]LogLine) error { return nil })
		if fault.Code(err) != "server_unreachable" || len(script.resumed) < 20 {
			t.Errorf("%v after %d attempts", err, len(script.resumed))
		}
		client, script = scripted()
		_, err = client.FollowLog(context.Background(), "7", 0, func([]LogLine) error { return nil })
		if fault.Code(err) != "server_unreachable" || len(script.resumed) != 1 {
			t.Errorf("never connected: %v after %d attempts", err, len(script.resumed))
		}
	})
}

func TestFollowStopsAtWhatTimeDoesNotHeal(t *testing.T) {
	failed := errors.New("disk full")
	for name, c := range map[string]struct {
		answer string
		each   func([]LogLine) error
		want   string
	}{
		"no JSON":        {"event: lines\ndata: {\n\n", func([]LogLine) error { return nil }, "answer_unreadable"},
		"error of each":  {line(1), func([]LogLine) error { return failed }, ""},
		"end is no JSON": {"event: end\ndata: {\n\n", func([]LogLine) error { return nil }, "answer_unreadable"},
	} {
		client, script := scripted(c.answer)
		_, err := client.FollowLog(context.Background(), "7", 0, c.each)
		if fault.Code(err) != c.want || c.want == "" && !errors.Is(err, failed) || len(script.resumed) != 1 {
			t.Errorf("%s: %v after %d attempts", name, err, len(script.resumed))
		}
	}
}
