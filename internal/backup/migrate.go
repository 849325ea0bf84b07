package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"legwork/internal/blob"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// chunkRows is how many rows a migration stores in one transaction, at most.
const chunkRows = 2000

// Reasons for the hold of a source, while it is copied and after that.
const (
	holdMigrating = "its data is being migrated to another database"
	holdMigrated  = "its data was migrated to another database"
)

// undoTimeout limits the release of a source after its migration failed.
const undoTimeout = 10 * time.Second

// Migration describes where the data of a server is copied to.
type Migration struct {
	From, To string                          // databases
	Told     func(table string, rows int64)  // is called for each table that is complete
	Blobs    func(ctx context.Context) error // copies the blobs before the target becomes usable; nil: they stay
}

// Migrate copies a database that no server uses into an empty one, with all ids, and compares both. The next call continues a migration
// that was interrupted. The source is on hold from the first row on, and stays so unless the migration fails.
func Migrate(ctx context.Context, m Migration) (err error) {
	source, err := store.Open(ctx, m.From, slog.New(slog.DiscardHandler)) // with SQLite this locks out servers
	if err != nil {
		return err
	}
	defer source.Close()
	if _, err := checkUnused(ctx, m.From); err != nil {
		return err
	}
	hold, err := source.Hold(ctx, holdMigrating)
	if err != nil {
		return err
	}
	held := hold.Reason == holdMigrating // otherwise it was on hold for another reason, which stays
	if held {
		defer func() {
			if err != nil {
				err = errors.Join(err, releaseSource(ctx, source))
			}
		}()
	}
	snapshot, err := store.OpenSnapshot(ctx, m.From)
	if err != nil {
		return err
	}
	defer snapshot.Close()
	loader, err := store.OpenLoader(ctx, m.To, "migration of "+snapshot.Installation, snapshot.Schema)
	if err != nil {
		return targetHint(err, "name an empty database with --to")
	}
	defer loader.Close()
	if err := m.copy(ctx, snapshot, loader); err != nil {
		return err
	}
	if err := checkUnchanged(ctx, m.From, snapshot); err != nil {
		return err
	}
	if held {
		if err := changeHold(ctx, source, holdMigrated); err != nil {
			return err
		}
	}
	if err := loader.EndHold(ctx, holdMigrating); err != nil {
		return err
	}
	return loader.Finish(ctx, "")
}

// copy copies and compares all tables, and then the blobs.
func (m Migration) copy(ctx context.Context, s *store.Snapshot, l *store.Loader) error {
	for _, t := range s.Tables {
		rows, err := copyTable(ctx, s, l, t)
		if err != nil {
			return err
		}
		m.Told(t.Name, rows)
	}
	if err := compare(ctx, s, l); err != nil || m.Blobs == nil {
		return err
	}
	return m.Blobs(ctx)
}

// checkUnused returns the newest event of a database. It refuses a database that running servers use.
func checkUnused(ctx context.Context, database string) (position int64, err error) {
	now, err := store.OpenSnapshot(ctx, database)
	if err != nil {
		return 0, err
	}
	defer now.Close()
	return now.Position, store.CheckUnused(now.Live)
}

// checkUnchanged refuses a source that a server used while it was copied.
func checkUnchanged(ctx context.Context, database string, copied *store.Snapshot) error {
	position, err := checkUnused(ctx, database)
	if err != nil {
		return err
	}
	if position != copied.Position {
		return fault.New(fault.Conflict, "database_changed", "a server changed the database while it was copied").
			WithHint("stop all servers, empty the target database, and migrate again")
	}
	return nil
}

// targetHint replaces the hint of a target that has other data: it depends on the command.
func targetHint(err error, hint string) error {
	switch fault.Code(err) {
	case "database_not_empty", "import_other":
		return fault.Of(err).WithHint("%s", hint)
	}
	return err
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

func changeHold(ctx context.Context, source *store.Store, reason string) error {
	return source.Update(ctx, func(tx *store.Tx) error {
		i, err := tx.InstallationForUpdate()
		if err != nil || i.Hold == nil {
			return err
		}
		i.Hold.Reason = reason
		return tx.PutInstallation(i)
	})
}

// releaseSource ends the hold of a source whose migration failed, unless a server has interrupted its jobs for that hold.
func releaseSource(ctx context.Context, source *store.Store) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	return source.Update(ctx, func(tx *store.Tx) error {
		i, err := tx.InstallationForUpdate()
		if err != nil || i.Hold == nil || i.Hold.Applied {
			return err
		}
		i.Hold = nil
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
