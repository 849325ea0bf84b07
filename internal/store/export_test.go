package store

import (
	"context"
	"database/sql"
	"strings"

	"github.com/pressly/goose/v3"
)

// OpenOld gives an empty database with the schema of an earlier version, as SQL alone.
func OpenOld(ctx context.Context, url string, version int) (*sql.DB, error) {
	driver, kind, d, source := "sqlite", goose.DialectSQLite3, &sqliteDialect, sqliteURL(url)
	if strings.HasPrefix(url, "postgres") {
		driver, kind, d, source = "pgx", goose.DialectPostgres, &postgresDialect, url
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, err
	}
	if d == &sqliteDialect {
		if err := checkSQLite(ctx, db, url); err != nil {
			return nil, err
		}
	}
	steps, err := migrationSteps(d)
	if err != nil {
		return nil, err
	}
	p, err := goose.NewProvider(kind, db, nil, goose.WithGoMigrations(steps[:version]...), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, err
	}
	_, err = p.Up(ctx)
	return db, err
}

// ExplainJobs gives how the database would list Jobs, a line per step.
func (tx *Tx) ExplainJobs(org string, f JobFilter) (string, error) {
	q, _, err := tx.jobQuery(org, f)
	if err != nil || q == nil {
		return "", err
	}
	return tx.explainQuery(q.text(statusBranches(f.Statuses), bounded(f.Limit, 100, 1000)+1), q.args...)
}

// ExplainOverview gives how the database would read what the overview asks for.
func (tx *Tx) ExplainOverview(org string) (plans []string, err error) {
	for _, q := range []struct {
		text string
		args []any
	}{{longestWaiting, []any{org, 12}}, {countOver, []any{org, "failed", int64(0)}}} {
		plan, err := tx.explainQuery(q.text, q.args...)
		if err != nil {
			return nil, err
		}
		plans = append(plans, plan)
	}
	return plans, nil
}

func (tx *Tx) explainQuery(query string, args ...any) (string, error) {
	explain, scan := "EXPLAIN QUERY PLAN ", func(r row) (text string, err error) {
		var id, parent, unused int
		err = r.Scan(&id, &parent, &unused, &text)
		return text, err
	}
	if tx.d.spoils { // PostgreSQL, which reads few rows as a whole whatever indices there are
		if _, err := tx.exec("SET LOCAL enable_seqscan = off"); err != nil {
			return "", err
		}
		explain, scan = "EXPLAIN ", value[string]
	}
	lines, err := list(tx, scan, explain+query, args...)
	return strings.Join(lines, "\n"), err
}

// ExplainAudit gives how the database would list the audit.
func (tx *Tx) ExplainAudit(org string, f AuditFilter) (string, error) {
	query, args := tx.auditQuery(org, f)
	return tx.explainQuery(query, args...)
}

// ExplainSamples gives how the database would read the load of a Runner.
func (tx *Tx) ExplainSamples(org string) (string, error) {
	return tx.explainQuery(selectSamples, org, "r", 1)
}

// ExplainRunners gives how the database would list the Runners.
func (tx *Tx) ExplainRunners(org string) (string, error) {
	return tx.explainQuery(selectRunner+" ORDER BY r.name", org)
}

// ExplainInstances gives how the database would list the Instances of all Runners.
func (tx *Tx) ExplainInstances(org string) (string, error) {
	return tx.explainQuery(selectInstance+" WHERE org = $1 AND ($2 = '' OR runner_id = $2) ORDER BY name, id", org, "")
}

// failingBackend is a database that stores nothing.
type failingBackend struct {
	backend
	err error
}

func (f failingBackend) update(context.Context, func(*Tx) error) error { return f.err }

// FailWrites lets every Update fail.
func FailWrites(s *Store, err error) { s.backend = failingBackend{err: err} }
