package web_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/store"
	"legwork/internal/web"
	"legwork/internal/work"
)

// A stream that cannot read events any more ends, so that the browser connects again: the page of users is rendered at events alone.
func TestStreamEndsWhenEventsCannotBeRead(t *testing.T) {
	w := start(t)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	events := follow(t, v, "/-/live?at=/users")
	events.until(t, "event: parts")
	db, err := sql.Open("sqlite", "file:"+filepath.Join(w.Dir, "legwork.db")+"?_pragma=busy_timeout(60000)")
	w.Must(err)
	defer db.Close()
	_, err = db.Exec("ALTER TABLE events RENAME TO events_away")
	w.Must(err)
	patience := time.After(apitest.Patience) // they are looked for every 5 s
	for over := false; !over; {
		select {
		case _, ok := <-events.lines:
			over = !ok
		case <-patience:
			t.Fatal("the stream goes on, deaf")
		}
	}
	_, err = db.Exec("ALTER TABLE events_away RENAME TO events")
	w.Must(err)
	again := follow(t, v, "/-/live?at=/users")
	again.until(t, "event: parts")
	_, err = w.Access.CreateUser(context.Background(), owner(w), "ann", catalog.RoleViewer, password)
	w.Must(err)
	again.until(t, "ann")
}

// What stands around rows is kept up to date, too; a row alone goes alone.
func TestShellOfRows(t *testing.T) {
	rows := [][2]string{{"a", `<i id="a">1</i>`}, {"b", `<i id="b">2</i>`}}
	changed := [][2]string{{"a", `<i id="a">1</i>`}, {"b", `<i id="b">3</i>`}}
	sent, err := web.Sent(
		web.Face{`<p id="p"><i id="a">1</i><i id="b">2</i>none</p>`, rows},
		web.Face{`<p id="p"><i id="a">1</i><i id="b">2</i>none</p>`, rows},
		web.Face{`<p id="p"><i id="a">1</i><i id="b">3</i>none</p>`, changed},
		web.Face{`<p id="p"><i id="a">1</i><i id="b">3</i>an edge</p>`, changed},
		web.Face{`<p id="p"><i id="b">3</i><i id="a">1</i>an edge</p>`, [][2]string{changed[1], changed[0]}},
		web.Face{`<p id="p">an edge</p>`, nil},
	)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]string{{`id="p"`, "none"}, nil, {`<i hx-swap-oob="true" id="b">3`}, {`id="p"`, "an edge"}, {`id="p"`}, {`id="p"`}} {
		if want == nil && sent[i] != "" {
			t.Errorf("%d: %s is sent for nothing", i, sent[i])
		}
		for _, word := range want {
			if !strings.Contains(sent[i], word) {
				t.Errorf("%d: nothing of %s in %q", i, word, sent[i])
			}
		}
	}
	if strings.Contains(sent[2], `id="p"`) || strings.Contains(sent[2], `id="a"`) {
		t.Errorf("more than the row is sent: %s", sent[2])
	}
}

// An edge that is added between Modules comes to who looks at the picture.
func TestGraphFollowsEdges(t *testing.T) {
	w := start(t)
	manifest := "kind: Stack\nname: s\n---\n{kind: Namespace, stack: s, name: n, defaults: {engine: opentofu}}\n"
	module := func(name, inputs string) string {
		return "---\n{kind: Module, stack: s, namespace: n, name: " + name + ", source: {type: inline, files: {main.tf: ''}}, inputs: [" + inputs + "]}\n"
	}
	takes := func(name, from string) string {
		return "{name: " + name + ", from: output, module: " + from + ", output: x}"
	}
	w.Apply(manifest + module("a", "") + module("b", takes("i", "a")) + module("c", takes("i", "b")))
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	events := follow(t, v, "/-/live?at=/stacks/s")
	events.until(t, "3 Modules, 2 edges")
	w.Apply(manifest + module("a", "") + module("b", takes("i", "a")) + module("c", takes("i", "b")+", "+takes("j", "a")))
	events.until(t, "3 Modules, 3 edges")
}

// A Web session holds so many streams; who is refused is told when to try again, and one that ends makes room.
func TestStreamsAreBounded(t *testing.T) {
	w := start(t)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for range 20 {
		follow(t, v, "/-/live?at=/users").until(t, "event: parts")
	}
	answer, err := v.client.Get(w.URL + "/-/live?at=/users")
	w.Must(err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %d %v", answer.StatusCode, answer.Header)
	}
	other := newVisitor(t, w)
	other.logIn(url.Values{"token": {w.Token}})
	follow(t, other, "/-/live?at=/users").until(t, "event: parts")
}

// The page of a Job is rendered at its own events alone, that of a Runner at those of its Jobs.
func TestEventsOfOthersDoNotConcernAPage(t *testing.T) {
	w := start(t)
	world := fillEverything(t, w)
	j, err := w.Client.Job(context.Background(), world["running"])
	w.Must(err)
	r, err := w.Control.Runner(context.Background(), owner(w), j.Binding.Runner)
	w.Must(err)
	page := web.New(web.Options{Control: w.Control, Access: w.Access})
	for _, c := range []struct {
		path, kind, subject, data string
		want                      bool
	}{
		{"/jobs/" + world["running"], "job.running", j.ID, `{}`, true},
		{"/jobs/" + world["running"], "job.running", "other", `{}`, false},
		{"/runners/" + r.Name, "runner.online", r.ID, `{}`, true},
		{"/runners/" + r.Name, "runner.online", "other", `{}`, false},
		{"/runners/" + r.Name, "job.claimed", "new", `{"runner_id": "` + r.ID + `"}`, true},
		{"/runners/" + r.Name, "job.claimed", "new", `{"runner_id": "other"}`, false},
		{"/runners/" + r.Name, "job.succeeded", j.ID, `{}`, true},
		{"/runners/" + r.Name, "assignment.changed", "any", `{}`, true},
		{"/runners/" + r.Name, "user.changed", r.ID, `{}`, false},
	} {
		got, err := page.Concerned(owner(w), c.path, control.Event{Kind: c.kind, Subject: c.subject, Data: []byte(c.data)})
		w.Must(err)
		if got != c.want {
			t.Errorf("%s: %s of %s: %v", c.path, c.kind, c.subject, got)
		}
	}
}

// The overview counts all Jobs, and shows those that wait for longest.
func TestOverviewCountsAllJobs(t *testing.T) {
	w := start(t)
	org := owner(w).OrganizationID
	w.Must(w.Store.Update(context.Background(), func(tx *store.Tx) error {
		for i := range 1100 {
			for _, s := range []work.Status{work.Queued, work.Failed} {
				if s == work.Failed && i >= 60 {
					continue
				}
				j := &work.Job{OrganizationID: org, Kind: work.ModuleJob, Action: work.Apply, ModuleID: fmt.Sprint("m", i), Module: fmt.Sprint("s/n/m", i),
					Status: s, Steps: work.StepsOf(catalog.OpenTofu, work.Apply, false, false), CreatedBy: "ann"}
				if err := tx.InsertJob(j, store.JobSnapshot{}); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	_, text := v.get("/")
	for _, word := range []string{">1100", ">60", "s/n/m0<", "s/n/m11<"} {
		if !strings.Contains(text, word) {
			t.Errorf("nothing of %s", word)
		}
	}
	if strings.Contains(text, "s/n/m1099<") {
		t.Error("the newest waiter is shown")
	}
}
