package backup

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/store/storetest"
)

// TestServerRefusesATargetWithoutAllTables opens a target whose migration was killed while its tables were created,
// and then continues the migration.
func TestServerRefusesATargetWithoutAllTables(t *testing.T) {
	for _, driver := range []string{"sqlite", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			to := newDatabase(t, driver)
			raw := openRaw(t, driver, to)
			begun := []string{"CREATE TABLE import_started (unused INTEGER PRIMARY KEY)"}
			if driver == "sqlite" {
				begun = append(begun, "PRAGMA application_id = 1279743819")
			}
			for _, statement := range begun {
				if _, err := raw.Exec(statement); err != nil {
					t.Fatal(err)
				}
			}
			if err := raw.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err := store.Open(t.Context(), to, slog.New(slog.DiscardHandler)); fault.Code(err) != "import_unfinished" {
				if err == nil {
					_ = s.Close()
				}
				t.Fatalf("a server on it: got %v, want import_unfinished", err)
			}
			from, _ := newSource(t)
			if err := Migrate(t.Context(), Migration{From: from, To: to, Told: func(string, int64) {}}); err != nil {
				t.Fatalf("the migration again: got %v, want it to continue", err)
			}
			openDatabase(t, to)
		})
	}
}

// TestMigrateNamesWhatIsWrongWithItsTarget mistypes the target.
func TestMigrateNamesWhatIsWrongWithItsTarget(t *testing.T) {
	from, _ := newArchivedLog(t)
	good := storetest.Postgres(t)
	path, _, _ := strings.Cut(good, "?")
	for to, want := range map[string]string{
		strings.Replace(good, filepath.Base(path), "no_such_database", 1): "database_missing",
		"sqlite:///tmp/x": "database_url",
	} {
		if err := Migrate(t.Context(), Migration{From: from, To: to, Told: func(string, int64) {}}); fault.Code(err) != want {
			t.Errorf("target %q: got %v, want %s", to, err, want)
		}
	}
}
