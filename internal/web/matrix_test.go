package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/node"
	"legwork/internal/store"
	"legwork/internal/work"
)

// crowd starts a Server with a Runbook Job under way on so many Nodes, of so many steps.
func crowd(t *testing.T, nodes, steps int) (*apitest.World, *work.Job) {
	t.Helper()
	w := start(t)
	w.Runner("edge", func(s *apitest.StepRun) work.StepResult {
		<-s.Ctx.Done()
		return work.StepResult{}
	})
	w.Apply("{kind: Stack, name: many}\n---\n{kind: Runner, name: edge, is_assigned_to_all_modules: true, node_filters: {many: 'tags: all'}}\n")
	org := owner(w).OrganizationID
	w.Must(w.Store.Update(context.Background(), func(tx *store.Tx) error {
		for i := range nodes {
			n := catalog.Node{Identity: catalog.Identity{OrganizationID: org}, NodeSpec: catalog.NodeSpec{Stack: "many",
				Node: node.Node{Name: fmt.Sprintf("node-%04d.example.com", i), Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250), Tags: []string{"all"}, OS: "linux"}}}
			if err := tx.PutNode(&n); err != nil {
				return err
			}
		}
		return nil
	}))
	spec := catalog.RunbookSpec{Stack: "many", Nodes: "tags: all", Strategy: catalog.StepFirst}
	for i := range steps {
		spec.Steps = append(spec.Steps, catalog.RunbookStep{Name: fmt.Sprintf("step-%02d", i), Command: fmt.Sprintf("patch --level %d\nsync", i)})
	}
	j, err := w.Control.SubmitRun(context.Background(), owner(w), control.RunRequest{Inline: &spec})
	w.Must(err)
	w.Must(w.Store.Update(context.Background(), func(tx *store.Tx) error { // a Runbook Job, so that its page has the matrix
		job, err := tx.Job(org, j.ID)
		if err != nil {
			return err
		}
		job.Kind, job.Runbook = work.RunbookJob, "many/patch"
		return tx.SaveJob(job)
	}))
	return w, reaches(t, w, j.ID, work.Running)
}

