package store_test

import (
	"database/sql"
	"log/slog"
	"strings"
	"testing"

	"legwork/internal/store"
	"legwork/internal/store/storetest"
)

func postgresURL(t testing.TB) string { return storetest.Postgres(t) }

// onPostgres runs SQL beside the store.
func onPostgres(t *testing.T, url, query string) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(query); err != nil {
		t.Fatal(err)
	}
}

// TestPostgresOpenedAtOnce: several Servers start on an empty database.
func TestPostgresOpenedAtOnce(t *testing.T) {
	url := postgresURL(t)
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() {
			s, err := store.Open(t.Context(), url, slog.New(slog.DiscardHandler))
			if err == nil {
				err = s.Close()
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestPostgresRefuses(t *testing.T) {
	url := postgresURL(t)
	openAt(t, url)
	onPostgres(t, url, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)")
	refused(t, url, "database_newer")
	if f := refused(t, strings.Replace(url, "legwork_", "missing_", 1), "database_missing"); !strings.Contains(f.Message, "missing_") || f.Hint == "" {
		t.Errorf("a database that is not there: %s (%s)", f.Message, f.Hint)
	}
	if f := refused(t, strings.Replace(url, "://", "://stranger-", 1), "database_login"); !strings.Contains(f.Message, "stranger-") || f.Hint == "" {
		t.Errorf("a user that is not let in: %s (%s)", f.Message, f.Hint)
	}
	if f := refused(t, "postgres://u:hunter2@127.0.0.1:1/x", "database_unreachable"); strings.Contains(f.Message+f.Hint, "hunter2") || !strings.Contains(f.Message, "127.0.0.1:1") {
		t.Errorf("nobody listens: %s (%s)", f.Message, f.Hint)
	}
	if f := refused(t, "postgres://u:hunter2@host:port/x", "database_url"); strings.Contains(f.Message+f.Hint, "hunter2") {
		t.Errorf("the password is shown: %s, %s", f.Message, f.Hint)
	}
}

// TestPostgresRestored: events of a database that was moved to a PostgreSQL with lower transaction numbers keep their order.
func TestPostgresRestored(t *testing.T) {
	url := postgresURL(t)
	const high = int64(1) << 45
	openAt(t, url)
	onPostgres(t, url, "INSERT INTO events (id, org, at, kind, subject, data) VALUES (1::bigint << 45, 'o', 1, 'old', '', '')")
	s := openAt(t, url)
	for _, kind := range []string{"new", "newer"} {
		err := s.Update(t.Context(), func(tx *store.Tx) error { return tx.AppendEvent(store.Event{OrganizationID: "o", Kind: kind}) })
		if err != nil {
			t.Fatal(err)
		}
	}
	openAt(t, url) // once more changes nothing
	err := s.View(t.Context(), func(tx *store.Tx) error {
		all, err := tx.EventsAfter("o", high-1, 0)
		if len(all) != 3 || all[0].Kind != "old" || all[1].Kind != "new" || all[2].Kind != "newer" || all[1].ID > high+1<<40 {
			t.Errorf("got %+v", all)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPostgresHoldsEventsBack: what an open transaction may still put before it is not shown.
func TestPostgresHoldsEventsBack(t *testing.T) {
	s := openAt(t, postgresURL(t))
	add := func(tx *store.Tx, kind string) error {
		return tx.AppendEvent(store.Event{OrganizationID: "o", Kind: kind})
	}
	seen := func() (kinds string) {
		err := s.View(t.Context(), func(tx *store.Tx) error {
			all, err := tx.EventsAfter("o", 0, 0)
			for _, e := range all {
				kinds += e.Kind + " "
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return kinds
	}
	err := s.Update(t.Context(), func(tx *store.Tx) error {
		if err := add(tx, "early"); err != nil {
			return err
		}
		if err := s.Update(t.Context(), func(tx *store.Tx) error { return add(tx, "late") }); err != nil {
			return err
		}
		if got := seen(); got != "" {
			t.Errorf("seen too early: %s", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := seen(); got != "early late " {
		t.Errorf("seen: %s", got)
	}
}
