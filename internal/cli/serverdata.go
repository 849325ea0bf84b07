package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/fault"
)

// BackupOptions say what a backup, or a restore, is about.
type BackupOptions struct {
	File           string
	WithKeys       bool   // of a backup: the master key is in it, sealed
	PassphraseFile string // whose first line seals or opens the keys
	Replace        bool   // of a restore: what is there goes
	// AllowMissingBlobs makes a backup without the logs whose blobs are not there.
	AllowMissingBlobs bool
}

// MigrateOptions say where a database is copied to.
type MigrateOptions struct {
	To      string // URL
	BlobsTo string // folder; empty: the blobs stay where they are
}

// dataFlags are the settings that say where a Server keeps its data.
var dataFlags = []settingFlag{
	{"data", "data", "folder of the server's data (default ./data)"},
	{"database", "database", "postgres:// URL; without it SQLite in the data folder"},
	{"blob-url", "blob_url", "folder of the blobs (default blobs in the data folder)"},
	{"master-key-file", "master_key_file", "file of the master key (default master-key in the data folder)"},
}

func (a *app) backupCommand() *cobra.Command {
	var b BackupOptions
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Write the database and the blobs of a server into one file", Args: exactly("FILE"),
		Long: "Write the database and the blobs of a server into one file. Give it the settings of the server. The server may keep running:\n" +
			"the file holds one consistent state.\n\n" +
			"The master key is not in the file unless you ask for it with --with-keys; it is sealed with a passphrase then, as is the admin token.",
	}
	options := settingFlags(cmd, dataFlags)
	cmd.Flags().BoolVar(&b.WithKeys, "with-keys", false, "include the master key and the admin token, sealed with the passphrase")
	cmd.Flags().StringVar(&b.PassphraseFile, "passphrase-file", "", "file that holds the passphrase")
	cmd.Flags().BoolVar(&b.AllowMissingBlobs, "allow-missing-blobs", false, "make a backup without the logs whose blobs are missing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := options()
		if err != nil {
			return err
		}
		b.File = args[0]
		return a.programs.Backup(cmd.Context(), o, b, a.Out)
	}
	cmd.AddCommand(a.verifyCommand())
	return cmd
}

func (a *app) verifyCommand() *cobra.Command {
	var b BackupOptions
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Check that a backup is complete and undamaged", Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b.File = args[0]
			return a.programs.VerifyBackup(cmd.Context(), b, a.Out)
		},
	}
	cmd.Flags().StringVar(&b.PassphraseFile, "passphrase-file", "", "file that holds the passphrase: check that it opens the keys")
	return cmd
}

func (a *app) restoreCommand() *cobra.Command {
	var b BackupOptions
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Fill the database and the blobs of a server from a backup", Args: exactly("FILE"),
		Long: "Fill the database and the blobs of a server from a backup, and verify them. The server must be stopped, and its database empty unless\n" +
			"--replace is given. The database may be of the other kind: a backup of SQLite can be restored into PostgreSQL.\n\n" +
			"The restored server starts on hold: it starts, launches and removes nothing until legwork server resume.",
	}
	options := settingFlags(cmd, dataFlags)
	cmd.Flags().BoolVar(&b.Replace, "replace", false, "replace what the database holds; a SQLite file is renamed, the PostgreSQL tables of Legwork are dropped")
	cmd.Flags().StringVar(&b.PassphraseFile, "passphrase-file", "", "file that holds the passphrase of the keys in the backup")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := options()
		if err != nil {
			return err
		}
		b.File = args[0]
		return a.programs.Restore(cmd.Context(), o, b, a.Out)
	}
	return cmd
}

func (a *app) migrateCommand() *cobra.Command {
	var m MigrateOptions
	cmd := &cobra.Command{
		Use: "migrate --to URL", Short: "Copy the database of a stopped server into another, empty database", Args: exactly(),
		Long: "Copy the database of a server into another, empty database, usually from SQLite to PostgreSQL. All ids stay the same, so runners and\n" +
			"their local state stay, too. Every table is compared afterwards. Stop the server first. If the command is interrupted, run it again.",
	}
	options := settingFlags(cmd, dataFlags)
	cmd.Flags().StringVar(&m.To, "to", "", "URL of the new database, postgres://user@host:5432/name")
	cmd.Flags().StringVar(&m.BlobsTo, "blobs-to", "", "folder to copy the blobs to, such as one that several servers share (default: they stay)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := options()
		if err != nil {
			return err
		}
		if m.To == "" {
			return fault.New(fault.Invalid, "usage", "--to is missing").WithHint("name the new database: --to postgres://user@host:5432/name")
		}
		return a.programs.Migrate(cmd.Context(), o, m, a.Out)
	}
	return cmd
}

func (a *app) serverStatus() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "status", Short: "Show whether the server starts jobs or is on hold", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			h, err := client.Hold(cmd.Context())
			if err != nil {
				return err
			}
			return a.show(h, func() *table { return holdTable(h, time.Now()) })
		},
	})
}

func (a *app) serverResume() *cobra.Command {
	var r api.ResumeRequest
	cmd := a.withFormat(&cobra.Command{
		Use: "resume", Short: "End the hold of a restored or copied server", Args: exactly(),
		Long: "End the hold of a restored or copied server. Jobs that were active in the copy and whose instance has not returned with them fail.\n" +
			"Jobs that wait are started: look at legwork job list --status queued first, because the original server may have run them since.\n" +
			"Schedules that were due are skipped. Never resume a copy while the original server runs.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			was, err := client.Resume(cmd.Context(), r)
			if err != nil {
				return err
			}
			return a.show(was, func() *table {
				t := &table{}
				if !was.On {
					t.add("hold", "off: there was nothing to resume")
					return t
				}
				t.add("hold", "ended")
				t.add("failed", fmt.Sprint(was.Interrupted, " jobs that were active in the copy"))
				t.add(map[bool]string{false: "started", true: "canceled"}[r.CancelQueued], fmt.Sprint(was.Queued, " jobs that waited"))
				return t
			})
		},
	})
	cmd.Flags().BoolVar(&r.CancelQueued, "cancel-queued", false, "cancel the jobs that wait instead of starting them")
	return cmd
}

func holdTable(h api.Hold, now time.Time) *table {
	t := &table{}
	if !h.On {
		t.add("hold", "off")
		return t
	}
	t.add("hold", "on, since "+h.Since.UTC().Format(time.RFC3339)+" ("+since(h.Since, now)+")")
	t.add("reason", h.Reason)
	t.add("interrupted", fmt.Sprint(h.Interrupted, " jobs fail when you resume"))
	t.add("queued", fmt.Sprint(h.Queued, " jobs start when you resume"))
	return t
}
