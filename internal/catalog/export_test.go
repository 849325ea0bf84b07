package catalog_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"legwork/internal/catalog"
)

// The generators make Specs that Validate takes, with texts that are hard to write down.

var words = rapid.StringMatching(`[a-z0-9]([a-z0-9._-]{0,6}[a-z0-9])?`)

var texts = rapid.OneOf(
	rapid.SampledFrom([]string{
		"", " ", "yes", "no", "null", "~", "true", "3", "0755", "+1", "1e3", ".inf", "2024-01-01", "<<", "a: b", "# no comment", "- a",
		"one\ntwo", "one\ntwo\n", "one\n\n\n", "\none", "  indented\nless", "tab\tinside\n\tindented", "end blank \nnext", "\r\n", "---\nnot a document\n...\n",
		"é ü 漢字 😀\nline", "\u2028", "\ufeff", "'quoted'", `"quoted"`, "{a: 1}", "*alias", "&anchor", "!tag", "%d", "@at", "`tick`", "<&>", "\u0085", "\x7f", "a\u00a0b\nc",
		"variable \"x\" {\n  type = string\n}\n", "#!/bin/bash\nset -e\n# a comment\necho hi # there\n", "# a comment first\n\nthen text\n", "a\n # deeper\nb",
	}),
	rapid.StringOf(rapid.RuneFrom([]rune(" \n\t:#-'\"{}[]&*!|>%@abc0.é"))),
	rapid.String().Filter(func(s string) bool { return !strings.ContainsRune(s, 0) }),
)

func anyJSON(t *rapid.T, depth int) any {
	kinds := 7
	if depth == 0 {
		kinds = 5
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "json") {
	case 0:
		return texts.Draw(t, "text")
	case 1:
		return json.Number(rapid.SampledFrom([]string{"0", "-1", "1.10", "12345678901234567890123", "1e5", "1E-7", "-0", "-0.0", "0.1"}).Draw(t, "number"))
	case 2:
		return rapid.Bool().Draw(t, "bool")
	case 3:
		return nil
	case 4:
		return json.Number(fmt.Sprint(rapid.Int64().Draw(t, "int")))
	case 5:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "len"))
		for i := range list {
			list[i] = anyJSON(t, depth-1)
		}
		return list
	}
	m := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "len") {
		m[texts.Draw(t, "key")] = anyJSON(t, depth-1)
	}
	return m
}

func drawInputs(t *rapid.T) []catalog.Input {
	var inputs []catalog.Input
	for i := range rapid.IntRange(0, 3).Draw(t, "inputs") {
		in := catalog.Input{Name: fmt.Sprintf("in_%d", i), Sensitive: rapid.Bool().Draw(t, "sensitive")}
		in.Kind = rapid.SampledFrom([]catalog.InputKind{"", catalog.Parameter, catalog.Env}).Draw(t, "kind")
		switch rapid.IntRange(0, 2).Draw(t, "from") {
		case 0:
			var v any = texts.Draw(t, "value")
			if in.Kind != catalog.Env {
				v = anyJSON(t, 3)
			}
			var b strings.Builder
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			_ = e.Encode(v)
			in.Value = json.RawMessage(strings.TrimSpace(b.String()))
		case 1:
			in.From, in.Value = catalog.FromDefinition, json.RawMessage(`"stack_id"`)
		case 2:
			in.From, in.Module, in.Output = catalog.FromOutput, "up/stream", "out"
		}
		inputs = append(inputs, in)
	}
	return inputs
}

