package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/access"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

func identity(name, secret string) catalog.CloudIdentitySpec {
	return catalog.CloudIdentitySpec{Name: name, Provider: "aws", Region: "eu-central-1", AccessKeyID: "AKIAIOSFODNN7EXAMPLE", SecretAccessKey: secret}
}

// keysOf gives what a launcher of a Runner with the identity gets, as text.
func (s *server) keysOf(org, name string) (text string, err error) {
	err = s.store.View(s.t.Context(), func(tx *store.Tx) error {
		spec, keys, err := s.c.identityFor(tx, org, &catalog.Hosting{CloudIdentity: name})
		if err != nil {
			return err
		}
		text = spec.Region + spec.SecretAccessKey
		for _, k := range keys {
			text += fmt.Sprintf(" %s %s=%s %v %v", k.Kind, k.Name, k.Value, k.Sensitive, k.Reference)
		}
		return nil
	})
	return text, err
}

// TestTheSecretOfACloudIdentityIsShownToNobody has two Organizations with an identity of one name.
func TestTheSecretOfACloudIdentityIsShownToNobody(t *testing.T) {
	file := filepath.Join(t.TempDir(), "legwork.db")
	s := newWorldOn(t, file).serve(Limits{})
	for _, actor := range []catalog.Actor{s.owner(), s.stranger()} {
		made, err := s.c.PutCloudIdentity(t.Context(), actor, identity("cloud", "hunter2-of-"+actor.Name))
		s.must(err)
		if made.SecretAccessKey != "" || made.ID == "" {
			t.Errorf("made: %+v", made)
		}
	}
	for _, actor := range []catalog.Actor{s.owner(), s.stranger()} {
		got, err := s.keysOf(actor.OrganizationID, "cloud")
		want := `eu-central-1 env AWS_ACCESS_KEY_ID="AKIAIOSFODNN7EXAMPLE" true false env AWS_SECRET_ACCESS_KEY="hunter2-of-` + actor.Name + `" true false env AWS_SESSION_TOKEN="" false false`
		if err != nil || got != want {
			t.Errorf("%s %v\nwant\n%s", got, err, want)
		}
	}
	all, err := s.c.CloudIdentities(t.Context(), s.as(catalog.RoleViewer))
	s.must(err)
	export, err := s.c.ExportManifest(t.Context(), s.owner(), true)
	s.must(err)
	events, err := s.c.Audit(t.Context(), s.owner(), AuditFilter{Action: "cloud_identity"})
	s.must(err)
	text, _ := json.Marshal([]any{all, string(export), events})
	if len(all) != 1 || len(events) != 1 || events[0].Action != "cloud_identity.set" || bytes.Contains(text, []byte("hunter2")) {
		t.Errorf("shown: %s", text)
	}
	files, _ := filepath.Glob(file + "*")
	for _, name := range files {
		if data, err := os.ReadFile(name); err != nil || bytes.Contains(data, []byte("hunter2")) {
			t.Errorf("the secret lies in %s (%v)", filepath.Base(name), err)
		}
	}
	if len(files) == 0 {
		t.Error("there is no database to look at")
	}
	s.must(s.c.DeleteCloudIdentity(t.Context(), s.stranger(), "cloud"))
	if err := s.c.DeleteCloudIdentity(t.Context(), s.stranger(), all[0].ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("another Organization deletes it: %v", err)
	}
	if _, err := s.keysOf(s.other, "cloud"); fault.Code(err) != "cloud_identity_missing" {
		t.Errorf("one that was deleted: %v", err)
	}
}

func TestWhoMaySetCloudIdentities(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	_, err := s.c.PutCloudIdentity(t.Context(), s.owner(), identity("cloud", "hunter2"))
	s.must(err)
	for _, role := range []catalog.Role{catalog.RoleOperator, catalog.RoleViewer, catalog.RoleRunner} {
		if _, err := s.c.PutCloudIdentity(t.Context(), s.as(role), identity("cloud", "other")); !fault.Is(err, fault.Forbidden) {
			t.Errorf("a %s sets it: %v", role, err)
		}
		if err := s.c.DeleteCloudIdentity(t.Context(), s.as(role), "cloud"); !fault.Is(err, fault.Forbidden) {
			t.Errorf("a %s deletes it: %v", role, err)
		}
	}
	if _, err := s.c.CloudIdentities(t.Context(), s.as(catalog.RoleRunner)); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a Runner lists them: %v", err)
	}
}

