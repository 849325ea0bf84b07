package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/node"
	"legwork/internal/work"
)

// hostile is a value that a shell would run if it were pasted anywhere.
const hostile = "$(rm -rf /); `id` \"' ${secret.x} \n&& exit 7"

// webs starts a Server with three Nodes that the Runner edge takes.
func webs(t *testing.T, do apitest.Doing) *apitest.World {
	t.Helper()
	w := apitest.Start(t)
	w.Runner("edge", apitest.OnNodes(do))
	w.Apply(apitest.Webs)
	return w
}

func ended(t *testing.T, w *apitest.World, job *work.Job) *work.Job {
	t.Helper()
	j, err := w.Client.FollowLog(t.Context(), job.ID, 0, func([]api.LogLine) error { return nil })
	w.Must(err)
	return j
}

func nothing(*work.RunSpec, int, string) ([]string, int) { return nil, 0 }

func TestNodesAreChosenPreviewedAndPut(t *testing.T) {
	w := webs(t, nothing)
	ctx := t.Context()
	l, err := w.Client.Nodes(ctx, "prod", "tags: web !name: web-2")
	w.Must(err)
	if len(l.Nodes) != 2 || l.Nodes[1].Name != "web-3" || l.Nodes[0].Runner != "edge" {
		t.Errorf("%+v", l)
	}
	p, err := w.Client.PreviewNodes(ctx, "prod", "name: .*-1")
	w.Must(err)
	if p.Matched < 2 || p.Uncovered != 1 || !slices.Equal(p.Without, []string{"prod/db-1"}) {
		t.Errorf("%+v", p)
	}
	_, err = w.Client.PreviewNodes(ctx, "prod", "os: linux tagz: web")
	if f := fault.Of(err); f.Code != "node_filter" || !strings.Contains(f.Message, "column 11") || !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
	for _, empty := range []string{"", " "} {
		if _, err := w.Client.PreviewNodes(ctx, "prod", empty); fault.Code(err) != "node_filter" {
			t.Errorf("%q: %v", empty, err)
		}
	}
	if _, err := w.Client.Nodes(ctx, "prod", " "); fault.Code(err) != "node_filter" {
		t.Error(err)
	}
	n, err := w.Client.PutNode(ctx, catalog.NodeSpec{Stack: "prod", Node: node.Node{Name: "web-4", Tags: []string{"web"}}})
	w.Must(err)
	if n.ID == "" || n.Runner != "edge" {
		t.Errorf("%+v", n)
	}
	if _, err := w.Client.PutNode(ctx, catalog.NodeSpec{Stack: "prod", Node: node.Node{Name: "-x"}}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
	w.Must(w.Client.DeleteNode(ctx, "prod/web-4"))
	if _, err := w.Client.Node(ctx, "prod/web-4"); fault.Code(err) != "node_not_found" {
		t.Error(err)
	}
}

func TestNodeSourcesAreRefreshed(t *testing.T) {
	w := apitest.Start(t)
	hold := make(chan struct{})
	w.Runner("edge", func(s *apitest.StepRun) work.StepResult {
		select {
		case <-hold:
		case <-s.Ctx.Done():
		}
		return work.StepResult{Nodes: []node.Node{{Name: "found", Address: "10.1.1.1"}, {Name: "web-1", Address: "10.9.9.9"}}}
	})
	w.Apply(apitest.Webs)
	ctx := t.Context()
	_, err := w.Client.PutNodeSource(ctx, catalog.NodeSourceSpec{Stack: "prod", Name: "inventory", Type: catalog.FromFile, Runner: "edge", File: "/etc/nodes.yaml"})
	w.Must(err)
	before, err := w.Client.NodeSourceStatus(ctx, "prod/inventory")
	w.Must(err)
	if before.Nodes != 0 || !before.SucceededAt.IsZero() || before.AgeSeconds != 0 {
		t.Errorf("%+v", before)
	}
	job, err := w.Client.RefreshNodeSource(ctx, "prod/inventory")
	w.Must(err)
	again, err := w.Client.RefreshNodeSource(ctx, "prod/inventory")
	w.Must(err)
	if job.Kind != work.DiscoveryJob || again.ID != job.ID {
		t.Errorf("%s, then %s %s", job.ID, again.Kind, again.ID)
	}
	close(hold)
	if j := ended(t, w, job); j.Status != work.Succeeded {
		t.Fatalf("%+v", j.Failure)
	}
	after, err := w.Client.NodeSourceStatus(ctx, "prod/inventory")
	w.Must(err)
	if after.Nodes != 2 || after.LastJobID != job.ID || len(after.Conflicts) != 1 || after.Conflicts[0].Node != "web-1" {
		t.Errorf("%+v", after)
	}
	for filter, want := range map[string]int{"": 1, "name: web-1": 1, "name: db-1": 0} {
		l, err := w.Client.Nodes(ctx, "prod", filter)
		w.Must(err)
		if len(l.Conflicts) != want || len(l.Failing) != 0 {
			t.Errorf("%q: %+v %+v", filter, l.Conflicts, l.Failing)
		}
	}
	if err := w.Client.DeleteNode(ctx, "prod/found"); fault.Code(err) != "node_not_declared" || !strings.Contains(err.Error(), "prod/inventory") {
		t.Error(err)
	}
	w.Must(w.Client.DeleteNodeSource(ctx, "prod/inventory"))
	if _, err := w.Client.Node(ctx, "prod/found"); fault.Code(err) != "node_not_found" {
		t.Error(err)
	}
}

// greeting is a Runbook whose second step fails on web-2.
const greeting = `
kind: Runbook
stack: prod
name: greet
options:
  - {name: who, required: true}
  - {name: token, type: secret}
nodes: "tags: web"
on_failure: continue
steps:
  - {name: hello, command: 'echo hello ${option.who}'}
  - {name: odd, command: 'test ${node.name} != web-2'}
schedules:
  - {name: nightly, cron: "0 3 * * *", time_zone: Europe/Berlin, options: {who: me}}
`

// TestARunOfARunbook runs with a hostile value, looks at what is known of the Job, and runs it again where it failed.
func TestARunOfARunbook(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	w := webs(t, func(spec *work.RunSpec, item int, name string) ([]string, int) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, name)
		if text := spec.Items[0].Step.Command; strings.Contains(text, "rm -rf") || spec.Scopes[0].Values["who"] != hostile {
			t.Errorf("the command is %q, the value %q", text, spec.Scopes[0].Values["who"])
		}
		if item == 1 && name == "web-2" {
			return []string{"oh"}, 3
		}
		return []string{"hello"}, 0
	})
	w.Apply(greeting)
	ctx := t.Context()
	job, err := w.Client.RunRunbook(ctx, "prod/greet", api.RunRequest{Options: map[string]any{"who": hostile, "token": "hush"}})
	w.Must(err)
	if j := ended(t, w, job); j.Status != work.Failed || j.Kind != work.RunbookJob {
		t.Fatalf("%s %+v", j.Status, j.Failure)
	}
	run, err := w.Client.Run(ctx, job.ID)
	w.Must(err)
	if len(run.Nodes) != 3 || len(run.Items) != 2 || run.Items[1].Counts[work.NodeSucceeded] != 2 || run.Items[1].Counts[work.NodeFailed] != 1 ||
		len(run.Parts) != 1 || run.Parts[0].Runner != "edge" || run.Options["who"] != hostile || run.Options["token"] != nil || !slices.Equal(run.Secrets, []string{"token"}) {
		t.Errorf("%+v", run)
	}
	checkResults(t, w, job.ID)
	mu.Lock()
	seen = nil
	mu.Unlock()
	retry, err := w.Client.RetryFailed(ctx, job.ID, nil)
	w.Must(err)
	ended(t, w, retry)
	mu.Lock()
	defer mu.Unlock()
	if len(seen) == 0 || slices.ContainsFunc(seen, func(name string) bool { return name != "web-2" }) {
		t.Errorf("run again on %v", seen)
	}
}

