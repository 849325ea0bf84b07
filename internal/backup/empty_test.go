package backup

import (
	"bytes"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"legwork/internal/blob"
	"legwork/internal/store"
	"legwork/internal/store/storetest"
)

// TestEmptyBytesStayEmpty copies rows with empty bytes and with none between all kinds of databases. A column that must
// not be NULL holds empty bytes in ordinary use: the tail of a log that was archived.
func TestEmptyBytesStayEmpty(t *testing.T) {
	for _, from := range []string{"sqlite", "pgx"} {
		for _, to := range []string{"sqlite", "pgx"} {
			t.Run(from+" to "+to, func(t *testing.T) {
				source := newDatabase(t, from)
				s := openDatabase(t, source)
				update(t, s, func(tx *store.Tx) error {
					if _, err := tx.CreateOrganization("default"); err != nil {
						return err
					}
					return tx.PutInstallation(store.Installation{ID: "installation"})
				})
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				raw := openRaw(t, from, source)
				for _, row := range []struct {
					name   string
					sealed []byte
				}{{"none", nil}, {"empty", []byte{}}} {
					_, err := raw.Exec(`INSERT INTO cloud_identities (id, org, name, doc, sealed, created_at, updated_at)
						SELECT $1, id, $1, '{}', $2, 1, 1 FROM organizations`, row.name, row.sealed)
					if err != nil {
						t.Fatal(err)
					}
				}
				if err := raw.Close(); err != nil {
					t.Fatal(err)
				}

				t.Run("backup and restore", func(t *testing.T) {
					blobs, err := blob.Open(t.Context(), t.TempDir())
					if err != nil {
						t.Fatal(err)
					}
					defer blobs.Close()
					var archive bytes.Buffer
					if _, _, err := Create(t.Context(), Source{Database: source, Blobs: blobs, Now: time.Now()}, &archive); err != nil {
						t.Fatal(err)
					}
					_, m, _, err := Verify(bytes.NewReader(archive.Bytes()), "")
					if err != nil {
						t.Fatal(err)
					}
					target := newDatabase(t, to)
					if err := Restore(t.Context(), &archive, m, Target{Database: target, Blobs: blobs, Hold: "restored"}); err != nil {
						t.Fatal(err)
					}
					checkEmptyBytes(t, openRaw(t, to, target))
				})
				t.Run("migrate", func(t *testing.T) {
					target := newDatabase(t, to)
					if err := Migrate(t.Context(), Migration{From: source, To: target, Told: func(string, int64) {}}); err != nil {
						t.Fatal(err)
					}
					checkEmptyBytes(t, openRaw(t, to, target))
				})
			})
		}
	}
}

// newDatabase returns the place of an empty database for a driver.
func newDatabase(t *testing.T, driver string) string {
	if driver == "pgx" {
		return storetest.Postgres(t)
	}
	return filepath.Join(t.TempDir(), "legwork.db")
}

func openRaw(t *testing.T, driver, url string) *sql.DB {
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// checkEmptyBytes reads what NULL and empty bytes have become.
func checkEmptyBytes(t *testing.T, db *sql.DB) {
	t.Helper()
	for name, want := range map[string]int{"none": 1, "empty": 0} {
		got := -1
		row := db.QueryRow("SELECT CASE WHEN sealed IS NULL THEN 1 ELSE 0 END FROM cloud_identities WHERE id = $1", name)
		if err := row.Scan(&got); err != nil || got != want {
			t.Errorf("row %s is NULL: got %d (%v), want %d", name, got, err, want)
		}
	}
}
