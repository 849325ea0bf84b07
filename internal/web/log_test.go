package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// logAnswer is what a page is told of a log.
type logAnswer struct {
	Last     int64
	Over     bool
	Sections []struct{ Attempt, Step, First, Last int64 }
	From     int64
	Rows     [][3]any // milliseconds, what it is, HTML
}

func (a logAnswer) html(i int) string { return a.Rows[i][2].(string) }

// moduleOf declares a Module whose Jobs a test works on.
func moduleOf(w *apitest.World, behavior apitest.Behavior) {
	w.T.Helper()
	w.Runner("edge-1", behavior)
	w.Apply("kind: Stack\nname: prod\n---\nkind: Namespace\nstack: prod\nname: network\ndefaults: {engine: script, runner: edge-1}\n---\n" +
		"{kind: Module, stack: prod, namespace: network, name: vpc, script: {run: 'true', repeatable: true}}\n")
}

func submitRun(w *apitest.World) *work.Job {
	w.T.Helper()
	j, err := w.Client.SubmitJob(context.Background(), api.JobRequest{Module: "prod/network/vpc", Action: work.Run})
	w.Must(err)
	return j
}

// ended waits for the end of a Job.
func ended(w *apitest.World, j *work.Job) *work.Job {
	w.T.Helper()
	var now *work.Job
	eventually(w.T, "the Job is over", func() bool {
		var err error
		now, err = w.Client.Job(context.Background(), j.ID)
		return err == nil && now.Status.Terminal()
	})
	return now
}

// jobWithLog runs a Job and puts records into its log.
func jobWithLog(w *apitest.World, records ...[]work.Record) *work.Job {
	w.T.Helper()
	moduleOf(w, func(*apitest.StepRun) work.StepResult { return work.StepResult{} })
	j := ended(w, submitRun(w))
	fillLog(w, j, records...)
	return j
}

// fillLog puts records into the log of a Job: those of its first Step, of its second, ...
func fillLog(w *apitest.World, j *work.Job, records ...[]work.Record) {
	w.T.Helper()
	for step, list := range records {
		for first := 0; first < len(list); first += 5000 {
			part := list[first:min(first+5000, len(list))]
			w.Must(w.Store.Update(context.Background(), func(tx *store.Tx) error {
				_, err := tx.AppendLog(j.ID, store.LogKey{Attempt: 1, Step: step}, uint64(first+1), part)
				return err
			}))
		}
	}
}

// printed makes records of lines.
func printed(lines ...string) []work.Record {
	records := make([]work.Record, len(lines))
	for i, text := range lines {
		records[i] = work.Record{Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Millisecond), Stream: work.Stdout, Data: []byte(text)}
	}
	return records
}

func numbered(n int) []work.Record {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("\x1b[32mline %d\x1b[0m of many, as wide as the lines of a log are", i+1)
	}
	return printed(lines...)
}

func (v *visitor) rows(j *work.Job, from int64, count int) logAnswer {
	v.t.Helper()
	status, text := v.get(fmt.Sprintf("/jobs/%d/log?from=%d&count=%d", j.Number, from, count))
	var a logAnswer
	if err := json.Unmarshal([]byte(text), &a); err != nil || status != http.StatusOK {
		v.t.Fatalf("%d, %v: %.300s", status, err, text)
	}
	return a
}

func TestLogRows(t *testing.T) {
	w := start(t)
	records := printed("plain", "\x1b[31mred and", "still red\x1b[0m", "10%\r20%", "\r30%", "an error", "over")
	records[3].Partial, records[5].Stream = true, work.Stderr
	j := jobWithLog(w, printed("fetched"), records)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	a := v.rows(j, 1, 100)
	want := []string{"fetched", "plain", `<span class="term-fg31">red and</span>`, `<span class="term-fg31">still red</span>`, "30%", "an error", "over"}
	if a.Last != int64(len(want)) || !a.Over || len(a.Rows) != len(want) || len(a.Sections) != 2 || a.Sections[1].First != 2 {
		t.Fatalf("got %+v", a)
	}
	for i, html := range want {
		if a.html(i) != html {
			t.Errorf("line %d is %s, not %s", i+1, a.html(i), html)
		}
	}
	if kind := a.Rows[5][1].(float64); kind != 2 {
		t.Errorf("what went to stderr is %v", kind)
	}
	if some := v.rows(j, 4, 2); len(some.Rows) != 2 || some.html(0) != want[3] || some.From != 4 {
		t.Errorf("from 4: %+v", some)
	}
	fillLog(w, j, nil, append(records, printed("later")...))
	if more := v.rows(j, 8, 5); more.Last != 8 || more.html(0) != "later" {
		t.Errorf("what came later: %+v", more)
	}
}

