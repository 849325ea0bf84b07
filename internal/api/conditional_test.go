package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
)

// declaredRecords are one of each kind, with a merge patch that changes it.
var declaredRecords = []struct{ path, patch, field, want string }{
	{"/stacks/prod", `{"description":"new"}`, "description", `"new"`},
	{"/runners/edge", `{"labels":{"site":"home"}}`, "labels", `{"site":"home"}`},
	{"/namespaces/prod/network", `{"description":"new"}`, "description", `"new"`},
	{"/modules/prod/network/vpc", `{"description":"new"}`, "description", `"new"`},
	{"/nodes/prod/web-1", `{"tags":["new"]}`, "tags", `["new"]`},
	{"/node-sources/prod/found", `{"description":"new"}`, "description", `"new"`},
	{"/runbooks/prod/hello", `{"description":"new"}`, "description", `"new"`},
	{"/secrets/token@prod", `{"description":"new"}`, "description", `"new"`},
	{"/cloud-identities/aws", `{"region":"eu-west-1"}`, "region", `"eu-west-1"`},
}

const everyKind = `
{kind: Stack, name: prod, description: before}
---
{kind: Namespace, stack: prod, name: network, defaults: {engine: script, runner: edge}}
---
{kind: Module, stack: prod, namespace: network, name: vpc, script: {run: 'true'}, inputs: [{name: key, value: secret,
	sensitive: true}]}
---
{kind: Runner, name: edge, is_assigned_to_all_modules: true}
---
{kind: Node, stack: prod, name: web-1, address: 10.0.0.1}
---
{kind: NodeSource, stack: prod, name: found, type: file, runner: edge, path: /etc/nodes.yaml}
---
{kind: Runbook, stack: prod, name: hello, nodes: "*", steps: [{name: say, command: echo}]}
---
{kind: CloudIdentity, name: aws, provider: aws, region: eu-central-1}
`

func startDeclared(t *testing.T) *apitest.World {
	t.Helper()
	w := apitest.Start(t)
	w.Apply(everyKind)
	resp, text := send(t, w, "PUT", "/api/v1/secrets/token@prod", `{"name":"token","scope":"prod","kind":"value","value":"s3cret"}`, nil)
	wantStatus(t, "a secret", resp, text, http.StatusOK)
	return w
}

// TestDeclaredRecordsHaveETags reads, changes and deletes one record of each kind under conditions.
func TestDeclaredRecordsHaveETags(t *testing.T) {
	w := startDeclared(t)
	for _, record := range declaredRecords {
		path := "/api/v1" + record.path
		resp, text := send(t, w, "GET", path, "", nil)
		wantStatus(t, "GET "+path, resp, text, http.StatusOK)
		tag := resp.Header.Get("ETag")
		if tag == "" {
			t.Errorf("GET %s: got no ETag", path)
			continue
		}
		resp, text = send(t, w, "GET", path, "", map[string]string{"If-None-Match": tag})
		wantStatus(t, "GET again "+path, resp, text, http.StatusNotModified)
		if len(text) != 0 {
			t.Errorf("GET %s: got a body %s with 304", path, text)
		}
		old := map[string]string{"If-Match": `"0.0"`}
		current := map[string]string{"If-Match": tag}
		resp, text = send(t, w, "PATCH", path, record.patch, old)
		wantStatus(t, "PATCH with an old tag "+path, resp, text, http.StatusPreconditionFailed)
		resp, text = send(t, w, "PATCH", path, record.patch, current)
		wantStatus(t, "PATCH "+path, resp, text, http.StatusOK)
		var fields map[string]json.RawMessage
		w.Must(json.Unmarshal(text, &fields))
		if got := string(fields[record.field]); got != record.want {
			t.Errorf("PATCH %s: got %s %s, want %s", path, record.field, got, record.want)
		}
		resp, text = send(t, w, "PATCH", path, record.patch, current)
		wantStatus(t, "PATCH with the tag before "+path, resp, text, http.StatusPreconditionFailed)
		resp, text = send(t, w, "DELETE", path, "", current)
		wantStatus(t, "DELETE with the tag before "+path, resp, text, http.StatusPreconditionFailed)
	}
	for i := len(declaredRecords) - 1; i >= 0; i-- {
		record := declaredRecords[i]
		resp, _ := send(t, w, "GET", "/api/v1"+record.path, "", nil)
		resp, text := send(t, w, "DELETE", "/api/v1"+record.path, "",
			map[string]string{"If-Match": resp.Header.Get("ETag")})
		wantStatus(t, "DELETE "+record.path, resp, text, http.StatusNoContent)
		resp, text = send(t, w, "DELETE", "/api/v1"+record.path, "", map[string]string{"If-Match": "*"})
		wantStatus(t, "DELETE what is gone "+record.path, resp, text, http.StatusPreconditionFailed)
	}
}

