package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"legwork/internal/access"
	"legwork/internal/catalog"
	"legwork/internal/control/secrets"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

const secretModules = `
{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: net, defaults: {engine: opentofu, runner: edge, inputs: [{name: shared, from: secret, value: wide}]}}
---
{kind: Module, stack: prod, namespace: net, name: a, source: {type: inline, files: {main.tf: "#"}},
 inputs: [{name: password, from: secret, value: narrow}, {name: TOKEN, kind: env, from: secret, value: there}]}
`

// keep sets a Secret whose value is text, or a reference when text is one.
func (s *server) keep(actor catalog.Actor, path, text string) catalog.Secret {
	s.t.Helper()
	name, scope, _ := strings.Cut(path, "@")
	change := SecretChange{SecretSpec: catalog.SecretSpec{Name: name, Scope: scope, Kind: catalog.SecretValue}, Value: &text}
	if strings.HasPrefix(text, "${") {
		change.Kind, change.Reference, change.Value = catalog.SecretReference, text, nil
	}
	kept, err := s.c.SetSecret(context.Background(), actor, change)
	s.must(err)
	return kept
}

// given resolves the Inputs of a Module as a claim does.
func (s *server) given(org, path string) (values []work.InputValue, err error) {
	err = s.store.View(context.Background(), func(tx *store.Tx) error {
		m, err := tx.Module(org, path)
		if err != nil {
			return err
		}
		sub, err := s.c.draft(tx, m, work.Plan, "test", "")
		if err != nil {
			return err
		}
		m.ModuleSpec = sub.snapshot.Module
		values, err = s.c.resolve(tx, m)
		return err
	})
	return values, err
}

func TestTheNarrowestSecretIsTaken(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	for _, actor := range []catalog.Actor{s.owner(), s.stranger()} {
		s.declare(actor, secretModules+"---\n{kind: Runner, name: edge, is_assigned_to_all_modules: true}\n")
		s.keep(actor, "wide@prod", actor.Name+" wide")
		s.keep(actor, "wide@prod/net", actor.Name+" of the namespace")
		s.keep(actor, "narrow@prod", "hidden by a narrower one")
		s.keep(actor, "narrow@prod/net/a", actor.Name+" narrow")
		s.keep(actor, "there@prod", "${env:TOKEN}")
	}
	for _, actor := range []catalog.Actor{s.owner(), s.stranger()} {
		values, err := s.given(actor.OrganizationID, "prod/net/a")
		s.must(err)
		got := ""
		for _, v := range values {
			got += fmt.Sprintf("%s %s %s %v %v;", v.Kind, v.Name, v.Value, v.Sensitive, v.Reference)
		}
		want := fmt.Sprintf(`parameter shared "%[1]s of the namespace" true false;parameter password "%[1]s narrow" true false;env TOKEN "${env:TOKEN}" true true;`, actor.Name)
		if got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	s.must(s.c.DeleteSecret(context.Background(), s.owner(), "wide@prod/net"))
	values, err := s.given(s.org, "prod/net/a")
	s.must(err)
	if string(values[0].Value) != `"ann wide"` {
		t.Errorf("without the narrower one: %s", values[0].Value)
	}
}

func TestMissingSecretsAreNamedAllAtOnce(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.declare(s.owner(), secretModules+"---\n{kind: Runner, name: edge, is_assigned_to_all_modules: true}\n")
	s.keep(s.owner(), "wide@prod", "x")
	_, err := s.c.Submit(context.Background(), s.owner(), SubmitRequest{Module: "prod/net/a", Action: work.Plan})
	f := fault.Of(err)
	if f.Code != "secret_missing" || !strings.HasSuffix(f.Message, ": narrow, there") || !strings.Contains(f.Hint, "legwork secret set narrow --scope prod < FILE; legwork secret set there") {
		t.Errorf("%v (%s)", err, f.Hint)
	}
}

func TestWhoMaySetAndSeeSecrets(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	s.declare(s.owner(), secretModules+"---\n{kind: Runner, name: edge}\n")
	kept := s.keep(s.owner(), "token@prod/net", "hunter2")
	value := "other"
	for _, role := range []catalog.Role{catalog.RoleOperator, catalog.RoleViewer, catalog.RoleRunner} {
		change := SecretChange{SecretSpec: kept.SecretSpec, Value: &value}
		if _, err := s.c.SetSecret(ctx, s.as(role), change); !fault.Is(err, fault.Forbidden) {
			t.Errorf("a %s sets a Secret: %v", role, err)
		}
		if err := s.c.DeleteSecret(ctx, s.as(role), kept.ID); !fault.Is(err, fault.Forbidden) {
			t.Errorf("a %s deletes a Secret: %v", role, err)
		}
		if _, err := s.c.ListSecretPaths(ctx, s.as(role), SecretPlace{Runner: "edge", Stack: "prod", Where: "${env:A}"}); !fault.Is(err, fault.Forbidden) {
			t.Errorf("a %s lists paths: %v", role, err)
		}
	}
	if _, err := s.c.Secrets(ctx, s.as(catalog.RoleRunner), ""); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a Runner lists Secrets: %v", err)
	}
	for _, role := range []catalog.Role{catalog.RoleOwner, catalog.RoleViewer} {
		all, err := s.c.Secrets(ctx, s.as(role), "prod")
		s.must(err)
		one, err := s.c.Secret(ctx, s.as(role), "token@prod/net")
		s.must(err)
		text, _ := json.Marshal([]any{all, one})
		if len(all) != 1 || strings.Contains(string(text), "hunter2") || !strings.Contains(string(text), `"changed_by":"ann"`) {
			t.Errorf("a %s sees %s", role, text)
		}
	}
	for what, err := range map[string]error{
		"reads":   errorOf(s.c.Secret(ctx, s.stranger(), kept.ID)),
		"deletes": s.c.DeleteSecret(ctx, s.stranger(), kept.ID),
	} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("another Organization %s it: %v", what, err)
		}
	}
	events, err := s.c.Audit(ctx, s.owner(), AuditFilter{Action: "secret"})
	s.must(err)
	if len(events) != 1 || events[0].Action != "secret.set" || strings.Contains(string(events[0].Data), "hunter2") {
		t.Errorf("audit: %+v", events)
	}
}