// checkResults pages through what Nodes said.
func checkResults(t *testing.T, w *apitest.World, job string) {
	t.Helper()
	var pairs []string
	q := api.NodeResultQuery{Limit: 1}
	for {
		page, err := w.Client.NodeResults(t.Context(), job, q)
		w.Must(err)
		for _, r := range page.Items {
			pairs = append(pairs, fmt.Sprintf("%s/%s %s %d", r.Item, r.Node, r.Status, r.ExitCode))
		}
		if page.Next == "" {
			break
		}
		q.After = page.Next
	}
	want := []string{"hello/web-1 succeeded 0", "hello/web-2 succeeded 0", "hello/web-3 succeeded 0", "odd/web-1 succeeded 0", "odd/web-2 failed 3", "odd/web-3 succeeded 0"}
	if !slices.Equal(pairs, want) {
		t.Errorf("%q", pairs)
	}
	page, err := w.Client.NodeResults(t.Context(), job, api.NodeResultQuery{Statuses: []work.NodeStatus{work.NodeFailed}, Nodes: []string{"web-2"}, Items: []string{"odd"}})
	w.Must(err)
	if len(page.Items) != 1 || page.Items[0].Failure == nil || page.Items[0].Runner != "edge" {
		t.Errorf("%+v", page)
	}
	for q, code := range map[*api.NodeResultQuery]string{{Nodes: []string{"web-22"}}: "node_unknown", {Items: []string{"odds"}}: "item_unknown",
		{Statuses: []work.NodeStatus{"fine"}}: "status_unknown"} {
		if _, err := w.Client.NodeResults(t.Context(), job, *q); fault.Code(err) != code {
			t.Errorf("%+v: %v", *q, err)
		}
	}
}