// TestPatchKeepsTheRest: a merge patch keeps the fields that it leaves out, including sensitive values.
func TestPatchKeepsTheRest(t *testing.T) {
	w := startDeclared(t)
	resp, text := send(t, w, "PATCH", "/api/v1/modules/prod/network/vpc", `{"description":"new","runner":"edge"}`, nil)
	wantStatus(t, "PATCH", resp, text, http.StatusOK)
	resp, text = send(t, w, "GET", "/api/v1/manifest/export?show_sensitive=true", "", nil)
	wantStatus(t, "export", resp, text, http.StatusOK)
	for _, want := range []string{"description: new", "secret", "run: \"true\""} {
		if !strings.Contains(string(text), want) {
			t.Errorf("got a module without %q:\n%s", want, text)
		}
	}
	resp, text = send(t, w, "PATCH", "/api/v1/modules/prod/network/vpc", `{"description":null}`, nil)
	wantStatus(t, "PATCH with null", resp, text, http.StatusOK)
	if strings.Contains(string(text), "description") {
		t.Errorf("got %s, want no description", text)
	}
	for _, wrong := range []string{`[]`, `null`, `{"engine":7}`, `{"nonsense":true}`} {
		resp, text = send(t, w, "PATCH", "/api/v1/modules/prod/network/vpc", wrong, nil)
		wantStatus(t, "PATCH "+wrong, resp, text, http.StatusBadRequest)
	}
	resp, text = send(t, w, "PATCH", "/api/v1/modules/prod/network/none", `{}`, nil)
	wantStatus(t, "PATCH of a missing record", resp, text, http.StatusNotFound)
}

// TestConcurrentChangesWithIfMatch: of many changes of a record that name the same ETag, one is made.
func TestConcurrentChangesWithIfMatch(t *testing.T) {
	w := startDeclared(t)
	for _, record := range declaredRecords {
		path := "/api/v1" + record.path
		resp, _ := send(t, w, "GET", path, "", nil)
		tag := map[string]string{"If-Match": resp.Header.Get("ETag")}
		var made atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				resp, text := send(t, w, "PATCH", path, record.patch, tag)
				if resp.StatusCode == http.StatusOK {
					made.Add(1)
				} else if resp.StatusCode != http.StatusPreconditionFailed {
					t.Errorf("PATCH %s: got status %d %s, want 200 or 412", path, resp.StatusCode, text)
				}
			})
		}
		all.Wait()
		if made.Load() != 1 {
			t.Errorf("PATCH %s: got %d changes, want 1", path, made.Load())
		}
	}
}

// TestUsersAndPrincipalsHaveETags covers the records that are not in manifests.
func TestUsersAndPrincipalsHaveETags(t *testing.T) {
	w := apitest.Start(t)
	resp, text := send(t, w, "POST", "/api/v1/users", `{"name":"eva","role":"viewer","password":"long enough, this"}`, nil)
	wantStatus(t, "a user", resp, text, http.StatusCreated)
	resp, text = send(t, w, "POST", "/api/v1/principals", `{"name":"ci","role":"viewer"}`, nil)
	wantStatus(t, "a principal", resp, text, http.StatusCreated)
	resp, _ = send(t, w, "GET", "/api/v1/users/eva", "", nil)
	tag := map[string]string{"If-Match": resp.Header.Get("ETag")}
	resp, text = send(t, w, "PUT", "/api/v1/users/eva/role", `{"role":"operator"}`, tag)
	wantStatus(t, "another role", resp, text, http.StatusNoContent)
	resp, text = send(t, w, "DELETE", "/api/v1/users/eva", "", tag)
	wantStatus(t, "DELETE with the tag before", resp, text, http.StatusPreconditionFailed)
	resp, _ = send(t, w, "GET", "/api/v1/principals/ci", "", nil)
	resp, text = send(t, w, "DELETE", "/api/v1/principals/ci", "",
		map[string]string{"If-Match": resp.Header.Get("ETag")})
	wantStatus(t, "DELETE of a principal", resp, text, http.StatusNoContent)
}

// TestEveryChangeHonoursIfMatch asks every operation that changes something: it has a record to compare, or refuses
// If-Match.
func TestEveryChangeHonoursIfMatch(t *testing.T) {
	w := apitest.Start(t)
	for _, op := range operations(t) {
		if op.method != http.MethodPut && op.method != http.MethodPatch && op.method != http.MethodDelete {
			continue
		}
		if op.id == "put-release-asset" {
			continue // its bytes are those whose checksum the signed manifest names
		}
		resp, text := send(t, w, op.method, op.path, needs[op.id].body, map[string]string{"If-Match": `"0.0"`})
		var p api.Problem
		w.Must(json.Unmarshal(text, &p))
		want := "precondition_failed"
		if api.Unconditional(op.id) {
			want = "condition_unsupported"
		}
		if op.id == "set-user-password" {
			want = "user_not_found" // who may change a password depends on the user, so that comes first
		}
		if p.Code != want {
			t.Errorf("%s: got %d %s, want %s", op.id, resp.StatusCode, p.Code, want)
		}
	}
}
