package web_test

import (
	"context"
	"net/url"
	"regexp"
	"testing"

	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/work"
)

var lostSince = regexp.MustCompile(`connection lost\s*<time[^>]*data-since="ago"[^>]*>\d+s ago</time>`)

// TestLostConnectionIsShown says of an instance whose connection broke, and that still counts as online, since when.
func TestLostConnectionIsShown(t *testing.T) {
	w := start(t)
	made, err := w.Client.CreateRunner(context.Background(), catalog.RunnerSpec{Name: "edge-1"})
	w.Must(err)
	r := w.Connect(made, func(*apitest.StepRun) work.StepResult { return work.StepResult{} })
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	page := func() string {
		_, text := v.get("/runners?open=edge-1")
		return text
	}
	eventually(t, "it is online", func() bool { return regexp.MustCompile(`ONLINE`).MatchString(page()) })
	if lostSince.MatchString(page()) {
		t.Errorf("a connected instance has no lost connection")
	}
	r.Leave()
	eventually(t, "the lost connection is shown", func() bool { return lostSince.MatchString(page()) })
}
