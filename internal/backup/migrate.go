package backup

import (
	"context"
	"fmt"
	"log/slog"

	"legwork/internal/blob"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// chunkRows is how many rows a migration stores in one transaction, at most.
const chunkRows = 2000

// Migrate copies a database that no Server uses into an empty one, with all ids, and compares both. A Migrate that was interrupted is
// continued by the next one. told is called for each table that is complete. In the end the source is on hold.
func Migrate(ctx context.Context, from, to string, told func(table string, rows int64)) error {
	source, err := store.Open(ctx, from, slog.New(slog.DiscardHandler)) // with SQLite this locks out Servers
	if err != nil {
		return err
	}
	defer source.Close()
	snapshot, err := store.OpenSnapshot(ctx, from)
	if err != nil {
		return err
	}
	defer snapshot.Close()
	if snapshot.Live > 0 {
		return fault.New(fault.Conflict, "database_in_use", "%d running servers use the database", snapshot.Live).
			WithHint("stop them; a server that was killed counts for 30 seconds more")
	}
	loader, err := store.OpenLoader(ctx, to, "migration of "+snapshot.Installation, snapshot.Schema)
	if err != nil {
		return err
	}
	defer loader.Close()
	for _, t := range snapshot.Tables {
		rows, err := copyTable(ctx, snapshot, loader, t)
		if err != nil {
			return err
		}
		told(t.Name, rows)
	}
	if err := compare(ctx, snapshot, loader); err != nil {
		return err
	}
	if err := holdSource(ctx, source); err != nil {
		return err
	}
	return loader.Finish(ctx, "")
}

// copyTable copies the rows of a table that the target does not have yet.
func copyTable(ctx context.Context, s *store.Snapshot, l *store.Loader, t store.Table) (int64, error) {
	skip, done := l.Loaded(t.Name)
	if done {
		return skip, nil
	}
	var rows [][]any
	size := 0
	err := s.Rows(ctx, t, func(values []any) error {
		if skip > 0 {
			skip--
			return nil
		}
		encoded, err := store.EncodeRow(values)
		if err != nil {
			return err
		}
		row, _, err := store.DecodeRow(encoded)
		if err != nil {
			return err
		}
		rows, size = append(rows, row), size+len(encoded)
		if len(rows) < chunkRows && size < chunkBytes {
			return nil
		}
		err = l.Append(ctx, t, rows, false)
		rows, size = nil, 0
		return err
	})
	if err == nil {
		err = l.Append(ctx, t, rows, true)
	}
	n, _ := l.Loaded(t.Name)
	return n, err
}

// compare reads both databases again. The record of the installation differs once the source is on hold.
func compare(ctx context.Context, s *store.Snapshot, l *store.Loader) error {
	for _, t := range s.Tables {
		if t.Name == "installation" {
			continue
		}
		want, err := s.Sum(ctx, t)
		if err != nil {
			return err
		}
		got, err := l.Sum(ctx, t)
		if err != nil {
			return err
		}
		if got != want {
			return fault.New(fault.Internal, "migration_differs", "table %s differs: it has %d rows in the source and %d in the target", t.Name, want.Rows, got.Rows).
				WithHint("empty the target database and migrate again")
		}
	}
	return nil
}

func holdSource(ctx context.Context, source *store.Store) error {
	return source.Update(ctx, func(tx *store.Tx) error {
		i, err := tx.InstallationForUpdate()
		if err != nil || i.Hold != nil || i.ID == "" {
			return err
		}
		i.Hold = &store.Hold{Reason: "its data was migrated to another database", Since: tx.Now()}
		return tx.PutInstallation(i)
	})
}

// CopyBlobs copies all blobs to another store and returns their number. It skips those that the store has with the same size.
func CopyBlobs(ctx context.Context, from, to *blob.Store) (n int, err error) {
	for e, err := range from.List(ctx, "") {
		if err != nil {
			return n, err
		}
		if err := copyBlob(ctx, from, to, e); err != nil {
			return n, fmt.Errorf("copy the blob %s: %w", e.Key, err)
		}
		n++
	}
	return n, nil
}

func copyBlob(ctx context.Context, from, to *blob.Store, e blob.Entry) error {
	there, err := to.Get(ctx, e.Key)
	if err == nil && there.Size == e.Size {
		return nil
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	object, err := from.Get(ctx, e.Key)
	if err != nil {
		return err
	}
	r, err := object.Reader()
	if err != nil {
		return err
	}
	defer r.Close()
	return to.Put(ctx, e.Key, r)
}
