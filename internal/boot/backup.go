package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"legwork/internal/access"
	"legwork/internal/backup"
	"legwork/internal/blob"
	"legwork/internal/cli"
	"legwork/internal/fault"
	"legwork/internal/store"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// backUp writes all that a Server keeps into a file.
func backUp(ctx context.Context, o cli.StartOptions, b cli.BackupOptions, out io.Writer) error {
	settings, err := LoadServerSettings(layers(o))
	if err != nil {
		return err
	}
	if err := checkDatabase(ctx, databaseOf(settings)); err != nil { // before the place of its blobs is created
		return err
	}
	source := backup.Source{Database: databaseOf(settings), Version: Version(), Now: time.Now(), AllowMissingBlobs: b.AllowMissingBlobs}
	if b.WithKeys {
		if source.Passphrase, err = readPassphrase(b.PassphraseFile); err != nil {
			return err
		}
		var keys backup.Keys
		if keys.MasterKey, keys.AdminToken, err = access.KeyFiles(settings.Data, masterKeyOf(settings)); err != nil {
			return err
		}
		source.Keys = &keys
	}
	if source.Blobs, err = blob.Open(ctx, blobsOf(settings)); err != nil {
		return err
	}
	defer source.Blobs.Close()
	header, manifest, err := writeBackup(ctx, source, b.File)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s.\n", b.File, backup.Describe(header, manifest))
	if !b.WithKeys {
		fmt.Fprintf(out, "Keep a copy of the master key %s in another place: without it, sealed values of the backup cannot be read.\n",
			masterKeyOf(settings).Path)
	}
	return nil
}

// checkDatabase returns an error when a database cannot be read.
func checkDatabase(ctx context.Context, database string) error {
	snapshot, err := store.OpenSnapshot(ctx, database)
	if err != nil {
		return err
	}
	return snapshot.Close()
}

// writeBackup writes the file under another name first, so that a file that is there is always whole.
func writeBackup(ctx context.Context, source backup.Source, path string) (h backup.Header, m backup.Manifest, err error) {
	if _, err := os.Stat(path); err == nil {
		return h, m, fault.New(fault.Conflict, "backup_exists", "the file %s is there already", path).WithHint("name another one, or delete it")
	}
	file, err := os.OpenFile(path+".partial", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return h, m, fault.New(fault.Invalid, "backup_file", "cannot write the file %s", path).
			WithHint("name a file in a folder that exists and where this user may write").WithCause(err)
	}
	h, m, err = backup.Create(ctx, source, file)
	err = errors.Join(err, file.Sync(), file.Close())
	if err != nil {
		return h, m, errors.Join(err, os.Remove(path+".partial"))
	}
	return h, m, os.Rename(path+".partial", path)
}

// verifyBackup reads a whole backup and compares it with its checksums.
func verifyBackup(_ context.Context, b cli.BackupOptions, out io.Writer) error {
	passphrase, err := optionalPassphrase(b.PassphraseFile)
	if err != nil {
		return err
	}
	header, manifest, _, err := verifyFile(b.File, passphrase)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s is whole: %s.\n", b.File, backup.Describe(header, manifest))
	if manifest.Keys && passphrase == "" {
		fmt.Fprintln(out, "The master key was not opened. To check it too, add --passphrase-file FILE.")
	}
	return nil
}

func verifyFile(path, passphrase string) (h backup.Header, m backup.Manifest, keys backup.Keys, err error) {
	file, err := openBackup(path)
	if err != nil {
		return h, m, keys, err
	}
	defer file.Close()
	return backup.Verify(file, passphrase)
}

func openBackup(path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fault.New(fault.NotFound, "backup_file", "cannot read the file %s", path).WithHint("name a file that legwork server backup has written").WithCause(err)
	}
	return file, nil
}

