package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

const sample = `kind: Stack
name: prod
---
kind: Namespace
stack: prod
name: network
defaults: {engine: opentofu}
---
kind: Runner
name: edge-1
is_assigned_to_all_modules: true
---
kind: Module
stack: prod
namespace: network
name: vpc
engine: opentofu            # opentofu | terraform | script (pulumi, ansible follow)
runner: edge-1
source:
  type: git                 # git | inline
  url: https://example.com/infra.git     # https, ssh and file URLs
  revision: main            # branch, tag or commit
  subdirectory: vpc
inputs:
  - {name: cidr, value: 10.0.0.0/16}                        # parameter: any YAML value, typed as it is
  - {name: TF_LOG, kind: env, value: info}
  - {name: stack, from: definition, value: stack_name}      # module_name, module_id, namespace_*, stack_*, source_*
  - {name: subnet, from: output, module: network/base, output: subnet_id}
extra_files:
  - {file_name: backend.tf, contents: "...", overwrite: false}
hooks:
  - {task: apply, phase: before, script: "echo about to apply"}
`

func parse(t *testing.T, texts ...string) (catalog.Manifest, error) {
	t.Helper()
	var files []catalog.ManifestFile
	for i, text := range texts {
		files = append(files, catalog.ManifestFile{Name: fmt.Sprintf("%c.yaml", 'a'+i), Data: []byte(text)})
	}
	return catalog.ParseManifest(files)
}

func mustParse(t *testing.T, texts ...string) catalog.Manifest {
	t.Helper()
	m, err := parse(t, texts...)
	if err != nil {
		t.Fatalf("%v\n%s", err, details(err))
	}
	return m
}