// Each block of a long log is what it is from whichever side it is read, colours and all.
// Lines are numbered without a gap where records are none, and a line that a Node prints in parts is one whatever the others print meanwhile.
func TestLogOfNodes(t *testing.T) {
	w := start(t)
	records := printed("a ", `{"node":0,"item":0,"status":"running"}`, "b", "c ", "of a", `{"node":0,"item":0,"status":"failed"}`, "of c", `{"node":2,"item":0,"status":"failed"}`)
	for i, node := range []int{1, 1, 2, 3, 1, 1, 3, 3} {
		records[i].Node, records[i].Item, records[i].Partial = node, 1, i == 0 || i == 3
		if records[i].Data[0] == '{' {
			records[i].Stream = work.Progress
		}
	}
	j := jobWithLog(w, records)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	a := v.rows(j, 1, 100)
	if a.Last != 3 || len(a.Rows) != 3 || a.html(0) != "a of a" || a.html(1) != "b" || a.html(2) != "c of c" {
		t.Errorf("got %+v", a)
	}
	if _, text := v.get(fmt.Sprintf("/jobs/%d/log.txt", j.Number)); strings.Contains(text, "status") {
		t.Errorf("the raw log is %q", text)
	}
	if _, text := v.get(fmt.Sprintf("/jobs/%d/log/search?q=failed", j.Number)); !strings.Contains(text, `"count":0`) {
		t.Errorf("a search finds %s", text)
	}
}

func TestLogBlocks(t *testing.T) {
	w := start(t)
	records := numbered(3000)
	for i := range records {
		if i%700 == 0 {
			records[i].Data = append(records[i].Data, "\x1b[35m to be continued"...)
		}
		if i%700 > 0 {
			records[i].Data = fmt.Appendf(nil, "text %d", i+1)
		}
		records[i].Partial = i%97 == 3
	}
	j := jobWithLog(w, records)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	var whole []string
	last := v.rows(j, 1, 1).Last
	for int64(len(whole)) < last {
		a := v.rows(j, int64(len(whole))+1, 512)
		for i := range a.Rows {
			whole = append(whole, a.html(i))
		}
	}
	if len(whole) != 3000-31 || !strings.Contains(whole[600], `<span class="term-fg35">text`) {
		t.Fatalf("%d lines, the 600th is %s", len(whole), whole[600])
	}
	for _, from := range []int64{2900, 255, 256, 257, 1000, 1} {
		a := v.rows(j, from, 40)
		for i := range a.Rows {
			if a.html(i) != whole[from-1+int64(i)] {
				t.Fatalf("line %d is %s, not %s", from+int64(i), a.html(i), whole[from-1+int64(i)])
			}
		}
	}
}

func TestLogSearch(t *testing.T) {
	w := start(t)
	j := jobWithLog(w, numbered(2000), printed("\x1b[31mCre\x1b[0mated ÄPFEL", "created again", "<b>"))
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for q, want := range map[string]string{
		"line 1999": `{"count":1,"lines":[1999],"upto":2003,"whole":true}`, "created": `{"count":2,"lines":[2001,2002],"upto":2003,"whole":true}`,
		"Created": `{"count":1,"lines":[2001],"upto":2003,"whole":true}`, "äpfel": `{"count":1,"lines":[2001],"upto":2003,"whole":true}`,
		"32m": `{"count":0,"lines":[],"upto":2003,"whole":true}`, "<b>": `{"count":1,"lines":[2003],"upto":2003,"whole":true}`,
	} {
		if _, text := v.get(fmt.Sprintf("/jobs/%d/log/search?q=%s", j.Number, url.QueryEscape(q))); text != want {
			t.Errorf("%q finds %s", q, text)
		}
	}
	if status, _ := v.get(fmt.Sprintf("/jobs/%d/log/search?q=%s", j.Number, strings.Repeat("x", 201))); status != http.StatusUnprocessableEntity {
		t.Errorf("a long text: %d", status)
	}
}

