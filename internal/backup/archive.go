// Package backup writes all that a Server keeps into one file, and reads it back: the rows of the database, the blobs and, sealed with
// a passphrase, the master key.
//
// The file is a tar archive. Its first entry describes the database, its last one lists every other entry with its size and SHA-256, so
// that a file that was cut off or damaged is noticed. The rows are read in one snapshot before the blobs, because a blob is written before
// the row that names it: every blob that a row of the archive names is in the archive, too, or was deleted with its job meanwhile.
package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
)

const (
	format       = 2
	headerName   = "legwork-backup.json"
	manifestName = "manifest.json"
	sumName      = "manifest.json.sha256" // the last entry: the checksum of the manifest
	keysName     = "keys.json"
	tablePrefix  = "tables/"
	blobPrefix   = "blobs/"

	maxDescription = 64 << 20 // bytes of a JSON entry
	maxEntry       = 1 << 30  // bytes of the rows of one entry, unpacked
)

// Header describes the database of an archive.
type Header struct {
	Format       int           `json:"format"`
	ID           string        `json:"id"` // of this archive
	Version      string        `json:"version"`
	Schema       int64         `json:"schema"`
	Installation string        `json:"installation"`
	CreatedAt    time.Time     `json:"created_at"`
	Tables       []store.Table `json:"tables"` // in the order in which they are filled
}

// Entry is one part of an archive.
type Entry struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Manifest lists what an archive holds.
type Manifest struct {
	Entries []Entry          `json:"entries"`
	Tables  []store.TableSum `json:"tables"`
	Blobs   int              `json:"blobs"`
	Bytes   int64            `json:"blob_bytes"`
	Missing int              `json:"missing_blobs"` // logs that the database names and that were not among the blobs
	Keys    bool             `json:"keys"`          // the master key is in it, sealed
}

// writer writes an archive and its manifest.
type writer struct {
	tar      *tar.Writer
	time     time.Time
	manifest Manifest
}

// add writes one entry of a size that is known.
func (w *writer) add(name string, size int64, r io.Reader) error {
	header := &tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: w.time, Format: tar.FormatPAX}
	if err := w.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w.tar, h), r); err != nil {
		return fmt.Errorf("write %s into the backup: %w", name, err)
	}
	w.manifest.Entries = append(w.manifest.Entries, Entry{Name: name, Size: size, SHA256: hex.EncodeToString(h.Sum(nil))})
	return nil
}

func (w *writer) addJSON(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s into the backup: %w", name, err)
	}
	return w.add(name, int64(len(text)), bytes.NewReader(text))
}

// finish writes the manifest, which is not an entry of itself, and its checksum.
func (w *writer) finish() error {
	if err := w.addJSON(manifestName, w.manifest); err != nil {
		return err
	}
	sum := w.manifest.Entries[len(w.manifest.Entries)-1].SHA256
	if err := w.add(sumName, int64(len(sum)), strings.NewReader(sum)); err != nil {
		return err
	}
	return w.tar.Close()
}

// visitor takes the entries of an archive, in their order. What it does not read of an entry is skipped.
type visitor struct {
	header func(Header) error
	rows   func(table store.Table, r io.Reader) error
	keys   func(sealedKeys) error
	blob   func(key string, size int64, r io.Reader) error
}

func damaged(what string, args ...any) error {
	return fault.New(fault.Invalid, "backup_damaged", "the backup is damaged: %s", fmt.Sprintf(what, args...)).
		WithHint("use another copy of the backup")
}

// read visits every entry and compares the archive with its manifest.
func read(r io.Reader, v visitor) (Header, Manifest, error) {
	in := reading{tar: tar.NewReader(r), visitor: v}
	for {
		entry, err := in.tar.Next()
		if errors.Is(err, io.EOF) {
			return in.header, in.manifest, damaged("its manifest is missing, as when it was cut off")
		}
		if err != nil {
			return in.header, in.manifest, damaged("%v", err)
		}
		if entry.Name == manifestName {
			err := in.compare()
			return in.header, in.manifest, err
		}
		if err := in.entry(entry); err != nil {
			return in.header, in.manifest, err
		}
	}
}

