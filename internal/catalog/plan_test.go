package catalog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

const small = `kind: Stack
name: prod
---
kind: Namespace
stack: prod
name: net
defaults: {engine: opentofu, runner: edge}
---
kind: Runner
name: edge
---
kind: Assignment
runner: edge
scope: prod/net
`

// module writes a Module of prod/net that takes outputs of others.
func module(name string, upstreams ...string) string {
	text := "---\nkind: Module\nstack: prod\nnamespace: net\nname: " + name + "\nsource: {type: git, url: 'https://example.com/x.git'}\n"
	if len(upstreams) > 0 {
		text += "inputs:\n"
	}
	for i, up := range upstreams {
		text += fmt.Sprintf("  - {name: in%d, from: output, module: %s, output: o}\n", i, up)
	}
	return text
}

func plan(t *testing.T, current catalog.Snapshot, text string) (catalog.Changes, error) {
	t.Helper()
	return catalog.Plan(current, mustParse(t, text))
}

func TestPlanIsInOrderOfDependency(t *testing.T) {
	changes, err := plan(t, catalog.Snapshot{}, module("app", "net/mid", "base")+module("mid", "base")+module("base")+"---\n"+small)
	if err != nil {
		t.Fatal(details(err))
	}
	var got []string
	for _, c := range changes {
		got = append(got, fmt.Sprint(c.Action, " ", c.Kind, " ", c.Path))
	}
	want := []string{
		"create Stack prod", "create Namespace prod/net", "create Runner edge",
		"create Module prod/net/base", "create Module prod/net/mid", "create Module prod/net/app", "create Assignment edge:prod/net",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
	if changes[3].Module == nil || changes[3].Module.Name != "base" || changes[3].Stack != nil || changes[0].Stack.Name != "prod" {
		t.Error("a change does not carry its Spec")
	}
}

func TestPlanNamesWhatChanges(t *testing.T) {
	before := mustParse(t, small+`---
kind: Module
stack: prod
namespace: net
name: m
description: old
source: {type: inline, files: {main.tf: a, gone.tf: b}}
inputs:
  - {name: cidr, value: 10.0.0.0/16}
  - {name: secret, value: hunter2, sensitive: true}
  - {name: was_plain, value: abc}
  - {name: dropped, value: secret-too, sensitive: true}
  - {name: map, value: {a: 1}}
hooks:
  - {task: apply, phase: before, script: one}
limits: {timeout: 60s}
`).Snapshot()
	changes, err := plan(t, before, `kind: Module
stack: prod
namespace: net
name: m
description: new
source: {type: inline, files: {main.tf: changed}}
inputs:
  - {name: map, value: {a: 2}}
  - {name: was_plain, value: now hidden, sensitive: true}
  - {name: secret, value: hunter3, sensitive: true}
  - {name: cidr, kind: parameter, value: 10.0.0.0/16}
  - {name: EMPTY, kind: env, value: ""}
hooks:
  - {task: apply, phase: before, script: one, shell: bash}
limits: {timeout: 1m, recovery_window: 0s}
trigger_on_upstream_output_changed: true
`)
	if err != nil {
		t.Fatal(details(err))
	}
	if len(changes) != 1 || changes[0].Action != catalog.Update {
		t.Fatalf("%+v", changes)
	}
	var got []string
	for _, f := range changes[0].Fields {
		got = append(got, fmt.Sprintf("%s: %s -> %s", f.Path, f.Old, f.New))
	}
	want := []string{
		"description: old -> new",
		"inputs[dropped].name: dropped -> ",
		"inputs[dropped].sensitive: true -> ",
		"inputs[dropped].value: *** -> ",
		"inputs[env:EMPTY].kind:  -> env",
		"inputs[env:EMPTY].name:  -> EMPTY",
		"inputs[env:EMPTY].value:  -> ",
		`inputs[map].value: {"a":1} -> {"a":2}`,
		"inputs[secret].value: *** -> ***",
		"inputs[was_plain].sensitive:  -> true",
		"inputs[was_plain].value: *** -> ***",
		"limits.recovery_window:  -> 0s",
		"source.files[gone.tf]: b -> ",
		"source.files[main.tf]: a -> changed",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestPlanTwiceChangesNothing(t *testing.T) {
	m := mustParse(t, small, sampleInSmall)
	changes, err := catalog.Plan(catalog.Snapshot{}, m)
	if err != nil {
		t.Fatal(details(err))
	}
	if changes.Count(catalog.Create) != m.Len() {
		t.Fatalf("%+v", changes)
	}
	now := stored(t, m.Snapshot())
	now.Modules[0].Inputs = slices.Clone(now.Modules[0].Inputs)
	slices.Reverse(now.Modules[0].Inputs)
	now.Modules[0].RunnerLabels = map[string]string{}
	now.Modules[0].Hooks[0].Shell = "bash"
	again, err := catalog.Plan(now, m)
	if err != nil || again.Count(catalog.Unchanged) != m.Len() {
		t.Fatalf("%v %+v", err, again)
	}
}

const sampleInSmall = `kind: Module
stack: prod
namespace: net
name: vpc
source: {type: git, url: "ssh://git@example.com:22/x.git"}
inputs:
  - {name: big, value: 123456789012345678901234567890}
  - {name: map, value: {z: [1, 2.50], a: "<&>"}}
  - {name: nul, value: null}
hooks:
  - {task: apply, phase: before, script: echo}
`

func TestPlanNamesWhatIsWrongBetweenDocuments(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no stack":        {"kind: Namespace\nstack: prd\nname: x\n", `a.yaml:2: stack: there is no Stack "prd"; did you mean "prod"?`},
		"no namespace":    {strings.ReplaceAll(module("x"), "namespace: net", "namespace: nett"), `a.yaml:3: namespace: there is no Namespace "prod/nett"; did you mean "prod/net"?`},
		"no module":       {module("x", "bse"), `a.yaml:7: inputs[0].module: there is no Module "prod/net/bse"; did you mean "prod/net/base"?`},
		"no runner":       {module("x") + "runner: egde\n", `a.yaml:6: runner: there is no Runner "egde"; did you mean "edge"?`},
		"no scope":        {"kind: Assignment\nrunner: edge\nscope: prod/nowhere/at-all\n", `a.yaml:3: scope: there is no Module "prod/nowhere/at-all"`},
		"to itself":       {module("x", "x"), `a.yaml:7: inputs[0].module: the Modules take outputs of one another in a circle: prod/net/x -> prod/net/x`},
		"circle":          {module("x", "y") + module("y", "base", "z") + module("z", "net/x"), `a.yaml:7: inputs[0].module: the Modules take outputs of one another in a circle: prod/net/x -> prod/net/y -> prod/net/z -> prod/net/x`},
		"circle with old": {module("base", "prod/net/top"), `a.yaml:7: inputs[0].module: the Modules take outputs of one another in a circle: prod/net/base -> prod/net/top -> prod/net/base`},
		"circle by default": {"kind: Namespace\nstack: prod\nname: net\ndefaults:\n  engine: opentofu\n  inputs:\n  - {name: t, from: output, module: top, output: o}\n",
			`a.yaml:7: defaults.inputs[0].module: the Modules take outputs of one another in a circle: prod/net/base -> prod/net/top -> prod/net/base`},
		"engine taken away": {"kind: Namespace\nstack: prod\nname: net\n", "a.yaml:1: defaults.engine: Module prod/net/base has no engine: say opentofu, terraform, pulumi or script there or in the defaults of its Namespace\na.yaml:1: defaults.engine: Module prod/net/top has no engine: say opentofu, terraform, pulumi or script there or in the defaults of its Namespace"},
		"engine of others":  {"kind: Module\nstack: prod\nnamespace: net\nname: x\nscript: {run: echo}\n", "a.yaml:1: source: Module prod/net/x: is missing: opentofu needs code\na.yaml:5: script: Module prod/net/x: is for engine script alone, and the engine is opentofu"},
	} {
		t.Run(name, func(t *testing.T) {
			current := mustParse(t, small+module("base")+module("top", "base")).Snapshot()
			_, err := plan(t, current, strings.TrimPrefix(c.text, "---\n"))
			f := fault.Of(err)
			if f == nil || f.Code != "manifest_invalid" || details(err) != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", details(err), c.want)
			}
		})
	}
}

func TestPlanLeavesOldProblemsAlone(t *testing.T) {
	current := mustParse(t, small+module("orphan", "gone")).Snapshot()
	current.Runners = nil
	changes, err := plan(t, current, "kind: Stack\nname: prod\ndescription: new\n")
	if err != nil || changes.Count(catalog.Update) != 1 {
		t.Fatalf("%v %+v", err, changes)
	}
}

func TestPlanChecksSpecsThatCameWithoutAFile(t *testing.T) {
	s := catalog.Snapshot{Stacks: []catalog.StackSpec{{Name: "A/B"}, {Name: "ok"}, {Name: "ok"}}}
	_, err := catalog.Plan(catalog.Snapshot{}, s.Manifest())
	if f := fault.Of(err); f == nil || len(f.Details) != 2 {
		t.Fatalf("%s", details(err))
	}
	var m catalog.ModuleSpec
	if f := fault.Of(m.Validate()); f.Code != "module_invalid" || len(f.Details) != 3 {
		t.Fatalf("%+v", f)
	}
}

// TestProblemsOfEveryKindAreNamedTogether mixes what is wrong with documents by themselves and with what they say
// of one another, and expects nothing that follows from another problem alone.
func TestProblemsOfEveryKindAreNamedTogether(t *testing.T) {
	const script = "script: {run: 'true'}"
	text := small + "---\n" +
		"{kind: Module, stack: prod, namespace: net, name: a, engine: script, " + script + ", inputs: [{name: x, from: output, module: b, output: o}]}\n---\n" +
		"{kind: Module, stack: prod, namespace: net, name: b, engine: script, " + script + ", inputs: [{name: x, from: output, module: a, output: o}]}\n---\n" +
		"{kind: Module, stack: prod, namespace: net, name: c, engine: script, " + script + ", inputs: [{name: x, from: output, module: other/net/a, output: o}]}\n---\n" +
		"{kind: Namespace, stack: nowhere, name: net}\n---\n" +
		"{kind: Module, stack: prod, namespace: net, name: d, engine: 5, " + script + ", runner: nobody}\n"
	m, err := parse(t, text)
	if fault.Code(err) != "manifest_invalid" {
		t.Fatal(err)
	}
	alone := len(fault.Of(err).Details)
	_, err = catalog.Plan(catalog.Snapshot{}, m)
	got := details(err)
	for _, want := range []string{"in a circle", "other/net/a", "there is no Stack \"nowhere\"", "wants a text", "there is no Runner \"nobody\""} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is named %d times", want, strings.Count(got, want))
		}
	}
	if n := len(fault.Of(err).Details); alone != 2 || n != 5 {
		t.Errorf("%d problems by themselves, %d together:\n%s", alone, n, got)
	}
}

// TestUnreadDocumentsAreNotMissed has no reference reported that a document may meet which could not be read.
func TestUnreadDocumentsAreNotMissed(t *testing.T) {
	for name, broken := range map[string]string{
		"kind":   "{kind: Stak, name: prod}",
		"yaml":   "kind: Stack\nname: [prod",
		"shape":  "{kind: Stack, name: {prod: 1}}",
		"a list": "[1, 2]",
	} {
		m, err := parse(t, broken+"\n---\n{kind: Namespace, stack: prod, name: net, defaults: {engine: script}}\n---\n"+
			"{kind: Module, stack: prod, namespace: net, name: a, script: {run: 'true'}}\n")
		before := details(err)
		if _, err = catalog.Plan(catalog.Snapshot{}, m); details(err) != before || before == "" {
			t.Errorf("%s: got\n%s\nwant\n%s", name, details(err), before)
		}
	}
}