// Nothing of a log is ever taken for HTML: not in the rows, not in the page without scripts.
func TestLogIsHostile(t *testing.T) {
	w := start(t)
	hostile := []string{"<script>alert(1)</script>", "\x1b]8;;javascript:alert(1)\x07x\x1b]8;;\x07", "\x1b]8;;https://a/\"onclick=alert(1)\x07x\x1b]8;;\x07",
		"\x1b]1338;url=https://a/b.png;alt=x\x07", "\xff\xfe\x00</noscript></pre><img src=x onerror=alert(1)>", "\x1b[1000000000C!", "\x1b_bk;t=1\x07",
		strings.Repeat("w", work.MaxRecordBytes), "\u202egnp.exe", "\x1b]0;" + strings.Repeat("t", 6000)}
	j := jobWithLog(w, printed(hostile...))
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	a := v.rows(j, 1, 100)
	if len(a.Rows) != len(hostile) {
		t.Fatalf("%d rows", len(a.Rows))
	}
	for i := range a.Rows {
		if html := a.html(i); strings.Contains(html, "<") {
			t.Errorf("%.40q gives %.200s", hostile[i], html)
		}
	}
	_, page := v.get(fmt.Sprintf("/jobs/%d", j.Number))
	for _, bad := range []string{"<script>alert", "<img src=x", "</noscript></pre><img", "\x1b"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	if !strings.Contains(page, "&lt;script&gt;alert(1)&lt;/script&gt;") {
		t.Error("the page does not hold the text of the log")
	}
}

func TestLogRights(t *testing.T) {
	w := start(t)
	j := jobWithLog(w, printed("secret plan", "over"))
	paths := []string{"/log?from=1&count=9", "/log/search?q=secret", "/log.txt", ""}
	nobody, other := newVisitor(t, w), newVisitor(t, w)
	other.logIn(url.Values{"token": {w.TokenFor("other", catalog.RoleOwner)}})
	for _, path := range paths {
		for name, v := range map[string]*visitor{"nobody": nobody, "another Organization": other} {
			if status, text := v.get(fmt.Sprintf("/jobs/%d%s", j.Number, path)); strings.Contains(text, "secret plan") || strings.Contains(text, `"count":1`) {
				t.Errorf("%s reads %s: %d %s", name, path, status, text)
			}
		}
	}
	viewer := newVisitor(t, w)
	viewer.logIn(url.Values{"token": {w.TokenFor("default", catalog.RoleViewer)}})
	if _, text := viewer.get(fmt.Sprintf("/jobs/%d/log.txt", j.Number)); text != "secret plan\nover\n" {
		t.Errorf("the raw log: %q", text)
	}
	for _, path := range []string{"/log", "/log?from=0&count=1", "/log?from=1&count=x"} {
		if status, _ := viewer.get(fmt.Sprintf("/jobs/%d%s", j.Number, path)); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// A line that goes on after lines of another stream is found once, at its place, also where the text is in two parts of it.
func TestLogSearchInLinesOfParts(t *testing.T) {
	w := start(t)
	records := printed("step one: down", "step error", "loading ... step two", "left open step")
	records[0].Partial, records[3].Partial = true, true
	records[1].Stream = work.Stderr
	j := jobWithLog(w, records)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for q, want := range map[string]string{
		"step":        `{"count":3,"lines":[1,2,3],"upto":3,"whole":true}`,
		"downloading": `{"count":1,"lines":[1],"upto":3,"whole":true}`,
	} {
		if _, text := v.get(fmt.Sprintf("/jobs/%d/log/search?q=%s", j.Number, q)); text != want {
			t.Errorf("%q finds %s", q, text)
		}
	}
}
