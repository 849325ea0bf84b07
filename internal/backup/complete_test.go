package backup

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"legwork/internal/blob"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// newArchivedLog returns a database of SQLite which names one archived log, and an empty place for blobs.
func newArchivedLog(t *testing.T) (url string, blobs *blob.Store) {
	t.Helper()
	url = newDatabase(t, "sqlite")
	s := openDatabase(t, url)
	update(t, s, func(tx *store.Tx) error {
		_, err := tx.CreateOrganization("default")
		return err
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw := openRaw(t, "sqlite", url)
	_, err := raw.Exec(`INSERT INTO log_jobs (job_id, last_pos, heads, tail_first, tail, archive, archived, archive_lines)
		VALUES ('j', 1, x'', 2, x'', 'logs/j', 1, 1)`)
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	blobs, err = blob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = blobs.Close() })
	return url, blobs
}

func TestCreateNeedsTheBlobsThatTheDatabaseNames(t *testing.T) {
	url, blobs := newArchivedLog(t)
	source := Source{Database: url, Blobs: blobs, Now: time.Now()}
	var archive bytes.Buffer
	if _, _, err := Create(t.Context(), source, &archive); fault.Code(err) != "blobs_missing" || !strings.Contains(err.Error(), "logs/j") {
		t.Errorf("without the blob: got %v, want blobs_missing with its key", err)
	}
	source.AllowMissingBlobs = true
	if h, m, err := Create(t.Context(), source, &archive); err != nil || m.Missing != 1 || !strings.Contains(Describe(h, m), "1 jobs are missing") {
		t.Errorf("when that is allowed: got %v, %s, want a backup that says so", err, Describe(h, m))
	}
	source.AllowMissingBlobs = false
	if err := blobs.Put(t.Context(), "logs/j", strings.NewReader("lines")); err != nil {
		t.Fatal(err)
	}
	if _, m, err := Create(t.Context(), source, &archive); err != nil || m.Missing != 0 || m.Blobs != 1 {
		t.Errorf("with the blob: got %v, %d missing, %d blobs, want 0 and 1", err, m.Missing, m.Blobs)
	}
}

// TestVerifyNoticesDamageOfTheManifest changes one bit of each byte in turn of the manifest and of its checksum, and
// cuts the archive off.
func TestVerifyNoticesDamageOfTheManifest(t *testing.T) {
	url, blobs := newArchivedLog(t)
	var buffer bytes.Buffer
	_, _, err := Create(t.Context(), Source{Database: url, Blobs: blobs, Now: time.Now(), AllowMissingBlobs: true}, &buffer)
	if err != nil {
		t.Fatal(err)
	}
	archive := buffer.Bytes()
	if _, _, _, err := Verify(bytes.NewReader(archive), ""); err != nil {
		t.Fatalf("undamaged: got %v, want no error", err)
	}
	begin := bytes.Index(archive, []byte(`{`+"\n"+`  "entries"`))
	end := begin + bytes.Index(archive[begin:], []byte("\n}")) + 2
	sum := len(archive) - 1024 - 512
	for sum > end && archive[sum] == 0 {
		sum -= 512
	}
	if begin < 0 || sum <= end {
		t.Fatalf("got the manifest at %d to %d and its checksum at %d, want them in that order", begin, end, sum)
	}
	for i := range archive {
		if (i < begin || i >= end) && (i < sum || i >= sum+64) {
			continue
		}
		archive[i] ^= 1
		if _, _, _, err := Verify(bytes.NewReader(archive), ""); fault.Code(err) != "backup_damaged" {
			t.Errorf("byte %d (%q) was changed: got %v, want backup_damaged", i, archive[i], err)
		}
		archive[i] ^= 1
	}
	for _, length := range []int{sum - 512, sum, begin} {
		if _, _, _, err := Verify(bytes.NewReader(archive[:length]), ""); fault.Code(err) != "backup_damaged" {
			t.Errorf("cut off at %d: got %v, want backup_damaged", length, err)
		}
	}
}
