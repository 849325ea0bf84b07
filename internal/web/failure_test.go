package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"legwork/internal/api/apitest"
	"legwork/internal/work"
)

var excerptLink = regexp.MustCompile(`href="(/jobs/1/log/at[^"]+)"`)

// TestFailureIsQuotedAndLinked shows on the page of a failed job the lines of its log that explain it, with a link to them.
func TestFailureIsQuotedAndLinked(t *testing.T) {
	w := start(t)
	w.Runner("edge-1", func(s *apitest.StepRun) work.StepResult {
		if s.Kind != work.StepPlan {
			return work.StepResult{}
		}
		s.Print("one", "two", "Error: no <such> region", "  on main.tf line 10:")
		return work.StepResult{Status: work.StepFailed, ExitCode: 1, Failure: &work.Failure{Code: "plan_failed",
			Message: "the plan failed: no <such> region (main.tf line 10)",
			Excerpt: &work.Excerpt{Summary: "no <such> region", Location: "main.tf line 10", Attempt: 1, Step: 3, Seq: 3,
				Lines: []string{"Error: no <such> region", "  on main.tf line 10:"}}}}
	})
	w.Apply(`{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: network, defaults: {engine: opentofu, runner: edge-1}}
---
{kind: Module, stack: prod, namespace: network, name: vpc, source: {type: inline, files: {main.tf: ""}}}
`)
	queue(w, work.Apply)
	j := reaches(t, w, "1", work.Failed)
	if j.Failure.Excerpt == nil || j.Failure.Excerpt.Location != "main.tf line 10" || j.Steps[j.Failure.Excerpt.Step].Kind != work.StepPlan {
		t.Fatalf("got %+v in the answer of the API", j.Failure)
	}
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	_, page := v.get("/jobs/1")
	quote := "Error: no &lt;such&gt; region\n  on main.tf line 10:"
	link := excerptLink.FindStringSubmatch(page)
	if !strings.Contains(page, quote) || link == nil {
		t.Fatalf("the page has no quote with a link:\n%s", page)
	}
	v.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := v.client.Get(w.URL + strings.ReplaceAll(link[1], "&amp;", "&"))
	w.Must(err)
	defer answer.Body.Close()
	if got := answer.Header.Get("Location"); answer.StatusCode != http.StatusSeeOther || !strings.HasPrefix(got, "/jobs/1#L") {
		t.Fatalf("got status %d to %q", answer.StatusCode, got)
	}
	line := answer.Header.Get("Location")[len("/jobs/1#L"):]
	_, rows := v.get("/jobs/1/log?from=" + line + "&count=1")
	if !strings.Contains(rows, "region") {
		t.Errorf("line %s of the log is %s", line, rows)
	}
}
