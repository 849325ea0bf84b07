package catalog_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

func TestTooLargeIsRefusedUnread(t *testing.T) {
	_, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "ok.yaml"}, {Name: "huge.yaml", Data: make([]byte, 50<<20)}})
	f := fault.Of(err)
	if f == nil || f.Kind != fault.TooLarge || f.Code != "manifest_too_large" || f.Details[0].File != "huge.yaml" {
		t.Fatalf("%+v", f)
	}
	var files []catalog.ManifestFile
	for i := range 5 {
		files = append(files, catalog.ManifestFile{Name: fmt.Sprint(i), Data: bytes.Repeat([]byte("#"), catalog.MaxManifestFile)})
	}
	if _, err := catalog.ParseManifest(files); fault.Code(err) != "manifest_too_large" {
		t.Fatalf("20 MiB in five files: %v", err)
	}
}

func TestTooManyDocuments(t *testing.T) {
	var b strings.Builder
	for i := range catalog.MaxDocuments + 5 {
		fmt.Fprintf(&b, "---\nkind: Stack\nname: s%d\n", i)
	}
	_, err := parse(t, b.String())
	if !strings.Contains(details(err), "one document more than") || len(fault.Of(err).Details) != 1 {
		t.Fatalf("%s", details(err))
	}
}

// hostile are small files that ask for much.
var hostile = map[string]string{
	"anchors that expand": "kind: Module\nx: &a [1,1,1,1,1,1,1,1,1,1]\n" + func() string {
		s := ""
		for c := 'b'; c < 'm'; c++ {
			s += fmt.Sprintf("x%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
		}
		return s + "stack: s\nnamespace: n\nname: m\ninputs: [{name: x, value: *l}]\n"
	}(),
	"long text, many times": "kind: Module\nx: &a " + strings.Repeat("y", 1<<20) + "\nsource: {type: inline, files: {" + func() string {
		s := ""
		for i := range 900 {
			s += fmt.Sprintf("f%d: *a, ", i)
		}
		return s
	}() + "}}\n",
	"an anchor that holds itself": "kind: Module\ninputs: &a [{name: x, value: *a}]\n",
	"merges that expand": "kind: Stack\n" + func() string {
		s := "a0: &a0 {k: 1}\n"
		for i := 1; i < 30; i++ {
			s += fmt.Sprintf("a%d: &a%d {<<: [*a%d, *a%d, *a%d]}\n", i, i, i-1, i-1, i-1)
		}
		return s + "<<: *a29\n"
	}(),
	"deep lists":         "kind: Stack\nname: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000),
	"deep dashes":        "kind: Stack\nname:\n  " + strings.Repeat("- ", 5_000) + "x\n",
	"deep JSON":          strings.Repeat(`{"a":`, 200_000),
	"unclosed":           "kind: " + strings.Repeat("[", 100_000),
	"many keys":          "kind: Stack\n" + func() string { return strings.Repeat("abcd: 1\n", 100_000) }(),
	"many unknown":       "kind: Stack\n" + func() string { return strings.Join(numbered(100_000), "") }(),
	"long keys":          "kind: Stack\nname: &" + strings.Repeat("n", 900) + " x\n? " + strings.Repeat("k", 100_000) + "\n: 1\n",
	"long anchor":        "kind: Stack\nname: *" + strings.Repeat("n", 100_000) + "\n",
	"long label":         "kind: Runner\nname: r\nlabels: {? " + strings.Repeat("-", 100_000) + "x : 1}\n",
	"many bad documents": strings.Repeat("---\n{\n", 20_000),
}

func numbered(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("k%d: 1\n", i)
	}
	return lines
}

func TestHostileFilesAreRefusedCheaply(t *testing.T) {
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, text)
			f := fault.Of(err)
			if f == nil || f.Kind != fault.Invalid || len(f.Details) > 1_001 {
				t.Fatalf("%v", err)
			}
			for _, p := range f.Details {
				if p.File == "" || len(p.Message) > 1_000 || len(p.Field) > 300 {
					t.Fatalf("%+v", p)
				}
			}
		})
	}
}

