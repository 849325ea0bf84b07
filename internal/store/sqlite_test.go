package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// refused opens a store that must not open, and gives the fault.
func refused(t *testing.T, url, code string) *fault.Fault {
	t.Helper()
	s, err := store.Open(t.Context(), url, slog.New(slog.DiscardHandler))
	if err == nil {
		_ = s.Close()
	}
	f := fault.Of(err)
	if fault.Code(err) != code || f.Hint == "" {
		t.Errorf("got %v with the hint %q, not the fault %s", err, f.Hint, code)
	}
	return f
}

// written makes a closed database with something in it.
func written(t *testing.T) string {
	t.Helper()
	path := newFile(t)
	s, err := store.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(t.Context(), func(tx *store.Tx) error {
		o, err := tx.CreateOrganization("kept")
		if err != nil {
			return err
		}
		for range 50 {
			s := catalog.Stack{Identity: catalog.Identity{OrganizationID: o.ID}, StackSpec: catalog.StackSpec{Description: strings.Repeat("x", 3000)}}
			s.Name = "s" + o.ID[:8] + string(rune('a'+len(s.Name)))
			if err := tx.PutStack(&s); err != nil && !fault.Is(err, fault.Conflict) {
				return err
			}
		}
		return nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSQLiteOpensAgain(t *testing.T) {
	s := openAt(t, written(t))
	err := s.View(t.Context(), func(tx *store.Tx) error { _, err := tx.OrganizationByName("kept"); return err })
	if err != nil {
		t.Error(err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSQLiteRefuses(t *testing.T) {
	t.Run("a file that is no database", func(t *testing.T) {
		path := newFile(t)
		if err := os.WriteFile(path, bytes.Repeat([]byte("this is a text\n"), 500), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, path, "database_damaged")
	})
	t.Run("a damaged page", func(t *testing.T) {
		path := written(t)
		overwrite(t, path, 4096, bytes.Repeat([]byte{0xAA}, 8192))
		refused(t, path, "database_damaged")
	})
	t.Run("a damaged schema", func(t *testing.T) {
		path := written(t)
		overwrite(t, path, 100, bytes.Repeat([]byte{0xAA}, 3000))
		refused(t, path, "database_damaged")
	})
	t.Run("a file that was cut", func(t *testing.T) {
		path := written(t)
		if err := os.Truncate(path, 3*4096); err != nil {
			t.Fatal(err)
		}
		refused(t, path, "database_damaged")
	})
	t.Run("a newer one", func(t *testing.T) {
		path := written(t)
		statement(t, path, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)")
		f := refused(t, path, "database_newer")
		if !strings.Contains(f.Message, "9999") {
			t.Errorf("the sentence is %q", f.Message)
		}
	})
	t.Run("one of another program", func(t *testing.T) {
		path := newFile(t)
		statement(t, path, "CREATE TABLE theirs (x)")
		refused(t, path, "database_foreign")
	})
	t.Run("one in use", func(t *testing.T) {
		path := newFile(t)
		s := openAt(t, path)
		refused(t, path, "database_in_use")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		openAt(t, path)
	})
	t.Run("a missing folder", func(t *testing.T) {
		refused(t, filepath.Join(t.TempDir(), "no", "such", "legwork.db"), "database_unreachable")
	})
	t.Run("an unknown URL", func(t *testing.T) {
		refused(t, "mysql://host/db", "database_url")
		refused(t, "", "database_url")
	})
}

func overwrite(t *testing.T, path string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// statement runs SQL beside the store.
func statement(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(query); err != nil {
		t.Fatal(err)
	}
}

func TestSQLiteFilesArePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c#d%.db") // names are taken as they are
	s := openAt(t, path)
	if err := s.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.CreateOrganization("x"); return err }); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 || !strings.HasPrefix(f.Name(), filepath.Base(path)) {
			t.Errorf("%s has mode %v", f.Name(), info.Mode())
		}
	}
}

func TestClosed(t *testing.T) {
	for name, url := range map[string]func(t testing.TB) string{"sqlite": newFile, "postgres": postgresURL} {
		t.Run(name, func(t *testing.T) {
			s := openAt(t, url(t))
			for range 2 {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			nothing := func(*store.Tx) error { return nil }
			for what, err := range map[string]error{
				"update": s.Update(context.Background(), nothing), "view": s.View(context.Background(), nothing), "ping": s.Ping(context.Background()),
			} {
				if fault.Code(err) != "database_closed" {
					t.Errorf("%s gives %v", what, err)
				}
			}
		})
	}
}
