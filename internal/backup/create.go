package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"legwork/internal/blob"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// chunkBytes is how many bytes of rows one entry has, before they are compressed.
const chunkBytes = 4 << 20

// Source is what a backup is made of.
type Source struct {
	Database   string // of the Server: a path or a postgres:// URL
	Blobs      *blob.Store
	Version    string // of this program
	Keys       *Keys  // nil: they are left out
	Passphrase string // that seals them
	Now        time.Time
	// AllowMissingBlobs accepts that blobs which the database names are not there.
	AllowMissingBlobs bool
}

// Create writes a backup. Servers can keep running: what is written is one state of the database. It fails with
// "blobs_missing" when logs that the database names are not among the blobs.
func Create(ctx context.Context, s Source, out io.Writer) (Header, Manifest, error) {
	snapshot, err := store.OpenSnapshot(ctx, s.Database)
	if err != nil {
		return Header{}, Manifest{}, err
	}
	defer snapshot.Close()
	header := Header{Format: format, ID: uuid.NewString(), Version: s.Version, Schema: snapshot.Schema, Installation: snapshot.Installation,
		CreatedAt: s.Now.UTC().Truncate(time.Second), Tables: snapshot.Tables}
	w := &writer{tar: tar.NewWriter(out), time: header.CreatedAt}
	if err := w.addJSON(headerName, header); err != nil {
		return header, w.manifest, err
	}
	if s.Keys != nil {
		sealed, err := seal(*s.Keys, s.Passphrase, header.ID)
		if err != nil {
			return header, w.manifest, err
		}
		w.manifest.Keys = true
		if err := w.addJSON(keysName, sealed); err != nil {
			return header, w.manifest, err
		}
	}
	for _, t := range snapshot.Tables {
		if err := w.addTable(ctx, snapshot, t); err != nil {
			return header, w.manifest, err
		}
	}
	archives, err := snapshot.LogArchives(ctx)
	if err != nil {
		return header, w.manifest, err
	}
	if err := snapshot.Close(); err != nil { // the blobs take long, and an open snapshot holds back the database
		return header, w.manifest, err
	}
	written, err := w.addBlobs(ctx, s.Blobs)
	if err != nil {
		return header, w.manifest, err
	}
	maps.DeleteFunc(archives, func(_ string, a store.LogArchive) bool { return written[a.Key] })
	if err := w.addMissing(ctx, s, archives); err != nil {
		return header, w.manifest, err
	}
	return header, w.manifest, w.finish()
}

// addTable writes the rows of a table in entries of a few MiB.
func (w *writer) addTable(ctx context.Context, s *store.Snapshot, t store.Table) error {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("compress the backup: %w", err)
	}
	defer encoder.Close()
	sum, h, chunk := store.TableSum{Name: t.Name}, sha256.New(), []byte(nil)
	parts := 0
	flush := func() error {
		if len(chunk) == 0 {
			return nil
		}
		parts++
		packed := encoder.EncodeAll(chunk, nil)
		chunk = chunk[:0]
		return w.add(fmt.Sprintf("%s%s/%06d.cbor.zst", tablePrefix, t.Name, parts), int64(len(packed)), bytes.NewReader(packed))
	}
	err = s.Rows(ctx, t, func(values []any) error {
		row, err := store.EncodeRow(values)
		if err != nil {
			return err
		}
		sum.Rows++
		h.Write(row)
		if chunk = append(chunk, row...); len(chunk) < chunkBytes {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	sum.SHA256 = hex.EncodeToString(h.Sum(nil))
	w.manifest.Tables = append(w.manifest.Tables, sum)
	return err
}

// addBlobs writes all blobs and returns their keys. It skips a blob that was deleted while the backup was written.
func (w *writer) addBlobs(ctx context.Context, blobs *blob.Store) (written map[string]bool, err error) {
	written = map[string]bool{}
	for e, err := range blobs.List(ctx, "") {
		if err != nil {
			return written, err
		}
		object, err := blobs.Get(ctx, e.Key)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return written, err
		}
		r, err := object.Reader()
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return written, err
		}
		err = w.add(blobPrefix+e.Key, object.Size, r)
		if closed := r.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return written, err
		}
		written[e.Key] = true
		w.manifest.Blobs++
		w.manifest.Bytes += object.Size
	}
	return written, nil
}
