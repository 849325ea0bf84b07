package control

import (
	"encoding/json"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/control/secrets"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// TestSecretsInManifests: a manifest declares references and what is said of values; the export holds no value, and applying it keeps those stored.
func TestSecretsInManifests(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.declare(s.owner(), secretText+"---\n{kind: Runner, name: edge}\n")
	s.keep(s.owner(), "token@prod/net/a", "kept-4711")
	s.declare(s.owner(), `{kind: Secret, name: ref, scope: prod/net, reference: "${env:A}"}
---
{kind: Secret, name: token, scope: prod/net/a, description: of the registry}
`)
	value := func() string {
		t.Helper()
		text := ""
		s.must(s.store.View(t.Context(), func(tx *store.Tx) error {
			m, err := tx.Module(s.org, "prod/net/a")
			s.must(err)
			values, err := s.c.safe.For(tx, s.org, secrets.OfModule(m), []string{"token"})
			s.must(err)
			return json.Unmarshal(values[0].Value, &text)
		}))
		return text
	}
	if value() != "kept-4711" {
		t.Error("what is said of a value changed it")
	}
	exported, err := s.c.ExportManifest(t.Context(), s.owner(), true)
	s.must(err)
	if text := string(exported); strings.Contains(text, "kept-4711") || !strings.Contains(text, "reference: ${env:A}") || !strings.Contains(text, "description: of the registry") {
		t.Errorf("export:\n%s", text)
	}
	m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: exported}})
	s.must(err)
	for _, dry := range []bool{true, false} {
		changes, err := s.c.ApplyManifest(t.Context(), s.owner(), m, dry)
		if err != nil || changes.Count(catalog.Unchanged) != len(changes) || value() != "kept-4711" {
			t.Errorf("applying the export: %v %+v", err, changes)
		}
	}
	m, err = catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: []byte("{kind: Secret, name: other, scope: prod}")}})
	s.must(err)
	if _, err := s.c.ApplyManifest(t.Context(), s.owner(), m, false); fault.Code(err) != "manifest_invalid" {
		t.Errorf("a value that is not there: %v", err)
	}
	operator := s.owner()
	operator.Role = catalog.RoleOperator
	m, err = catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: []byte(`{kind: Secret, name: ref, scope: prod/net, reference: "${env:B}"}`)}})
	s.must(err)
	if _, err := s.c.ApplyManifest(t.Context(), operator, m, false); !fault.Is(err, fault.Forbidden) {
		t.Errorf("an operator declares a Secret: %v", err)
	}
}
