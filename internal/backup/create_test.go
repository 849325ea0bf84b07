package backup

import (
	"bytes"
	"database/sql"
	"strings"
	"testing"
	"time"

	"legwork/internal/blob"
)

// watcher counts the open transactions of a database when the first blob is written.
type watcher struct {
	db   *sql.DB
	open int
	seen bool
}

func (w *watcher) Write(p []byte) (int, error) {
	if !w.seen && bytes.HasPrefix(p, []byte(blobPrefix)) {
		w.seen = true
		err := w.db.QueryRow(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'idle in transaction'`).Scan(&w.open)
		return len(p), err
	}
	return len(p), nil
}

func TestCreateEndsTheSnapshotBeforeTheBlobs(t *testing.T) {
	url, _ := newSource(t)
	blobs, err := blob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer blobs.Close()
	if err := blobs.Put(t.Context(), "a", strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	w := &watcher{db: db}
	if _, _, err := Create(t.Context(), Source{Database: url, Blobs: blobs, Now: time.Now()}, w); err != nil {
		t.Fatal(err)
	}
	if !w.seen || w.open != 0 {
		t.Errorf("at the first blob (seen %v): got %d open transactions, want 0", w.seen, w.open)
	}
}