func errorOf[T any](_ T, err error) error { return err }

func TestSecretsThatCannotBe(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.declare(s.owner(), secretModules+"---\n{kind: Runner, name: edge}\n")
	s.keep(s.owner(), "token@prod", "x")
	text := func(v string) *string { return &v }
	for name, c := range map[string]struct {
		change SecretChange
		code   string
	}{
		"no value":         {SecretChange{SecretSpec: catalog.SecretSpec{Name: "new", Scope: "prod", Kind: "value"}}, "secret_value"},
		"an empty value":   {SecretChange{SecretSpec: catalog.SecretSpec{Name: "new", Scope: "prod", Kind: "value"}, Value: text("")}, "secret_value"},
		"too much":         {SecretChange{SecretSpec: catalog.SecretSpec{Name: "new", Scope: "prod", Kind: "value"}, Value: text(strings.Repeat("x", catalog.MaxSecretBytes+1))}, "secret_value"},
		"a zero byte":      {SecretChange{SecretSpec: catalog.SecretSpec{Name: "new", Scope: "prod", Kind: "value"}, Value: text("a\x00b")}, "secret_value"},
		"both":             {SecretChange{SecretSpec: catalog.SecretSpec{Name: "new", Scope: "prod", Kind: "reference", Reference: "${env:A}"}, Value: text("x")}, "secret_invalid"},
		"no reference":     {SecretChange{SecretSpec: catalog.SecretSpec{Name: "new", Scope: "prod", Kind: "reference", Reference: "hunter2"}}, "secret_invalid"},
		"another scheme":   {SecretChange{SecretSpec: catalog.SecretSpec{Name: "new", Scope: "prod", Kind: "reference", Reference: "${ftp:x}"}}, "secret_invalid"},
		"no name":          {SecretChange{SecretSpec: catalog.SecretSpec{Scope: "prod", Kind: "reference", Reference: "${env:A}"}}, "secret_invalid"},
		"a wrong name":     {SecretChange{SecretSpec: catalog.SecretSpec{Name: "option:x", Scope: "prod", Kind: "reference", Reference: "${env:A}"}}, "secret_invalid"},
		"no such scope":    {SecretChange{SecretSpec: catalog.SecretSpec{Name: "new", Scope: "prod/dns", Kind: "reference", Reference: "${env:A}"}}, "scope_not_found"},
		"no such runbook":  {SecretChange{SecretSpec: catalog.SecretSpec{Name: "new", Scope: "runbook:prod/x", Kind: "reference", Reference: "${env:A}"}}, "scope_not_found"},
		"no scope":         {SecretChange{SecretSpec: catalog.SecretSpec{Name: "new", Scope: "a/b/c/d", Kind: "reference", Reference: "${env:A}"}}, "secret_invalid"},
		"reference, value": {SecretChange{SecretSpec: catalog.SecretSpec{Name: "token", Scope: "prod", Kind: "value", Reference: "${env:A}"}}, "secret_invalid"},
	} {
		if _, err := s.c.SetSecret(context.Background(), s.owner(), c.change); fault.Code(err) != c.code || strings.Contains(err.Error(), "hunter2") && name != "no reference" {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	// What is said of it changes without the value, and the value becomes a reference.
	spec := catalog.SecretSpec{Name: "token", Scope: "prod", Kind: "value", Description: "of the registry"}
	if _, err := s.c.SetSecret(context.Background(), s.owner(), SecretChange{SecretSpec: spec}); err != nil {
		t.Error(err)
	}
	kept := s.keep(s.owner(), "token@prod", "${vault:secret/data/a#b}")
	s.must(s.store.View(context.Background(), func(tx *store.Tx) error {
		sealed, err := tx.SealedSecret(s.org, kept.ID)
		if len(sealed) > 0 {
			t.Error("the value stays when it became a reference")
		}
		return err
	}))
}

// TestEverythingIsSealedAnew goes through what is sealed with real keys, breaks off in the middle, and goes on.
func TestEverythingIsSealedAnew(t *testing.T) {
	w := newWorld(t)
	path := t.TempDir() + "/key"
	keys, err := access.OpenSealer(t.Context(), w.store, access.MasterKeyFile{Path: path})
	w.must(err)
	s := &server{world: w, c: New(Config{Store: w.store, Bus: w.bus, Sealer: keys, Log: slog.New(slog.DiscardHandler)})}
	s.declare(s.owner(), secretText+"---\n{kind: Runner, name: edge, is_assigned_to_all_modules: true}\n")
	for i := range 120 {
		s.keep(s.owner(), fmt.Sprintf("s%03d@prod", i), "hunter2")
	}
	before := s.secretsOf("prod/net/a")
	var m catalog.Module
	s.must(w.store.Update(t.Context(), func(tx *store.Tx) (err error) {
		if m, err = tx.Module(s.org, "prod/net/a"); err != nil {
			return err
		}
		set, err := s.c.safe.SealOutputs(catalog.OutputSet{ModuleID: m.ID, JobID: "j", Values: map[string]catalog.OutputValue{"key": {Value: []byte(`"<&>"`), Sensitive: true}}})
		if err != nil {
			return err
		}
		return tx.PutOutputSet(s.org, &set)
	}))
	keyed, _, err := s.c.BeginKeyed(t.Context(), Sender{OrganizationID: s.org, ID: "ann"}, "k", []byte("f"))
	s.must(err)
	s.must(keyed.Finish(t.Context(), KeyedAnswer{Status: 201, Body: []byte("a token")}))
	fresh, err := access.RotateData(t.Context(), w.store, access.MasterKeyFile{Path: path})
	s.must(err)
	broken, cancel := context.WithCancel(t.Context())
	if _, err := Reseal(broken, w.store, fresh, func(values int) {
		if values > 50 {
			cancel()
		}
	}); err == nil {
		t.Fatal("it was not broken off")
	}
	left, err := Reseal(t.Context(), w.store, fresh, nil)
	s.must(err)
	if left == 0 || left > 80 {
		t.Errorf("%d values were left", left)
	}
	if again, err := Reseal(t.Context(), w.store, fresh, nil); err != nil || again != 0 {
		t.Errorf("sealed anew without need: %d %v", again, err)
	}
	_, answer, err := s.c.BeginKeyed(t.Context(), Sender{OrganizationID: s.org, ID: "ann"}, "k", []byte("f"))
	s.must(err)
	if answer == nil || string(answer.Body) != "a token" {
		t.Errorf("got the answer %+v, want a token", answer)
	}
	s.must(w.store.View(t.Context(), func(tx *store.Tx) error {
		record, _, err := tx.KeyedRequest(keyed.record.ID)
		s.must(err)
		var text []byte // sealed values are base64 in JSON
		s.must(json.Unmarshal(record.Answer, &text))
		if fresh.Stale(text) {
			t.Error("the answer to a request with an idempotency key is sealed with the old data key")
		}
		return nil
	}))
	for name, value := range s.secretsOf("prod/net/a") {
		if before[name] != value {
			t.Errorf("%s is now %s", name, value)
		}
	}
	s.must(w.store.View(t.Context(), func(tx *store.Tx) error {
		set, _, err := s.c.latestOutputs(tx, s.org, "prod/net/a")
		if !bytes.Equal(set.Values["key"].Value, []byte(`"<&>"`)) {
			t.Errorf("output: %s", set.Values["key"].Value)
		}
		for i := range 120 {
			name := fmt.Sprintf("s%03d", i)
			kept, err := tx.SecretsNamed(s.org, m.StackID, []string{name})
			s.must(err)
			sealed, _ := tx.SealedSecret(s.org, kept[0].ID)
			values, err := s.c.safe.For(tx, s.org, secrets.Place{StackID: m.StackID}, []string{name})
			if err != nil || string(values[0].Value) != `"hunter2"` || fresh.Stale(sealed) {
				t.Fatalf("secret %d: %v %v", i, values, err)
			}
		}
		return err
	}))
}
