package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
)

// described is the part of the OpenAPI document that the tests of lists read.
type described struct {
	Paths map[string]map[string]struct {
		ID         string `json:"operationId"`
		Parameters []struct {
			Name   string
			In     string
			Schema struct {
				Default, Minimum, Maximum *float64
			}
		}
		Responses map[string]struct {
			Content map[string]struct{ Schema describedSchema }
		}
	}
	Components struct{ Schemas map[string]describedSchema }
}

type describedSchema struct {
	Ref        string `json:"$ref"`
	Type       any
	Properties map[string]describedSchema
}

func describedAPI(t *testing.T) (d described) {
	t.Helper()
	text, err := api.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// notLists are the answers with items that are part of one record.
var notLists = []string{
	"get-job-run",   // the steps of a run
	"preview-nodes", // the first matches of a filter, with the counts of all
}

// TestEveryListHasOneShape holds the shape of the answer and the parameters of every list operation of the document.
func TestEveryListHasOneShape(t *testing.T) {
	d, lists := describedAPI(t), 0
	for path, methods := range d.Paths {
		op, ok := methods["get"]
		if !ok || slices.Contains(notLists, op.ID) {
			continue
		}
		schema := op.Responses["200"].Content["application/json"].Schema
		if schema.Type == "array" {
			t.Errorf("%s answers with a bare array, want an object with items and next", op.ID)
		}
		schema = d.Components.Schemas[strings.TrimPrefix(schema.Ref, "#/components/schemas/")]
		if !strings.HasPrefix(op.ID, "list-") && schema.Properties["items"].Type == nil {
			continue
		}
		lists++
		if got := schema.Properties["items"].Type; got != "array" && fmt.Sprint(got) != "[array null]" {
			t.Errorf("%s %s: got items of type %v, want an array", op.ID, path, got)
		}
		if got := schema.Properties["next"].Type; got != "string" {
			t.Errorf("%s %s: got next of type %v, want a string", op.ID, path, got)
		}
		cursors := 0
		limited := false
		for _, p := range op.Parameters {
			s := p.Schema
			switch p.Name {
			case "after", "before":
				cursors++
			case "limit":
				limited = s.Default != nil && s.Minimum != nil && *s.Minimum == 1 && s.Maximum != nil && *s.Maximum == 1000
			}
		}
		if cursors != 1 {
			t.Errorf("%s %s: got %d cursor parameters, want one of after and before", op.ID, path, cursors)
		}
		if !limited {
			t.Errorf("%s %s: want a limit from 1 to 1000 with a default", op.ID, path)
		}
	}
	if lists < 20 {
		t.Errorf("got %d list operations, want at least 20", lists)
	}
}

const threeOfEach = `
{kind: Stack, name: a}
---
{kind: Stack, name: b}
---
{kind: Stack, name: b-c}
---
{kind: Namespace, stack: a, name: x}
---
{kind: Namespace, stack: a, name: y}
---
{kind: Namespace, stack: b, name: a}
---
{kind: Module, stack: a, namespace: x, name: one, engine: script, script: {run: "true"}}
---
{kind: Module, stack: a, namespace: y, name: one, engine: script, script: {run: "true"}}
---
{kind: Module, stack: b, namespace: a, name: one, engine: script, script: {run: "true"}}
---
{kind: Node, stack: a, name: n2, address: 10.0.0.1}
---
{kind: Node, stack: a, name: n1, address: 10.0.0.2}
---
{kind: Node, stack: b, name: n1, address: 10.0.0.3}
---
{kind: Runner, name: edge}
---
{kind: Runner, name: core}
---
{kind: Runner, name: dmz}
---
{kind: Assignment, runner: edge, scope: a}
---
{kind: Assignment, runner: edge, scope: a/x}
---
{kind: Assignment, runner: core, scope: a/x/one}
---
{kind: NodeSource, stack: a, name: s1, type: file, path: /x, runner: edge}
---
{kind: NodeSource, stack: a, name: s2, type: file, path: /x, runner: edge}
---
{kind: Runbook, stack: a, name: r1, nodes: "*", steps: [{command: "true"}], schedules: [{name: s1, cron: "0 1 * * *"}, {name: s2, cron: "0 2 * * *"}], options: [{name: o, type: enum, values: [z, a, m]}]}
---
{kind: Runbook, stack: b, name: r1, nodes: "*", steps: [{command: "true"}]}
---
{kind: CloudIdentity, name: i1, provider: aws, role_arn: "arn:aws:iam::123456789012:role/a"}
---
{kind: CloudIdentity, name: i2, provider: aws, role_arn: "arn:aws:iam::123456789012:role/a"}
`

// TestListsAreReadPageByPage compares each list with the same list read one item at a time.
func TestListsAreReadPageByPage(t *testing.T) {
	w := apitest.Start(t)
	w.Apply(threeOfEach)
	call := func(method, path, body string) {
		t.Helper()
		if resp, text := do(t, w, method, path, w.Token, "application/json", strings.NewReader(body)); resp.StatusCode >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, text)
		}
	}
	for _, name := range []string{"p1", "p2"} {
		call("POST", "/api/v1/principals", `{"name":"`+name+`","role":"viewer"}`)
		call("POST", "/api/v1/users", `{"name":"`+name+`","role":"viewer","password":"long enough, this"}`)
		call("POST", "/api/v1/registration-tokens", `{"name":"`+name+`"}`)
		call("POST", "/api/v1/principals/p1/credentials", `{"name":"`+name+`"}`)
		for _, scope := range []string{"a", "a/x", "runbook:a/r1"} {
			call("PUT", "/api/v1/secrets/"+url.PathEscape(name+"@"+scope), `{"name":"`+name+`","scope":"`+scope+`","kind":"value","value":"v"}`)
		}
		call("POST", "/api/v1/jobs", `{"module":"a/x/one","action":"run"}`)
	}
	parameters := strings.NewReplacer("{stack}", "a", "{name}", "r1", "{option}", "o")
	atLeast := map[string]int{"list-launches": 0, "list-instances": 0, "list-releases": 0, "list-load": 0, "list-web-sessions": 0, "list-job-nodes": 0}
	for path, methods := range describedAPI(t).Paths {
		op, ok := methods["get"]
		if !ok || !strings.HasPrefix(op.ID, "list-") || op.ID == "list-job-nodes" {
			continue // results of nodes: TestNodeResultsComeInPages
		}
		cursor := "after"
		for _, p := range op.Parameters {
			if p.Name == "before" {
				cursor = "before"
			}
		}
		id := map[string]string{"list-credentials": "p1", "list-web-sessions": "p1", "list-launches": "edge"}[op.ID]
		path = strings.ReplaceAll(parameters.Replace(path), "{id}", id)
		whole := readList(t, w, path, cursor, 1000)
		least, special := atLeast[op.ID]
		if !special {
			least = 2
		}
		if len(whole) < least {
			t.Errorf("%s: got %d items, want at least %d", op.ID, len(whole), least)
		}
		if single := readList(t, w, path, cursor, 1); !slices.Equal(single, whole) {
			t.Errorf("%s page by page: got %d items\n%s\nwant %d\n%s", op.ID, len(single), strings.Join(single, "\n"), len(whole), strings.Join(whole, "\n"))
		}
		if strings.HasPrefix(op.ID, "list-jobs") || op.ID == "list-audit" {
			continue // their position is a number
		}
		for _, wrong := range []string{"!", "WyJ4IiwieCIsIngiLCJ4IiwieCIsIngiXQ"} { // not base64; a key of six parts
			resp, text := do(t, w, "GET", path+"?"+cursor+"="+url.QueryEscape(wrong), w.Token, "", nil)
			if resp.StatusCode >= http.StatusInternalServerError || wrong == "!" && resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s with a wrong position %q: got %d %s, want 400", op.ID, wrong, resp.StatusCode, text)
			}
		}
	}
}

// readList reads the pages of a list and returns its items.
func readList(t *testing.T, w *apitest.World, path, cursor string, limit int) (items []string) {
	t.Helper()
	for next := ""; len(items) < 1000; {
		query := url.Values{"limit": {fmt.Sprint(limit)}}
		if next != "" {
			query.Set(cursor, next)
		}
		resp, text := do(t, w, "GET", path+"?"+query.Encode(), w.Token, "", nil)
		var page struct {
			Items []json.RawMessage
			Next  string
		}
		if err := json.Unmarshal(text, &page); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %v %s", path, resp.StatusCode, err, text)
		}
		if len(page.Items) > limit {
			t.Fatalf("%s: got %d items, want at most %d", path, len(page.Items), limit)
		}
		for _, item := range page.Items {
			items = append(items, string(item))
		}
		if next = page.Next; next == "" {
			return items
		}
	}
	t.Fatalf("%s has no end", path)
	return nil
}
