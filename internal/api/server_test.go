package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// do makes a request as it is and gives its answer.
func do(t *testing.T, w *apitest.World, method, path, token, kind string, content io.Reader) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequest(method, w.URL+path, content)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, text
}

// TestBadRequestsAreProblems asks for everything that can be wrong with a request before control sees it.
func TestBadRequestsAreProblems(t *testing.T) {
	w := apitest.Start(t, func(o *api.Options) { o.MaxBodyBytes = 64 << 10 })
	viewer := w.TokenFor("default", catalog.RoleViewer)
	const kind = "application/json"
	for _, c := range []struct {
		name, method, path, token, kind, body string
		status                                int
		code                                  string
	}{
		{"no token", "GET", "/api/v1/stacks", "", "", "", 401, "token_missing"},
		{"wrong token", "GET", "/api/v1/stacks", "lw_nonsense", "", "", 401, "token_wrong"},
		{"no token at a path that is not there", "GET", "/api/v1/nothing", "", "", "", 401, "token_missing"},
		{"no such path", "GET", "/api/v1/nothing", w.Token, "", "", 404, "no_such_path"},
		{"no such path outside", "GET", "/nothing", "", "", "", 404, "no_such_path"},
		{"method", "PATCH", "/api/v1/jobs", w.Token, kind, "{}", 405, "method_not_allowed"},
		{"malformed JSON", "POST", "/api/v1/jobs", w.Token, kind, `{"module":`, 400, "request_invalid"},
		{"unknown field", "POST", "/api/v1/jobs", w.Token, kind, `{"module":"a/b/c","action":"plan","foo":1}`, 400, "request_invalid"},
		{"missing field", "POST", "/api/v1/jobs", w.Token, kind, `{"module":"a/b/c"}`, 400, "request_invalid"},
		{"wrong type", "POST", "/api/v1/jobs", w.Token, kind, `{"module":1,"action":"plan"}`, 400, "request_invalid"},
		{"unknown action", "POST", "/api/v1/jobs", w.Token, kind, `{"module":"a/b/c","action":"explode"}`, 400, "request_invalid"},
		{"no body", "POST", "/api/v1/jobs", w.Token, kind, "", 400, "request_invalid"},
		{"body type", "POST", "/api/v1/jobs", w.Token, "text/plain", "hello", 415, "media_type"},
		{"no such module", "POST", "/api/v1/jobs", w.Token, kind, `{"module":"a/b/c","action":"plan"}`, 404, ""},
		{"body over the limit", "POST", "/api/v1/jobs", w.Token, kind, `{"module":"` + strings.Repeat("x", 2<<20) + `"}`, 413, "body_too_large"},
		{"manifest over the limit", "POST", "/api/v1/manifest/apply", w.Token, "application/yaml", strings.Repeat("# comment\n", 20_000), 413, "body_too_large"},
		{"manifest of another type", "POST", "/api/v1/manifest/apply", w.Token, "image/png", "x", 415, "media_type"},
		{"manifest without files", "POST", "/api/v1/manifest/apply", w.Token, kind, `{"files":[]}`, 400, "request_invalid"},
		{"manifest with an unknown field", "POST", "/api/v1/manifest/apply", w.Token, kind, `{"filez":[]}`, 400, "request_invalid"},
		{"broken manifest", "POST", "/api/v1/manifest/apply?name=a.yaml", w.Token, "application/yaml", "kind: Stack\nnam: x\n", 400, "manifest_invalid"},
		{"query", "GET", "/api/v1/jobs?limit=many", w.Token, "", "", 400, "request_invalid"},
		{"status", "GET", "/api/v1/jobs?status=sleeping", w.Token, "", "", 400, "status_unknown"},
		{"path and body differ", "PUT", "/api/v1/stacks/a", w.Token, kind, `{"name":"b"}`, 400, "path_mismatch"},
		{"no such job", "GET", "/api/v1/jobs/7", w.Token, "", "", 404, "job_not_found"},
		{"logs of no such job", "GET", "/api/v1/jobs/7/logs?follow=true", w.Token, "", "", 404, "job_not_found"},
		{"viewer declares", "PUT", "/api/v1/stacks/a", viewer, kind, `{"name":"a"}`, 403, "not_allowed"},
		{"viewer creates a runner", "POST", "/api/v1/runners", viewer, kind, `{"name":"a"}`, 403, "not_allowed"},
		{"admin at the door of runners", "GET", "/runnerhub", w.Token, "", "", 403, "not_a_runner"},
		{"nobody at the door of runners", "GET", "/runnerhub", "", "", "", 401, "token_missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var content io.Reader
			if c.method != "GET" {
				content = strings.NewReader(c.body)
			}
			resp, text := do(t, w, c.method, c.path, c.token, c.kind, content)
			var p api.Problem
			if err := json.Unmarshal(text, &p); err != nil || resp.Header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("%d %s is no problem document: %s", resp.StatusCode, resp.Header.Get("Content-Type"), text)
			}
			if resp.StatusCode != c.status || p.Status != c.status || c.code != "" && p.Code != c.code {
				t.Errorf("got %d %s, want %d %s: %s", resp.StatusCode, p.Code, c.status, c.code, text)
			}
			if p.Detail == "" || p.Kind == "" || p.RequestID == "" || p.RequestID != resp.Header.Get("X-Request-Id") {
				t.Errorf("incomplete: %s", text)
			}
			if (resp.Header.Get("WWW-Authenticate") != "") != (c.status == 401) || (resp.Header.Get("Allow") != "") != (c.status == 405) {
				t.Errorf("headers: %v", resp.Header)
			}
			if resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("headers: %v", resp.Header)
			}
		})
	}
}