// TestTheSecretOfACloudIdentityStays until another one is given, or the key is another one.
func TestTheSecretOfACloudIdentityStays(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	put := func(spec catalog.CloudIdentitySpec) error {
		return errorOf(s.c.PutCloudIdentity(t.Context(), s.owner(), spec))
	}
	if err := put(identity("cloud", "")); fault.Code(err) != "cloud_identity_secret" {
		t.Errorf("a key without a secret: %v", err)
	}
	s.must(put(identity("cloud", "hunter2")))
	is := func(want string) {
		t.Helper()
		got, err := s.keysOf(s.org, "cloud")
		s.must(err)
		if !strings.Contains(got+" ", want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	s.must(put(identity("cloud", "")))
	is(`SECRET_ACCESS_KEY="hunter2" true false`)
	other := identity("cloud", "")
	other.AccessKeyID = "AKIAOTHER00000000000"
	if err := put(other); fault.Code(err) != "cloud_identity_secret" {
		t.Errorf("the secret of another key: %v", err)
	}
	s.must(put(identity("cloud", "${file:/run/key}")))
	is(`SECRET_ACCESS_KEY="${file:/run/key}" true true`)
	s.must(put(identity("cloud", "")))
	is(`SECRET_ACCESS_KEY="${file:/run/key}" true true`)
	s.must(s.store.View(t.Context(), func(tx *store.Tx) error {
		i, err := tx.CloudIdentity(s.org, "cloud")
		s.must(err)
		if sealed, err := tx.SealedCloudIdentity(s.org, i.ID); err != nil || sealed != nil {
			t.Errorf("sealed beside a reference: %q %v", sealed, err)
		}
		return nil
	}))
	s.must(put(catalog.CloudIdentitySpec{Name: "cloud", Provider: "aws", RoleARN: "arn:aws:iam::123456789012:role/x"}))
	if got, err := s.keysOf(s.org, "cloud"); err != nil || got != "" {
		t.Errorf("an identity without keys: %q %v", got, err)
	}
}

func TestCloudIdentitiesInManifests(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	_, err := s.c.PutCloudIdentity(t.Context(), s.owner(), identity("cloud", "hunter2"))
	s.must(err)
	const hosted = `
{kind: CloudIdentity, name: referred, provider: aws, access_key_id: AKIAIOSFODNN7EXAMPLE, secret_access_key: "${env:KEY}"}
---
{kind: CloudIdentity, name: cloud, provider: aws, access_key_id: AKIAIOSFODNN7EXAMPLE, description: kept}
---
{kind: Runner, name: fleet, hosting: {launcher: ecs, region: eu-central-1, cloud_identity: cloud}}
`
	s.declare(s.owner(), hosted)
	if got, err := s.keysOf(s.org, "cloud"); err != nil || !strings.Contains(got, "hunter2") {
		t.Errorf("what is said of an identity changed its secret: %s %v", got, err)
	}
	exported, err := s.c.ExportManifest(t.Context(), s.owner(), false)
	s.must(err)
	m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: exported}})
	s.must(err)
	changes, err := s.c.ApplyManifest(t.Context(), s.owner(), m, false)
	if err != nil || changes.Count(catalog.Unchanged) != len(changes) || len(changes) != 3 || !strings.Contains(string(exported), "${env:KEY}") {
		t.Errorf("applying the export: %v %+v\n%s", err, changes, exported)
	}
	if err := s.c.DeleteCloudIdentity(t.Context(), s.owner(), "cloud"); fault.Code(err) != "cloud_identity_used" || !strings.HasSuffix(err.Error(), "fleet") {
		t.Errorf("one that a Runner names is deleted: %v", err)
	}
	for text, want := range map[string]string{
		`{kind: CloudIdentity, name: a, provider: aws, access_key_id: AKIAIOSFODNN7EXAMPLE, secret_access_key: hunter2}`: "does not belong into a manifest",
		`{kind: CloudIdentity, name: a, provider: aws, access_key_id: AKIAIOSFODNN7EXAMPLE}`:                             "is missing, and none is kept",
		`{kind: CloudIdentity, name: cloud, provider: aws, access_key_id: AKIAOTHER00000000000}`:                         "is missing, and none is kept",
		`{kind: CloudIdentity, name: a, provider: azure}`:                                                                `"azure" is not known here: aws`,
		`{kind: CloudIdentity, name: a, provider: aws, external_id: "abc"}`:                                              "belongs to a role",
		`{kind: CloudIdentity, name: a, provider: aws, endpoint: "ftp://x"}`:                                             "wants a URL",
		`{kind: CloudIdentity, name: a, provider: aws, secret_access_key: "${ftp:hunter2}"}`:                             "is no reference",
		`{kind: Runner, name: r, hosting: {launcher: ecs, region: eu-central-1, cloud_identity: clod}}`:                  `there is no CloudIdentity "clod"; did you mean "cloud"?`,
	} {
		m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: []byte(text)}})
		if err == nil {
			_, err = s.c.ApplyManifest(t.Context(), s.owner(), m, false)
		}
		said, _ := json.Marshal(fault.Of(err).Details)
		if plain := strings.ReplaceAll(string(said), `\"`, `"`); fault.Code(err) != "manifest_invalid" || !strings.Contains(plain, want) || strings.Contains(plain, "hunter2") {
			t.Errorf("%s: %v, want %s\n%s", text, err, want, said)
		}
	}
	runner := catalog.RunnerSpec{Name: "r", Hosting: &catalog.Hosting{Launcher: catalog.LaunchECS, Region: "eu-central-1", CloudIdentity: "clod"}}
	if _, err := s.c.CreateRunner(t.Context(), s.owner(), runner); fault.Code(err) != "cloud_identity_missing" {
		t.Errorf("a Runner of an unknown identity: %v", err)
	}
	operator, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: []byte(hosted)}})
	s.must(err)
	if _, err := s.c.ApplyManifest(t.Context(), s.as(catalog.RoleOperator), operator, false); !fault.Is(err, fault.Forbidden) {
		t.Errorf("an operator declares an identity: %v", err)
	}
}

