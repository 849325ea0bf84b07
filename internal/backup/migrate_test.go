package backup

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

func openDatabase(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func update(t *testing.T, s *store.Store, fn func(tx *store.Tx) error) {
	t.Helper()
	if err := s.Update(context.WithoutCancel(t.Context()), fn); err != nil {
		t.Fatal(err)
	}
}

func holdReason(t *testing.T, s *store.Store) (reason string) {
	t.Helper()
	err := s.View(t.Context(), func(tx *store.Tx) error {
		i, err := tx.Installation()
		if i.Hold != nil {
			reason = i.Hold.Reason
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return reason
}

// newSource returns a PostgreSQL database with an installation and an organization.
func newSource(t *testing.T) (url string, s *store.Store) {
	t.Helper()
	url = storetest.Postgres(t)
	s = openDatabase(t, url)
	update(t, s, func(tx *store.Tx) error {
		if _, err := tx.CreateOrganization("default"); err != nil {
			return err
		}
		return tx.PutInstallation(store.Installation{ID: "installation"})
	})
	return url, s
}

func TestMigrateHoldsTheSourceBeforeItCopies(t *testing.T) {
	from, source := newSource(t)
	to := filepath.Join(t.TempDir(), "legwork.db")
	during := ""
	err := Migrate(t.Context(), Migration{From: from, To: to, Told: func(string, int64) { during = holdReason(t, source) }})
	if err != nil {
		t.Fatal(err)
	}
	if during == "" {
		t.Error("while rows are copied: got no hold, want the source on hold")
	}
	if got := holdReason(t, source); got != holdMigrated {
		t.Errorf("hold of the source: got %q, want %q", got, holdMigrated)
	}
	target := openDatabase(t, to)
	if got := holdReason(t, target); got != "" {
		t.Errorf("hold of the target: got %q, want none", got)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	err = Migrate(t.Context(), Migration{From: from, To: to, Told: func(string, int64) {}})
	if fault.Code(err) != "database_not_empty" || strings.Contains(fault.Of(err).Hint, "--replace") {
		t.Errorf("migrating again: got %v, want database_not_empty without a hint at --replace", err)
	}
}

func TestMigrateRefusesASourceThatIsUsedMeanwhile(t *testing.T) {
	for want, use := range map[string]func(tx *store.Tx) error{
		"database_changed": func(tx *store.Tx) error {
			return tx.AppendEvent(store.Event{OrganizationID: "o", Kind: "k", Subject: "s", Data: []byte("{}")})
		},
		"database_in_use": func(tx *store.Tx) error { return tx.BeatServer("another", time.Now().Add(time.Hour)) },
	} {
		t.Run(want, func(t *testing.T) {
			from, source := newSource(t)
			used := false
			err := Migrate(t.Context(), Migration{From: from, To: filepath.Join(t.TempDir(), "legwork.db"), Told: func(string, int64) {
				if !used {
					update(t, source, use)
				}
				used = true
			}})
			if fault.Code(err) != want {
				t.Errorf("got %v, want %s", err, want)
			}
			if got := holdReason(t, source); got != "" {
				t.Errorf("hold of the source after the failure: got %q, want none", got)
			}
		})
	}
}

func TestMigrateKeepsTheHoldOfTheSource(t *testing.T) {
	from, source := newSource(t)
	update(t, source, func(tx *store.Tx) error {
		return tx.PutInstallation(store.Installation{ID: "installation", Hold: &store.Hold{Reason: "restored", Since: tx.Now()}})
	})
	to := filepath.Join(t.TempDir(), "legwork.db")
	if err := Migrate(t.Context(), Migration{From: from, To: to, Told: func(string, int64) {}}); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*store.Store{"source": source, "target": openDatabase(t, to)} {
		if got := holdReason(t, s); got != "restored" {
			t.Errorf("hold of the %s: got %q, want restored", name, got)
		}
	}
}

// TestMigrateContinuesAfterBlobs checks that a migration whose blobs could not be copied is continued by the next call.
func TestMigrateContinuesAfterBlobs(t *testing.T) {
	from, source := newSource(t)
	to := filepath.Join(t.TempDir(), "legwork.db")
	broken := errors.New("the disk is full")
	copies := 0
	m := Migration{From: from, To: to, Told: func(string, int64) {}, Blobs: func(context.Context) error {
		if copies++; copies == 1 {
			return broken
		}
		return nil
	}}
	if err := Migrate(t.Context(), m); !errors.Is(err, broken) {
		t.Fatalf("the blobs fail: got %v, want %v", err, broken)
	}
	if got := holdReason(t, source); got != "" {
		t.Errorf("hold of the source after the failure: got %q, want none", got)
	}
	if err := Migrate(t.Context(), m); err != nil || copies != 2 {
		t.Fatalf("migrating again: got %v after %d copies of the blobs, want none after 2", err, copies)
	}
	if got := holdReason(t, openDatabase(t, to)); got != "" {
		t.Errorf("hold of the target: got %q, want none", got)
	}
}
