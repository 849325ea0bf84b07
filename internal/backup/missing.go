package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"legwork/internal/blob"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// maxMoves limits how often an archive that a server replaces is looked up again.
const maxMoves = 10

// addMissing writes the archives of logs that were not among the blobs. A server replaces an archive, under another key,
// when more of the log arrives. Then the newer archive holds what the older one held. An archive whose job was deleted
// meanwhile is not missing.
func (w *writer) addMissing(ctx context.Context, s Source, archives map[string]store.LogArchive) error {
	example := ""
	for _, want := range archives {
		found, err := w.addReplaced(ctx, s, want)
		if err != nil {
			return err
		}
		if !found {
			w.manifest.Missing++
			example = want.Key
		}
	}
	if w.manifest.Missing == 0 || s.AllowMissingBlobs {
		return nil
	}
	return fault.New(fault.Invalid, "blobs_missing", "%d logs that the database names are not among the blobs, "+
		"for example %s", w.manifest.Missing, example).
		WithHint("give the settings of the server, above all its blob_url; --allow-missing-blobs makes a backup " +
			"without these logs")
}

// addReplaced writes an archive as the copy of the database names it, out of the one that replaced it.
func (w *writer) addReplaced(ctx context.Context, s Source, want store.LogArchive) (found bool, err error) {
	last := want.Key
	for range maxMoves {
		now, there, err := archiveNow(ctx, s.Database, want.Job)
		if err != nil || !there {
			return !there, err
		}
		if now.Key == last {
			return false, nil
		}
		last = now.Key
		object, err := s.Blobs.Get(ctx, now.Key)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return false, err
		}
		return true, w.addBeginning(object, want)
	}
	return false, nil
}

// archiveNow returns the archive of a job's log as the database names it now.
func archiveNow(ctx context.Context, database, job string) (a store.LogArchive, there bool, err error) {
	snapshot, err := store.OpenSnapshot(ctx, database)
	if err != nil {
		return a, false, err
	}
	defer snapshot.Close()
	all, err := snapshot.LogArchives(ctx)
	a, there = all[job]
	return a, there, err
}

// addBeginning writes the part of an archive that an older one held. Its size has to be known first, so it goes through
// a file.
func (w *writer) addBeginning(object *blob.Object, want store.LogArchive) (err error) {
	file, err := os.CreateTemp("", "legwork-backup-*")
	if err != nil {
		return fmt.Errorf("create a file for the archive of a log: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	archive, err := store.OpenArchive(object, object.Size)
	if err != nil {
		return fmt.Errorf("read the archive %s: %w", want.Key, err)
	}
	older := store.NewArchiveWriter(file)
	err = archive.Chunks(0, func(c store.LogChunk) (bool, error) {
		if c.First > want.Last {
			return false, nil
		}
		return true, older.Add(c)
	})
	if err != nil {
		return err
	}
	if _, last, err := older.Close(); err != nil || last != want.Last {
		return errors.Join(err, fmt.Errorf("the archive %s ends at %d, the database names %d", want.Key, last, want.Last))
	}
	size, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("read the archive of a log: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the archive of a log: %w", err)
	}
	w.manifest.Blobs++
	w.manifest.Bytes += size
	return w.add(blobPrefix+want.Key, size, file)
}