func TestCloudIdentitiesAreSealedAnew(t *testing.T) {
	w := newWorld(t)
	path := t.TempDir() + "/key"
	keys, err := access.OpenSealer(t.Context(), w.store, access.MasterKeyFile{Path: path})
	w.must(err)
	s := &server{world: w, c: New(Config{Store: w.store, Bus: w.bus, Sealer: keys, Log: slog.New(slog.DiscardHandler)})}
	_, err = s.c.PutCloudIdentity(context.Background(), s.owner(), identity("cloud", "hunter2"))
	s.must(err)
	fresh, err := access.RotateData(t.Context(), w.store, access.MasterKeyFile{Path: path})
	s.must(err)
	if n, err := Reseal(t.Context(), w.store, fresh, nil); err != nil || n == 0 {
		t.Fatalf("sealed anew: %d %v", n, err)
	}
	s.c = New(Config{Store: w.store, Bus: w.bus, Sealer: fresh, Log: slog.New(slog.DiscardHandler)})
	s.must(w.store.View(t.Context(), func(tx *store.Tx) error {
		i, err := tx.CloudIdentity(s.org, "cloud")
		s.must(err)
		if sealed, err := tx.SealedCloudIdentity(s.org, i.ID); err != nil || fresh.Stale(sealed) {
			t.Errorf("it is under the key before (%v)", err)
		}
		return nil
	}))
	if got, err := s.keysOf(s.org, "cloud"); err != nil || !strings.Contains(got, "hunter2") {
		t.Errorf("%s %v", got, err)
	}
}