func TestJSONIsReadAsWell(t *testing.T) {
	text := "{\"kind\": \"Stack\",\n\t\"name\": \"prod\", \"description\": \"\\ud83d\\ude00 \\/\"}\n" +
		`{"kind": "Module", "stack": "prod", "namespace": "n", "name": "m", "source": {"type": "git", "url": "https://h/x"},` + "\n" +
		`  "inputs": [{"name": "x", "value": {"b": 1.50, "a": "0755", "n": null}}]}`
	for _, name := range []string{"m.json", "m.yaml", "-"} {
		m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: name, Data: []byte(text)}})
		if err != nil {
			t.Fatalf("%s: %s", name, details(err))
		}
		if m.Stacks[0].Spec.Description != "😀 /" || m.Modules[0].Line != 3 || m.Modules[0].At("inputs[0].value").Line != 4 {
			t.Errorf("%s: %+v", name, m)
		}
		if got := string(m.Modules[0].Spec.Inputs[0].Value); got != `{"a":"0755","b":1.50,"n":null}` {
			t.Errorf("%s: %s", name, got)
		}
	}
	list, err := json.Marshal([]map[string]string{{"kind": "Stack", "name": "a"}, {"kind": "Stack", "name": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "x.JSON", Data: list}}); err != nil || len(m.Stacks) != 2 {
		t.Errorf("a list of documents: %v", err)
	}
	for text, want := range map[string]string{
		"{\"kind\": \"Stack\",\n \"name\": oops}":                     "m.json:2: is not JSON: invalid character 'o' looking for beginning of value",
		"{\"kind\": \"Stack\",\n \"name\": \"a\"\n":                   "m.json:3: is not JSON: unexpected EOF",
		"{\"kind\": \"Stack\",\n \"name\": \"a\",\n \"name\": \"b\"}": "m.json:3: name: is there twice",
		"kind: Stack\nname: a\n":                                      "m.json:1: is not JSON: invalid character 'k' looking for beginning of value",
	} {
		_, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.json", Data: []byte(text)}})
		if details(err) != want {
			t.Errorf("%q: %s, want %s", text, details(err), want)
		}
	}
}

func TestYAMLIsReadAsAPersonMeansIt(t *testing.T) {
	m := mustParse(t, "\ufeff%YAML 1.2\n---\n# a comment\n---\nkind: Stack\r\nname: a\r\n...\n---\n"+
		"kind: Namespace\nstack: a\nname: n\ndefaults:\n  inputs:\n  - &common {name: x, value: 1}\n  - {<<: *common, name: y}\n"+
		"  - <<: [{value: 2, sensitive: true}, *common]\n    name: z\n--- {kind: Stack, name: c}\n---\n")
	if len(m.Stacks) != 2 || m.Stacks[0].Line != 5 || m.Stacks[1].Line != 18 {
		t.Fatalf("%+v", m.Stacks)
	}
	in := m.Namespaces[0].Spec.Defaults.Inputs
	if string(in[1].Value) != "1" || in[1].Name != "y" || string(in[2].Value) != "2" || !in[2].Sensitive || in[2].Name != "z" {
		t.Fatalf("merged: %+v", in)
	}
	for text, want := range map[string]string{
		"kind: Stack\nname: a\xff\n":                        "a.yaml:2: is not UTF-8 text",
		"kind: Stack\n\tname: a\n":                          "a.yaml:2: is not YAML: found a tab character that violates indentation",
		"kind: Stack\nname: a\n name: b\n":                  "a.yaml:3: is not YAML: mapping values are not allowed in this context",
		"kind: Stack\nname: a\nname: b\n":                   "a.yaml:3: name: is there twice",
		"kind: Stack\nname:\n":                              "a.yaml:2: name: is missing",
		"kind: Stack\nname: Prod\n":                         `a.yaml:2: name: "Prod" has upper case; did you mean "prod"? a name has 1 to 63 of a-z, 0-9, - _ . and begins and ends with a letter or digit`,
		"kind: stack\nname: a\n":                            `a.yaml:1: kind: "stack" is not known here: Stack, Namespace, CloudIdentity, Runner, Module, Assignment, Node, NodeSource, Runbook or Secret; did you mean "Stack"?`,
		"kind: Runner\nname: a\nmaxParallelJobs: 3\n":       `a.yaml:3: maxParallelJobs: is not a key that is known here; did you mean "max_parallel_jobs"?`,
		"kind: Runner\nname: a\nis_disabled: yes\n":         `a.yaml:3: is_disabled: wants true or false, found the text "yes"`,
		"kind: Runner\nname: a\nmax_parallel_jobs: 1.5\n":   `a.yaml:3: max_parallel_jobs: "1.5" is not a whole number that fits`,
		"kind: Runner\nname: a\nmax_parallel_jobs: -1\n":    "a.yaml:3: max_parallel_jobs: wants 0 (as each Instance says) to 10000",
		"kind: Assignment\nrunner: a\nscope: a/b/c/d\n":     `a.yaml:3: scope: wants "stack", "stack/namespace" or "stack/namespace/module", found 4 parts`,
		"kind: Namespace\nstack: a\nname: n\ndefaults: 3":   "a.yaml:4: defaults: wants keys with values, found the number 3",
		"kind: Namespace\nstack: a\nname: n\ndefaults: ~":   "",
		"kind: Stack\nname: a\n---\nkind: Stack\nname: a\n": `a.yaml:4: name: Stack "a" is declared already in a.yaml:1`,
		"# nothing\n": "",
	} {
		_, err := parse(t, text)
		if details(err) != want {
			t.Errorf("%q:\n%s\nwant\n%s", text, details(err), want)
		}
	}
}

