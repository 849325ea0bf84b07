package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"legwork/internal/api/apitest"
)

// inputsOf returns the inputs of a module as the server writes them.
func inputsOf(t *testing.T, module []byte) string {
	t.Helper()
	var fields struct{ Inputs json.RawMessage }
	if err := json.Unmarshal(module, &fields); err != nil {
		t.Fatal(err)
	}
	return string(fields.Inputs)
}

// TestPatchKeepsNumbers changes a field of a module: its inputs stay as they are, to the last digit.
func TestPatchKeepsNumbers(t *testing.T) {
	w := apitest.Start(t)
	w.Apply(`
{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: network, defaults: {engine: script, runner: edge}}
---
{kind: Module, stack: prod, namespace: network, name: vpc, script: {run: 'true'}, inputs: [
  {name: account, value: 9007199254740993}, {name: big, value: 123456789012345678901234},
  {name: object, value: {b: 9007199254740993, a: '<&>'}}]}
---
{kind: Runner, name: edge, is_assigned_to_all_modules: true}
`)
	const path = "/api/v1/modules/prod/network/vpc"
	_, before := send(t, w, "GET", path, "", nil)
	want := inputsOf(t, before)
	if !strings.Contains(want, "123456789012345678901234") {
		t.Fatalf("got the declared inputs %s, want all digits", want)
	}
	resp, text := send(t, w, "PATCH", path, `{"description":"new","limits":{"timeout":"1h"}}`, nil)
	wantStatus(t, "a PATCH of other fields", resp, text, http.StatusOK)
	if got := inputsOf(t, text); got != want {
		t.Errorf("after a PATCH of other fields: got inputs %s, want %s", got, want)
	}
	resp, text = send(t, w, "PATCH", path, `{"inputs":[{"name":"account","value":9007199254740995}]}`, nil)
	wantStatus(t, "a PATCH of the inputs", resp, text, http.StatusOK)
	if got := inputsOf(t, text); !strings.Contains(got, "9007199254740995") {
		t.Errorf("after a PATCH of the inputs: got %s, want 9007199254740995", got)
	}
}
