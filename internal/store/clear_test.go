package store_test

import (
	"context"
	"strings"
	"testing"

	"legwork/internal/fault"
	"legwork/internal/store"
)

// TestClearKeepsTablesOfOthers checks that a schema with tables of another program is left as it is.
func TestClearKeepsTablesOfOthers(t *testing.T) {
	url := postgresURL(t)
	if err := openAt(t, url).Close(); err != nil {
		t.Fatal(err)
	}
	onPostgres(t, url, "CREATE TABLE accounts (id int PRIMARY KEY)")
	_, err := store.Clear(context.Background(), url)
	if fault.Code(err) != "database_shared" || !strings.Contains(err.Error(), "accounts") {
		t.Errorf("clear: got %v, want database_shared, which names accounts", err)
	}
	onPostgres(t, url, "SELECT 1 FROM accounts, organizations")
}

// TestClearIsAllOrNothing checks that no table is dropped when one of them cannot be.
func TestClearIsAllOrNothing(t *testing.T) {
	url := postgresURL(t)
	if err := openAt(t, url).Close(); err != nil {
		t.Fatal(err)
	}
	onPostgres(t, url, "CREATE VIEW report AS SELECT org FROM webhooks")
	if _, err := store.Clear(context.Background(), url); err == nil {
		t.Error("clear dropped a table that a view of another program needs")
	}
	onPostgres(t, url, "SELECT 1 FROM report, organizations")
}
