package backup

import (
	"bytes"
	"io"
	"testing"
	"time"

	"legwork/internal/store"
)

// once calls do before the first write.
type once struct {
	io.Writer
	do func()
}

func (o *once) Write(p []byte) (int, error) {
	if o.do != nil {
		o.do()
		o.do = nil
	}
	return o.Writer.Write(p)
}

func archiveOf(t *testing.T, chunks ...store.LogChunk) []byte {
	t.Helper()
	var b bytes.Buffer
	w := store.NewArchiveWriter(&b)
	for _, c := range chunks {
		if err := w.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestCreateKeepsALogThatIsArchivedAgain lets a server replace the archive of a log while the backup is written: its
// database names the older one, its blobs hold the newer one.
func TestCreateKeepsALogThatIsArchivedAgain(t *testing.T) {
	url, blobs := newArchivedLog(t)
	first := store.LogChunk{First: 1, Count: 1, Data: []byte("first")}
	second := store.LogChunk{First: 2, Count: 1, Data: []byte("second")}
	older := archiveOf(t, first)
	if err := blobs.Put(t.Context(), "logs/j", bytes.NewReader(older)); err != nil {
		t.Fatal(err)
	}
	replace := func() {
		if err := blobs.Put(t.Context(), "logs/j.2", bytes.NewReader(archiveOf(t, first, second))); err != nil {
			t.Fatal(err)
		}
		raw := openRaw(t, "sqlite", url)
		if _, err := raw.Exec("UPDATE log_jobs SET archive = 'logs/j.2', archived = 2, last_pos = 2"); err != nil {
			t.Fatal(err)
		}
		if err := blobs.Delete(t.Context(), "logs/j"); err != nil {
			t.Fatal(err)
		}
	}
	var archive bytes.Buffer
	_, m, err := Create(t.Context(), Source{Database: url, Blobs: blobs, Now: time.Now()}, &once{&archive, replace})
	if err != nil || m.Missing != 0 {
		t.Fatalf("backup: got %v, %d logs missing, want none", err, m.Missing)
	}
	kept := map[string][]byte{}
	_, _, err = read(bytes.NewReader(archive.Bytes()), visitor{
		header: func(Header) error { return nil },
		rows:   func(store.Table, io.Reader) error { return nil },
		keys:   func(sealedKeys) error { return nil },
		blob: func(key string, _ int64, r io.Reader) (err error) {
			kept[key], err = io.ReadAll(r)
			return err
		},
	})
	if err != nil || !bytes.Equal(kept["logs/j"], older) {
		t.Errorf("the archive that the copy of the database names: got %q, %v, want what it held at the beginning",
			kept["logs/j"], err)
	}
}

// TestCreateSkipsTheLogOfADeletedJob deletes a job while the backup is written.
func TestCreateSkipsTheLogOfADeletedJob(t *testing.T) {
	url, blobs := newArchivedLog(t)
	remove := func() {
		if _, err := openRaw(t, "sqlite", url).Exec("DELETE FROM log_jobs"); err != nil {
			t.Fatal(err)
		}
	}
	_, m, err := Create(t.Context(), Source{Database: url, Blobs: blobs, Now: time.Now()}, &once{io.Discard, remove})
	if err != nil || m.Missing != 0 {
		t.Errorf("got %v, %d logs missing, want neither", err, m.Missing)
	}
}
