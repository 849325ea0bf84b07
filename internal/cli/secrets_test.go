package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
)

// from runs a command line with a standard input.
func (s *shell) from(in string, args ...string) result {
	s.t.Helper()
	before := s.in
	s.in = in
	defer func() { s.in = before }()
	return s.run(args...)
}

const secretWorld = `
{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: net}
---
{kind: Module, stack: prod, namespace: net, name: a, engine: script, inputs: [{name: PASSWORD, kind: env, from: secret, value: token}], script: {run: 'true'}}
`

func TestSecretsOnTheCommandLine(t *testing.T) {
	w := apitest.Start(t)
	w.Apply(secretWorld)
	s := shellFor(w)
	const value = "hunter2-of-the-registry"
	if got := s.from(value+"\n", "secret", "set", "token", "--scope", "prod", "--description", "of the registry"); got.status != 0 || strings.Contains(got.out+got.err, value) {
		t.Fatalf("%d %s%s", got.status, got.out, got.err)
	}
	s.ok("secret", "set", "ref", "--scope", "prod/net", "--reference", "${vault:secret/data/app#token}")
	if got := s.ok("secret", "list").out; strings.Count(got, "\n") != 3 || !strings.Contains(got, "of the registry") || strings.Contains(got, value) {
		t.Error(got)
	}
	var secrets []catalog.Secret
	if err := json.Unmarshal([]byte(s.ok("secret", "list", "--stack", "prod", "-o", "json").out), &secrets); err != nil || len(secrets) != 2 || secrets[0].Kind != catalog.SecretValue {
		t.Errorf("%v %+v", err, secrets)
	}
	if got := s.ok("secret", "show", "token", "--scope", "prod").out; !strings.Contains(got, "used by") || !strings.Contains(got, "prod/net/a") || strings.Contains(got, value) {
		t.Error(got)
	}
	if got := s.ok("secret", "show", "ref", "--scope", "prod/net").out; !strings.Contains(got, "${vault:secret/data/app#token}") {
		t.Error(got)
	}
	s.ok("secret", "delete", "ref", "--scope", "prod/net", "--yes")
	for name, c := range map[string]struct {
		in     string
		args   []string
		status int
		says   string
	}{
		"deleted":            {"", []string{"secret", "show", "ref", "--scope", "prod/net"}, 4, "there is no Secret"},
		"deleted twice":      {"", []string{"secret", "delete", "ref", "--scope", "prod/net", "--yes"}, 4, "there is no Secret"},
		"no scope":           {"x", []string{"secret", "set", "token"}, 2, "scope"},
		"another scope":      {"x", []string{"secret", "set", "token", "--scope", "prod/dns"}, 4, "there is nothing at the scope prod/dns"},
		"an empty value":     {"", []string{"secret", "set", "token", "--scope", "prod"}, 2, "the value is empty"},
		"a value as well":    {"", []string{"secret", "set", "token", value, "--scope", "prod"}, 2, ""},
		"a zero byte":        {value + "\x00", []string{"secret", "set", "token", "--scope", "prod"}, 2, "zero byte"},
		"a broken reference": {"", []string{"secret", "set", "token", "--scope", "prod", "--reference", value}, 2, "wants ${SCHEME:...}"},
		"paths of a stack":   {"", []string{"secret", "paths", "edge"}, 2, "stack"},
		"paths of nobody":    {"", []string{"secret", "paths", "edge", "--stack", "prod"}, 4, "runner"},
		"paths of no place":  {"", []string{"secret", "paths", "edge", "somewhere", "--stack", "prod"}, 2, "${SCHEME:...}"},
	} {
		if got := s.from(c.in, c.args...); got.status != c.status || !strings.Contains(got.err, c.says) || strings.Contains(got.out+got.err, value) {
			t.Errorf("%s: %d %s%s", name, got.status, got.out, got.err)
		}
	}
}

// TestSecretsOfAManifestOnTheCommandLine declares a reference, sees what would change, and is refused a value.
func TestSecretsOfAManifestOnTheCommandLine(t *testing.T) {
	w := apitest.Start(t)
	w.Apply(secretWorld)
	s := shellFor(w)
	file := filepath.Join(t.TempDir(), "secrets.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{kind: Secret, name: token, scope: prod, reference: "${env:A}"}`)
	if got := s.ok("manifest", "apply", file).out; !strings.Contains(got, "Secret token@prod") || !strings.Contains(got, "1 created") {
		t.Error(got)
	}
	write(`{kind: Secret, name: token, scope: prod, reference: "${env:B}"}`)
	if got := s.ok("manifest", "diff", file).out; !strings.Contains(got, "${env:B}") || !strings.Contains(got, "1 to update") {
		t.Error(got)
	}
	write(`{kind: Secret, name: token, scope: prod, value: hunter2}`)
	if got := s.run("manifest", "apply", file); got.status != 2 || !strings.Contains(got.err, "does not belong into a manifest") || strings.Contains(got.out+got.err, "hunter2") {
		t.Errorf("%d %s%s", got.status, got.out, got.err)
	}
	if got := s.ok("manifest", "export").out; !strings.Contains(got, "kind: Secret\nname: token\nscope: prod\nreference: ${env:A}\n") {
		t.Error(got)
	}
	if got := s.ok("manifest", "export", "-o", "json").out; !strings.Contains(got, `"kind": "Secret"`) && !strings.Contains(got, `"kind":"Secret"`) {
		t.Error(got)
	}
}
