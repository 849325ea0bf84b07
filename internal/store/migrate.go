package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"

	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema up to date. A schema that is newer than this program is refused: it may mean
// what this program does not know.
func migrate(ctx context.Context, db *sql.DB, kind goose.Dialect, d *dialect, log *slog.Logger, opts ...goose.ProviderOption) error {
	if err := refuseStarted(ctx, db, d); err != nil {
		return err
	}
	p, err := migrator(db, kind, d, opts...)
	if err != nil {
		return err
	}
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the version of the database: %w", err)
	}
	if have > want {
		return fault.New(fault.Unsupported, "database_newer", "the database has version %d, this program knows versions up to %d", have, want).
			WithHint("start the newer program that wrote it, or restore a backup made before the upgrade")
	}
	done, err := p.Up(ctx)
	if err != nil {
		return fmt.Errorf("bring the database up to date: %w", err)
	}
	for _, m := range done {
		log.Info("database migrated", "version", m.Source.Version, "duration", m.Duration)
	}
	return nil
}

// migrator returns what applies the migrations to a database.
func migrator(db *sql.DB, kind goose.Dialect, d *dialect, opts ...goose.ProviderOption) (*goose.Provider, error) {
	steps, err := migrationSteps(d)
	if err != nil {
		return nil, err
	}
	opts = append(opts, goose.WithGoMigrations(steps...), goose.WithDisableGlobalRegistry(true), goose.WithSlog(slog.New(slog.DiscardHandler)))
	p, err := goose.NewProvider(kind, db, nil, opts...)
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return p, nil
}

// migrationSteps renders the numbered files for one dialect.
func migrationSteps(d *dialect) ([]*goose.Migration, error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("list the migrations: %w", err)
	}
	render := strings.NewReplacer("{{text}}", d.text, "{{blob}}", d.blob, "{{event_id}}", d.eventKey, "{{json}}", d.json,
		"{{fingerprint}}", d.fingerprint)
	var steps []*goose.Migration
	for _, name := range files {
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("number of the migration %s: %w", name, err)
		}
		text, err := migrations.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the migration %s: %w", name, err)
		}
		script := render.Replace(string(text))
		run := func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, script)
			return err
		}
		steps = append(steps, goose.NewGoMigration(version, &goose.GoFunc{RunTx: run}, nil))
	}
	return steps, nil
}

var createTable = lazyregexp.New(`(?mi)^\s*CREATE TABLE ([a-z_]+)`)

// knownTables returns the names of all tables that the migrations have ever created, and of the table of their versions.
func knownTables() ([]string, error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("list the migrations: %w", err)
	}
	known := []string{"goose_db_version", importTable}
	for _, name := range files {
		text, err := migrations.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the migration %s: %w", name, err)
		}
		for _, match := range createTable.FindAllSubmatch(text, -1) {
			known = append(known, string(match[1]))
		}
	}
	return known, nil
}