func TestSources(t *testing.T) {
	source := func(s catalog.Source) string {
		return details(catalog.ModuleSpec{Stack: "s", Namespace: "n", Name: "m", Source: s}.Validate())
	}
	for _, url := range []string{
		"https://example.com/infra.git", "https://example.com:8443/a/b", "https://org@dev.azure.com/org/_git/x", "https://[::1]:3000/x",
		"ssh://git@example.com/x.git", "ssh://git@example.com:22/~/x.git", "file:///srv/git/x.git", "file://localhost/srv/x",
		"git@example.com:org/infra.git", "git@example.com:~/x", "https://example.com/with%20blank.git",
	} {
		if problems := source(catalog.Source{Type: catalog.Git, URL: url}); problems != "" {
			t.Errorf("%s: %s", url, problems)
		}
	}
	for url, want := range map[string]string{
		"": "missing", "--upload-pack=touch x": "option", "-x": "option", "http://example.com/x": "not allowed", "ext::sh -c x": "space",
		"ext://sh": "not allowed", "https://u:p@example.com/x": "password", "https://ghp_abc@example.com/x": "password", "https://:p@h/x": "password",
		"ssh://git:pw@h/x": "password", "ssh://-oProxyCommand=x/y": "host", "ssh://u@-h/y": "host", "-u@h:x": "option", "u@-h:x": "wants",
		"git@h:-x": "wants", "git@h:": "wants", "https:///x": "host", "https://h": "path", "https://h/": "path", "file://x": "whole path",
		"file://host/x": "whole path", "file:relative": "wants", "/srv/git/x": "wants", "../x": "wants", "https://h/x?ref=main": "revision",
		"https://h/x#main": "revision", "https://h/x\n": "character", "https://h/\x00": "character", "https://h:99999999/x": "host", `C:\x`: "character",
		"https://" + strings.Repeat("a", 3000) + "/x": "more than", "git::https://h/x": "not allowed",
	} {
		if got := source(catalog.Source{Type: catalog.Git, URL: url}); !strings.Contains(got, "source.url: ") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", url, got, want)
		}
	}
	for _, rev := range []string{"-x", "a b", "a..b", "x~1", "x^", "a:b", "@{1}", "a\x00", "x/", strings.Repeat("a", 300)} {
		if source(catalog.Source{Type: catalog.Git, URL: "https://h/x", Revision: rev}) == "" {
			t.Errorf("takes revision %q", rev)
		}
	}
	for _, path := range []string{"/etc", "../x", "a/../b", "a/..", "./a", "a//b", `a\b`, "C:/x", ".git", "a/.GIT/hooks", "a\x00b", "a\nb", "-a", strings.Repeat("a", 300), "\xff", "/"} {
		if source(catalog.Source{Type: catalog.Git, URL: "https://h/x", Subdirectory: path}) == "" {
			t.Errorf("takes subdirectory %q", path)
		}
		if source(catalog.Source{Type: catalog.Inline, Files: map[string]string{path: ""}}) == "" {
			t.Errorf("takes file %q", path)
		}
	}
	for want, s := range map[string]catalog.Source{
		"source.type: is missing":                  {URL: "https://h/x"},
		`source.type: "hg" is not known`:           {Type: "hg"},
		"source.files: is missing":                 {Type: catalog.Inline},
		"source.files: is for an inline":           {Type: catalog.Git, URL: "https://h/x", Files: map[string]string{"a": ""}},
		"source.url: is for a git":                 {Type: catalog.Inline, URL: "https://h/x", Files: map[string]string{"a": ""}},
		"source.revision: is for a git":            {Type: catalog.Inline, Revision: "x", Files: map[string]string{"a": ""}},
		`source.files[a]: is a file, but "a/b.tf"`: {Type: catalog.Inline, Files: map[string]string{"a": "", "a/b.tf": ""}},
		"source.files[a/]: ends with a slash":      {Type: catalog.Inline, Files: map[string]string{"a/": ""}},
		"source.files[big]: has 1048577 bytes":     {Type: catalog.Inline, Files: map[string]string{"big": strings.Repeat("x", 1<<20+1)}},
	} {
		if got := source(s); !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

func TestRules(t *testing.T) {
	valid := func(change func(*catalog.ModuleSpec)) string {
		m := catalog.ModuleSpec{Stack: "s", Namespace: "n", Name: "m"}
		change(&m)
		return details(m.Validate())
	}
	in := func(i catalog.Input) func(*catalog.ModuleSpec) {
		return func(m *catalog.ModuleSpec) { m.Inputs = []catalog.Input{i} }
	}
	script := func(s *catalog.ScriptSpec, source catalog.Source) func(*catalog.ModuleSpec) {
		return func(m *catalog.ModuleSpec) { m.Engine, m.Script, m.Source = catalog.Script, s, source }
	}
	git := catalog.Source{Type: catalog.Git, URL: "https://h/x"}
	for want, change := range map[string]func(*catalog.ModuleSpec){
		"script: is missing":               script(nil, git),
		"script: wants run":                script(&catalog.ScriptSpec{}, git),
		"script.file: cannot stand beside": script(&catalog.ScriptSpec{Run: "x", File: "y"}, git),
		"script.file: has ..":              script(&catalog.ScriptSpec{File: "../y"}, git),
		"source: is missing: script.file":  script(&catalog.ScriptSpec{File: "y"}, catalog.Source{}),
		`script.shell: "zsh" is not known`: script(&catalog.ScriptSpec{Run: "x", Shell: "zsh"}, git),
		"script: is for engine script": func(m *catalog.ModuleSpec) {
			m.Engine, m.Script, m.Source = catalog.OpenTofu, &catalog.ScriptSpec{Run: "x"}, git
		},
		"source: is missing: opentofu":             func(m *catalog.ModuleSpec) { m.Engine = catalog.OpenTofu },
		"runner_labels: cannot stand":              func(m *catalog.ModuleSpec) { m.Runner, m.RunnerLabels = "r", map[string]string{"a": "b"} },
		"runner_labels[-a]: a label's name":        func(m *catalog.ModuleSpec) { m.RunnerLabels = map[string]string{"-a": "b"} },
		"runner_instance_name: wants":              func(m *catalog.ModuleSpec) { m.RunnerInstanceName = "a\nb" },
		"limits.timeout: wants a duration":         func(m *catalog.ModuleSpec) { m.Limits.Timeout = -1 },
		"limits.max_attempts: wants":               func(m *catalog.ModuleSpec) { m.Limits.MaxAttempts = 101 },
		"name: \"a/b\" has a slash":                func(m *catalog.ModuleSpec) { m.Name = "a/b" },
		"name: has 64 letters":                     func(m *catalog.ModuleSpec) { m.Name = strings.Repeat("a", 64) },
		`name: ".." is not a name`:                 func(m *catalog.ModuleSpec) { m.Name = ".." },
		"inputs[0].name: is missing":               in(catalog.Input{Value: raw("1")}),
		"inputs[0].value: is missing":              in(catalog.Input{Name: "x"}),
		"inputs[0].value: is not JSON":             in(catalog.Input{Name: "x", Value: raw("{")}),
		"inputs[0].value: has 131072 bytes":        in(catalog.Input{Name: "x", Value: raw(`"` + strings.Repeat("a", 128<<10) + `"`)}),
		`inputs[0].name: "a b" is not`:             in(catalog.Input{Name: "a b", Value: raw("1")}),
		`inputs[0].name: "A-B" is not`:             in(catalog.Input{Name: "A-B", Kind: catalog.Env, Value: raw("1")}),
		`inputs[0].name: "LEGWORK_STEP" is kept`:   in(catalog.Input{Name: "LEGWORK_STEP", Kind: catalog.Env, Value: raw("1")}),
		`inputs[0].kind: "environment" is not`:     in(catalog.Input{Name: "x", Kind: "environment", Value: raw("1")}),
		`inputs[0].from: "value" is not`:           in(catalog.Input{Name: "x", From: "value", Value: raw("1")}),
		"inputs[0].module: is for":                 in(catalog.Input{Name: "x", Value: raw("1"), Module: "m"}),
		"inputs[0].module: is missing":             in(catalog.Input{Name: "x", From: catalog.FromOutput, Output: "o"}),
		"inputs[0].output: is missing":             in(catalog.Input{Name: "x", From: catalog.FromOutput, Module: "m"}),
		"inputs[0].value: cannot stand":            in(catalog.Input{Name: "x", From: catalog.FromOutput, Module: "m", Output: "o", Value: raw("1")}),
		`inputs[0].module: "a/b/c/d" wants`:        in(catalog.Input{Name: "x", From: catalog.FromOutput, Module: "a/b/c/d", Output: "o"}),
		"inputs[0].value: is missing: module_name": in(catalog.Input{Name: "x", From: catalog.FromDefinition, Value: raw("3")}),
		"extra_files[0].file_name: a file's name":  func(m *catalog.ModuleSpec) { m.ExtraFiles = []catalog.ExtraFile{{}} },
		"inputs: has 1001 inputs":                  func(m *catalog.ModuleSpec) { m.Inputs = make([]catalog.Input, 1001) },
	} {
		if got := valid(change); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	both := func(m *catalog.ModuleSpec) {
		m.Inputs = []catalog.Input{{Name: "x", Value: raw("1")}, {Name: "x", Kind: catalog.Env, Value: raw("null ")}}
	}
	if got := valid(both); got != "" {
		t.Errorf("a parameter and an environment variable of one name: %s", got)
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add("a.yaml", []byte(sample))
	f.Add("a.yaml", []byte(everything))
	f.Add("a.json", []byte(`{"kind": "Stack", "name": "prod"}`))
	f.Add("a.yaml", []byte("kind: Stack\nname: &a [*a]\n---\n<<: *x\n"))
	f.Add("a.yaml", []byte("? [a]\n: b\n--- !!set\n...\n%TAG ! x\n"))
	f.Add("a.yaml", []byte("kind: Module\ninputs:\n- {name: x, value: {<<: [{a: 1}, {b: 0x1F}], c: .5}}\n"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if name == "" {
			name = "a.yaml"
		}
		m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: name, Data: data}})
		if err != nil {
			for _, p := range fault.Of(err).Details {
				if p.File != name || p.Line < 0 || p.Message == "" {
					t.Fatalf("%+v", p)
				}
			}
			if len(fault.Of(err).Details) == 0 {
				t.Fatalf("%v without a problem", err)
			}
			return
		}
		want := m.Snapshot().Sorted()
		text, err := catalog.Export(want)
		if err != nil {
			t.Fatal(err)
		}
		again, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "export.yaml", Data: text}})
		if err != nil {
			t.Fatalf("%s\n%s", details(err), text)
		}
		twice, err := catalog.Export(again.Snapshot())
		if err != nil || !bytes.Equal(text, twice) {
			t.Fatalf("%v\n%s\n%s", err, text, twice)
		}
		changes, err := catalog.Plan(want, m)
		if err != nil && fault.Code(err) != "manifest_invalid" {
			t.Fatal(err)
		}
		if changes.Count(catalog.Unchanged) != len(changes) {
			t.Fatalf("planning what is there changes it: %+v", changes)
		}
	})
}
