package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"legwork/internal/fault"
)

// Table describes a table of the schema, as far as copying its rows needs it.
type Table struct {
	Name     string   `json:"name"`
	Columns  []string `json:"columns"`
	Key      []string `json:"key"`                // the columns that order its rows
	Booleans []string `json:"booleans,omitempty"` // the columns that are true or false
}

// uncopied are the tables that belong to one place: the versions of its schema, its Servers, what it adds to its transaction
// numbers, and how far it was filled.
var uncopied = []string{"goose_db_version", "servers", "event_base", "import_progress"}

// schemaQueries ask a database for its tables. Each takes the name of a table, but the first.
type schemaQueries struct{ tables, columns, booleans, key, references string }

var sqliteSchema = schemaQueries{
	tables:     "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name",
	columns:    "SELECT name FROM pragma_table_info($1) ORDER BY cid",
	booleans:   "SELECT name FROM pragma_table_info($1) WHERE type = 'BOOLEAN'",
	key:        "SELECT name FROM pragma_table_info($1) WHERE pk > 0 ORDER BY pk",
	references: `SELECT DISTINCT "table" FROM pragma_foreign_key_list($1)`,
}

var postgresSchema = schemaQueries{
	tables: "SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' ORDER BY 1",
	columns: `SELECT column_name::text FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1
		ORDER BY ordinal_position`,
	booleans: `SELECT column_name::text FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1
		AND data_type = 'boolean'`,
	key: `SELECT a.attname::text FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (number, position)
		JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
		WHERE i.indrelid = to_regclass($1) AND i.indisprimary ORDER BY k.position`,
	references: `SELECT DISTINCT c.relname::text FROM pg_constraint f JOIN pg_class c ON c.oid = f.confrelid
		WHERE f.conrelid = to_regclass($1) AND f.contype = 'f'`,
}

// queryer runs queries: a *sql.Tx, a *sql.Conn or a *sql.DB.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// schemaNames returns the only column of a query.
func schemaNames(ctx context.Context, q queryer, query string, args ...any) (all []string, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("read the schema: %w", err)
		}
		all = append(all, name)
	}
	return all, rows.Err()
}

// readTables returns the tables whose rows are copied. A table follows those that its rows refer to.
func readTables(ctx context.Context, q queryer, queries schemaQueries) ([]Table, error) {
	all, err := schemaNames(ctx, q, queries.tables)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(name string) bool { return slices.Contains(uncopied, name) })
	needs := map[string][]string{}
	for _, name := range all {
		if needs[name], err = schemaNames(ctx, q, queries.references, name); err != nil {
			return nil, err
		}
	}
	ordered, err := byReference(all, needs)
	if err != nil {
		return nil, err
	}
	tables := make([]Table, len(ordered))
	for i, name := range ordered {
		if tables[i], err = readTable(ctx, q, queries, name); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

func readTable(ctx context.Context, q queryer, queries schemaQueries, name string) (t Table, err error) {
	t.Name = name
	if t.Columns, err = schemaNames(ctx, q, queries.columns, name); err != nil {
		return t, err
	}
	if t.Key, err = schemaNames(ctx, q, queries.key, name); err != nil {
		return t, err
	}
	if len(t.Key) == 0 {
		return t, fmt.Errorf("the table %s has no primary key", name)
	}
	t.Booleans, err = schemaNames(ctx, q, queries.booleans, name)
	return t, err
}

// byReference orders tables so that each follows those that it needs.
func byReference(all []string, needs map[string][]string) (ordered []string, err error) {
	for len(ordered) < len(all) {
		before := len(ordered)
		for _, name := range all {
			missing := func(other string) bool { return other != name && !slices.Contains(ordered, other) }
			if !slices.Contains(ordered, name) && !slices.ContainsFunc(needs[name], missing) {
				ordered = append(ordered, name)
			}
		}
		if len(ordered) == before {
			return nil, fmt.Errorf("the tables of the database refer to each other in a circle")
		}
	}
	return ordered, nil
}

// valid refuses a description that is not one of a table of this program: names become part of SQL.
func (t Table) valid() error {
	for _, name := range slices.Concat([]string{t.Name}, t.Columns, t.Key) {
		plain := name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_0123456789") == ""
		if !plain || slices.Contains(uncopied, name) {
			return fault.New(fault.Invalid, "backup_table", "the backup names a table or column %q that this program does not know", name)
		}
	}
	return nil
}

// selectRows reads all rows in the order of the key, which is the same in both databases.
func (t Table) selectRows() string {
	return "SELECT " + strings.Join(t.Columns, ", ") + " FROM " + t.Name + " ORDER BY " + strings.Join(t.Key, ", ")
}

var (
	rowEncoding = mustRowMode(cbor.CoreDetEncOptions().EncMode())
	rowDecoding = mustRowMode(cbor.DecOptions{
		IntDec: cbor.IntDecConvertSignedOrFail, UTF8: cbor.UTF8DecodeInvalid, MaxNestedLevels: 4, IndefLength: cbor.IndefLengthForbidden,
	}.DecMode())
)

func mustRowMode[M any](mode M, err error) M {
	if err != nil {
		panic(err) // the options above are wrong
	}
	return mode
}

// EncodeRow returns a row in a form that is the same for both databases, and that tells its own length.
func EncodeRow(values []any) ([]byte, error) {
	b, err := rowEncoding.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("encode a row: %w", err)
	}
	return b, nil
}

// DecodeRow reads the first row of data and returns the rest.
func DecodeRow(data []byte) (values []any, rest []byte, err error) {
	rest, err = rowDecoding.UnmarshalFirst(data, &values)
	if err != nil {
		return nil, nil, fault.New(fault.Invalid, "backup_row", "a row of the backup cannot be read").WithCause(err)
	}
	return values, rest, nil
}
