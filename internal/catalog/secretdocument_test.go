package catalog

import (
	"strings"
	"testing"

	"legwork/internal/fault"
)

const secretDocuments = `{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: net}
---
{kind: Module, stack: prod, namespace: net, name: a, engine: script, script: {run: 'true'}}
---
{kind: Runbook, stack: prod, name: deploy, steps: [{name: x, each: runner, command: 'true'}]}
---
{kind: Secret, name: token, scope: prod, description: of the registry, reference: "${vault:secret/data/app#token}"}
---
{kind: Secret, name: key, scope: 'runbook:prod/deploy', reference: "${env:KEY}"}
---
{kind: Secret, name: key, scope: prod/net/a, reference: "${env:KEY}"}
`

func TestSecretsOfAManifest(t *testing.T) {
	parse := func(text string) Manifest {
		t.Helper()
		m, err := ParseManifest([]ManifestFile{{Name: "m.yaml", Data: []byte(text)}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := parse(secretDocuments)
	changes, err := Plan(Snapshot{}, m)
	if err != nil || changes.Count(Create) != 7 || changes[6].Path != "key@prod/net/a" || changes[6].Secret == nil {
		t.Fatalf("%v %+v", err, changes)
	}
	text, err := Export(m.Snapshot())
	if err != nil || !strings.Contains(string(text), "kind: Secret\nname: token\nscope: prod\ndescription: of the registry\nreference: ${vault:secret/data/app#token}\n") {
		t.Errorf("export: %v\n%s", err, text)
	}
	if again, err := Plan(m.Snapshot(), parse(string(text))); err != nil || again.Count(Unchanged) != 7 {
		t.Errorf("the export changes something: %v %+v", err, again)
	}
	kept := Snapshot{Stacks: []StackSpec{{Name: "prod"}}, Secrets: []SecretDocument{{Name: "token", Scope: "prod"}}}
	changes, err = Plan(kept, parse("{kind: Secret, name: token, scope: prod, description: new}"))
	if err != nil || len(changes) != 1 || changes[0].Action != Update || changes[0].Fields[0].Path != "description" {
		t.Errorf("what is said of a stored value: %v %+v", err, changes)
	}
}

func TestSecretsThatAManifestCannotDeclare(t *testing.T) {
	referred := Snapshot{Stacks: []StackSpec{{Name: "prod"}}, Secrets: []SecretDocument{{Name: "token", Scope: "prod", Reference: "${env:A}"}}}
	for name, c := range map[string]struct{ text, field, says string }{
		"a value":             {"{kind: Secret, name: token, scope: prod, value: hunter2}", "value", "legwork secret set NAME --scope SCOPE"},
		"a value in lines":    {"{kind: Secret, name: token, scope: prod, value: {a: [hunter2]}}", "value", "does not belong into a manifest"},
		"reference and value": {"{kind: Secret, name: token, scope: prod, reference: '${env:A}', value: hunter2}", "value", "does not belong"},
		"nothing is stored":   {"{kind: Secret, name: other, scope: prod}", "reference", "no value is stored: legwork secret set other --scope prod < FILE"},
		"it was a reference":  {"{kind: Secret, name: token, scope: prod}", "reference", "no value is stored"},
		"no reference":        {"{kind: Secret, name: token, scope: prod, reference: hunter}", "reference", "wants ${SCHEME:...}"},
		"no such Stack":       {"{kind: Secret, name: token, scope: prodd, reference: '${env:A}'}", "scope", "there is no Stack \"prodd"},
		"no such Runbook":     {"{kind: Secret, name: token, scope: 'runbook:prod/x', reference: '${env:A}'}", "scope", "there is no Runbook \"prod/x"},
		"no scope":            {"{kind: Secret, name: token, reference: '${env:A}'}", "scope", "is not a scope"},
		"no name":             {"{kind: Secret, scope: prod, reference: '${env:A}'}", "name", "is missing"},
		"another key":         {"{kind: Secret, name: token, scope: prod, reference: '${env:A}', secret: x}", "secret", ""},
		"twice":               {"{kind: Secret, name: a, scope: prod, reference: '${env:A}'}\n---\n{kind: Secret, name: a, scope: prod, reference: '${env:A}'}", "name", "is declared already"},
	} {
		m, _ := ParseManifest([]ManifestFile{{Name: "m.yaml", Data: []byte(c.text)}})
		_, err := Plan(referred, m)
		f := fault.Of(err)
		if fault.Code(err) != "manifest_invalid" || len(f.Details) != 1 || f.Details[0].Field != c.field || !strings.Contains(f.Details[0].Message, c.says) || f.Details[0].Line == 0 {
			t.Errorf("%s: %v %+v", name, err, f.Details)
		}
		if strings.Contains(f.Error(), "hunter2") {
			t.Errorf("%s: the value is shown: %v", name, err)
		}
	}
}