// reading is the state of read.
type reading struct {
	visitor
	tar      *tar.Reader
	header   Header
	manifest Manifest
	seen     []Entry
}

// hashed reads an entry and hashes what is read.
type hashed struct {
	r io.Reader
	h hash.Hash
}

func (r hashed) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	r.h.Write(b[:n])
	return n, err
}

func (in *reading) entry(e *tar.Header) error {
	r := hashed{in.tar, sha256.New()}
	if err := in.visit(e, r); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return damaged("%s: %v", e.Name, err)
	}
	in.seen = append(in.seen, Entry{Name: e.Name, Size: e.Size, SHA256: hex.EncodeToString(r.h.Sum(nil))})
	return nil
}

func (in *reading) visit(e *tar.Header, r io.Reader) error {
	name := e.Name
	if first := len(in.seen) == 0; first != (name == headerName) {
		return fault.New(fault.Invalid, "backup_unknown", "the file is not a backup of legwork").WithHint("name a file that legwork server backup has written")
	}
	switch {
	case name == headerName:
		return in.readHeader(r)
	case strings.HasPrefix(name, tablePrefix):
		table, ok := in.table(name)
		if !ok {
			return damaged("it has rows of a table that it does not describe: %s", name)
		}
		return in.visitor.rows(table, r)
	case name == keysName:
		var keys sealedKeys
		if err := readJSON(r, &keys); err != nil {
			return err
		}
		return in.visitor.keys(keys)
	case strings.HasPrefix(name, blobPrefix):
		return in.visitor.blob(strings.TrimPrefix(name, blobPrefix), e.Size, r)
	}
	return damaged("it has an entry %q that this program does not know", name)
}

func (in *reading) readHeader(r io.Reader) error {
	if err := readJSON(r, &in.header); err != nil {
		return err
	}
	if in.header.Format != format {
		return fault.New(fault.Unsupported, "backup_newer", "the backup has format %d, this program knows format %d", in.header.Format, format).
			WithHint("use the version of legwork that wrote it: %s", in.header.Version)
	}
	return in.visitor.header(in.header)
}

func (in *reading) table(entry string) (store.Table, bool) {
	name, _, _ := strings.Cut(strings.TrimPrefix(entry, tablePrefix), "/")
	for _, t := range in.header.Tables {
		if t.Name == name {
			return t, true
		}
	}
	return store.Table{}, false
}

func readJSON(r io.Reader, v any) error {
	text, err := io.ReadAll(io.LimitReader(r, maxDescription))
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return damaged("%v", err)
	}
	return nil
}

// compare reads the manifest and compares it with the entries before it.
func (in *reading) compare() error {
	r := hashed{in.tar, sha256.New()}
	if err := readJSON(r, &in.manifest); err != nil {
		return err
	}
	if err := in.compareSum(hex.EncodeToString(r.h.Sum(nil))); err != nil {
		return err
	}
	if len(in.manifest.Entries) != len(in.seen) {
		return damaged("it has %d entries and its manifest lists %d", len(in.seen), len(in.manifest.Entries))
	}
	for i, want := range in.manifest.Entries {
		if in.seen[i] != want {
			return damaged("%s is not what the manifest lists", want.Name)
		}
	}
	return nil
}

// compareSum compares the checksum of the manifest with the last entry.
func (in *reading) compareSum(got string) error {
	entry, err := in.tar.Next()
	if err != nil || entry.Name != sumName {
		return damaged("the checksum of its manifest is missing, as when it was cut off")
	}
	want, err := io.ReadAll(io.LimitReader(in.tar, int64(len(got))+1))
	if err != nil || string(want) != got {
		return damaged("its manifest does not match its checksum")
	}
	return nil
}
