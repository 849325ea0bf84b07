package store_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"legwork/internal/leaktest"
	"legwork/internal/store"
	"legwork/internal/store/storetest"
)

func TestMain(m *testing.M) {
	os.Exit(leaktest.Check(storetest.Main(m)))
}

// openAt opens a store for the length of a test.
func openAt(t testing.TB, url string) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), url, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newFile(t testing.TB) string { return filepath.Join(t.TempDir(), "legwork.db") }

func TestSQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *store.Store { return openAt(t, newFile(t)) })
}

func TestPostgres(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *store.Store { return openAt(t, storetest.Postgres(t)) })
}