func details(err error) string {
	if err == nil {
		return ""
	}
	var lines []string
	for _, p := range fault.Of(err).Details {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

func TestSampleManifest(t *testing.T) {
	m := mustParse(t, sample)
	if len(m.Stacks) != 1 || len(m.Namespaces) != 1 || len(m.Runners) != 1 || len(m.Modules) != 1 {
		t.Fatalf("%+v", m)
	}
	vpc := m.Modules[0]
	if vpc.Line != 13 || vpc.At("inputs[3].module").Line != 28 || vpc.At("source.revision").Line != 22 || vpc.At("limits.timeout").Line != 13 {
		t.Errorf("positions: %d %v %v", vpc.Line, vpc.At("inputs[3].module"), vpc.At("source.revision"))
	}
	if got := string(vpc.Spec.Inputs[0].Value); got != `"10.0.0.0/16"` {
		t.Errorf("cidr = %s", got)
	}
	if vpc.Spec.Source.Subdirectory != "vpc" || vpc.Spec.Hooks[0].Task != "apply" || vpc.Spec.ExtraFiles[0].Contents != "..." {
		t.Errorf("%+v", vpc.Spec)
	}
}

// value parses one Input value in its place.
func value(t *testing.T, yaml string) (string, error) {
	m, err := parse(t, "kind: Module\nstack: s\nnamespace: n\nname: m\nsource: {type: git, url: 'https://h/r'}\ninputs:\n- name: x\n  value: "+yaml+"\n")
	if err != nil {
		return details(err), err
	}
	return string(m.Modules[0].Spec.Inputs[0].Value), nil
}

func TestValuesAreTypedAsTheyStand(t *testing.T) {
	for yaml, want := range map[string]string{
		"10.0.0.0/16":                `"10.0.0.0/16"`,
		"3":                          `3`,
		"-3":                         `-3`,
		"0":                          `0`,
		"true":                       `true`,
		"yes":                        `"yes"`,
		"on":                         `"on"`,
		"~":                          `null`,
		"":                           `null`,
		"null":                       `null`,
		`""`:                         `""`,
		`"3"`:                        `"3"`,
		"!!str 3":                    `"3"`,
		"2024-05-01":                 `"2024-05-01"`,
		"2024-05-01T10:00:00Z":       `"2024-05-01T10:00:00Z"`,
		"12:30:45":                   `"12:30:45"`,
		"1_000":                      `"1_000"`,
		"0x1F":                       `31`,
		"0o17":                       `15`,
		"1.10":                       `1.10`,
		".5":                         `0.5`,
		"-.5e3":                      `-0.5e3`,
		"1.":                         `1`,
		"1.e5":                       `1e5`,
		"123456789012345678901234":   `123456789012345678901234`,
		"3.141592653589793238462643": `3.141592653589793238462643`,
		"[1, two, [3.0]]":            `[1,"two",[3.0]]`,
		"{b: 1, a: {d: ~, c: <&>}}":  `{"a":{"c":"<&>","d":null},"b":1}`,
		"{80: http, true: x}":        `{"80":"http","true":"x"}`,
		"|\n    one\n    two":        `"one\ntwo\n"`,
		"[]":                         `[]`,
		"{}":                         `{}`,
	} {
		if got, err := value(t, yaml); err != nil || got != want {
			t.Errorf("%s = %s, want %s", yaml, got, want)
		}
	}
	for yaml, want := range map[string]string{
		"0755":              "quotes",
		"012345678901":      "quotes",
		"+4912345":          "quotes",
		".inf":              "not a number that JSON has",
		"!!binary aGVsbG8=": "tag",
		"!Ref x":            "tag",
		"{? [a] : b}":       "key that is no text",
		"{a: 1, a: 2}":      "is there twice",
		"[&x 1, *y]":        "unknown anchor",
		`"a\0b"`:            "zero byte",
		"&a [*a]":           "anchor",
		"[" + strings.Repeat("[", 80) + strings.Repeat("]", 80) + "]": "nested",
	} {
		if got, err := value(t, yaml); err == nil || !strings.Contains(got, want) {
			t.Errorf("%s = %s, want an error with %q", yaml, got, want)
		}
	}
}

func TestEveryProblemIsNamedWithItsPlace(t *testing.T) {
	_, err := parse(t, `kind: Stak
name: prod
---
kind: Module
stack: prod
namespce: network
name: a/b
engine: opentufu
runner: [x]
runner_labels: {region: 7}
source:
  type: git
  url: https://user:secret@example.com/x.git
  subdirectory: ../up
inputs:
  - {name: a}
  - name: b
    from: output
    module: x/y/z
    output: o
  - {name: b, value: 1, output: q}
  - {name: 1x, kind: env, value: v}
  - {name: d, from: definition, value: stackname}
  - just text
hooks:
  - {task: aply, phase: during, script: ''}
limits: {timeout: 90, max_attempts: many}
extra_files:
  - {file_name: /etc/passwd, contents: x}
  - {file_name: c.tf, contents: x}
  - {file_name: c.tf, contents: y}
`, `name: no kind
---
- a
- list
---
kind: Stack
name: prod
---
key: [unclosed
---
kind: Stack
name: prod
description: |
  text
`)
	f := fault.Of(err)
	if f == nil || f.Kind != fault.Invalid || f.Code != "manifest_invalid" {
		t.Fatalf("%v", err)
	}
	want := `a.yaml:1: kind: "Stak" is not known here: Stack, Namespace, CloudIdentity, Runner, Module, Assignment, Node, NodeSource, Runbook or Secret; did you mean "Stack"?
a.yaml:4: namespace: is missing
a.yaml:6: namespce: is not a key that is known here; did you mean "namespace"?
a.yaml:7: name: "a/b" has a slash, which separates the names of a path: a name has 1 to 63 of a-z, 0-9, - _ . and begins and ends with a letter or digit
a.yaml:8: engine: "opentufu" is not known here: opentofu, terraform, pulumi or script; did you mean "opentofu"?
a.yaml:9: runner: wants a text, found a list
a.yaml:10: runner_labels[region]: wants a text, found the number 7: put it in quotes
a.yaml:13: source.url: holds a password or token, which everybody who sees the Module would see: leave it out and give git its credentials on the Runner's host
a.yaml:14: source.subdirectory: has .. in it: it may not lead out of the source
a.yaml:16: inputs[0].value: is missing
a.yaml:19: inputs[1].module: "x/y/z" is a Module of Stack x: outputs never leave their Stack, which is prod here
a.yaml:21: inputs[2].name: "b" is there twice
a.yaml:21: inputs[2].output: is for ` + "`from: output`" + ` alone
a.yaml:22: inputs[3].name: "1x" is not the name of an environment variable: letters, digits and _, not beginning with a digit
a.yaml:23: inputs[4].value: "stackname" is not known here: module_name, module_id, namespace_name, namespace_id, stack_name, stack_id, source_url, source_revision or source_subdirectory; did you mean "stack_name"?
a.yaml:24: inputs[5]: wants keys with values, found the text "just text"
a.yaml:26: hooks[0].task: "aply" is not known here: init, validate, plan, plan_destroy, apply, destroy, output or run; did you mean "apply"?
a.yaml:26: hooks[0].phase: "during" is not known here: before or after
a.yaml:26: hooks[0].script: is missing
a.yaml:27: limits.timeout: wants a duration such as 90s, 10m or 1h30m
a.yaml:27: limits.max_attempts: wants a number, found the text "many"
a.yaml:29: extra_files[0].file_name: is absolute: it wants a path relative to the source
a.yaml:31: extra_files[2].file_name: "c.tf" is there twice
b.yaml:1: kind: is missing: Stack, Namespace, CloudIdentity, Runner, Module, Assignment, Node, NodeSource, Runbook or Secret
b.yaml:3: wants keys with values, found a list
b.yaml:9: is not YAML: did not find expected ',' or ']'
b.yaml:11: name: Stack "prod" is declared already in b.yaml:6`
	if got := details(err); got != want {
		t.Errorf("got:\n%s\n\nwant:\n%s", got, want)
	}
	if strings.Contains(fmt.Sprint(details(err), f.Message), "secret") {
		t.Error("a password shows")
	}
}