func TestProblemsOfAManifestNameFileAndLine(t *testing.T) {
	w := apitest.Start(t)
	_, err := w.Client.ApplyManifest(context.Background(), []catalog.ManifestFile{
		{Name: "one.yaml", Data: []byte("kind: Stack\nname: prod\n")},
		{Name: "two.yaml", Data: []byte("kind: Namespace\nstack: prod\nname: net\nfoo: 1\n---\nkind: Stack\nname: a/b\n")},
	}, false)
	f := fault.Of(err)
	if f.Kind != fault.Invalid || len(f.Details) < 2 || f.Details[0].File != "two.yaml" || f.Details[0].Line != 4 {
		t.Errorf("%+v", f)
	}
	stacks, err := w.Client.Stacks(context.Background())
	if err != nil || len(stacks) != 0 {
		t.Errorf("something of it was applied: %v %v", stacks, err)
	}
}

func TestCatalogOverTheAPI(t *testing.T) {
	w := apitest.Start(t)
	ctx := context.Background()
	made, err := w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "edge", IsAssignedToAllModules: true})
	w.Must(err)
	if made.ClientSecret == "" || made.ClientID == "" || made.OrganizationID == "" || made.ID == "" {
		t.Errorf("%+v", made)
	}
	if r := w.Apply(apitest.Scripts); r.Created != 3 || !r.Applied {
		t.Errorf("%+v", r)
	}
	if r := w.Apply(apitest.Scripts); r.Created+r.Updated != 0 || r.Unchanged != 3 {
		t.Errorf("applied twice: %+v", r)
	}
	module, err := w.Client.Module(ctx, "prod/net/a")
	w.Must(err)
	ByID, err := w.Client.Module(ctx, module.ID)
	w.Must(err)
	escaped, text := do(t, w, "GET", "/api/v1/modules/prod%2Fnet%2Fa", w.Token, "", nil)
	if ByID.ID != module.ID || escaped.StatusCode != 200 || !strings.Contains(string(text), module.ID) {
		t.Errorf("by id %+v, escaped %d %s", ByID, escaped.StatusCode, text)
	}
	export, err := w.Client.ExportManifest(ctx, false)
	w.Must(err)
	if r := w.Apply(string(export)); r.Created+r.Updated != 0 {
		t.Errorf("applying the export changes: %+v\n%s", r, export)
	}
	spec := module.ModuleSpec
	spec.Description = "changed"
	put, err := json.Marshal(spec)
	w.Must(err)
	resp, text := do(t, w, "PUT", "/api/v1/modules/prod/net/a", w.Token, "application/json", bytes.NewReader(put))
	if resp.StatusCode != 200 || !strings.Contains(string(text), `"changed"`) {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	w.Must(w.Client.DeleteModule(ctx, "prod/net/a", true))
	w.Must(w.Client.DeleteNamespace(ctx, "prod/net"))
	w.Must(w.Client.DeleteStack(ctx, "prod"))
	if _, err := w.Client.Module(ctx, "prod/net/a"); !fault.Is(err, fault.NotFound) {
		t.Errorf("after delete: %v", err)
	}
}

