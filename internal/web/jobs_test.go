package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/work"
)

const hostile = `<script>alert(1)</script>"'&` + "\x1b]8;;javascript:alert(1)\x1b\\"

// planned starts a Server with a Module that waits for approval after its plan, and submits its apply, which is Job #1.
func planned(t *testing.T) *apitest.World {
	t.Helper()
	w := start(t)
	var planned atomic.Int64
	w.Runner("edge-1", func(s *apitest.StepRun) work.StepResult {
		if s.Kind != work.StepPlan {
			return work.StepResult{}
		}
		plan := planned.Add(1)
		changes, err := json.Marshal([]work.ResourceChange{
			{Address: "a.key", Type: "key", Actions: []string{"update"}, Before: map[string]any{"secret": "(sensitive)", "size": 1}, After: map[string]any{"secret": "(sensitive)", "size": 2}},
			{Address: "a.evil" + hostile, Type: hostile, Actions: []string{"create"}, After: map[string]any{hostile: hostile, "many": []any{hostile, 1}}},
		})
		w.Must(err)
		return work.StepResult{Changes: changes, Plan: &work.PlanSummary{Add: 1, Change: 1, Hash: strings.Repeat(fmt.Sprint(plan), 64), Digest: strings.Repeat(fmt.Sprint(plan), 64)}}
	})
	w.Apply(`{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: network, defaults: {engine: opentofu, runner: edge-1}}
---
{kind: Module, stack: prod, namespace: network, name: vpc, approval: always, source: {type: inline, files: {main.tf: ""}}}
`)
	queue(w, work.Apply)
	reaches(t, w, "1", work.AwaitingApproval)
	return w
}

func queue(w *apitest.World, action work.Action) {
	_, err := w.Client.SubmitJob(context.Background(), api.JobRequest{Module: "prod/network/vpc", Action: action})
	w.Must(err)
}

func reaches(t *testing.T, w *apitest.World, job string, status work.Status) *work.Job {
	t.Helper()
	var j *work.Job
	eventually(t, job+" is "+string(status), func() (ok bool) {
		var err error
		j, err = w.Client.Job(context.Background(), job)
		w.Must(err)
		return j.Status == status
	})
	return j
}

// Each filter of the list is an address.
func TestJobsAreFiltered(t *testing.T) {
	w := start(t)
	fill(t, w)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	rows := func(path string) (int, string) {
		t.Helper()
		status, text := v.get(path)
		for _, problem := range htmlProblems(text) {
			t.Errorf("%s: %s", path, problem)
		}
		if status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
		}
		return strings.Count(text, `<tr id="jobs-`), text
	}
	for path, want := range map[string]int{
		"/jobs": 50, "/jobs?after=41": 40, "/jobs?state=failed": 4, "/jobs?state=queued": 1, "/jobs?state=waiting": 1, "/jobs?action=run": 7,
		"/jobs?action=run&state=failed": 1, "/jobs?module=prod/network/dns": 1, "/jobs?runner=edge-1&state=running": 4, "/jobs?q=%2317": 1,
		"/jobs?q=FIREwall": 2, "/jobs?since=1h&action=run": 7, "/jobs?until=2020-01-01T00:00:00Z": 0, "/jobs?q=" + url.QueryEscape(hostile): 0,
		"/jobs?after=x": 50, "/jobs?after=-3": 50,
	} {
		if n, _ := rows(path); n != want {
			t.Errorf("%s: %d Jobs, want %d", path, n, want)
		}
	}
	for path, want := range map[string]string{
		"/jobs?module=prod/network/none": "There is no module", "/jobs?runner=none": "There is no runner", "/jobs?since=soon": "Write 24h",
		"/jobs?action=dance": "no such action", "/jobs?state=odd": "no such state",
	} {
		if n, text := rows(path); n != 0 || !strings.Contains(text, want) || !strings.Contains(text, "wrong-") {
			t.Errorf("%s: %d Jobs, and nothing of %q", path, n, want)
		}
	}
	if _, text := rows("/jobs?state=failed&q=vpc"); !strings.Contains(text, `name="state" value="failed"`) || !strings.Contains(text, "address range") {
		t.Error("a search loses the state, or the failure is not told")
	}
	if _, text := rows("/jobs"); !strings.Contains(text, `rel="next"`) || !strings.Contains(text, "after=118") {
		t.Error("there is no way to older Jobs")
	}
}

