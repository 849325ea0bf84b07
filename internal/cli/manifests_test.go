package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/api/apitest"
)

// TestAllProblemsOfAManifestAtOnce has the Server add what is wrong between the documents to what is wrong in them.
func TestAllProblemsOfAManifestAtOnce(t *testing.T) {
	w := apitest.Start(t)
	s := shellFor(w)
	s.in = "{kind: Stack, name: prod}\n---\n{kind: Namespace, stack: nowhere, name: net}\n---\n{kind: Runner, name: 5}\n"
	r := s.run("manifest", "apply", "-")
	if r.status != 2 || !strings.Contains(r.err, "2 problems") || !strings.Contains(r.err, "nowhere") || !strings.Contains(r.err, "wants a text") {
		t.Errorf("%+v", r)
	}
	if r := s.ok("stack", "list", "-o", "json"); r.out != "[]\n" {
		t.Errorf("something was applied: %s", r.out)
	}
	s.env["LEGWORK_SERVER"] = "http://127.0.0.1:1"
	if r := s.run("manifest", "apply", "-"); r.status != 2 || !strings.Contains(r.err, "wants a text") {
		t.Errorf("without a Server: %+v", r)
	}
}

func TestManifestThatDeclaresNothing(t *testing.T) {
	s := shellFor(apitest.Start(t))
	dir := t.TempDir()
	file := filepath.Join(dir, "empty.yaml")
	if err := os.WriteFile(file, []byte("# nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, dir, t.TempDir(), "-"} {
		for _, verb := range []string{"apply", "diff"} {
			r := s.run("manifest", verb, path)
			if r.status != 2 || !strings.Contains(r.err, path+": nothing is declared there") || !strings.Contains(r.err, "Hint: ") {
				t.Errorf("%s %s: %+v", verb, path, r)
			}
		}
	}
}

// TestExportAsJSON applies what it exported, which changes nothing.
func TestExportAsJSON(t *testing.T) {
	s := shellFor(apitest.Start(t))
	s.in = twoModules + `
---
{kind: Runner, name: edge}
---
{kind: Module, stack: prod, namespace: net, name: c, script: {run: 'true'}, inputs: [{name: n, value: 12345678901234567890}, {name: f, value: 1.0}], limits: {timeout: 90s}}
`
	s.ok("manifest", "apply", "-")
	text := s.ok("manifest", "export", "-o", "json").out
	var documents []map[string]any
	if err := json.Unmarshal([]byte(text), &documents); err != nil || len(documents) != 6 || documents[0]["kind"] != "Stack" {
		t.Fatalf("%v in\n%s", err, text)
	}
	if !strings.Contains(text, "12345678901234567890") {
		t.Error("a large number was changed")
	}
	s.in = text
	if r := s.ok("manifest", "apply", "-"); !strings.Contains(r.out, "0 created, 0 updated, 6 unchanged") {
		t.Error(r.out)
	}
	if r := s.run("manifest", "export", "-o", "table"); r.status != 2 || !strings.Contains(r.err, "want yaml or json") {
		t.Errorf("%+v", r)
	}
}

func TestCompletion(t *testing.T) {
	_, s := world(t)
	for args, want := range map[string]string{
		"output ": "prod/net/a", "stack delete ": "prod", "namespace delete ": "prod/net", "assignment create edge ": "prod/net",
		"assignment create ": "edge", "module list --stack ": "prod", "module plan ": "prod/net/b",
	} {
		fields := append([]string{"__complete"}, strings.Split(args, " ")...)
		if r := s.run(fields...); r.status != 0 || !strings.Contains(r.out, want+"\n") {
			t.Errorf("%s: %+v", args, r)
		}
	}
	if r := s.run("__complete", "output", "prod/net/a", ""); r.status != 0 || strings.Contains(r.out, "prod/net") {
		t.Errorf("%+v", r)
	}
}

// TestEveryErrorHasAHint makes errors that carry none of their own.
func TestEveryErrorHasAHint(t *testing.T) {
	_, s := world(t)
	s.ok("module", "run", "prod/net/a")
	for _, args := range []string{"stack delete js", "namespace delete a/b", "job cancel 1", "job list --limit -1", "server --set x"} {
		if r := s.run(strings.Fields(args)...); r.status == 0 || !strings.Contains(r.err, "\nHint: ") {
			t.Errorf("%s: %+v", args, r)
		}
	}
	if root := s.ok("help"); !strings.Contains(root.out, "130 interrupted") {
		t.Error(root.out)
	}
	if r := s.ok("runner", "create", "--help"); !strings.Contains(r.out, "--write-config file") {
		t.Error(r.out)
	}
}