func TestRunsThatAreRefused(t *testing.T) {
	w := webs(t, nothing)
	w.Apply(greeting + "---\n{kind: Runbook, stack: prod, name: other, nodes: '*', steps: [{command: 'true'}]}\n")
	ctx := t.Context()
	job, err := w.Client.RunRunbook(ctx, "prod/greet", api.RunRequest{Options: map[string]any{"who": "me"}})
	w.Must(err)
	ended(t, w, job)
	run := func(path string, r api.RunRequest) error {
		_, err := w.Client.RunRunbook(ctx, path, r)
		return err
	}
	for what, c := range map[string]struct {
		err  error
		code string
	}{
		"no value":        {run("prod/greet", api.RunRequest{}), "options_invalid"},
		"another option":  {run("prod/greet", api.RunRequest{Options: map[string]any{"who": "x", "whom": "y"}}), "options_invalid"},
		"no Node":         {run("prod/greet", api.RunRequest{Options: map[string]any{"who": "x"}, Nodes: "tags: none"}), "no_nodes"},
		"a broken filter": {run("prod/greet", api.RunRequest{Options: map[string]any{"who": "x"}, Nodes: "tagz: x"}), "node_filter"},
		"uncovered":       {run("prod/other", api.RunRequest{}), "nodes_uncovered"},
		"none":            {run("prod/none", api.RunRequest{}), "runbook_not_found"},
		"of another":      {run("prod/other", api.RunRequest{FailedOf: job.ID}), "other_runbook"},
		"nothing failed":  {run("prod/greet", api.RunRequest{FailedOf: job.ID}), "nothing_failed"},
	} {
		if fault.Code(c.err) != c.code {
			t.Errorf("%s: %v", what, c.err)
		}
	}
	for what, r := range map[string]api.ExecRequest{
		"nothing to do":  {Stack: "prod", Nodes: "tags: web"},
		"another stack":  {Stack: "none", Nodes: "tags: web", Command: "true"},
		"two things":     {Stack: "prod", Nodes: "tags: web", Command: "true", Script: &catalog.StepScript{Run: "true"}},
		"a broken place": {Stack: "prod", Nodes: "tags: web", Command: `sh -c "echo ${node.name}"`},
	} {
		if _, err := w.Client.Exec(ctx, r); err == nil || fault.Is(err, fault.Internal) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestExecAndSchedulesAndValidation(t *testing.T) {
	var got *work.RunSpec
	w := webs(t, func(spec *work.RunSpec, _ int, _ string) ([]string, int) {
		got = spec
		return []string{"up"}, 0
	})
	w.Apply(greeting)
	ctx := t.Context()
	job, err := w.Client.Exec(ctx, api.ExecRequest{Stack: "prod", Nodes: "tags: web", Command: "uptime", Sudo: true, Concurrency: 2, Runner: "edge"})
	w.Must(err)
	if j := ended(t, w, job); j.Status != work.Succeeded || j.Kind != work.CommandJob {
		t.Errorf("%s %+v", j.Status, j.Failure)
	}
	if got == nil || got.Items[0].Step.Command != "uptime" || got.Concurrency != 2 || got.Items[0].Step.Sudo == nil || !*got.Items[0].Step.Sudo {
		t.Errorf("%+v", got)
	}
	next, err := w.Client.NextRuns(ctx, "prod/greet", 7)
	w.Must(err)
	if len(next) != 1 || next[0].Name != "nightly" || len(next[0].Next) != 7 {
		t.Errorf("%+v", next)
	}
	bad := catalog.RunbookSpec{Stack: "prod", Name: "bad", Nodes: "tags: web", Steps: []catalog.RunbookStep{{Command: "echo ${option.none}"}}}
	found, err := w.Client.ValidateRunbook(ctx, bad)
	w.Must(err)
	if found.Valid || len(found.Problems) == 0 {
		t.Errorf("%+v", found)
	}
	bad.Steps[0].Command = "true"
	if found, err = w.Client.ValidateRunbook(ctx, bad); err != nil || !found.Valid {
		t.Errorf("%+v %v", found, err)
	}
	if _, err := w.Client.Runbook(ctx, "prod/bad"); fault.Code(err) != "runbook_not_found" {
		t.Errorf("validating declares: %v", err)
	}
}

// TestValuesThatOptionsOffer asks URLs that behave well and badly.
func TestValuesThatOptionsOffer(t *testing.T) {
	var asked string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		switch r.URL.Path {
		case "/plain":
			fmt.Fprint(rw, `["a","b"]`)
		case "/named":
			fmt.Fprint(rw, `[{"name":"Alpha","value":"a"},{"value":"b"}]`)
		case "/moved":
			http.Redirect(rw, r, "/plain", http.StatusFound)
		case "/large":
			fmt.Fprintf(rw, `["%s"]`, strings.Repeat("x", 2<<20))
		case "/object":
			fmt.Fprint(rw, `{"a":"b"}`)
		case "/numbers":
			fmt.Fprint(rw, `[1,null]`)
		}
	}))
	defer elsewhere.Close()
	w := webs(t, nothing)
	option := func(name, at string) string {
		return fmt.Sprintf("  - {name: %s, values_from: {url: %q, strict: true}}\n", name, at)
	}
	manifest := "kind: Runbook\nstack: prod\nname: offers\nnodes: 'tags: web'\nsteps: [{command: 'true'}]\noptions:\n  - {name: region, default: eu}\n  - {name: fixed, type: enum, values: [x, y]}\n"
	for _, name := range []string{"named", "moved", "large", "object", "numbers", "missing"} {
		manifest += option(name, elsewhere.URL+"/"+name)
	}
	manifest += option("plain", elsewhere.URL+"/plain?of=${option.region}") + option("metadata", "http://169.254.169.254/latest") + option("gone", "http://127.0.0.1:1/")
	w.Apply(manifest)
	ctx := t.Context()
	for name, want := range map[string][]api.OfferedValue{"plain": {{Name: "a", Value: "a"}, {Name: "b", Value: "b"}}, "named": {{Name: "Alpha", Value: "a"}, {Name: "b", Value: "b"}},
		"fixed": {{Name: "x", Value: "x"}, {Name: "y", Value: "y"}}} {
		values, err := w.Client.OptionValues(ctx, "prod/offers", name, []string{"region=us&x=$(id)"})
		if err != nil || !slices.Equal(values, want) {
			t.Errorf("%s: %+v %v", name, values, err)
		}
		if name == "plain" && asked != "/plain?of=us%26x%3D%24%28id%29" {
			t.Errorf("asked for %s", asked)
		}
	}
	for _, name := range []string{"moved", "large", "object", "numbers", "missing", "metadata", "gone"} {
		if _, err := w.Client.OptionValues(ctx, "prod/offers", name, nil); fault.Code(err) != "option_values" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.Client.OptionValues(ctx, "prod/offers", "none", nil); fault.Code(err) != "option_not_found" {
		t.Error(err)
	}
	if _, err := w.Client.RunRunbook(ctx, "prod/offers", api.RunRequest{Options: map[string]any{"plain": "c"}}); fault.Code(err) != "options_invalid" {
		t.Errorf("a value that is not offered: %v", err)
	}
	job, err := w.Client.RunRunbook(ctx, "prod/offers", api.RunRequest{Options: map[string]any{"plain": "b"}})
	w.Must(err)
	ended(t, w, job)
}
