package control

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

const secretText = `
{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: net, defaults: {engine: opentofu, runner: edge, inputs: [{name: shared, value: hunter2, sensitive: true}]}}
---
{kind: Module, stack: prod, namespace: net, name: a, source: {type: inline, files: {main.tf: "#"}},
 inputs: [{name: password, value: hunter3, sensitive: true}, {name: other, value: hunter4, sensitive: true}]}
`

// as gives the owner with another role.
func (s *server) as(role catalog.Role) catalog.Actor {
	actor := s.owner()
	actor.Name, actor.Role = string(role), role
	return actor
}

func parsed(t *testing.T, text string) catalog.Manifest {
	t.Helper()
	m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// secretsOf gives what a Job of a Module would get, by name.
func (s *server) secretsOf(path string) map[string]string {
	s.t.Helper()
	values := map[string]string{}
	s.must(s.store.View(context.Background(), func(tx *store.Tx) error {
		m, err := tx.Module(s.org, path)
		if err != nil {
			return err
		}
		sub, err := s.c.draft(tx, m, work.Plan, "test", "")
		if err != nil {
			return err
		}
		inputs, err := s.c.safe.OpenInputs(m.ID, sub.snapshot.Module.Inputs)
		for _, in := range inputs {
			values[in.Name] = string(in.Value)
		}
		return err
	}))
	return values
}

// TestExportAndApplyKeepSecrets is the round trip of what anybody who reads may have: it must neither show a secret nor
// overwrite one.
func TestExportAndApplyKeepSecrets(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.runner(s.owner(), catalog.RunnerSpec{IsAssignedToAllModules: true})
	s.declare(s.owner(), secretText)
	before := s.secretsOf("prod/net/a")
	if before["shared"] != `"hunter2"` || before["password"] != `"hunter3"` || before["other"] != `"hunter4"` {
		t.Fatalf("resolved: %v", before)
	}
	was := ""
	for _, role := range []catalog.Role{catalog.RoleOwner, catalog.RoleOperator, catalog.RoleViewer} {
		text, err := s.c.ExportManifest(context.Background(), s.as(role), false)
		s.must(err)
		if strings.Contains(string(text), "hunter") {
			t.Fatalf("the export of a %s holds a secret:\n%s", role, text)
		}
		changes, err := s.c.ApplyManifest(context.Background(), s.owner(), parsed(t, string(text)), false)
		s.must(err)
		if n := changes.Count(catalog.Unchanged); n != len(changes) {
			t.Fatalf("applying the export of a %s changes something: %+v", role, changes)
		}
		other := strings.Replace(string(text), "description: "+was+"\n", "", 1)
		other = strings.Replace(other, "name: a\n", "name: a\ndescription: "+string(role)+"\n", 1)
		was = string(role)
		changes, err = s.c.ApplyManifest(context.Background(), s.owner(), parsed(t, other), false)
		s.must(err)
		if changes.Count(catalog.Update) != 1 {
			t.Fatalf("changes: %+v", changes)
		}
	}
	for name, value := range s.secretsOf("prod/net/a") {
		if before[name] != value {
			t.Errorf("%s is now %s", name, value)
		}
	}
	shown, err := s.c.Module(context.Background(), s.owner(), "prod/net/a")
	s.must(err)
	if text, _ := json.Marshal(shown); strings.Contains(string(text), "hunter") {
		t.Errorf("shown: %s", text)
	}
}

func TestSecretsAreExportedOnlyWhenAskedForAndNotWithoutATrace(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.declare(s.owner(), secretText+"---\n{kind: Runner, name: edge}\n")
	ctx := context.Background()
	last, err := s.c.LastEvent(ctx, s.owner())
	s.must(err)
	for _, role := range []catalog.Role{catalog.RoleOperator, catalog.RoleViewer} {
		if _, err := s.c.ExportManifest(ctx, s.as(role), true); !fault.Is(err, fault.Forbidden) {
			t.Errorf("a %s: %v", role, err)
		}
	}
	text, err := s.c.ExportManifest(ctx, s.owner(), true)
	s.must(err)
	for _, secret := range []string{"hunter2", "hunter3", "hunter4"} {
		if !strings.Contains(string(text), secret) {
			t.Errorf("%s is missing:\n%s", secret, text)
		}
	}
	var events []store.Event
	s.must(s.store.View(ctx, func(tx *store.Tx) (err error) {
		events, err = tx.EventsAfter(s.org, last, 10)
		return err
	}))
	if len(events) != 1 || events[0].Kind != "manifest.revealed" || !strings.Contains(string(events[0].Data), s.owner().Name) {
		t.Errorf("events: %+v", events)
	}
}

// TestDryRunIsNoOracle: a diff would tell whoever only reads whether a guessed secret is right.
func TestDryRunIsNoOracle(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.declare(s.owner(), secretText+"---\n{kind: Runner, name: edge}\n")
	for _, role := range []catalog.Role{catalog.RoleOperator, catalog.RoleViewer} {
		if _, err := s.c.ApplyManifest(context.Background(), s.as(role), parsed(t, secretText), true); !fault.Is(err, fault.Forbidden) {
			t.Errorf("a %s: %v", role, err)
		}
	}
}

func TestNothingToKeepIsRefused(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	m := parsed(t, strings.Replace(secretText, "value: hunter3, ", "", 1)+"---\n{kind: Runner, name: edge}\n")
	_, err := s.c.ApplyManifest(context.Background(), s.owner(), m, false)
	if fault.Code(err) != "manifest_invalid" || !strings.Contains(err.Error(), "no value of this sensitive input is stored") {
		t.Fatalf("%v", err)
	}
}

// TestSealedValuesCannotBeSwapped plays somebody who may write the database and puts one secret in the place of another.
func TestSealedValuesCannotBeSwapped(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.runner(s.owner(), catalog.RunnerSpec{IsAssignedToAllModules: true})
	s.declare(s.owner(), secretText+strings.ReplaceAll(secretText[strings.LastIndex(secretText, "---"):], "name: a,", "name: b,"))
	swap := func(change func(a, b *catalog.Module, n catalog.Namespace)) error {
		return s.store.Update(context.Background(), func(tx *store.Tx) error {
			a, err := tx.Module(s.org, "prod/net/a")
			s.must(err)
			b, err := tx.Module(s.org, "prod/net/b")
			s.must(err)
			n, err := tx.Namespace(s.org, "prod/net")
			s.must(err)
			change(&a, &b, n)
			_, err = s.c.draft(tx, a, work.Plan, "test", "")
			return err
		})
	}
	if err := swap(func(a, b *catalog.Module, n catalog.Namespace) {}); err != nil {
		t.Fatalf("untouched: %v", err)
	}
	for name, change := range map[string]func(a, b *catalog.Module, n catalog.Namespace){
		"of two Inputs":      func(a, _ *catalog.Module, _ catalog.Namespace) { a.Inputs[0].Value = a.Inputs[1].Value },
		"of two Modules":     func(a, b *catalog.Module, _ catalog.Namespace) { a.Inputs[0].Value = b.Inputs[0].Value },
		"with the Namespace": func(a, _ *catalog.Module, n catalog.Namespace) { a.Inputs[0].Value = n.Defaults.Inputs[0].Value },
	} {
		if err := swap(change); err == nil {
			t.Errorf("%s: it was opened", name)
		}
	}
}