// TestOrganizationsDoNotSeeEachOther has two whose names collide.
func TestOrganizationsDoNotSeeEachOther(t *testing.T) {
	w := apitest.Start(t)
	ctx := context.Background()
	made, err := w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "edge", IsAssignedToAllModules: true})
	w.Must(err)
	w.Apply(apitest.Scripts)
	job, err := w.Client.Submit(ctx, "prod/net/a", work.Run)
	w.Must(err)
	module, err := w.Client.Module(ctx, "prod/net/a")
	w.Must(err)
	stranger := w.ClientWith(w.TokenFor("other", catalog.RoleOwner))
	for name, err := range map[string]error{
		"module":      second(stranger.Module(ctx, module.ID)),
		"module path": second(stranger.Module(ctx, "prod/net/a")),
		"runner":      second(stranger.Runner(ctx, made.ID)),
		"job":         second(stranger.Job(ctx, job.ID)),
		"job number":  second(stranger.Job(ctx, fmt.Sprint(job.Number))),
		"log":         second(stranger.Log(ctx, job.ID, 0, 10)),
		"cancel":      second(stranger.Cancel(ctx, job.ID, work.Kill, "")),
		"submit":      second(stranger.Submit(ctx, module.ID, work.Run)),
		"outputs":     second(stranger.Outputs(ctx, module.ID, true)),
		"delete":      stranger.DeleteModule(ctx, module.ID, false),
		"runner off":  stranger.DeleteRunner(ctx, made.ID),
		"rotate":      second(stranger.RotateCredential(ctx, made.ID, false)),
	} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s of another Organization: %v", name, err)
		}
	}
	jobs, err := stranger.Jobs(ctx, api.JobQuery{})
	if err != nil || len(jobs.Items) != 0 {
		t.Errorf("jobs of another Organization: %v %v", jobs, err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestHealthMetricsAndDescription(t *testing.T) {
	draining := false
	w := apitest.Start(t, func(o *api.Options) { o.Draining = func() bool { return draining } })
	for path, want := range map[string]string{
		"/healthz": `"ok"`, "/readyz": `"ok"`, "/openapi.json": `"openapi":"3.1.0"`,
	} {
		resp, text := do(t, w, "GET", path, "", "", nil)
		if resp.StatusCode != 200 || !strings.Contains(string(text), want) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
	draining = true
	if resp, _ := do(t, w, "GET", "/readyz", "", "", nil); resp.StatusCode != 503 {
		t.Errorf("readyz while draining: %d", resp.StatusCode)
	}
}

func TestMetricsNeedATokenUnlessTheyArePublic(t *testing.T) {
	const want = `legwork_jobs{status="queued"} 0`
	w := apitest.Start(t)
	for name, c := range map[string]struct {
		token  string
		status int
	}{
		"nobody": {"", 401}, "wrong": {"lw_nonsense", 401}, "a Runner": {w.TokenFor("default", catalog.RoleRunner), 403},
		"a viewer": {w.TokenFor("default", catalog.RoleViewer), 200}, "the admin": {w.Token, 200},
	} {
		resp, text := do(t, w, "GET", "/metrics", c.token, "", nil)
		if resp.StatusCode != c.status || strings.Contains(string(text), want) != (c.status == 200) {
			t.Errorf("%s: %d %s", name, resp.StatusCode, text)
		}
	}
	public := apitest.Start(t, func(o *api.Options) { o.MetricsPublic = true })
	if resp, text := do(t, public, "GET", "/metrics", "", "", nil); resp.StatusCode != 200 || !strings.Contains(string(text), want) {
		t.Errorf("public: %d %s", resp.StatusCode, text)
	}
}

func TestInternalErrorsAreLoggedAndNotShown(t *testing.T) {
	w := apitest.Start(t)
	resp, _ := do(t, w, "GET", "/api/v1/stacks", w.Token, "", nil) // the token is known from here on
	if resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	w.Must(w.Store.Close())
	resp, text := do(t, w, "GET", "/api/v1/stacks", w.Token, "", nil)
	if resp.StatusCode < 500 || strings.Contains(string(text), "sql") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	if resp.StatusCode == 500 && strings.Count(w.Log.String(), "level=ERROR") != 1 {
		t.Errorf("logged:\n%s", w.Log)
	}
}

func TestLargeAnswersAreCompressed(t *testing.T) {
	w := apitest.Start(t)
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, "---\nkind: Stack\nname: stack-%d\n", i)
	}
	w.Apply(b.String())
	req, err := http.NewRequest("GET", w.URL+"/api/v1/stacks", nil)
	w.Must(err)
	req.Header.Set("Authorization", "Bearer "+w.Token)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := http.DefaultTransport.RoundTrip(req)
	w.Must(err)
	defer resp.Body.Close()
	packed, err := io.ReadAll(resp.Body)
	w.Must(err)
	if resp.Header.Get("Content-Encoding") != "gzip" || len(packed) > 20_000 {
		t.Errorf("%d bytes, %v", len(packed), resp.Header)
	}
	stacks, err := w.Client.Stacks(context.Background())
	if err != nil || len(stacks) != 200 {
		t.Errorf("%d stacks, %v", len(stacks), err)
	}
}

// TestManyClientsAtOnce submits Jobs from 50 clients. None may be refused for being one of many.
func TestManyClientsAtOnce(t *testing.T) {
	w := apitest.Start(t)
	w.Runner("edge", func(*apitest.StepRun) work.StepResult { return work.StepResult{} })
	var b strings.Builder
	b.WriteString(apitest.Scripts)
	for i := range 50 {
		fmt.Fprintf(&b, "---\n{kind: Module, stack: prod, namespace: net, name: m%d, script: {run: 'true', repeatable: true}}\n", i)
	}
	w.Apply(b.String())
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if _, err := w.Client.Submit(context.Background(), fmt.Sprintf("prod/net/m%d", i), work.Run); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