// A Job is told of whole, without scripts: what it is, its Steps, its plan without what is sensitive, and nothing that came
// from outside is taken for HTML.
func TestJobPage(t *testing.T) {
	w := planned(t)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	status, text := v.get("/jobs/1")
	if status != http.StatusOK {
		t.Fatal(status)
	}
	for _, problem := range htmlProblems(text) {
		t.Error(problem)
	}
	for _, want := range []string{"Needs approval", "Queue", "Validate", "edge-1", "1 to add, 1 to change, 0 to destroy", "a.key", "hidden: it is sensitive", "To create",
		`/jobs/1/approve?plan=` + strings.Repeat("1", 64), "/jobs/1/decline", "/jobs/1/cancel", "&lt;script&gt;"} {
		if !strings.Contains(text, want) {
			t.Errorf("nothing of %q", want)
		}
	}
	if strings.Contains(text, "<script>") || strings.Contains(text, `href="javascript`) {
		t.Error("what a plan holds is taken for HTML")
	}
	for _, path := range []string{"/jobs/1/cancel", "/jobs/1/approve", "/jobs/1/decline", "/jobs/1/retry"} {
		status, text := v.get(path)
		if status != http.StatusOK || len(htmlProblems(text)) > 0 {
			t.Errorf("%s: %d %v", path, status, htmlProblems(text))
		}
	}
	if _, text := v.get("/jobs/1/cancel"); !strings.Contains(text, `href="/jobs/1" data-close`) {
		t.Error("the form to cancel a job does not lead back to the job")
	}
	for path, want := range map[string]int{"/jobs?state=running": 0, "/jobs?state=approval": 1} {
		if _, text := v.get(path); strings.Count(text, `<tr id="jobs-`) != want {
			t.Errorf("%s: got %d jobs, want %d", path, strings.Count(text, `<tr id="jobs-`), want)
		}
	}
	for _, path := range []string{"/jobs/99", "/jobs/x", "/jobs/99/cancel"} {
		if status, _ := v.get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// The plan that was looked at is the one that is approved: another one is refused, and so is a form that does not say which.
func TestApproveWhatWasSeen(t *testing.T) {
	w := planned(t)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for _, form := range []url.Values{{"plan_hash": {strings.Repeat("f", 64)}}, {}, {"plan_hash": {strings.Repeat("1", 64)}, "reason": {strings.Repeat("r", 1001)}}} {
		if status, text := v.post("/jobs/1/approve", form); status < 400 {
			t.Errorf("approved with %v: %d\n%s", form, status, text)
		}
		reaches(t, w, "1", work.AwaitingApproval)
	}
	if _, text := v.get("/jobs/1/approve?plan=" + strings.Repeat("f", 64)); !strings.Contains(text, "another plan by now") || strings.Contains(text, "plan_hash") {
		t.Error("the form for another plan is offered")
	}
	if status, text := v.post("/jobs/1/approve", url.Values{"plan_hash": {strings.Repeat("1", 64)}, "reason": {"as planned"}}); status != http.StatusOK {
		t.Fatalf("%d\n%s", status, text)
	}
	j := reaches(t, w, "1", work.Succeeded)
	if j.Approval == nil || j.Approval.Reason != "as planned" || j.Approval.PlanHash != strings.Repeat("1", 64) {
		t.Errorf("%+v", j.Approval)
	}
	if status, text := v.post("/jobs/1/retry", nil); status != http.StatusOK || !strings.Contains(text, "#2 apply") || !strings.Contains(text, `job <a href="/jobs/1">#1</a>.`) {
		t.Errorf("run again: %d", status)
	}
	reaches(t, w, "2", work.AwaitingApproval)
	if status, text := v.post("/jobs/2/retry", nil); status != http.StatusConflict || !strings.Contains(text, "not over") {
		t.Errorf("run again while it waits: %d", status)
	}
	if status, _ := v.post("/jobs/2/decline", url.Values{"reason": {"too wide"}}); status != http.StatusOK {
		t.Errorf("decline: %d", status)
	}
	if j := reaches(t, w, "2", work.Declined); !strings.Contains(j.Failure.Message, "too wide") {
		t.Errorf("%+v", j.Failure)
	}
	queue(w, work.Apply)
	reaches(t, w, "3", work.AwaitingApproval)
	if status, _ := v.post("/jobs/3/cancel", url.Values{"mode": {"gently"}}); status != http.StatusUnprocessableEntity {
		t.Errorf("a way to cancel that is none: %d", status)
	}
	if status, _ := v.post("/jobs/3/cancel", url.Values{"mode": {"graceful"}, "reason": {"no"}}); status != http.StatusOK {
		t.Errorf("cancel: %d", status)
	}
	reaches(t, w, "3", work.Canceled)
}

// Who may only look is not offered to act, and is refused; another Organization sees nothing.
func TestJobsOfOthers(t *testing.T) {
	w := planned(t)
	viewer, stranger := newVisitor(t, w), newVisitor(t, w)
	viewer.logIn(url.Values{"token": {w.TokenFor("default", catalog.RoleViewer)}})
	stranger.logIn(url.Values{"token": {w.TokenFor("other", catalog.RoleOwner)}})
	if status, text := viewer.get("/jobs/1"); status != http.StatusOK || strings.Contains(text, "/jobs/1/approve") || strings.Contains(text, "/jobs/1/cancel") {
		t.Errorf("a viewer is offered to act (%d)", status)
	}
	if _, text := stranger.get("/jobs?q=vpc"); strings.Contains(text, "prod/network") {
		t.Error("another Organization sees Jobs")
	}
	for _, act := range []string{"cancel", "approve", "decline", "retry"} {
		form := url.Values{"plan_hash": {strings.Repeat("1", 64)}, "mode": {"kill"}, "reason": {"no"}}
		if status, _ := viewer.post("/jobs/1/"+act, form); status != http.StatusForbidden {
			t.Errorf("a viewer may %s: %d", act, status)
		}
		if status, _ := stranger.post("/jobs/1/"+act, form); status != http.StatusNotFound {
			t.Errorf("another Organization may %s: %d", act, status)
		}
	}
	if status, _ := stranger.get("/jobs/1"); status != http.StatusNotFound {
		t.Errorf("another Organization sees a Job: %d", status)
	}
	reaches(t, w, "1", work.AwaitingApproval)
}

// By keyboard alone: find a Job, look at its plan, approve it, and see it go on without a reload.
func TestBrowserApproves(t *testing.T) {
	w := planned(t)
	b := newTab(t, w)
	b.expected = "/-/live"
	b.logInWithToken(w.Token)
	b.quickly("g", "j")
	b.see("#jobs")
	b.isLive()
	b.do(chromedp.Evaluate(`(() => { const s = document.querySelector("#by-action"); s.value = "apply"; s.dispatchEvent(new Event("change", {bubbles: true})); })()`, nil))
	b.until(`location.search === "?action=apply" && document.querySelector("#by-action").value === "apply"`)
	b.press("/")
	b.press("v", "p", "c")
	b.until(`location.search.includes("q=vpc") && location.search.includes("action=apply")`)
	b.press("Escape", "j", "Enter")
	b.until(`location.pathname === "/jobs/1"`)
	b.isLive()
	b.do(chromedp.Evaluate(`window.sameDocument = true; document.querySelector(".plan-item summary").focus()`, nil))
	b.press("Enter")
	b.until(`document.querySelector(".plan-item").open`)
	b.do(chromedp.Evaluate(`document.querySelector("#plan-part").dataset.before = "1"`, nil))
	w.HTTP.CloseClientConnections()
	w.Client = w.ClientWith(w.Token)                                // the one before may learn too late that its connection is none
	b.until(`!document.querySelector("#plan-part").dataset.before`) // the stream began anew, with everything
	b.isLive()
	if got := eval[string](b, `document.querySelector(".plan-item").open + " " + document.activeElement.id`); got != "true resource-0-name" {
		t.Errorf("what was open, and the focus: %s", got)
	}
	b.do(chromedp.EmulateViewport(360, 720))
	if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 360 {
		t.Errorf("a Job is %d wide", wide)
	}
	b.press("a")
	b.see("dialog[open] #f-reason")
	b.press("o", "k")
	b.press("Enter")
	eventually(t, "the page is shown anew", func() bool {
		var there bool // asked while the browser goes from one to the other, it answers with an error
		return chromedp.Run(b.ctx, chromedp.Evaluate(`!!document.querySelector(".toast") && !document.querySelector("dialog[open]")`, &there)) == nil && there
	})
	b.until(`document.querySelector("#job-head .badge.good")?.innerText.includes("Succeeded")`)
	b.until(`document.querySelector("#step-apply").innerText.includes("Succeeded") && document.querySelector("#job-facts").innerText.includes("By admin: Ok.")`)
	queue(w, work.Plan)
	b.open("/jobs?action=plan")
	b.until(`document.querySelector("#jobs").innerText.includes("#2 plan") && document.querySelector("#jobs").innerText.includes("Succeeded")`)
	if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 360 {
		t.Errorf("the list is %d wide", wide)
	}
	b.clean()
}
