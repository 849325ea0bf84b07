package boot

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/blob"
	"legwork/internal/cli"
	"legwork/internal/fault"
)

// serverSettings returns the settings of a server with a data folder of its own.
func serverSettings(t *testing.T) ServerSettings {
	t.Helper()
	settings := DefaultServerSettings()
	settings.Data, settings.LocalRunner = filepath.Join(t.TempDir(), "data"), false
	return settings
}

// firstStart opens a server once and closes it.
func firstStart(t *testing.T, settings ServerSettings) {
	t.Helper()
	s, err := openServer(t.Context(), settings, quiet())
	if err != nil {
		t.Fatal(err)
	}
	s.close()
}

// TestFirstStartWithoutNATSLeavesNothing starts a server whose NATS server is not there. Another server may be the
// first then.
func TestFirstStartWithoutNATSLeavesNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	settings := serverSettings(t)
	settings.NATSURL = NewSecret("nats://" + l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := openServer(t.Context(), settings, quiet())
	if err == nil {
		s.close()
	}
	if !fault.Is(err, fault.Unavailable) {
		t.Fatalf("got %v, want that NATS cannot be reached", err)
	}
	for _, name := range []string{"admin-token", "master-key", "legwork.db"} {
		if _, err := os.Stat(filepath.Join(settings.Data, name)); !os.IsNotExist(err) {
			t.Errorf("file %s: got %v, want none", name, err)
		}
	}
}

func dataFlags(dir string) cli.StartOptions {
	return cli.StartOptions{Flags: map[string]string{"data": dir}}
}

// TestRestoreNoticesAnotherMasterKey restores into a data folder with a master key that does not open the backup.
func TestRestoreNoticesAnotherMasterKey(t *testing.T) {
	source, target := serverSettings(t), serverSettings(t)
	firstStart(t, source)
	firstStart(t, target)
	file := filepath.Join(t.TempDir(), "backup")
	var out bytes.Buffer
	if err := backUp(t.Context(), dataFlags(source.Data), cli.BackupOptions{File: file}, &out); err != nil {
		t.Fatal(err)
	}
	again := cli.BackupOptions{File: file, Replace: true}
	out.Reset()
	err := restore(t.Context(), dataFlags(target.Data), again, &out)
	if fault.Code(err) != "master_key_wrong" || strings.Contains(out.String(), "Restored and") {
		t.Errorf("with another master key: got %v, %q, want master_key_wrong", err, out.String())
	}
	key, err := os.ReadFile(filepath.Join(source.Data, "master-key"))
	if err == nil {
		err = os.WriteFile(filepath.Join(target.Data, "master-key"), key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err = restore(t.Context(), dataFlags(target.Data), again, &out); err != nil || !strings.Contains(out.String(), "Restored and verified") {
		t.Errorf("with the right one: got %v, %q, want a restored server",
			err, out.String())
	}
	firstStart(t, target)
}

func TestBackupOfNoServerCreatesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	b := cli.BackupOptions{File: filepath.Join(t.TempDir(), "backup")}
	err := backUp(t.Context(), dataFlags(dir), b, &bytes.Buffer{})
	if fault.Code(err) != "database_missing" {
		t.Errorf("got %v, want database_missing", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the data folder: got %v, want none", err)
	}
}

func TestPassphraseOfEverybodyIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passphrase")
	if err := os.WriteFile(file, []byte("correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readPassphrase(file); got != "correct horse" || err != nil {
		t.Errorf("a private file: got %q, %v, want the passphrase", got, err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := readPassphrase(file); fault.Code(err) != "passphrase_file" || !strings.Contains(err.Error(), "0644") {
		t.Errorf("a file with mode 0644: got %q, %v, want passphrase_file with the mode", got, err)
	}
}

// TestVerifyTellsThatTheKeyWasNotOpened verifies a backup with keys, without and with the passphrase.
func TestVerifyTellsThatTheKeyWasNotOpened(t *testing.T) {
	source := serverSettings(t)
	firstStart(t, source)
	dir := t.TempDir()
	b := cli.BackupOptions{File: filepath.Join(dir, "backup"), WithKeys: true}
	b.PassphraseFile = filepath.Join(dir, "passphrase")
	if err := os.WriteFile(b.PassphraseFile, []byte("correct horse battery staple"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := backUp(t.Context(), dataFlags(source.Data), b, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	for _, opened := range []bool{true, false} {
		var out bytes.Buffer
		err := verifyBackup(context.Background(), b, &out)
		if err != nil || strings.Contains(out.String(), "was not opened") == opened {
			t.Errorf("passphrase given: %t: got %v, %q, want a word about the key without it", opened, err, out.String())
		}
		b.PassphraseFile = ""
	}
}

// TestMigrateCopiesBlobs migrates a database and its blobs to another place. A blob that is there already is not copied again.
func TestMigrateCopiesBlobs(t *testing.T) {
	source := serverSettings(t)
	firstStart(t, source)
	put := func(place, key, text string) {
		blobs, err := blob.Open(t.Context(), place)
		if err != nil {
			t.Fatal(err)
		}
		defer blobs.Close()
		if err := blobs.Put(t.Context(), key, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	m := cli.MigrateOptions{To: filepath.Join(dir, "legwork.db"), BlobsTo: filepath.Join(dir, "blobs")}
	put(blobsOf(source), "logs/a", "lines of a")
	put(blobsOf(source), "plans/b", "plan")
	put(m.BlobsTo, "plans/b", "PLAN") // of an earlier run: of the same size
	var out bytes.Buffer
	if err := migrateDatabase(t.Context(), dataFlags(source.Data), m, &out); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "2 blobs are in "+m.BlobsTo) || !strings.Contains(got, "blob_url") {
		t.Errorf("it says %q, want how many blobs there are and what to set", got)
	}
	blobs, err := blob.Open(t.Context(), m.BlobsTo)
	if err != nil {
		t.Fatal(err)
	}
	defer blobs.Close()
	for key, want := range map[string]string{"logs/a": "lines of a", "plans/b": "PLAN"} {
		object, err := blobs.Get(t.Context(), key)
		if err != nil {
			t.Errorf("blob %s: got %v, want it in the new place", key, err)
			continue
		}
		r, err := object.Reader()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != want {
			t.Errorf("blob %s: got %q, %v, want %q", key, got, err, want)
		}
		_ = r.Close()
	}
}
