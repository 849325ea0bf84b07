package backup

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"

	"legwork/internal/blob"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// Verify reads a whole archive and compares it with its checksums. With a passphrase it opens the keys as well.
func Verify(r io.Reader, passphrase string) (Header, Manifest, Keys, error) {
	var header Header
	var keys Keys
	rows := map[string]int64{}
	h, m, err := read(r, visitor{
		header: func(h Header) error { header = h; return nil },
		rows: func(t store.Table, r io.Reader) error {
			return eachChunk(r, func(values [][]any) error {
				rows[t.Name] += int64(len(values))
				return nil
			})
		},
		keys: func(s sealedKeys) (err error) {
			if passphrase != "" {
				keys, err = s.open(passphrase, header.ID)
			}
			return err
		},
		blob: func(string, int64, io.Reader) error { return nil },
	})
	if err != nil {
		return h, m, keys, err
	}
	for _, t := range m.Tables {
		if rows[t.Name] != t.Rows {
			return h, m, keys, damaged("table %s has %d rows and the manifest lists %d", t.Name, rows[t.Name], t.Rows)
		}
	}
	return h, m, keys, nil
}

// eachChunk unpacks the rows of one entry.
func eachChunk(r io.Reader, fn func(rows [][]any) error) error {
	decoder, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxEntry))
	if err != nil {
		return damaged("%v", err)
	}
	defer decoder.Close()
	data, err := io.ReadAll(io.LimitReader(decoder, maxEntry))
	if err != nil {
		return damaged("%v", err)
	}
	var rows [][]any
	for len(data) > 0 {
		var values []any
		if values, data, err = store.DecodeRow(data); err != nil {
			return err
		}
		rows = append(rows, values)
	}
	return fn(rows)
}

// Target is where a backup is restored to.
type Target struct {
	Database string
	Blobs    *blob.Store
	Hold     string // why the Server on it is on hold
}

// Restore fills an empty database and a place for blobs from an archive that was verified before. It continues where an earlier Restore of the
// same archive was interrupted, and compares the result with the manifest.
func Restore(ctx context.Context, r io.Reader, m Manifest, to Target) error {
	l := &loading{ctx: ctx, to: to, skip: map[string]int64{}}
	_, _, err := read(r, visitor{header: l.open, rows: l.rows, keys: func(sealedKeys) error { return nil }, blob: l.blob})
	if l.loader == nil {
		return err
	}
	defer l.loader.Close()
	if err != nil {
		return err
	}
	for _, t := range l.tables {
		if err := l.loader.Append(ctx, t, nil, true); err != nil {
			return err
		}
	}
	if err := l.compare(m.Tables); err != nil {
		return err
	}
	return l.loader.Finish(ctx, to.Hold)
}

// loading is the state of Restore.
type loading struct {
	ctx    context.Context
	to     Target
	loader *store.Loader
	tables []store.Table
	skip   map[string]int64 // rows that an earlier Restore stored, by table
}

func (l *loading) open(h Header) (err error) {
	l.tables = h.Tables
	if l.loader, err = store.OpenLoader(l.ctx, l.to.Database, "backup "+h.ID, h.Schema); err != nil {
		return targetHint(err, "name an empty database; to replace what is there, add --replace")
	}
	for _, t := range h.Tables {
		l.skip[t.Name], _ = l.loader.Loaded(t.Name)
	}
	return nil
}

func (l *loading) rows(t store.Table, r io.Reader) error {
	return eachChunk(r, func(rows [][]any) error {
		n := min(l.skip[t.Name], int64(len(rows)))
		l.skip[t.Name] -= n
		if n == int64(len(rows)) {
			return nil
		}
		return l.loader.Append(l.ctx, t, rows[n:], false)
	})
}

func (l *loading) blob(key string, _ int64, r io.Reader) error {
	return l.to.Blobs.Put(l.ctx, key, r)
}

// compare reads the database again.
func (l *loading) compare(want []store.TableSum) error {
	for _, t := range l.tables {
		got, err := l.loader.Sum(l.ctx, t)
		if err != nil {
			return err
		}
		if !slices.Contains(want, got) {
			return fault.New(fault.Internal, "restore_differs", "table %s is not what the backup holds: it has %d rows", t.Name, got.Rows).
				WithHint("try again with --replace; report it if it happens again")
		}
	}
	return nil
}

// Describe says what an archive holds, for people.
func Describe(h Header, m Manifest) string {
	rows := int64(0)
	for _, t := range m.Tables {
		rows += t.Rows
	}
	keys := "without the master key"
	if m.Keys {
		keys = "with the master key, sealed"
	}
	missing := ""
	if m.Missing > 0 {
		missing = fmt.Sprintf(" (the logs of %d jobs are missing)", m.Missing)
	}
	return fmt.Sprintf("%d tables with %d rows, %d blobs of %d bytes%s, %s; made %s by version %s",
		len(m.Tables), rows, m.Blobs, m.Bytes, missing, keys, h.CreatedAt.Format("2006-01-02 15:04:05 MST"), h.Version)
}