func drawDefaults(t *rapid.T) catalog.Defaults {
	d := catalog.Defaults{
		Engine:             rapid.SampledFrom(append([]catalog.Engine{""}, catalog.Engines...)).Draw(t, "engine"),
		RunnerInstanceName: rapid.SampledFrom([]string{"", "host 1"}).Draw(t, "instance"),
		Inputs:             drawInputs(t),
		Approval:           rapid.SampledFrom(append([]catalog.Approval{""}, catalog.Approvals...)).Draw(t, "approval"),
	}
	if rapid.Bool().Draw(t, "by name") {
		d.Runner = words.Draw(t, "runner")
	} else {
		d.RunnerLabels = rapid.MapOfN(words, words, 0, 2).Draw(t, "labels")
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "files") {
		d.ExtraFiles = append(d.ExtraFiles, catalog.ExtraFile{FileName: fmt.Sprintf("f%d.tf", i), Contents: texts.Draw(t, "contents"), Overwrite: rapid.Bool().Draw(t, "overwrite")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "hooks") {
		d.Hooks = append(d.Hooks, catalog.Hook{
			Task: rapid.SampledFrom(catalog.HookTasks).Draw(t, "task"), Phase: rapid.SampledFrom([]catalog.HookPhase{catalog.Before, catalog.After}).Draw(t, "phase"),
			Script: "x" + texts.Draw(t, "script"), Shell: rapid.SampledFrom([]string{"", "bash", "sh"}).Draw(t, "shell"),
		})
	}
	seconds := rapid.Map(rapid.IntRange(0, 9999), func(s int) catalog.Duration { return catalog.Duration(time.Duration(s) * time.Second) })
	d.Limits = catalog.Limits{Timeout: seconds.Draw(t, "timeout"), MaxAttempts: rapid.IntRange(0, 9).Draw(t, "attempts")}
	if rapid.Bool().Draw(t, "recovery") {
		window := seconds.Draw(t, "window")
		d.Limits.RecoveryWindow = &window
	}
	return d
}

func drawModule(t *rapid.T) catalog.ModuleSpec {
	d := drawDefaults(t)
	m := catalog.ModuleSpec{
		Stack: words.Draw(t, "stack"), Namespace: words.Draw(t, "namespace"), Name: words.Draw(t, "module"), Description: texts.Draw(t, "description"),
		Engine: d.Engine, Runner: d.Runner, RunnerLabels: d.RunnerLabels, RunnerInstanceName: d.RunnerInstanceName,
		Inputs: d.Inputs, ExtraFiles: d.ExtraFiles, Hooks: d.Hooks, Approval: d.Approval, Limits: d.Limits,
	}
	if m.Engine == catalog.Script {
		m.Script = &catalog.ScriptSpec{Run: "x" + texts.Draw(t, "run"), Repeatable: rapid.Bool().Draw(t, "repeatable")}
	}
	if rapid.Bool().Draw(t, "git") {
		m.Source = catalog.Source{Type: catalog.Git, URL: "git@example.com:infra.git", Revision: rapid.SampledFrom([]string{"", "main", "1.10", "refs/heads/x", "0123456", "12e4567"}).Draw(t, "revision"), Subdirectory: "a/b"}
	} else {
		m.Source = catalog.Source{Type: catalog.Inline, Files: map[string]string{"main.tf": texts.Draw(t, "main"), "mod/x.tf": texts.Draw(t, "x")}}
	}
	if rapid.Bool().Draw(t, "trigger said") {
		trigger := rapid.Bool().Draw(t, "trigger")
		m.TriggerOnUpstreamOutputChanged = &trigger
	}
	return m
}

func drawSnapshot(t *rapid.T) catalog.Snapshot {
	var s catalog.Snapshot
	add := func(what string, f func()) {
		for range rapid.IntRange(0, 2).Draw(t, what) {
			f()
		}
	}
	add("stacks", func() {
		s.Stacks = append(s.Stacks, catalog.StackSpec{Name: words.Draw(t, "stack"), Description: texts.Draw(t, "description")})
	})
	add("namespaces", func() {
		s.Namespaces = append(s.Namespaces, catalog.NamespaceSpec{Stack: words.Draw(t, "stack"), Name: words.Draw(t, "namespace"), Defaults: drawDefaults(t)})
	})
	add("runners", func() {
		s.Runners = append(s.Runners, catalog.RunnerSpec{
			Name: words.Draw(t, "runner"), IsDisabled: rapid.Bool().Draw(t, "disabled"), Labels: rapid.MapOfN(words, words, 0, 2).Draw(t, "labels"),
			Selection: rapid.SampledFrom([]catalog.Selection{"", catalog.FirstResponse, catalog.Random}).Draw(t, "selection"), MaxParallelJobs: rapid.IntRange(0, 9).Draw(t, "jobs"),
			OS: rapid.SampledFrom([]catalog.OS{"", "linux", "windows"}).Draw(t, "os"), Lifetime: rapid.SampledFrom([]catalog.Lifetime{"", catalog.Persistent, catalog.Ephemeral}).Draw(t, "lifetime"),
			Webhook: rapid.SampledFrom([]string{"", "https://scaler.example.com/wake?pool=a"}).Draw(t, "webhook"),
		})
	})
	add("modules", func() { s.Modules = append(s.Modules, drawModule(t)) })
	add("assignments", func() {
		s.Assignments = append(s.Assignments, catalog.AssignmentSpec{Runner: words.Draw(t, "runner"), Scope: words.Draw(t, "stack") + "/" + words.Draw(t, "namespace")})
	})
	s = s.Sorted()
	s.Stacks, s.Namespaces, s.Runners = distinct(s.Stacks), distinct(s.Namespaces), distinct(s.Runners)
	s.Modules, s.Assignments = distinct(s.Modules), distinct(s.Assignments)
	return s
}

func distinct[T interface{ Path() string }](list []T) []T {
	return slices.CompactFunc(list, func(a, b T) bool { return a.Path() == b.Path() })
}

// normal makes empty maps nil, as writing and reading does.
func normal(s catalog.Snapshot) catalog.Snapshot {
	for i := range s.Namespaces {
		if len(s.Namespaces[i].Defaults.RunnerLabels) == 0 {
			s.Namespaces[i].Defaults.RunnerLabels = nil
		}
	}
	for i := range s.Modules {
		if len(s.Modules[i].RunnerLabels) == 0 {
			s.Modules[i].RunnerLabels = nil
		}
	}
	for i := range s.Runners {
		if len(s.Runners[i].Labels) == 0 {
			s.Runners[i].Labels = nil
		}
	}
	return s
}

func TestWhatIsExportedParsesToTheSame(t *testing.T) {
	schema := compileSchema(t)
	rapid.Check(t, func(t *rapid.T) {
		want := normal(drawSnapshot(t))
		text, err := catalog.Export(want)
		if err != nil {
			t.Fatal(err)
		}
		m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "export.yaml", Data: text}})
		if err != nil {
			t.Fatalf("%s\n%s", details(err), text)
		}
		if got := m.Snapshot(); !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v\n%s", got, want, text)
		}
		if again, _ := catalog.Export(want); string(again) != string(text) {
			t.Fatal("two exports differ")
		}
		for _, doc := range documents(t, text) {
			if err := schema.Validate(doc); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
		}
	})
}