// say notes how an Item went on Nodes.
func say(w *apitest.World, j *work.Job, item int, status work.NodeStatus, nodes ...int) {
	w.T.Helper()
	now := time.Now()
	var events []work.NodeEvent
	for _, n := range nodes {
		e := work.NodeEvent{Node: n, Item: item, Status: status, Started: now.Add(-2 * time.Second), Finished: now, Tries: 1}
		if status == work.NodeFailed {
			e.ExitCode, e.Failure = 7, &work.Failure{Code: "command_failed", Message: "the command ended with status 7"}
		}
		events = append(events, e)
	}
	w.Must(w.Store.Update(context.Background(), func(tx *store.Tx) error { return tx.PutNodeResults(j.ID, 1, 1, events) }))
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// A matrix of 1,000 Nodes and 20 steps is a page of 50 of them, those that failed first, and what changes in it is sent as rows, many at once.
func TestMatrixOfAThousandNodes(t *testing.T) {
	const nodes, steps = 1000, 20
	w, j := crowd(t, nodes, steps)
	for item := range steps - 1 {
		say(w, j, item, work.NodeSucceeded, upTo(nodes)...)
	}
	say(w, j, steps-1, work.NodeFailed, 707, 909)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	path := fmt.Sprintf("/jobs/%d", j.Number)
	measure := func(what, path string, words ...string) string {
		t.Helper()
		status, text := v.get(path)
		if status != http.StatusOK {
			t.Fatalf("%s: %d", what, status)
		}
		v.readsABoundedPart(path)
		for _, word := range words {
			if !strings.Contains(text, word) {
				t.Errorf("%s: no %q", what, word)
			}
		}
		return text
	}
	text := measure("first view", path, "node-0707.example.com", "node-0909.example.com", "Nodes 1 to 50 of 1000", "patch --level 7 …", "the command ended with status 7"[1:])
	if n := strings.Count(text, `<tr id="n-`); n != 50 {
		t.Errorf("%d Nodes are in the page", n)
	}
	if strings.Index(text, "n-909") > strings.Index(text, `id="n-0"`) {
		t.Error("what failed does not come first")
	}
	if text := measure("failed", path+"?show=failed", "node-0707"); strings.Contains(text, "node-0001.") {
		t.Error("the filter lets others through")
	}
	measure("by name", path+"?find=0500", "node-0500")
	measure("last page", path+"?from=950", "node-0999")
	measure("nodes", "/nodes?stack=many&filter=name:+node-00.*", "100 of 1")
	measure("one node", "/nodes/many/node-0707.example.com", "step-19")

	events := follow(t, v, "/-/live?at="+url.QueryEscape(path+"?from=2"))
	events.until(t, `id="run-cell"`) // it begins with everything
	begun := time.Now()
	say(w, j, steps-1, work.NodeSucceeded, upTo(40)...)
	sent := events.until(t, `id="n-39"`)
	t.Logf("an update of 40 cells: %d bytes, %s after it was stored", len(sent), time.Since(begun).Round(time.Millisecond))
	if strings.Contains(sent, `id="n-45"`) || strings.Contains(sent, `id="matrix-rows"`) {
		t.Errorf("what did not change is sent: %.3000s", sent)
	}
	events40 := 0
	for _, event := range strings.Split(sent, "event: parts") { // what is said in time goes without rows
		if strings.Contains(event, `id="n-`) {
			events40++
		}
	}
	if events40 != 1 {
		t.Errorf("%d events for one batch", events40)
	}
}

// Cells of an open page change, the page of Nodes stays, and a cell leads to the log of its step on its Node.
func TestBrowserMatrix(t *testing.T) {
	w, j := crowd(t, 60, 3)
	say(w, j, 0, work.NodeSucceeded, upTo(60)...)
	w.Must(w.Store.Update(context.Background(), func(tx *store.Tx) error {
		_, err := tx.AppendLog(j.ID, store.LogKey{Part: 1, Attempt: 1, Step: 0}, 1, []work.Record{
			{Time: time.Now(), Stream: work.Stdout, Data: []byte("of another Node"), Node: 5, Item: 1},
			{Time: time.Now(), Stream: work.Stdout, Data: []byte("it says why"), Node: 4, Item: 2}})
		return err
	}))
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	b.open(fmt.Sprintf("/jobs/%d", j.Number))
	b.isLive()
	b.do(chromedp.Evaluate("window.sameDocument = true", nil))
	b.until(`document.querySelectorAll("#matrix-rows tr").length === 50 && !document.querySelector("#n-3 a.c.bad")`)
	say(w, j, 1, work.NodeFailed, 3)
	b.until(`document.querySelector("#n-3 a.c.bad")?.title.includes("step-01 on node-0003.example.com: failed, status 7")`)
	b.until(`document.querySelector("#matrix-rows tr").id === "n-3" && sameDocument`)
	b.do(chromedp.Evaluate(`document.querySelector("#n-3-name").focus()`, nil))
	b.press("ArrowRight", "ArrowRight", "ArrowDown")
	b.until(`document.activeElement.closest("tr").id === "n-3" && document.activeElement.title.startsWith("step-01")`)
	b.press("ArrowLeft", "ArrowDown")
	b.until(`document.activeElement.closest("tr").id === "n-0" && document.activeElement.title.startsWith("step-00")`)
	b.write("#find", "0055")
	b.until(`document.querySelectorAll("#matrix-rows tr").length === 1 && document.querySelector("#n-55")`)
	b.open(fmt.Sprintf("/jobs/%d?show=failed", j.Number))
	b.isLive()
	b.click("#n-3 a.c.bad")
	b.until(`document.querySelector("#run-cell")?.innerText.includes("exit status 7")`)
	b.until(`document.querySelector("#log-view").innerText.includes("it says why") && !document.querySelector("#log-view").innerText.includes("another Node")`)
	if got := eval[string](b, `document.querySelector(".ll .w").textContent`); got != "node-0003.example.com @i-1" {
		t.Errorf("the line is said to be of %q", got)
	}
	b.clean()
}

// By hand: an option out of its pattern, a filter that is wrong, values that hang on another option, and then it runs.
func TestBrowserRunsARunbook(t *testing.T) {
	w := start(t)
	fillFleet(t, w, map[string]string{})
	b := newTab(t, w)
	b.expected = "422"
	b.logInWithToken(w.Token)
	b.open("/runbooks/fleet/deploy")
	b.isLive()
	b.click(`a[href="/runbooks/fleet/deploy/run"]`)
	b.see("dialog[open] #option-0")
	b.until(`document.querySelector("#nodes-preview").innerText.includes("14 Nodes")`)
	b.until(`[...document.querySelector("#option-2").options].some((o) => o.value === "one.eu")`)
	b.do(chromedp.Evaluate(`(() => { const e = document.querySelector("#option-1"); e.value = "us"; e.dispatchEvent(new Event("change", {bubbles: true})) })()`, nil))
	b.until(`[...document.querySelector("#option-2").options].some((o) => o.value === "one.us")`)
	b.write("#option-0", "latest")
	b.write("#option-8", "hunter22")
	b.write("#f-nodes", "tags: web rackk: r1")
	b.until(`document.querySelector("#nodes-preview .caret")?.textContent.includes("^")`)
	b.write("#f-nodes", "name: web-1")
	b.until(`document.querySelector("#nodes-preview").innerText.includes("1 Node")`)
	b.click("dialog[open] .button.primary")
	b.until(`document.querySelector('dialog[open] [id="p-options.release"]')?.innerText.includes("pattern")`)
	if got := eval[string](b, `["#option-0", "#option-1", "#option-8", "#f-nodes"].map((s) => document.querySelector(s).value).join()`); got != "latest,us,,name: web-1" {
		t.Errorf("what was typed: %q", got)
	}
	b.write("#option-0", "v1.2")
	b.click("dialog[open] .button.primary")
	b.until(`location.pathname.startsWith("/jobs/") && document.querySelector("#items")?.innerText.includes("drain")`)
	b.until(`document.querySelector("#job-head").innerText.includes("Needs approval")`)
	if text := eval[string](b, `document.body.innerText`); strings.Contains(text, "hunter22") || !strings.Contains(text, "Is the first Node well?") {
		t.Errorf("%s", text)
	}
	b.clean()
}

// What is wrong in a filter stands below its field, at its character, as it is typed.
func TestBrowserFiltersNodes(t *testing.T) {
	w := start(t)
	w.Apply(apitest.Webs)
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	b.open("/nodes")
	b.isLive()
	b.write("#q", "tags: web !name: web-2")
	b.until(`document.querySelector("#nodes").innerText.includes("web-3") && !document.querySelector("#nodes").innerText.includes("web-2")`)
	b.write("#q", "os: linux tagz: web")
	b.until(`document.querySelector("#filter-said .caret")?.textContent.split("\n")[1].indexOf("^") === 10`)
	if got := eval[string](b, `document.activeElement.id + " " + document.activeElement.value`); got != "q os: linux tagz: web" {
		t.Errorf("the field: %q", got)
	}
	b.write("#q", "")
	b.until(`document.querySelector("#nodes").innerText.includes("db-1")`)
	b.clean()
}
