package catalog_test

import (
	"encoding/json"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

const withSecrets = `{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: net, defaults: {engine: script, inputs: [{name: token, kind: env, value: t0ken, sensitive: true}]}}
---
{kind: Module, stack: prod, namespace: net, name: a, script: {run: ls},
 inputs: [{name: password, value: {a: hunter2}, sensitive: true}, {name: plain, value: seen}, {name: none, value: null, sensitive: true}]}
`

func TestExportWithoutSecretsChangesNothing(t *testing.T) {
	current := mustParse(t, withSecrets).Snapshot()
	text, err := catalog.Export(current.WithoutSecrets())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") || strings.Contains(string(text), "t0ken") || !strings.Contains(string(text), "seen") {
		t.Fatalf("export:\n%s", text)
	}
	changes, err := plan(t, current, string(text))
	if err != nil {
		t.Fatal(details(err))
	}
	if changes.Count(catalog.Unchanged) != 3 {
		t.Fatalf("%+v", changes)
	}
	if got := string(changes[2].Module.Inputs[0].Value); got != `{"a":"hunter2"}` {
		t.Errorf("the change carries %s", got)
	}
	if got := string(current.Modules[0].Inputs[0].Value); got != `{"a":"hunter2"}` {
		t.Errorf("the snapshot was changed: %s", got)
	}
}

func TestPlanKeepsOnlyWhatIsThere(t *testing.T) {
	current := mustParse(t, withSecrets).Snapshot()
	for name, c := range map[string]struct{ inputs, kept, problem string }{
		"kept":                  {"{name: password, sensitive: true}", `{"a":"hunter2"}`, ""},
		"a new value":           {"{name: password, value: x, sensitive: true}", `"x"`, ""},
		"the word of a listing": {"{name: password, value: (sensitive), sensitive: true}", `"(sensitive)"`, ""},
		"becomes sensitive":     {"{name: plain, sensitive: true}", `"seen"`, ""},
		"nothing stored":        {"{name: new, sensitive: true}", "", "m.yaml:3: inputs[0].value: is missing: no value of this sensitive input is stored"},
		"another kind":          {"{name: password, kind: env, sensitive: true}", "", "no value of this sensitive input is stored"},
		"of the Namespace":      {"{name: token, kind: env, sensitive: true}", "", "no value of this sensitive input is stored"},
		"not sensitive":         {"{name: password}", "", "inputs[0].value: is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: []byte(
				"{kind: Module, stack: prod, namespace: net, name: a,\n script: {run: ls},\n inputs: [" + c.inputs + "]}\n")}})
			var changes catalog.Changes
			if err == nil {
				changes, err = catalog.Plan(current, m)
			}
			if c.problem != "" {
				if fault.Code(err) != "manifest_invalid" || !strings.Contains(err.Error(), c.problem) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(details(err))
			}
			if got := changes[0].Module.Inputs[0].Value; string(got) != c.kept {
				t.Errorf("value %s, want %s", got, c.kept)
			}
		})
	}
}

func TestSecretsArePartedFromAReading(t *testing.T) {
	spec := mustParse(t, withSecrets).Snapshot().Modules[0]
	spec.Inputs = catalog.WithoutSecrets(spec.Inputs)
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") {
		t.Errorf("shown: %s", text)
	}
	if err := spec.Validate(); err != nil {
		t.Errorf("what was read cannot be written back: %v", err)
	}
}