func TestWhatIsExportedIsUnchangedWhenApplied(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := closed(drawSnapshot(t))
		text, err := catalog.Export(now)
		if err != nil {
			t.Fatal(err)
		}
		m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "export.yaml", Data: text}})
		if err != nil {
			t.Fatalf("%s\n%s", details(err), text)
		}
		changes, err := catalog.Plan(stored(t, now), m)
		if err != nil {
			t.Fatal(details(err))
		}
		if n := changes.Count(catalog.Unchanged); n != len(changes) || n != m.Len() {
			t.Fatalf("%+v", changes)
		}
	})
}

// closed adds what a Snapshot refers to.
func closed(s catalog.Snapshot) catalog.Snapshot {
	stacks, namespaces, runners := map[string]bool{}, map[string]bool{}, map[string]bool{}
	settings := func(d *catalog.Defaults) {
		d.Engine = catalog.OpenTofu
		runners[d.Runner] = true
		d.Inputs = slices.DeleteFunc(d.Inputs, func(in catalog.Input) bool { return in.From == catalog.FromOutput })
	}
	for i := range s.Modules {
		m := &s.Modules[i]
		d := catalog.Defaults{Runner: m.Runner, Inputs: m.Inputs}
		settings(&d)
		m.Inputs, m.Engine, m.Script = d.Inputs, catalog.OpenTofu, nil
		stacks[m.Stack], namespaces[m.Stack+"/"+m.Namespace] = true, true
	}
	for i := range s.Namespaces {
		settings(&s.Namespaces[i].Defaults)
		stacks[s.Namespaces[i].Stack] = true
	}
	for _, a := range s.Assignments {
		runners[a.Runner], namespaces[a.Scope] = true, true
		stacks[strings.Split(a.Scope, "/")[0]] = true
	}
	for path := range namespaces {
		stack, name, _ := strings.Cut(path, "/")
		s.Namespaces = append(s.Namespaces, catalog.NamespaceSpec{Stack: stack, Name: name})
	}
	for name := range stacks {
		s.Stacks = append(s.Stacks, catalog.StackSpec{Name: name})
	}
	delete(runners, "")
	for name := range runners {
		s.Runners = append(s.Runners, catalog.RunnerSpec{Name: name})
	}
	s = s.Sorted()
	s.Stacks, s.Namespaces, s.Runners = distinct(s.Stacks), distinct(s.Namespaces), distinct(s.Runners)
	return s
}

// stored gives a Snapshot as it comes out of a store that keeps it as JSON.
func stored(t rapid.TB, s catalog.Snapshot) catalog.Snapshot {
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var out catalog.Snapshot
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestExportUsesBlocks(t *testing.T) {
	text, err := catalog.Export(catalog.Snapshot{Modules: []catalog.ModuleSpec{{
		Stack: "s", Namespace: "net", Name: "m", Engine: catalog.OpenTofu,
		Source: catalog.Source{Type: catalog.Inline, Files: map[string]string{"main.tf": "output \"x\" {\n  value = 1\n}\n"}},
		Inputs: []catalog.Input{{Name: "zones", Value: json.RawMessage(`["a","on",3]`)}},
	}}, Stacks: []catalog.StackSpec{{Name: "z"}, {Name: "a", Description: "first"}}})
	want := `kind: Stack
name: a
description: first
---
kind: Stack
name: z
---
kind: Module
stack: s
namespace: net
name: m
engine: opentofu
source:
  type: inline
  files:
    main.tf: |
      output "x" {
        value = 1
      }
inputs:
  - name: zones
    value:
      - a
      - "on"
      - 3
`
	if err != nil || string(text) != want {
		t.Fatalf("%v\n%s", err, text)
	}
}