// restore fills the data folder and the database of a Server from a backup. The Server starts on hold.
func restore(ctx context.Context, o cli.StartOptions, b cli.BackupOptions, out io.Writer) error {
	settings, err := LoadServerSettings(layers(o))
	if err != nil {
		return err
	}
	passphrase, err := optionalPassphrase(b.PassphraseFile)
	if err != nil {
		return err
	}
	header, manifest, keys, err := verifyFile(b.File, passphrase)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(settings.Data, 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	unlock, err := lockData(settings.Data)
	if err != nil {
		return err
	}
	defer unlock()
	if err := restoreKeys(settings, manifest, keys); err != nil {
		return err
	}
	if b.Replace {
		kept, err := store.Clear(ctx, databaseOf(settings))
		if err != nil {
			return err
		}
		if kept != "" {
			fmt.Fprintf(out, "The database that was there is kept as %s.\n", kept)
		}
	}
	if err := restoreFile(ctx, settings, b.File, header, manifest); err != nil {
		return err
	}
	if err := checkMasterKey(ctx, settings, manifest); err != nil {
		return err
	}
	fmt.Fprintf(out, "Restored and verified: %s.\nThe server starts on hold: nothing is started until legwork server resume.\n", backup.Describe(header, manifest))
	if !access.HasMasterKey(masterKeyOf(settings).Path) {
		fmt.Fprintf(out, "Put the master key of the backup into %s before you start the server.\n", masterKeyOf(settings).Path)
	}
	return nil
}

// checkMasterKey returns an error when the master key in its place is not the one of a database that was restored.
func checkMasterKey(ctx context.Context, settings ServerSettings, m backup.Manifest) error {
	file := masterKeyOf(settings)
	if !access.HasMasterKey(file.Path) {
		return nil
	}
	st, err := store.Open(ctx, databaseOf(settings), quiet())
	if err != nil {
		return err
	}
	defer st.Close()
	err = access.CheckMasterKey(ctx, st, file)
	if fault.Code(err) != "master_key_wrong" {
		return err
	}
	hint := "put the master key of the server that made the backup there before you start the server"
	if m.Keys {
		hint = "move it away and restore again with --replace --passphrase-file FILE: the backup holds the right key"
	}
	return fault.New(fault.Conflict, "master_key_wrong", "the database is restored, but the master key in %s is not the one "+
		"of the backup, so the server does not start", file.Path).WithHint("%s", hint)
}

// restoreKeys writes the key files, when the backup has them and they could be opened.
func restoreKeys(settings ServerSettings, m backup.Manifest, keys backup.Keys) error {
	switch {
	case keys.MasterKey != "":
		return access.PutKeyFiles(settings.Data, masterKeyOf(settings).Path, keys.MasterKey, keys.AdminToken)
	case m.Keys && !access.HasMasterKey(masterKeyOf(settings).Path):
		return fault.New(fault.Invalid, "passphrase_missing", "the backup holds the master key, sealed with a passphrase").
			WithHint("name a file with the passphrase: --passphrase-file FILE; or put the master key into its place first")
	}
	return nil
}

func restoreFile(ctx context.Context, settings ServerSettings, path string, h backup.Header, m backup.Manifest) error {
	blobs, err := blob.Open(ctx, blobsOf(settings))
	if err != nil {
		return err
	}
	defer blobs.Close()
	file, err := openBackup(path)
	if err != nil {
		return err
	}
	defer file.Close()
	hold := "the backup of " + h.CreatedAt.Format("2006-01-02 15:04:05 MST") + " was restored"
	return backup.Restore(ctx, file, m, backup.Target{Database: databaseOf(settings), Blobs: blobs, Hold: hold})
}

// maxPassphrase bounds the file of a passphrase.
const maxPassphrase = 4096

func readPassphrase(path string) (string, error) {
	if path == "" {
		return "", fault.New(fault.Invalid, "passphrase_missing", "there is no passphrase to seal the master key with").
			WithHint("write one into a file that only you may read, and name it: --passphrase-file FILE")
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fault.New(fault.Invalid, "passphrase_file", "cannot read the file of the passphrase %s", path).WithHint("name a file that this user may read").WithCause(err)
	}
	defer file.Close()
	if err := checkPrivate(file); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxPassphrase))
	if err != nil {
		return "", fmt.Errorf("read the passphrase: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// checkPrivate refuses a plain file that other users of the host may access. A pipe has no owner to protect it from.
func checkPrivate(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("look at the file of the passphrase: %w", err)
	}
	mode := info.Mode()
	if runtime.GOOS == "windows" || !mode.IsRegular() || mode.Perm()&access.ForbiddenMode(false) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "passphrase_file", "the file of the passphrase %s is open to other users of this host "+
		"(mode %04o)", file.Name(), mode.Perm()).WithHint("run: chmod 600 %s", file.Name())
}

func optionalPassphrase(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return readPassphrase(path)
}

// migrateDatabase copies the database of a Server that is stopped into another, empty one.
func migrateDatabase(ctx context.Context, o cli.StartOptions, m cli.MigrateOptions, out io.Writer) error {
	settings, err := LoadServerSettings(layers(o))
	if err != nil {
		return err
	}
	if m.To == databaseOf(settings) {
		return fault.New(fault.Invalid, "migrate_target", "the target is the database that the server uses").WithHint("name another one with --to")
	}
	unlock, err := lockData(settings.Data)
	if err != nil {
		return err
	}
	defer unlock()
	migration := backup.Migration{From: databaseOf(settings), To: m.To, Told: func(table string, rows int64) {
		fmt.Fprintf(out, "%-24s %d rows\n", table, rows)
	}}
	if m.BlobsTo != "" {
		migration.Blobs = func(ctx context.Context) error { return copyBlobs(ctx, blobsOf(settings), m.BlobsTo, out) }
	}
	if err := backup.Migrate(ctx, migration); err != nil {
		return err
	}
	fmt.Fprintln(out, "All rows were compared. Set database to the new URL in the settings of the server, and start it.\n"+
		"The old database is on hold, so that nothing is started from it by mistake.")
	return nil
}

// copyBlobs copies all blobs to the store at another URL and reports their number.
func copyBlobs(ctx context.Context, from, to string, out io.Writer) error {
	source, err := blob.Open(ctx, from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := blob.Open(ctx, to)
	if err != nil {
		return err
	}
	defer target.Close()
	n, err := backup.CopyBlobs(ctx, source, target)
	if err == nil {
		fmt.Fprintf(out, "%d blobs are in %s: set blob_url to it.\n", n, to)
	}
	return err
}

// lockData refuses a data folder that a running Server uses.
func lockData(dir string) (unlock func(), err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "data_folder", "there is no data folder %s", dir).WithHint("name that of the server with --data")
	}
	lock, err := lockDataFolder(filepath.Join(dir, "server.lock"), dir)
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil
}
